// `npm run check`: formatting, lints, types, and that index.d.ts says what lib/ and the addon say. Nothing is changed.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bin, fail, prepare, root, step } from './setup.mjs'

prepare()
step('formatting of Rust', 'cargo', ['fmt', '--check'])
step('formatting of everything else', bin('prettier'), ['--check', '--log-level=warn', '.'])
step('clippy', 'cargo', ['clippy', '--quiet', '--all-targets', '--', '-D', 'warnings'])
step('types of tests and examples', bin('tsc'), ['-p', 'tsconfig.check.json'])
const { renderTypes } = await import('./types.mjs')
if ((await renderTypes()) !== readFileSync(join(root, 'index.d.ts'), 'utf8')) {
  fail('index.d.ts is not up to date: run `npm run build` and commit it')
}
console.log('checks passed')
