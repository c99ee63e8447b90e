// `npm run release:build -- [RUST-TARGET] [--debian]`: the addon as it is published, and what it needs of the system that it runs on.
// Linux is built by cargo-zigbuild (cargo install cargo-zigbuild, pip install ziglang), with glibc against an old one; Windows with
// MinGW's gcc. `--debian`: with the
// Rust and the zig of `npm run trial -- platforms`, for a machine whose rustup has no standard library for the target.
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { linkingFor, toolchainFor } from '../../trials/platforms/toolchain.mjs'
import { fail, root } from '../step.mjs'
import { GLIBC, buildLibrary, prefixes, targets } from './library.mjs'

const words = process.argv.slice(2)
const isDebian = words.includes('--debian')
const target = words.find((word) => word !== '--debian') ?? 'x86_64-unknown-linux-gnu'
const name = targets[target]
if (!name) fail(`no such target: ${target}; there are ${Object.keys(targets).join(', ')}`)

/**
 * Sizes of the addon in bytes: what is downloaded, and what is on the disk. On 2026-11-26 it had 8.6 MB and 20.6 MB; on Windows,
 * before it was made for size, 12.6 MB and 28.1 MB. Functions save more registers there, and each is described for unwinding.
 */
const [MAX_PACKED_BYTES, MAX_BYTES] = target.includes('windows') ? [13e6, 29e6] : [9.4e6, 22e6]

if (isDebian && target.includes('apple')) fail('--debian builds for Linux and Windows only')
const env = isDebian ? toolchainFor(target) : { ...process.env, ...linkingFor(target) }
const library = buildLibrary({ target, profile: 'release', env })
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
if (target.includes('windows')) showLibraries(addon)

/** The newest versions of glibc's symbols that the addon asks for; a newer one than promised is an error. */
function showVersions(file) {
  // It reads files of every processor. objdump reads those of its own.
  const { stdout, error } = spawnSync('readelf', ['--version-info', '--wide', file], {
    encoding: 'utf8',
    maxBuffer: 1e9,
  })
  if (error) fail(`readelf is needed to look at the symbols: ${error.message}`)
  const versions = [...new Set(stdout.match(/GLIBC_[\d.]+/g))].sort((left, right) =>
    left.localeCompare(right, 'en', { numeric: true }),
  )
  console.log(`needs ${versions.join(', ')}`)
  if (versions.length === 0) fail('no symbol of glibc was found: the check is of no use')
  const newest = versions.at(-1).replace('GLIBC_', '')
  if (newest.localeCompare(GLIBC, 'en', { numeric: true }) > 0)
    fail(`needs glibc ${newest}, ${GLIBC} is promised`)
}

/** The libraries that an addon for Windows asks for. One of MinGW's own would be missing there. */
function showLibraries(file) {
  const { stdout, error } = spawnSync('x86_64-w64-mingw32-objdump', ['--private-headers', file], {
    encoding: 'utf8',
    maxBuffer: 1e9,
  })
  if (error) fail(`x86_64-w64-mingw32-objdump is needed to look at the libraries: ${error.message}`)
  const names = [...stdout.matchAll(/DLL Name: (\S+)/g)].map(([, name]) => name.toLowerCase())
  const libraries = [...new Set(names)].sort()
  console.log(`needs ${libraries.join(', ')}`)
  if (libraries.length === 0) fail('no library was found: the check is of no use')
  const own = libraries.filter((name) => name.startsWith('lib'))
  if (own.length > 0) fail(`needs what Windows does not have: ${own.join(', ')}`)
}
