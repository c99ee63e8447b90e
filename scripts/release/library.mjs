// The addon's library for a target, built by cargo. Linux is built by cargo-zigbuild, so that glibc may be old and another
// processor needs no compiler of its own.
import { homedir } from 'node:os'
import { join } from 'node:path'
import { cache } from '../platforms/cache.mjs'
import { root, step } from '../step.mjs'

/** The oldest version of glibc that the addon runs with: what the oldest systems still maintained have. */
export const GLIBC = '2.28'

/** The platforms of npm/, by target. */
export const targets = {
  'x86_64-unknown-linux-gnu': 'linux-x64-gnu',
  'aarch64-unknown-linux-gnu': 'linux-arm64-gnu',
  'x86_64-unknown-linux-musl': 'linux-x64-musl',
  'aarch64-unknown-linux-musl': 'linux-arm64-musl',
  'x86_64-apple-darwin': 'darwin-x64',
  'aarch64-apple-darwin': 'darwin-arm64',
}

/** Platforms without a package. Node.js for Windows loads an addon of either ABI, and the loader looks for this name. */
export const trials = { 'x86_64-pc-windows-gnu': 'win32-x64-msvc' }

const libraries = { linux: 'libsheepdog.so', darwin: 'libsheepdog.dylib', windows: 'sheepdog.dll' }

/** Folders of this machine, and the names that stand for them in messages. */
export const prefixes = [
  [process.env.CARGO_HOME ?? join(homedir(), '.cargo'), 'cargo'],
  [process.env.RUSTUP_HOME ?? join(homedir(), '.rustup'), 'rustup'],
  [root, 'sheepdog'],
  [cache, 'platforms'],
]

/** The target as cargo-zigbuild takes it: with the version of glibc. */
export const zigTarget = (target) => (target.endsWith('-linux-gnu') ? `${target}.${GLIBC}` : target)

/** The flags of rustc. */
export const flagsFor = (target) => [
  ...prefixes.map(([from, to]) => `--remap-path-prefix=${from}=${to}`),
  // A musl addon is loaded into a musl Node: it is no static program.
  ...(target.endsWith('-musl') ? ['-Ctarget-feature=-crt-static', '-Clink-self-contained=no'] : []),
]

/** The environment of cargo: `env` and more. */
export function environmentFor(target, env = process.env) {
  const map = prefixes.map(([from, to]) => `-ffile-prefix-map=${from}=${to}`)
  return {
    ...env,
    // Paths may contain spaces; this form separates the flags otherwise.
    CARGO_ENCODED_RUSTFLAGS: flagsFor(target).join('\x1f'),
    CFLAGS: [env.CFLAGS, ...map].filter(Boolean).join(' '),
  }
}

/**
 * Builds the library, and returns its path.
 * @param {{target: string, profile: string, env?: NodeJS.ProcessEnv}} options profile: one of Cargo.toml
 */
export function buildLibrary({ target, profile, env = process.env }) {
  const isLinux = target.includes('linux')
  const words = [isLinux ? 'zigbuild' : 'build', '--target', zigTarget(target), '--profile', profile]
  const name = `building the addon for ${targets[target] ?? trials[target]} (${profile})`
  step(name, env.CARGO ?? 'cargo', [...words, '--package', 'sheepdog', '--lib'], {
    env: environmentFor(target, env),
  })
  const folder = env.CARGO_TARGET_DIR ?? join(root, 'target')
  const library = libraries[Object.keys(libraries).find((system) => target.includes(system))]
  return join(folder, target, profile === 'dev' ? 'debug' : profile, library)
}
