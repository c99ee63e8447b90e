// `npm run trial -- coverage`: the lines that the tests run, of the core (Rust) and of the package (JavaScript made from lib/ and cli/). The core
// is built for it beside what is there; the addon in native/ is replaced by a counting one, and built anew by the next command.
// Needs llvm-profdata and llvm-cov that read what this rustc writes: rustup's component llvm-tools, or LLVM 19 and newer.
// Half an hour on two cores, and some gigabytes. Who is killed counts nothing: what only ends so is covered better than it looks.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findBrowser } from '../scripts/browser.mjs'
import { buildCorePrograms } from '../scripts/core-tests.mjs'
import { findServer } from '../scripts/nats-server.mjs'
import { bin, checkNode, checkRust, fail, installPackages, root, step } from '../scripts/setup.mjs'
import { hostTriple } from '../scripts/step.mjs'

const target = join(root, 'target', 'coverage')
const counts = join(target, 'counts')
const scripted = join(target, 'v8')

function llvm(name) {
  const { stdout: sysroot } = spawnSync('rustc', ['--print', 'sysroot'], { encoding: 'utf8' })
  const versions = Array.from({ length: 12 }, (_, index) => `${name}-${30 - index}`)
  const names = [join(sysroot.trim(), 'lib/rustlib', hostTriple(), 'bin', name), ...versions]
  const found = names.find((program) => spawnSync(program, ['--version']).status === 0)
  return found ?? fail(`${name} is missing: \`rustup component add llvm-tools\`, or Debian's package llvm-19`)
}

/** The test programs of the crates. */
async function corePrograms() {
  const { programs, problem } = await buildCorePrograms(env)
  return problem ? fail(problem) : programs.map(({ executable }) => executable)
}

function addon() {
  const name = readdirSync(join(root, 'native')).find((name) => name.endsWith('.node'))
  return name ? join(root, 'native', name) : fail('native/ has no addon')
}

/** Leaves of what Node counted what is ours: each of thousands of files has all that its process has loaded. */
function prune() {
  for (const name of readdirSync(scripted)) {
    const file = join(scripted, name)
    let result = []
    try {
      result = JSON.parse(readFileSync(file, 'utf8')).result
    } catch {
      // Of a process that was killed while it wrote.
    }
    const ours = result.filter(({ url }) => /\/dist\/(lib|cli)\//.test(url))
    if (ours.length === 0) rmSync(file)
    else writeFileSync(file, JSON.stringify({ result: ours }))
  }
}

checkNode()
checkRust()
installPackages()
const [profdata, cov] = [llvm('llvm-profdata'), llvm('llvm-cov')]
for (const folder of [counts, scripted]) rmSync(folder, { recursive: true, force: true })
mkdirSync(counts, { recursive: true })
// Our own crate alone counts: what it depends on is taken as other builds have left it.
const counting = join(target, 'counting-rustc')
writeFileSync(counting, '#!/bin/sh\nexec "$@" -C instrument-coverage\n', { mode: 0o755 })
const env = {
  ...process.env,
  RUSTC_WORKSPACE_WRAPPER: counting,
  // A few files for each program, added to by its processes under a lock: a file a process would be thousands of megabytes.
  LLVM_PROFILE_FILE: join(counts, '%8m.profraw'),
}
const { server, problem: noServer } = findServer()
if (server) env.SHEEPDOG_NATS_SERVER = server
else console.warn(`THE FLEET IS NOT COUNTED: ${noServer}`)
const { browser, problem: noBrowser } = findBrowser()
if (browser) env.SHEEPDOG_BROWSER = browser
else console.warn(`THE PAGE IS NOT COUNTED: ${noBrowser}`)
rmSync(join(root, 'native', '.built.json'), { force: true })
const into = ['--output-dir', 'native', '--js', 'native.js', '--dts', 'native.d.ts']
step('building the counting addon', bin('napi'), ['build', '--package', 'sheepdog', '--platform', ...into], {
  env,
})
// A file for each source, in place of the joined ones. Without a note of what is there, because the joined ones are.
const whole = ['--incremental', 'false', '--tsBuildInfoFile', 'null']
step('compiling lib/ and cli/', bin('tsc'), [
  '-p',
  'tsconfig.json',
  '--sourceMap',
  '--outDir',
  'dist',
  ...whole,
])
// The tests' own failures are `npm test`'s matter: here they only count less.
function count(title, command, args, more = {}) {
  console.log(`> ${title}`)
  spawnSync(command, args, { cwd: root, stdio: 'inherit', env: { ...env, ...more } })
}
count('tests of the core', 'cargo', ['test', '--quiet', '--workspace', '--no-fail-fast'])
count('tests of the package', process.execPath, [bin('vitest'), 'run'], { NODE_V8_COVERAGE: scripted })

prune()
const merged = join(target, 'merged.profdata')
const raw = readdirSync(counts).map((name) => join(counts, name))
step(`merging ${raw.length} profiles`, profdata, [
  'merge',
  '-sparse',
  '--failure-mode=all',
  '-o',
  merged,
  counts,
])
const objects = [...(await corePrograms()), addon()].flatMap((program) => ['--object', program])
const leftOut = '--ignore-filename-regex=(\\.cargo|rustc|/tests/|tests\\.rs|target/)'
step('the core', cov, [
  'report',
  ...objects.slice(1),
  `--instr-profile=${merged}`,
  leftOut,
  '--show-region-summary=0',
])
step('the package', bin('c8'), [
  'report', '--temp-directory', scripted, '--include', 'dist/**', '--exclude', 'dist/**/generated*', '--reporter', 'text', '--exclude-after-remap=false',
]) // prettier-ignore
