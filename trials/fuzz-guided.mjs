// The targets of tests/fuzz with libFuzzer: inputs are changed by what code they reach. Built in target/fuzz, on stable Rust; a C++
// compiler is needed for libFuzzer itself.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fail, hostTriple, root, step } from '../scripts/step.mjs'

const home = join(root, 'target', 'fuzz')
const kept = join(root, 'fuzz', 'corpus')
/** What is reached is counted by each block of code, and what is compared is told. */
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
/** Of an input that is committed. */
const MAX_KEPT_BYTES = 1024
const MAX_KEPT = 60

export const targetNames = () =>
  readdirSync(kept)
    .filter((name) => name.endsWith('.txt'))
    .map((name) => name.slice(0, -'.txt'.length))

/** @returns {string | undefined} the program, or nothing where it can't be built */
export function buildGuided() {
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
export function feed(program, name, { seconds, seed }) {
  const folder = unpack(name)
  const artifacts = join(home, 'found', name)
  mkdirSync(artifacts, { recursive: true })
  const run = spawnSync(
    program,
    [
      folder,
      `-max_total_time=${seconds}`,
      `-seed=${seed}`,
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
  if (run.status === 0) return executions
  console.error(run.stderr.split('\n').slice(-40).join('\n'))
  for (const found of readdirSync(artifacts))
    console.error(`${found}: ${readFileSync(join(artifacts, found)).toString('base64')}`)
  fail(`${name}: see above; put the line into fuzz/corpus/${name}.txt, then mend what it shows`)
}

/** Writes down the fewest inputs that reach what all reach. */
export function keep(program, name) {
  const all = join(home, 'corpus', name)
  const few = join(home, 'few', name)
  rmSync(few, { recursive: true, force: true })
  mkdirSync(few, { recursive: true })
  spawnSync(program, ['-merge=1', few, all], { env: { ...process.env, SHEEPDOG_FUZZ_TARGET: name } })
  const file = join(kept, `${name}.txt`)
  const before = existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : []
  const inputs = readdirSync(few)
    .map((found) => readFileSync(join(few, found)))
    .filter(({ length }) => length <= MAX_KEPT_BYTES)
    .sort((one, other) => one.length - other.length)
    .map((input) => input.toString('base64'))
  const lines = [...new Set([...before, ...inputs.slice(0, MAX_KEPT)])]
  writeFileSync(file, lines.map((line) => `${line}\n`).join(''))
}
