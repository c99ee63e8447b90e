// `npm run bench [-- NAME ...] [-- --quick]`: benchmarks side by side with what a user would pick instead. See docs/internals/testing.md.
import { mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { prepare, root, step } from './setup.mjs'

prepare()
const source = join(root, 'bench', 'program.rs')
const program = join(root, 'target', 'bench', 'program')
const builtAt = statSync(program, { throwIfNoEntry: false })?.mtimeMs ?? 0
if (builtAt < statSync(source).mtimeMs) {
  mkdirSync(join(root, 'target', 'bench'), { recursive: true })
  step('compiling bench/program.rs', 'rustc', ['-O', '--edition', '2024', '-o', program, source])
}
const { bench } = await import('../bench/bench.mjs')
process.exitCode = await bench(process.argv.slice(2), program)
