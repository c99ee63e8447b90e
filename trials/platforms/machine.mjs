// A virtual machine whose whole disk is a folder: a Debian kernel, and the folder as its first root. The machine runs one command, and
// what it prints is the console's text.
import { spawn } from 'node:child_process'
import { chmodSync, copyFileSync, openSync, readdirSync, rmSync, writeFileSync, closeSync } from 'node:fs'
import { join } from 'node:path'
import { once, quietly } from './cache.mjs'
import { dependency, unpacked } from './debian.mjs'
import { busybox } from './root.mjs'

/**
 * The machines, by Debian's name of their processor. They are emulated everywhere, also where there is KVM: so each gives the same
 * result.
 */
const machines = {
  amd64: {
    packages: ['qemu-system-x86', 'seabios'],
    program: 'qemu-system-x86_64',
    // By one thread: with one for each processor, a kernel that rewrites its own code while it starts panicked once in about eight
    // starts.
    words: '-cpu max -accel tcg,thread=single',
    console: 'ttyS0',
  },
  arm64: {
    packages: ['qemu-system-arm'],
    program: 'qemu-system-aarch64',
    words: '-M virt -cpu cortex-a72 -accel tcg,thread=multi',
    console: 'ttyAMA0',
  },
}

/** A machine that has not ended by then is killed. */
const TIMEOUT_MS = 1_500_000

/** The image of a suite's kernel of today. */
export function kernel(suite, architecture = 'amd64') {
  const meta = `linux-image-cloud-${architecture}`
  const folder = once(`kernel-${suite}-${architecture}`, { suite, meta }, (folder) => {
    const name = dependency(suite, architecture, meta, /^linux-image-\d/)
    const parts = unpacked(`${name}.parts`, { suite, architecture, packages: [name] })
    const [image] = readdirSync(join(parts, 'boot')).filter((name) => name.startsWith('vmlinuz-'))
    quietly('cp', [join(parts, 'boot', image), join(folder, 'vmlinuz')])
    rmSync(parts, { recursive: true })
    rmSync(`${parts}.made`)
  })
  return join(folder, 'vmlinuz')
}

/**
 * Starts a machine, and resolves with its console's text when it has powered off.
 * @param {{image: string, root: string, command: string, architecture?: keyof typeof machines, memory?: number}} options
 * root: with a /bin/sh; command: for that shell
 */
export async function runInMachine({ image, root, command, architecture = 'amd64', memory = 2500 }) {
  const machine = machines[architecture]
  writeFileSync(join(root, 'command'), `${command}\n`)
  writeFileSync(join(root, 'init'), startup(machine.console))
  copyFileSync(busybox(architecture), join(root, 'bin/busybox'))
  chmodSync(join(root, 'init'), 0o755)
  const initrd = `${root}.initrd`
  packed(root, initrd)
  const kernelWords = `console=${machine.console} rdinit=/init lsm=landlock,yama quiet panic=-1`
  const files = ['-kernel', image, '-initrd', initrd, '-append', kernelWords]
  const ended = await emulated(machine, ['-m', `${memory}`, ...files])
  rmSync(initrd)
  return ended
}

const always = '-smp 2 -nodefaults -display none -serial stdio -no-reboot'.split(' ')

function emulated({ packages, program, words: own }, words) {
  const root = unpacked(packages[0], { suite: 'bookworm', packages, closure: true })
  const libraries = join(root, 'usr/lib/x86_64-linux-gnu')
  const firmware = ['qemu', 'seabios'].flatMap((name) => ['-L', join(root, 'usr/share', name)])
  // With its own loader and libraries: it need not fit this machine.
  const start = [
    '--library-path',
    `${libraries}:${join(root, 'lib/x86_64-linux-gnu')}`,
    join(root, 'usr/bin', program),
  ]
  return new Promise((resolve) => {
    const child = spawn(
      join(root, 'lib64/ld-linux-x86-64.so.2'),
      [...start, ...firmware, ...own.split(' '), ...always, ...words],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
        env: { ...process.env, QEMU_MODULE_DIR: join(libraries, 'qemu') },
        timeout: TIMEOUT_MS,
        killSignal: 'SIGKILL',
      },
    )
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text) => (output += text))
    child.once('error', ({ message }) => resolve({ output, end: message }))
    child.once('close', (status, signal) => resolve({ output, end: signal ?? `exit status ${status}` }))
  })
}

const startup = (console) => `#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ TMPDIR=/tmp
alias box=/bin/busybox
box mkdir -p /proc /sys /dev /tmp
box mount -t proc none /proc
box mount -t sysfs none /sys
box mount -t devtmpfs none /dev
box mkdir -p /dev/pts /dev/shm
box mount -t devpts none /dev/pts
box mount -t tmpfs none /dev/shm
box mount -t tmpfs none /tmp
box mount -t securityfs none /sys/kernel/security
box ip link set lo up
box setsid /bin/sh /command < /dev/null > /dev/${console} 2>&1
echo "ENDED $?"
box poweroff -f
`

/** The folder as an archive for the kernel. */
function packed(root, file) {
  const target = openSync(file, 'w')
  const pipeline = 'cd "$0" && find . | "$1" cpio -o -H newc 2>/dev/null | gzip -1'
  quietly('sh', ['-c', pipeline, root, busybox('amd64')], { stdio: ['ignore', target, 'inherit'] })
  closeSync(target)
}
