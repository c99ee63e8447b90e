// Platforms that have a package of their own: each in a root with its C library, Node.js, busybox and the package. Natively, or in a
// virtual machine where the processor is another.
import { copyFileSync, cpSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { lacksChroot, runInRoot } from './chroot.mjs'
import { unpacked } from './debian.mjs'
import { kernel, runInMachine } from './machine.mjs'
import { caseCommand, placeCases, readCases } from './outcome.mjs'
import { placePackageFor } from './package.mjs'
import { freshRoot, placeWheel } from './root.mjs'
import { placeSpecs, readSpecs, specCommand } from './specs.mjs'
import { lacksToolchain } from './toolchain.mjs'
import { nodeFor } from './wheels.mjs'

/** By Node.js's names of the processors: the names that Rust and Debian have for them. */
const processors = {
  x64: { rust: 'x86_64', architecture: 'amd64' },
  arm64: { rust: 'aarch64', architecture: 'arm64' },
}

const libraries = {
  gnu: { package: 'glibc', wheel: 'manylinux_2_28', place: placeGlibc },
  musl: { package: 'musl', wheel: 'musllinux_1_2', place: placeMusl },
}

/**
 * @param {keyof typeof processors} cpu
 * @param {keyof typeof libraries} libc
 */
export function packagePart(cpu, libc) {
  const { rust, architecture } = processors[cpu]
  const target = `${rust}-unknown-linux-${libc}`
  const isNative = cpu === 'x64'
  return {
    title: `linux-${cpu}-${libc}`,
    place: isNative ? 'natively' : 'in a VM',
    how: `${isNative ? 'natively' : 'in a VM with the kernel of Debian bookworm'}, in a root with ${libraries[libc].package}, Node.js and busybox`,
    hasPackage: true,
    lacks: () => [...lacksToolchain(), ...(isNative ? lacksChroot() : [])],
    async run({ isPacked }) {
      const root = freshRoot(`root-${cpu}-${libc}`, architecture)
      libraries[libc].place(root, rust, architecture)
      placeWheel(root, nodeFor(`${cpu}-${libc}`, `${libraries[libc].wheel}_${rust}`))
      placeCases(root)
      const { folder, sizes } = placePackageFor(root, target, { isPacked })
      if (!isPacked) placeSpecs(join(root, folder), { os: 'linux', cpu, libc: libraries[libc].package })
      // The specs lie beside the package's sources, which an installed one has not.
      const command = [caseCommand(folder), ...(isPacked ? [] : [specCommand(folder)])].join('\n')
      const ended = await (isNative
        ? runInRoot(root, ['/bin/sh', '-c', command], { PATH: '/bin', HOME: '/', TMPDIR: '/tmp' })
        : runInMachine({
            image: kernel('bookworm', architecture),
            root,
            command,
            architecture,
            memory: 4000,
          }))
      rmSync(root, { recursive: true })
      const { cases, machine } = readCases(ended)
      return { cases: isPacked ? cases : [...cases, ...readSpecs(ended)], machine, sizes }
    },
  }
}

function placeGlibc(root, rust, architecture) {
  const packages = ['libc6', 'libgcc-s1', 'libstdc++6']
  const folder = unpacked(`glibc-${architecture}`, { suite: 'bookworm', architecture, packages })
  for (const library of ['lib', 'usr/lib']) {
    const place = join(library, `${rust}-linux-gnu`)
    cpSync(join(folder, place), join(root, place), { recursive: true, verbatimSymlinks: true })
  }
  // The loader is a link from the only place where programs look for it.
  for (const name of readdirSync(join(folder, 'lib')).filter((name) => name.startsWith('ld-linux')))
    symlinkSync(`${rust}-linux-gnu/${name}`, join(root, 'lib', name))
}

function placeMusl(root, rust, architecture) {
  // The loader of bookworm does not know the compact relocations that zig writes.
  const folder = unpacked(`musl-${architecture}`, { suite: 'trixie', architecture, packages: ['musl'] })
  copyFileSync(join(folder, `usr/lib/${rust}-linux-musl/libc.so`), join(root, `lib/ld-musl-${rust}.so.1`))
  symlinkSync(`ld-musl-${rust}.so.1`, join(root, 'lib/libc.so'))
}
