// Builds the addon into native/, unless the one that is there was built from the same sources in a fitting way.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bin, root, step } from './step.mjs'
import { fingerprint, stamp } from './stamp.mjs'

const folder = join(root, 'native')
const stampFile = join(folder, '.built.json')
const sources = ['src', 'crates', 'build.rs', 'Cargo.toml', 'Cargo.lock', '.cargo', 'package.json']
const output = '--output-dir native --js native.js --dts native.d.ts'.split(' ')

/** @param {'release' | 'debug' | 'any'} wanted */
export function buildAddon(wanted) {
  const compiler = spawnSync('rustc', ['-vV'], { encoding: 'utf8' }).stdout
  const { RUSTFLAGS, CARGO_BUILD_TARGET } = process.env
  const inputs = fingerprint(sources, [compiler, RUSTFLAGS, CARGO_BUILD_TARGET])
  const built = readStamp()
  if (built?.inputs === inputs && (wanted === 'any' || built.profile === wanted)) return
  const profile = wanted === 'any' ? 'debug' : wanted
  rmSync(stampFile, { force: true })
  // The types of the edge are written while the addon's crate is compiled. `cargo test` may have compiled it without writing them,
  // and cargo would not compile it again.
  const now = new Date()
  utimesSync(join(root, 'src', 'lib.rs'), now, now)
  step(`building the addon (${profile})`, bin('napi'), [
    ...['build', '--package', 'sheepdog', '--platform', ...output],
    ...(profile === 'release' ? ['--release'] : []),
  ])
  readLists()
  stamp(stampFile, JSON.stringify({ inputs, profile, addons: addons() }))
}

/** The edge only reads the lists that it is given, so that callers may pass lists that are not theirs to change. */
function readLists() {
  const file = join(folder, 'native.d.ts')
  const specs = /^export interface \w+(?:Spec|Request|Prompt) \{$.*?^\}$/gms
  const types = readFileSync(file, 'utf8')
  writeFileSync(
    file,
    types.replace(specs, (spec) => spec.replace(/\bArray</g, 'ReadonlyArray<')),
  )
}

/** What was built, if nobody has put another addon there since. */
function readStamp() {
  if (!existsSync(stampFile)) return
  const built = JSON.parse(readFileSync(stampFile, 'utf8'))
  if (JSON.stringify(built.addons) === JSON.stringify(addons())) return built
}

/** Name, size and time of each built file. */
function addons() {
  return readdirSync(folder)
    .filter((name) => !name.startsWith('.'))
    .sort()
    .map((name) => {
      const { size, mtimeMs } = statSync(join(folder, name))
      return [name, size, mtimeMs]
    })
}
