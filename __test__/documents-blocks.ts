// The pages that a person reads, and the blocks of code in them.
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

export const root = join(import.meta.dirname, '..')

/** Remarks about a block, from the comment right before it. No reader sees them. */
export interface Marks {
  /** `<!-- given: CODE -->`: what the words around the block presuppose. */
  given?: string
  /** `<!-- not run: REASON -->`: it is compiled, not executed. */
  'not run'?: string
  /** `<!-- file: NAME -->`: it is the content of a file that later blocks of the page use. */
  file?: string
  /** `<!-- ends: NAME -->`: rejects with this code, or exits with this status. */
  ends?: string
}

export interface Block {
  page: string
  /** `docs/cli.md:13`, where its first line stands. */
  place: string
  language: string
  code: string
  marks: Marks
}

export function blocksOf(page: string): Block[] {
  const lines = readFileSync(join(root, page), 'utf8').split('\n')
  const blocks: Block[] = []
  let open: { language: string; from: number } | undefined
  lines.forEach((line, index) => {
    const fence = /^\s*```(\S*)/.exec(line)
    if (!fence) return
    if (!open) {
      open = { language: fence[1] ?? '', from: index + 1 }
      return
    }
    const marks: Marks = {}
    for (let above = open.from - 2; above >= 0; above--) {
      const mark = /^<!-- (given|not run|file|ends): (.*) -->$/.exec(lines[above]!)
      if (!mark) break
      marks[mark[1] as keyof Marks] = mark[2]!
    }
    const code = lines.slice(open.from, index).join('\n')
    blocks.push({ page, place: `${page}:${open.from + 1}`, language: open.language, code, marks })
    open = undefined
  })
  if (open) throw new Error(`${page}: a block without an end`)
  return blocks
}

/** Pages of a folder and of those below it. */
export const pagesOf = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`)
    .sort()

/** Pages of the npm package, beside the README. */
export const published = pagesOf('docs').filter((page) => !page.startsWith('docs/internals/'))
export const internal = pagesOf('docs/internals')

/** Pages whose every example runs as it stands, or says why it does not. */
export const taskPages = [
  'README.md',
  ...published.filter((page) => /^docs\/(tasks|recipes)\//.test(page) || page === 'docs/getting-started.md'),
]
