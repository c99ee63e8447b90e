// macOS: the addon's code is checked by the compiler. It can be neither linked here, without Apple's SDK, nor run.
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { cargo } from '../../scripts/release/library.mjs'
import { once } from './cache.mjs'
import { caseOf } from './outcome.mjs'
import { lacksToolchain, toolchainFor } from './toolchain.mjs'

const TARGET = 'aarch64-apple-darwin'

export const macos = {
  title: 'macOS',
  place: 'never, compiled only',
  how: 'compiled only',
  lacks: () => lacksToolchain(),
  run: () => ({ cases: [checked()] }),
}

function checked() {
  const started = performance.now()
  const env = toolchainFor(TARGET)
  // Not cargo's own check: zig has what the C code of other crates includes.
  const program = join(dirname(env.CARGO), 'cargo-zigbuild')
  cargo(`checking ${TARGET}`, ['check', '--target', TARGET, '--package', 'sheepdog', '--lib'], {
    target: TARGET,
    env: { ...env, SDKROOT: noSdk() },
    program,
    // Two events of a tree come from the guard, which only Linux has.
    allowsWarnings: true,
  })
  const name = `compiled for ${TARGET}`
  return caseOf({ area: 'compiled', name, isGood: true, ms: performance.now() - started })
}

/** Some build scripts ask for the SDK's folder, and then take nothing from it. */
const noSdk = () => once('no-sdk', {}, (folder) => mkdirSync(folder, { recursive: true }))
