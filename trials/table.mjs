// The reporter of all trials: a table goes to target/trials, and a row of platforms into its page.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fail, root } from '../scripts/step.mjs'

const folder = join(root, 'target', 'trials')

/** `name`: the command that measures it. The first of `rows` is the head. */
export function writeTable(name, rows) {
  const [head, ...body] = rows.map((cells) => `| ${cells.join(' | ')} |`)
  keep(name, [head, `|${'---|'.repeat(rows[0].length)}`, ...body].join('\n'))
}

/** Replaces the row of a page below docs that has the same first cell. */
export function writeRow(page, name, cells) {
  const [row, start] = [`| ${cells.join(' | ')} |`, `| ${cells[0]} |`]
  const { file, before, after, begin, table } = parts(page, name)
  const lines = table.trim().split('\n')
  const at = lines.findIndex((line) => line.startsWith(start))
  if (at < 0) fail(`docs/${page} has no row for ${cells[0]}`)
  lines[at] = row
  const text = lines.join('\n')
  keep(name, text)
  writeFileSync(file, `${before}${begin}\n${text}\n${END}${after}`)
}

const fileOf = (name) => join(folder, `${name.replace(/^npm run trial -- /, '').replace(/\W+/g, '-')}.md`)

function keep(name, table) {
  mkdirSync(folder, { recursive: true })
  writeFileSync(fileOf(name), `${table}\n`)
}

const END = '<!-- end of table -->'

function parts(page, name) {
  const file = join(root, 'docs', page)
  const begin = `<!-- table: ${name} -->`
  const [before, rest] = readFileSync(file, 'utf8').split(begin)
  const length = rest?.indexOf(END) ?? -1
  if (length < 0) fail(`docs/${page} has lost the marks of its table`)
  return { file, begin, before, table: rest.slice(0, length), after: rest.slice(length + END.length) }
}
