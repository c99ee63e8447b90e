// The reporter of all trials: a table goes to target/trials.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../scripts/step.mjs'

const folder = join(root, 'target', 'trials')

/** `name`: the command that measures it. The first of `rows` is the head. */
export function writeTable(name, rows) {
  const [head, ...body] = rows.map((cells) => `| ${cells.join(' | ')} |`)
  const file = `${name.replace(/^npm run trial -- /, '').replace(/\W+/g, '-')}.md`
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, file), `${[head, `|${'---|'.repeat(rows[0].length)}`, ...body].join('\n')}\n`)
}
