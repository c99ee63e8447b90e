// Windows, under wine: the tests of the process crate that are for Windows. The addon itself does not compile there yet.
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root as project } from '../step.mjs'
import { has, once, quietly } from './cache.mjs'
import { caseOf } from './outcome.mjs'
import { basicEnvironment, lacksToolchain } from './toolchain.mjs'

const TARGET = 'x86_64-pc-windows-gnu'
const GCC = 'x86_64-w64-mingw32-gcc-posix'
/** Debian puts the program where no PATH leads. */
const wine = () => ['/usr/lib/wine/wine64', 'wine64'].find((program) => has(program, '--version'))

/** A test run that has not ended by then is killed. */
const TIMEOUT_MS = 600_000

export const windows = {
  title: 'Windows',
  place: 'the core alone, under wine',
  how: 'the core alone, under wine',
  lacks: () => [
    ...lacksToolchain(),
    ...(wine() ? [] : ['wine64']),
    ...(has(GCC, '--version') ? [] : ['gcc-mingw-w64-x86-64-posix']),
  ],
  run() {
    const program = builtTests()
    const ended = spawnSync(wine(), [program, '--test-threads=2'], {
      env: wineEnvironment(),
      encoding: 'utf8',
      maxBuffer: 1e9,
      timeout: TIMEOUT_MS,
    })
    const tests = [...ended.stdout.matchAll(/^test (\w+) \.\.\. (\w+)\r?$/gm)]
    const cases = tests
      .filter(([, name]) => name !== 'plays_its_role')
      .map(([, name, end]) =>
        caseOf({ area: 'trees', name: name.replaceAll('_', ' '), isGood: end === 'ok' }),
      )
    const isWhole = ended.status === 0 && cases.length > 0
    const note = `${ended.error?.message ?? ended.signal ?? `exit status ${ended.status}`}; ${ended.stdout.slice(-4000)}`
    if (!isWhole) cases.push(caseOf({ area: 'trees', name: 'all tests are run', isGood: false, note }))
    return { cases }
  },
}

/** The program of the tests. Debian has no standard library for Windows; it is built from Debian's source. */
function builtTests() {
  console.log(`> building the tests for ${TARGET}`)
  const env = {
    ...basicEnvironment(),
    RUSTC_BOOTSTRAP: '1',
    CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER: GCC,
  }
  const words = ['test', '--no-run', '-Zbuild-std=std,panic_unwind,test', '--target', TARGET]
  const tests = ['--package', 'process', '--test', 'job', '--message-format=json']
  const messages = quietly(env.CARGO, [...words, ...tests], { cwd: project, env })
    .split('\n')
    .filter(Boolean)
  return messages.map((line) => JSON.parse(line)).findLast(({ executable }) => executable).executable
}

/** A Windows of its own. Wine 8 lacks the library in which Rust looks for random numbers; one of four lines stands in. */
function wineEnvironment() {
  const source =
    '#include <windows.h>\nBOOLEAN NTAPI SystemFunction036(PVOID, ULONG);\n__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {\n  return SystemFunction036(data, (ULONG)length);\n}\n'
  const folder = once('wine', { source }, (folder) => {
    const library = join(folder, 'bcryptprimitives.dll')
    writeFileSync(join(folder, 'random.c'), source)
    quietly(GCC, ['-shared', '-o', library, join(folder, 'random.c'), '-ladvapi32'])
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
