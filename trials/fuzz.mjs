// `npm run trial -- fuzz [--cases N --seed N --seconds N --target NAME --keep]`: every property of the core (each `proptest!` of
// the crates and tests/) with many cases, the filters of lines and JSON against JSON.parse, and each target of tests/fuzz for so many
// seconds with libFuzzer. `npm test` runs the same with few, and the targets on what was kept of them. A case that fails is
// kept by proptest in a file beside the sources, an input by its line in fuzz/corpus: commit it with the fix. With --target only
// that one is fed; --keep writes inputs that reached something new into fuzz/corpus.
import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { buildGuided, feed, keep, targetNames } from './fuzz-guided.mjs'
import { fail, prepare, root, step } from '../scripts/setup.mjs'

const { values } = parseArgs({
  options: {
    cases: { type: 'string', default: '20000' },
    seed: { type: 'string', default: '1' },
    seconds: { type: 'string', default: '20' },
    target: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
})

if (values.target === undefined) feedProperties()
feedTargets()

function feedTargets() {
  const program = Number(values.seconds) > 0 ? buildGuided() : undefined
  if (!program) return console.warn('THE TARGETS ARE NOT FED: --seconds is 0, or there is no C++ compiler')
  const names = targetNames()
  if (values.target !== undefined && !names.includes(values.target))
    fail(`no target is called ${values.target}: ${names.join(', ')}`)
  console.log(`> ${values.seconds} seconds each`)
  for (const name of values.target === undefined ? names : [values.target]) {
    feed(program, name, values)
    if (values.keep) keep(program, name)
  }
}

function* sourcesBelow(folder) {
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* sourcesBelow(path)
    else if (path.endsWith('.rs')) yield path
  }
}

/** The properties of a file, by name. */
function propertiesOf(path) {
  const text = readFileSync(join(root, path), 'utf8')
  return [...text.matchAll(/proptest! \{\n([\s\S]*?)\n {0,4}\}\n/g)].flatMap(([, body]) =>
    [...body.matchAll(/^\s+fn (\w+)\(/gm)].map(([, name]) => name),
  )
}

function feedProperties() {
  prepare({ addon: 'any' })
  const files = [...['src', 'crates', 'tests'].flatMap((folder) => [...sourcesBelow(folder)])]
  const properties = files.flatMap((path) => propertiesOf(path).map((name) => ({ path, name })))
  if (properties.length < 20)
    fail(`only ${properties.length} properties were found: how they are looked for is out of date`)
  for (const { path, name } of properties) console.log(`  ${path}: ${name}`)
  const env = { ...process.env, PROPTEST_CASES: values.cases, PROPTEST_MAX_SHRINK_ITERS: '20000' }
  step(`${properties.length} properties, ${values.cases} cases each`, 'cargo', [
  'test', '--quiet', '--no-fail-fast', '--workspace', '--lib', '--tests', '--', ...properties.map(({ name }) => name),
], { env }) // prettier-ignore
  const compared = spawnSync(
    process.execPath,
    [join(root, 'fixtures/fuzz/json-lines.mjs'), values.seed, String(Number(values.cases) * 10)],
    { stdio: 'inherit' },
  )
  if (compared.status !== 0) fail('json() and JSON.parse do not agree')
}
