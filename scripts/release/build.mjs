// `npm run release:build [RUST-TARGET]`: the addon as it is published, and what it needs of the system that it runs on.
// Linux with glibc is built by cargo-zigbuild (cargo install cargo-zigbuild, pip install ziglang) against an old glibc.
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fail, root, step } from '../step.mjs'

/** What the oldest systems still maintained have. */
const GLIBC = '2.28'
const MAX_BYTES = 9e6

const targets = {
  'x86_64-unknown-linux-gnu': 'linux-x64-gnu',
  'aarch64-unknown-linux-gnu': 'linux-arm64-gnu',
  'x86_64-unknown-linux-musl': 'linux-x64-musl',
  'aarch64-unknown-linux-musl': 'linux-arm64-musl',
  'x86_64-apple-darwin': 'darwin-x64',
  'aarch64-apple-darwin': 'darwin-arm64',
}

const target = process.argv[2] ?? 'x86_64-unknown-linux-gnu'
const name = targets[target]
if (!name) fail(`no such target: ${target}; there are ${Object.keys(targets).join(', ')}`)

const isGnu = target.endsWith('-gnu')
const isLinux = target.includes('linux')
// A musl addon is loaded into a musl Node: it is no static program.
const env = {
  ...process.env,
  ...(target.endsWith('-musl') && { RUSTFLAGS: '-C target-feature=-crt-static' }),
}
const cargo = isLinux
  ? ['zigbuild', '--target', isGnu ? `${target}.${GLIBC}` : target]
  : ['build', '--target', target]
step(
  `building the addon for ${name}`,
  'cargo',
  [...cargo, '--profile', 'distribution', '--package', 'sheepdog', '--lib'],
  { env },
)

const library = join(root, 'target', target, 'distribution', isLinux ? 'libsheepdog.so' : 'libsheepdog.dylib')
const addon = join(root, 'npm', name, `sheepdog.${name}.node`)
mkdirSync(join(root, 'npm', name), { recursive: true })
copyFileSync(library, addon)

const { size } = statSync(addon)
console.log(`${addon}: ${(size / 1e6).toFixed(1)} MB`)
if (size > MAX_BYTES) fail(`the addon is larger than ${MAX_BYTES / 1e6} MB`)
if (isGnu) showVersions(addon)

/** The newest versions of glibc's symbols that the addon asks for; a newer one than promised is an error. */
function showVersions(file) {
  const { stdout, error } = spawnSync('objdump', ['-T', file], { encoding: 'utf8', maxBuffer: 1e9 })
  if (error) fail(`objdump is needed to look at the symbols: ${error.message}`)
  const versions = [...new Set(stdout.match(/GLIBC_[\d.]+/g))].sort((left, right) =>
    left.localeCompare(right, 'en', { numeric: true }),
  )
  console.log(`needs ${versions.join(', ')}`)
  const newest = versions.at(-1)?.replace('GLIBC_', '') ?? '0'
  if (newest.localeCompare(GLIBC, 'en', { numeric: true }) > 0)
    fail(`needs glibc ${newest}, ${GLIBC} is promised`)
}
