// What every command of package.json needs before it can work: a fitting Node, Rust, the packages, the built addon.
// Each step says in one line what is missing, and is skipped when it was done before.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))
const stampPath = join(root, 'node_modules', '.sheepdog-packages')

/** Ends the command with one clear line. */
export function fail(message) {
  console.error(`sheepdog: ${message}`)
  process.exit(1)
}

/** Runs a program in the project's folder with its output shown; ends the command when it fails. */
export function step(title, command, args, options = {}) {
  console.log(`> ${title}`)
  const ended = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options })
  if (ended.error) fail(`${title}: ${command} could not be started (${ended.error.message})`)
  if (ended.status !== 0) fail(`${title} failed (${ended.signal ?? `exit status ${ended.status}`})`)
}

export function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major < 20 || (major === 20 && minor < 17)) {
    fail(`Node.js 20.17 or newer is needed, this is ${process.versions.node}`)
  }
  if (!['linux', 'darwin'].includes(process.platform)) {
    fail(`Linux and macOS only, this is ${process.platform}`)
  }
}

export function checkRust() {
  const found = spawnSync('cargo', ['--version'], { encoding: 'utf8' })
  if (found.error || found.status !== 0) {
    fail('Rust is needed to build the addon (no working `cargo` on PATH): see https://rustup.rs')
  }
  const [, major, minor] = /cargo (\d+)\.(\d+)/.exec(found.stdout) ?? []
  if (Number(major) === 1 && Number(minor) < 88) {
    fail(`Rust 1.88 or newer is needed, this is ${major}.${minor}: run \`rustup update\``)
  }
}

/** Installs the packages of package-lock.json, unless exactly these are there. */
export function installPackages() {
  const wanted = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex')
  if (existsSync(stampPath) && readFileSync(stampPath, 'utf8') === wanted) return
  // Not `npm ci`: it refuses a lock file that leaves out optional packages of other platforms.
  step('installing packages', 'npm', ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error'])
  writeFileSync(stampPath, wanted)
}

export function bin(name) {
  return join(root, 'node_modules', '.bin', name)
}

/** Everything up to a loadable package. Cargo and tsc themselves skip what is up to date. */
export function prepare({ debug = false } = {}) {
  checkNode()
  checkRust()
  installPackages()
  const profile = debug ? [] : ['--release']
  step('building the addon', bin('napi'), [
    'build',
    '--platform',
    ...profile,
    '--output-dir',
    'native',
    '--js',
    'native.js',
    '--dts',
    'native.d.ts',
  ])
  step('compiling lib/ and cli/', bin('tsc'), ['-p', 'tsconfig.json'])
}
