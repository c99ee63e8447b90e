// Tables that scripts measured: printed, or rows of a page.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fail, root } from './step.mjs'

/** Prints a table that a script measured. The first of `rows` is the head. */
export function printTable(name, rows) {
  const [head, ...body] = rows.map((cells) => `| ${cells.join(' | ')} |`)
  console.log([`\n${name}`, '', head, `|${'---|'.repeat(rows[0].length)}`, ...body].join('\n'))
}

/** Replaces one row: the one that has the same first cell. */
export function writeRow(document, name, cells) {
  const { file, before, table, after, begin } = parts(document, name)
  const start = `| ${cells[0]} |`
  const lines = table.split('\n')
  if (!lines.some((line) => line.startsWith(start))) fail(`docs/${document} has no row for ${cells[0]}`)
  const text = lines.map((line) => (line.startsWith(start) ? `| ${cells.join(' | ')} |` : line)).join('\n')
  writeFileSync(file, `${before}${begin}${text}${END}${after}`)
}

const END = '<!-- end of table -->'

function parts(document, name) {
  const file = join(root, 'docs', document)
  const begin = `<!-- table: ${name} -->`
  const [before, rest] = readFileSync(file, 'utf8').split(begin)
  const length = rest?.indexOf(END) ?? -1
  if (length < 0) fail(`docs/${document} has lost the marks of its table`)
  return { file, begin, before, table: rest.slice(0, length), after: rest.slice(length + END.length) }
}
