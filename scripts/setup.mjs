// What every command of package.json needs before it can work: a fitting Node, Rust, the packages, the built addon.
// Each step says in one line what is missing, and is skipped when it was done before.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildAddon } from './addon.mjs'
import { joinModules } from './join.mjs'
import { bin, fail, root, runBeside, step } from './step.mjs'
import { fingerprint, isStamped, stamp } from './stamp.mjs'

export { bin, fail, root, runBeside, step }

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
  if (Number(major) === 1 && Number(minor) < 91) {
    fail(`Rust 1.91 or newer is needed, this is ${major}.${minor}: run \`rustup update\``)
  }
}

/** Installs the packages of the package-lock.json in this folder. */
export function installFrom(folder, title) {
  // Not `npm ci`: it refuses the lock file where a registry lacks an optional package of another platform.
  const words = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']
  step(title, 'npm', [...words, '--prefix', folder])
}

/** Installs the packages of package-lock.json, unless exactly these are there. */
export function installPackages() {
  const stampFile = join(root, 'node_modules', '.sheepdog-packages')
  const wanted = fingerprint(['package-lock.json'])
  if (isStamped(stampFile, wanted)) return
  installFrom(root, 'installing packages')
  stamp(stampFile, wanted)
}

/** Libraries that are one file come with the package, and nothing is installed beside it. */
export function copyLibraries() {
  if (!existsSync(join(root, 'cli/view'))) return
  const folder = join(root, 'dist/cli/view/vendor')
  mkdirSync(folder, { recursive: true })
  const licence = readFileSync(join(root, 'node_modules/anser/LICENSE'), 'utf8')
  const code = readFileSync(join(root, 'node_modules/anser/lib/index.js'), 'utf8')
  writeFileSync(join(folder, 'anser.js'), `/* anser\n${licence}*/\n${code}`)
}

/**
 * Everything up to a loadable package.
 * @param {{addon?: 'release' | 'debug' | 'any'}} options which build of the addon: "any" takes what is there when it is up to
 * date, else makes a debug build (a quarter of the time; what the tests use)
 */
export function prepare({ addon = 'release' } = {}) {
  checkNode()
  checkRust()
  installPackages()
  buildAddon(addon)
  step('compiling lib/ and cli/', bin('tsc'), ['-p', 'tsconfig.json'])
  joinModules()
  copyLibraries()
  step('writing what only the package has', process.execPath, [join(root, 'scripts', 'generated.mjs')])
}
