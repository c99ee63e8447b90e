// The changes of an agent: lines for a reader, and the way home.
import type { Changes } from '../lib/index'
import { showCount } from './figure'
import { plainText } from './width'

/** So many files are named. */
const maxNamed = 20
const letters = { added: 'A', modified: 'M', deleted: 'D', renamed: 'R' }

/** Merges the changes into the working tree. Nothing is left beside it then, but for a checkout that was to be kept. */
export async function bringHome(changes: Changes | undefined): Promise<void> {
  await changes?.apply()
  // The ref stays where git cannot remove it.
  if (changes && !changes.worktree) await changes.discard().catch(() => {})
}

export function describeChanges({ files, ref, worktree }: Changes, isApplied: boolean): string[] {
  const lines = files.slice(0, maxNamed).map(({ path, from, status, insertions, deletions, binary }) => {
    const size = binary ? 'binary' : `+${insertions} -${deletions}`
    return `  ${letters[status]} ${plainText(from ? `${from} -> ${path}` : path)} ${size}`
  })
  if (files.length > maxNamed) lines.push(`  and ${files.length - maxNamed} more`)
  const where = isApplied ? 'applied to your working tree' : ref && `git diff HEAD ${ref}`
  const count = files.length === 0 ? 'no files' : showCount(files.length, 'file', 'files')
  const head = `sheepdog: ${count} changed${where ? `; ${where}` : ''}`
  return [head, ...lines, ...(worktree ? [`sheepdog: the checkout was kept: ${plainText(worktree)}`] : [])]
}
