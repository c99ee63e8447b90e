// linux-x64-musl, run natively: a root that has only musl, Node.js, busybox and the package.
import { copyFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { lacksChroot, runInRoot } from './chroot.mjs'
import { unpacked } from './debian.mjs'
import { placeCases, readCases } from './outcome.mjs'
import { placePackageFor } from './package.mjs'
import { freshRoot, placeWheel } from './root.mjs'
import { placeSpecs, readSpecs, specCommand } from './specs.mjs'
import { lacksToolchain } from './toolchain.mjs'
import { nodeFor } from './wheels.mjs'

const REPORT = '/specs.json'
const TARGET = 'x86_64-unknown-linux-musl'

export const musl = {
  title: 'linux-x64-musl',
  place: 'natively',
  how: 'natively, in a root with musl, Node.js and busybox',
  lacks: () => [...lacksToolchain(), ...lacksChroot()],
  async run(options) {
    const root = muslRoot()
    const folder = placePackageFor(root, TARGET, options)
    placeCases(root)
    const env = { PATH: '/bin', HOME: '/', TMPDIR: '/tmp', SHEEPDOG_PACKAGE: folder }
    const outcome = readCases(runInRoot(root, ['node', '/cases/main.mjs'], env))
    // The specs lie beside the package's sources.
    if (options.isPacked) return outcome
    placeSpecs(join(root, 'sheepdog'), { os: 'linux', cpu: 'x64', libc: 'musl' })
    const ended = runInRoot(root, specCommand(folder, REPORT), env)
    return { ...outcome, cases: [...outcome.cases, ...readSpecs(join(root, REPORT), ended)] }
  },
}

function muslRoot() {
  const root = freshRoot('root-x64-musl', 'amd64')
  // The loader of bookworm does not know the compact relocations that zig writes.
  const libc = unpacked('musl', { suite: 'trixie', packages: ['musl'] })
  copyFileSync(join(libc, 'usr/lib/x86_64-linux-musl/libc.so'), join(root, 'lib/ld-musl-x86_64.so.1'))
  symlinkSync('ld-musl-x86_64.so.1', join(root, 'lib/libc.so'))
  placeWheel(root, nodeFor('x64-musl', 'musllinux_1_2_x86_64'))
  return root
}
