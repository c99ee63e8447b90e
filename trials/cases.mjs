// Shared by the trials: choosing, running and waiting for cases, and the tables that they leave in target/trials.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../scripts/step.mjs'

export const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** Waits for a state that nothing announces, for so long at most. */
export async function until(condition, what, ms = 20_000) {
  const end = performance.now() + ms
  while (!condition()) {
    if (performance.now() > end) throw new Error(`not within ${ms / 1000} s: ${what}`)
    await wait(20)
  }
}

/** The result of a case, or an error when it takes longer than this. */
export async function within(ms, promise) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${ms / 1000} s`)), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

/** Runs a case for so long at most, and prints how it ended. Resolves with `{ word }`, its result, or with `{ error }`. */
export async function runCase(title, ms, test) {
  const started = performance.now()
  const ended = await within(ms, test()).then(
    (word) => ({ word }),
    (error) => ({ error }),
  )
  const { word = '', error } = ended
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  const detail = error ? `${error.code ?? ''} ${error.message} ${error.stderr ?? ''}`.trim() : word
  console.log(`  ${error ? 'FAILED' : 'ok    '} ${title} (${seconds} s) ${detail}`.trimEnd())
  return ended
}

/** The cell of a table for a case that failed. */
export const FAILED = '**failed**'

/** Those that the command line names, or all. */
export function chosen(names, words) {
  const some = names.filter((name) => words.includes(name))
  return some.length > 0 ? some : names
}

const folder = join(root, 'target', 'trials')

/** Writes a table. `name`: the command that measures it. The first of `rows` is the head. */
export function writeTable(name, rows) {
  const [head, ...body] = rows.map((cells) => `| ${cells.join(' | ')} |`)
  const file = `${name.replace(/^npm run trial -- /, '').replace(/\W+/g, '-')}.md`
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, file), `${[head, `|${'---|'.repeat(rows[0].length)}`, ...body].join('\n')}\n`)
}
