// `npm run test:fuzz [-- --cases N --seed N]`: every property of the core (each `proptest!` of src/ and tests/) with many cases,
// and the filters of lines and JSON against JSON.parse. `npm test` runs the same with few. A case that fails is kept by proptest
// in a file beside the sources: commit it with the fix.
import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { fail, prepare, root, step } from './setup.mjs'

const { values } = parseArgs({
  options: { cases: { type: 'string', default: '20000' }, seed: { type: 'string', default: '1' } },
})

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

prepare({ addon: 'any' })
const files = [...sourcesBelow('src'), ...sourcesBelow('tests')]
const properties = files.flatMap((path) => propertiesOf(path).map((name) => ({ path, name })))
if (properties.length < 20)
  fail(`only ${properties.length} properties were found: how they are looked for is out of date`)
for (const { path, name } of properties) console.log(`  ${path}: ${name}`)
const env = { ...process.env, PROPTEST_CASES: values.cases, PROPTEST_MAX_SHRINK_ITERS: '20000' }
step(`${properties.length} properties, ${values.cases} cases each`, 'cargo', [
  'test', '--quiet', '--lib', '--test', 'agents', '--test', 'mechanisms', '--test', 'runtime', '--', ...properties.map(({ name }) => name),
], { env }) // prettier-ignore
const compared = spawnSync(
  process.execPath,
  [join(root, 'fixtures/fuzz/json-lines.mjs'), values.seed, String(Number(values.cases) * 10)],
  { stdio: 'inherit' },
)
if (compared.status !== 0) fail('json() and JSON.parse do not agree')
