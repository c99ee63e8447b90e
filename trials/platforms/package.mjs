// The package in a root: built for tests, or packed and installed as a user gets it.
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { buildLibrary, targets } from '../../scripts/release/library.mjs'
import { fail, root as project, step } from '../../scripts/step.mjs'
import { cache, quietly } from './cache.mjs'
import { toolchainFor } from './toolchain.mjs'

/**
 * Puts the package for a target into a root, and returns its path there.
 * @param {string} root
 * @param {keyof typeof targets} target
 * @param {{isPacked?: boolean}} options isPacked: what `release:build` and `release:pack` make, installed by npm in an empty folder
 * @returns {{folder: string, sizes?: string[]}} sizes: of what is downloaded and of what is installed, both packages together
 */
export function placePackageFor(root, target, { isPacked }) {
  if (isPacked) {
    const { app, sizes } = installed(targets[target])
    cpSync(app, join(root, 'app'), { recursive: true, verbatimSymlinks: true })
    return { folder: '/app/node_modules/sheepdog', sizes }
  }
  const addon = buildLibrary({ target, profile: 'dev', env: toolchainFor(target) })
  placePackage(join(root, 'sheepdog'), targets[target], addon)
  return { folder: '/sheepdog' }
}

/** Puts the package into `folder`, beside an addon that was built for `platform` (`linux-x64-musl`). */
export function placePackage(folder, platform, addon) {
  const { files } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'))
  const code = files.filter((name) => !/[*!]/.test(name) && !/^(docs|man|examples)/.test(name))
  for (const name of ['package.json', 'native/native.js', ...code]) {
    if (existsSync(join(project, name))) cpSync(join(project, name), join(folder, name), { recursive: true })
  }
  mkdirSync(join(folder, 'native'), { recursive: true })
  copyFileSync(addon, join(folder, 'native', `sheepdog.${platform}.node`))
}

/**
 * An empty folder in which npm has installed the tarballs for a platform, and their sizes.
 * @param {string} platform a folder of npm/
 * @param {(words: string[], app: string) => void} npm runs npm in the folder
 */
export function installed(platform, npm = (words, app) => quietly('npm', words, { cwd: app })) {
  const { os, cpu, libc, main } = JSON.parse(
    readFileSync(join(project, 'npm', platform, 'package.json'), 'utf8'),
  )
  if (!existsSync(join(project, 'npm', platform, main)))
    fail(`no addon in npm/${platform}: run \`npm run release:build\` for it first`)
  const tarballs = join(cache, 'tarballs')
  step('packing', process.execPath, [join(project, 'scripts/release/pack.mjs'), tarballs])
  const app = join(cache, `app-${platform}`)
  rmSync(app, { recursive: true, force: true })
  mkdirSync(app)
  const [glue] = readdirSync(tarballs).filter((name) => /^sheepdog-\d.*\.tgz$/.test(name))
  const [own] = readdirSync(tarballs).filter((name) => name.includes(platform) && name.endsWith('.tgz'))
  const files = [glue, own].map((name) => join(tarballs, name))
  // An optional dependency, as it is in a registry: npm takes one for another processor only so.
  const dependencies = { sheepdog: `file:../tarballs/${glue}` }
  const optionalDependencies = { [`sheepdog-${platform}`]: `file:../tarballs/${own}` }
  const manifest = { private: true, dependencies, optionalDependencies }
  writeFileSync(join(app, 'package.json'), `${JSON.stringify(manifest)}\n`)
  // Offline: no registry is asked for the other platforms, which are in none.
  const words = ['install', '--offline', '--no-audit', '--no-fund', '--loglevel=error']
  npm([...words, `--os=${os}`, `--cpu=${cpu}`, ...(libc ? [`--libc=${libc}`] : [])], app)
  const onDisk = readdirSync(join(app, 'node_modules'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
  return { app, sizes: [files, onDisk].map(megabytes) }
}

const megabytes = (files) =>
  `${(files.reduce((sum, file) => sum + statSync(file).size, 0) / 1e6).toFixed(1)} MB`
