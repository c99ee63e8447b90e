// `npm run coverage`: how much of the core (Rust) and of the package (JavaScript made from lib/ and cli/) the tests run. The core
// is built for it in target/coverage; the addon in native/ is replaced by a counting one, and built anew by the next command.
// Needs llvm-profdata and llvm-cov that read what this rustc writes: rustup's component llvm-tools, or LLVM 19 and newer.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { bin, checkNode, checkRust, fail, installPackages, root, step } from './setup.mjs'

const target = join(root, 'target', 'coverage')
const counts = join(target, 'counts')
const scripted = join(target, 'v8')

function llvm(name) {
  const { stdout: sysroot } = spawnSync('rustc', ['--print', 'sysroot'], { encoding: 'utf8' })
  const { stdout: verbose } = spawnSync('rustc', ['-vV'], { encoding: 'utf8' })
  const host = /host: (.*)/.exec(verbose)?.[1] ?? ''
  const versions = Array.from({ length: 12 }, (_, index) => `${name}-${30 - index}`)
  const names = [join(sysroot.trim(), 'lib/rustlib', host, 'bin', name), ...versions]
  const found = names.find((program) => spawnSync(program, ['--version']).status === 0)
  return found ?? fail(`${name} is missing: \`rustup component add llvm-tools\`, or Debian's package llvm-19`)
}

checkNode()
checkRust()
installPackages()
const [profdata, cov] = [llvm('llvm-profdata'), llvm('llvm-cov')]
for (const folder of [counts, scripted]) rmSync(folder, { recursive: true, force: true })
mkdirSync(counts, { recursive: true })
const env = {
  ...process.env,
  CARGO_TARGET_DIR: target,
  RUSTFLAGS: '-C instrument-coverage',
  // %p a process, %m a program: hosts that are killed write nothing, and nobody writes over another's.
  LLVM_PROFILE_FILE: join(counts, '%p-%m.profraw'),
}
rmSync(join(root, 'native', '.built.json'), { force: true })
const into = ['--output-dir', 'native', '--js', 'native.js', '--dts', 'native.d.ts', '--target-dir', target]
step('building the counting addon', bin('napi'), ['build', '--platform', ...into], { env })
step('compiling lib/ and cli/', bin('tsc'), ['-p', 'tsconfig.json', '--sourceMap'])
// The tests' own failures are `npm test`'s matter: here they only count less.
function count(title, command, args, more = {}) {
  console.log(`> ${title}`)
  spawnSync(command, args, { cwd: root, stdio: 'inherit', env: { ...env, ...more } })
}
count('tests of the core', 'cargo', ['test', '--quiet', '--no-fail-fast'])
count('tests of the package', process.execPath, [bin('vitest'), 'run'], { NODE_V8_COVERAGE: scripted })

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
const programs = readdirSync(join(target, 'debug', 'deps'))
  .filter((name) => /^(sheepdog|agents|mechanisms|process|runtime|watch_instance)-[0-9a-f]+$/.test(name))
  .map((name) => join(target, 'debug', 'deps', name))
const addon = readdirSync(join(root, 'native')).find((name) => name.endsWith('.node'))
if (addon) programs.push(join(root, 'native', addon))
const objects = programs.filter(existsSync).flatMap((program) => ['--object', program])
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
