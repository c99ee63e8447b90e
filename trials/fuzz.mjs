// `npm run trial -- fuzz [--cases N --seed N --seconds N --target NAME --keep]`: every property of the core (each `proptest!` of
// the crates and tests/) with many cases, the filters of lines and JSON against JSON.parse, and each target of tests/fuzz for so many
// seconds with libFuzzer. `npm test` runs the same with few, and the targets on what was kept of them. A case that fails is
// kept by proptest in a file beside the sources, an input by its line in fuzz/corpus: commit it with the fix. With --target only
// that one is fed; --keep writes inputs that reached something new into fuzz/corpus. libFuzzer is built in target/fuzz, on stable
// Rust, and needs a C++ compiler.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { prepare } from '../scripts/setup.mjs'
import { fail, hostTriple, root, step } from '../scripts/step.mjs'

const { values } = parseArgs({
  options: {
    cases: { type: 'string', default: '20000' },
    seed: { type: 'string', default: '1' },
    seconds: { type: 'string', default: '20' },
    target: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
})

const home = join(root, 'target', 'fuzz')
const kept = join(root, 'fuzz', 'corpus')
/** Counts each block of code that is reached, and tells the fuzzer which values are compared. */
const flags = [
  '--cfg fuzzing',
  '-Cpasses=sancov-module',
  '-Cllvm-args=-sanitizer-coverage-level=4',
  '-Cllvm-args=-sanitizer-coverage-inline-8bit-counters',
  '-Cllvm-args=-sanitizer-coverage-pc-table',
  '-Cllvm-args=-sanitizer-coverage-trace-compares',
].join(' ')
/** Longer inputs find little that these do not, and slowly. */
const MAX_BYTES = 4096
/** Longest input that is committed. */
const MAX_KEPT_BYTES = 1024
const MAX_KEPT = 60

if (values.target === undefined) feedProperties()
const program = Number(values.seconds) > 0 ? buildGuided() : undefined
if (program) feedTargets()
else console.warn('THE TARGETS ARE NOT FED: --seconds is 0, or there is no C++ compiler')

function feedTargets() {
  const names = readdirSync(kept).map((name) => name.replace(/\.txt$/, ''))
  if (values.target !== undefined && !names.includes(values.target))
    fail(`no target is called ${values.target}: ${names.join(', ')}`)
  console.log(`> ${values.seconds} seconds each`)
  for (const name of values.target === undefined ? names : [values.target]) {
    const folder = unpack(name)
    feed(name, folder)
    if (values.keep) keep(name, folder)
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
  const files = ['src', 'crates', 'tests'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, name)),
  )
  const sources = files.filter((path) => path.endsWith('.rs'))
  const properties = sources.flatMap((path) => propertiesOf(path).map((name) => ({ path, name })))
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

/** @returns {string | undefined} the program, or nothing where it can't be built */
function buildGuided() {
  if (spawnSync('c++', ['--version']).status !== 0) return
  const triple = hostTriple()
  // With a target of its own name, so that build scripts are built as ever.
  step('building the fuzzer', 'cargo', ['build', '--quiet', '--target', triple], {
    cwd: join(root, 'fuzz'),
    env: { ...process.env, RUSTFLAGS: flags, CARGO_TARGET_DIR: home },
  })
  return join(home, triple, 'debug', 'target')
}

function unpack(name) {
  const folder = join(home, 'corpus', name)
  mkdirSync(folder, { recursive: true })
  const lines = readFileSync(join(kept, `${name}.txt`), 'utf8').split('\n')
  for (const [at, line] of lines.filter(Boolean).entries())
    writeFileSync(join(folder, `kept-${at}`), Buffer.from(line, 'base64'))
  return folder
}

/** Feeds a target for so many seconds. */
function feed(name, folder) {
  const artifacts = join(home, 'found', name)
  mkdirSync(artifacts, { recursive: true })
  const run = spawnSync(
    program,
    [
      folder,
      `-max_total_time=${values.seconds}`,
      `-seed=${values.seed}`,
      `-max_len=${MAX_BYTES}`,
      `-artifact_prefix=${artifacts}/`,
      '-print_final_stats=1',
      '-timeout=10',
      '-rss_limit_mb=2048',
    ],
    { encoding: 'utf8', env: { ...process.env, SHEEPDOG_FUZZ_TARGET: name }, maxBuffer: 1 << 28 },
  )
  const executions = Number(/number_of_executed_units:\s*(\d+)/.exec(run.stderr)?.[1] ?? 0)
  const reached = Number([...run.stderr.matchAll(/ cov: (\d+)/g)].at(-1)?.[1] ?? 0)
  console.log(`  ${name}: ${executions} executions, ${reached} places reached`)
  if (run.status === 0) return
  console.error(run.stderr.split('\n').slice(-40).join('\n'))
  for (const found of readdirSync(artifacts))
    console.error(`${found}: ${readFileSync(join(artifacts, found)).toString('base64')}`)
  fail(`${name}: see above; put the line into fuzz/corpus/${name}.txt, then mend what it shows`)
}

/** Writes down the fewest inputs that reach what all reach. */
function keep(name, all) {
  const few = join(home, 'few', name)
  rmSync(few, { recursive: true, force: true })
  mkdirSync(few, { recursive: true })
  spawnSync(program, ['-merge=1', few, all], { env: { ...process.env, SHEEPDOG_FUZZ_TARGET: name } })
  const file = join(kept, `${name}.txt`)
  const before = readFileSync(file, 'utf8').split('\n').filter(Boolean)
  const inputs = readdirSync(few)
    .map((found) => readFileSync(join(few, found)))
    .filter(({ length }) => length <= MAX_KEPT_BYTES)
    .sort((one, other) => one.length - other.length)
    .map((input) => input.toString('base64'))
  const lines = [...new Set([...before, ...inputs.slice(0, MAX_KEPT)])]
  writeFileSync(file, lines.map((line) => `${line}\n`).join(''))
}
