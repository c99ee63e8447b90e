// `npm run check`: formatting, lints, types, and that index.d.ts says what lib/ and the addon say. Nothing is changed.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkCrates } from './deny.mjs'
import { writeGenerated } from './generated.mjs'
import { bin, fail, prepare, root, step } from './setup.mjs'

prepare({ addon: 'any' })
const lockFile = join(root, 'package-lock.json')
const lock = readFileSync(lockFile, 'utf8')
const lockOnly = ['install', '--package-lock-only', '--no-audit', '--no-fund', '--loglevel=error']
step('package-lock.json is what npm install makes of it', 'npm', lockOnly)
if (readFileSync(lockFile, 'utf8') !== lock) {
  writeFileSync(lockFile, lock)
  fail('package-lock.json is not whole: run `npm install` and commit it')
}
step('formatting of Rust', 'cargo', ['fmt', '--all', '--check'])
step('formatting of everything else', bin('prettier'), ['--check', '--log-level=warn', '.'])
step('lints of TypeScript', bin('oxlint'), ['--type-aware', '--quiet', '.'])
step('clippy', 'cargo', ['clippy', '--quiet', '--workspace', '--all-targets', '--', '-D', 'warnings'])
step('types of tests and examples', bin('tsc'), ['-p', 'tsconfig.check.json'])
step('types under exactOptionalPropertyTypes', bin('tsc'), ['-p', '__test__/types'])
checkCrates()
writeGenerated()
step('the package (publint)', bin('publint'), ['--strict', '--pack', 'npm'])
step('the types of the package (attw)', bin('attw'), ['--pack', '.', '--quiet'])
const { findNewTypes } = await import('./types.mjs')
if ((await findNewTypes()) !== undefined) {
  fail('index.d.ts or a file of entries/ is not up to date: run `npm run build` and commit it')
}
console.log('checks passed')
