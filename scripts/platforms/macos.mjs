// macOS: the addon's code is checked by the compiler, for both processors. It can be neither linked here, without Apple's SDK, nor run.
import { mkdirSync } from 'node:fs'
import { cargo } from '../release/library.mjs'
import { once } from './cache.mjs'
import { caseOf } from './outcome.mjs'
import { lacksToolchain, toolchainFor } from './toolchain.mjs'

const targets = ['aarch64-apple-darwin', 'x86_64-apple-darwin']

export const macos = {
  title: 'macOS',
  place: 'never, compiled only',
  how: 'compiled only',
  lacks: () => lacksToolchain(),
  run: () => ({ cases: targets.map(checked) }),
}

function checked(target) {
  const started = performance.now()
  // cargo-zigbuild checks as it builds: zig has what the C code of other crates includes.
  const words = ['check', '--target', target, '--package', 'sheepdog', '--lib']
  cargo(`checking ${target}`, words, { target, env: { ...toolchainFor(target), SDKROOT: noSdk() } })
  const ms = performance.now() - started
  return caseOf({ area: 'compiled', name: `compiled for ${target}`, isGood: true, ms })
}

/** Some build scripts ask for the SDK's folder, and then take nothing from it. */
const noSdk = () => once('no-sdk', {}, (folder) => mkdirSync(folder, { recursive: true }))
