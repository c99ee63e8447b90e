// A table of a document that a script measured: what stands between its marks is replaced.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fail, root } from './step.mjs'

/** `document`: below docs; `name`: of the mark. The first of `rows` is the head. */
export function writeTable(document, name, rows) {
  const file = join(root, 'docs', document)
  const begin = `<!-- table: ${name} -->`
  const end = '<!-- end of table -->'
  const [before, rest] = readFileSync(file, 'utf8').split(begin)
  const after = rest?.slice(rest.indexOf(end) + end.length)
  if (after === undefined) fail(`docs/${document} has lost the marks of its table`)
  const [head, ...body] = rows.map((cells) => `| ${cells.join(' | ')} |`)
  const table = [head, `|${'---|'.repeat(rows[0].length)}`, ...body].join('\n')
  writeFileSync(file, `${before}${begin}\n${table}\n${end}${after}`)
}
