// The changes of an agent, as lines for a reader. PURE.
import type { Changes } from '../lib/index'
import { showCount } from './figure'
import { plainText } from './width'

/** So many files are named. */
const maxNamed = 20
const letters = { added: 'A', modified: 'M', deleted: 'D', renamed: 'R' }

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
