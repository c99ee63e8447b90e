// `npm run release:build [RUST-TARGET]`: the addon as it is published, and what it needs of the system that it runs on.
// Linux with glibc is built by cargo-zigbuild (cargo install cargo-zigbuild, pip install ziglang) against an old glibc.
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { fail, root } from '../step.mjs'
import { GLIBC, buildLibrary, prefixes, targets } from './library.mjs'

/** Sizes of the addon: what is downloaded, and what is on the disk. On 2026-11-24 it had 10.3 MB and 23.8 MB. */
const MAX_PACKED_BYTES = 10.8e6
const MAX_BYTES = 25e6

const target = process.argv[2] ?? 'x86_64-unknown-linux-gnu'
const name = targets[target]
if (!name) fail(`no such target: ${target}; there are ${Object.keys(targets).join(', ')}`)

const library = buildLibrary({ target, profile: 'distribution' })
const addon = join(root, 'npm', name, `sheepdog.${name}.node`)
mkdirSync(join(root, 'npm', name), { recursive: true })
copyFileSync(library, addon)

const bytes = readFileSync(addon)
const packed = gzipSync(bytes, { level: 9 }).length
const megabytes = (size) => `${(size / 1e6).toFixed(1)} MB`
console.log(`${addon}: ${megabytes(bytes.length)}, ${megabytes(packed)} packed`)
if (packed > MAX_PACKED_BYTES) fail(`the packed addon is larger than ${megabytes(MAX_PACKED_BYTES)}`)
if (bytes.length > MAX_BYTES) fail(`the addon is larger than ${megabytes(MAX_BYTES)}`)
const left = prefixes.map(([from]) => from).filter((path) => bytes.includes(path))
if (left.length > 0) fail(`the addon contains paths of this machine: ${left.join(', ')}`)
console.log('contains no path of this machine')
if (target.endsWith('-linux-gnu')) showVersions(addon)

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
