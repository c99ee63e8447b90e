// The reporter of all trials: a table goes to target/trials, and into the published page that has a mark for it.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fail, root } from '../scripts/step.mjs'

const folder = join(root, 'target', 'trials')

/** `page`: below docs, or undefined; `name`: the command that measures it. The first of `rows` is the head. */
export function writeTable(page, name, rows) {
  const [head, ...body] = rows.map((cells) => `| ${cells.join(' | ')} |`)
  write(page, name, [head, `|${'---|'.repeat(rows[0].length)}`, ...body].join('\n'))
}

/** Replaces the row that has the same first cell, or adds it. */
export function writeRow(page, name, cells) {
  const [row, start] = [`| ${cells.join(' | ')} |`, `| ${cells[0]} |`]
  const lines = (page ? parts(page, name).table : kept(name)).trim().split('\n')
  const at = lines.findIndex((line) => line.startsWith(start))
  if (at < 0 && page) fail(`docs/${page} has no row for ${cells[0]}`)
  lines.splice(at < 0 ? lines.length : at, at < 0 ? 0 : 1, row)
  write(page, name, lines.join('\n'))
}

const fileOf = (name) => join(folder, `${name.replace(/^npm run trial -- /, '').replace(/\W+/g, '-')}.md`)
const kept = (name) => (existsSync(fileOf(name)) ? readFileSync(fileOf(name), 'utf8') : '')

function write(page, name, table) {
  mkdirSync(folder, { recursive: true })
  writeFileSync(fileOf(name), `${table}\n`)
  if (!page) return
  const { file, before, after, begin } = parts(page, name)
  writeFileSync(file, `${before}${begin}\n${table}\n${END}${after}`)
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
