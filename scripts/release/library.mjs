// The addon's library for a target, built by cargo. Linux is built by cargo-zigbuild, so that glibc may be old and another
// processor needs no compiler of its own.
import { spawnSync } from 'node:child_process'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { cache } from '../../trials/platforms/cache.mjs'
import { fail, root } from '../step.mjs'

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
  // The loader looks for the name of Node.js's own ABI. An addon of either loads: the interface between them is C.
  'x86_64-pc-windows-gnu': 'win32-x64-msvc',
}

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
  const name = `building the addon for ${targets[target]} (${profile})`
  // A release is not held up by what a newer compiler warns of.
  const allowsWarnings = profile !== 'dev'
  cargo(name, [...words, '--package', 'sheepdog', '--lib'], { target, env, allowsWarnings })
  const folder = env.CARGO_TARGET_DIR ?? join(root, 'target')
  const library = libraries[Object.keys(libraries).find((system) => target.includes(system))]
  return join(folder, target, profile === 'dev' ? 'debug' : profile, library)
}

/**
 * Runs cargo for a target, and returns its messages. A warning of this project's crates is an error: most are about code that only
 * another system calls.
 * @param {{target: string, env: NodeJS.ProcessEnv, program?: string, allowsWarnings?: boolean}} options
 */
export function cargo(title, words, { target, env, program = env.CARGO ?? 'cargo', allowsWarnings = false }) {
  console.log(`> ${title}`)
  // Warnings are messages here, because as errors (`-D warnings`) they would be flags, and all crates be built anew.
  const ended = spawnSync(program, [...words, '--message-format=json'], {
    cwd: root,
    env: environmentFor(target, env),
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
    maxBuffer: 1e9,
  })
  if (ended.error) fail(`${title}: ${program} could not be started (${ended.error.message})`)
  const lines = ended.stdout.split('\n').filter((line) => line.startsWith('{'))
  const messages = lines.map((line) => JSON.parse(line))
  for (const { message } of messages) if (message) console.error(message.rendered)
  if (ended.status !== 0) fail(`${title} failed (${ended.signal ?? `exit status ${ended.status}`})`)
  const warnings = messages.filter(({ message }) => message?.level === 'warning' && message.spans.length > 0)
  if (warnings.length > 0 && !allowsWarnings) fail(`${title}: ${warnings.length} warnings, see above`)
  return messages
}
