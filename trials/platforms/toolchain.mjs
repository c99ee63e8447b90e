// A Rust that builds for other platforms: Debian's, with zig as the linker and the C compiler. rustup is not needed. Debian has the
// standard library for other processors, but none for musl and Windows; those are built from Debian's source.
import { chmodSync, copyFileSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { flagsFor } from '../../scripts/release/library.mjs'
import { cache, has, once, quietly } from './cache.mjs'
import { lacksDebian, unpacked } from './debian.mjs'
import { lacksPip, zig, zigbuild } from './wheels.mjs'

const SUITE = 'bookworm'
const compiler = [
  'rustc-web',
  'cargo-web',
  'libstd-rust-web-1.96',
  'libstd-rust-web-dev',
  'rust-web-src',
  'libllvm22',
  'libgit2-1.5',
  'libhttp-parser2.9',
  'libmbedcrypto7',
  'libmbedtls14',
  'libmbedx509-1',
  'libssh2-1',
]
// Build scripts are for this machine, and are linked by its own compiler.
export const lacksToolchain = () => [
  ...lacksDebian(),
  ...lacksPip(),
  ...(has('cc', '--version') ? [] : ['cc (a C compiler)']),
]

/** Debian's name of a processor whose standard library it has. */
const architectures = { x86_64: 'amd64', aarch64: 'arm64' }

/** The C compiler and linker for Windows; zig's has no part of what Rust links with there. */
export const WINDOWS_GCC = 'x86_64-w64-mingw32-gcc-posix'

/**
 * The environment in which `cargo zigbuild --target TARGET` works, or `cargo build` for Windows. A standard library that Debian does
 * not have is built first.
 * @param {string} target of Linux or Windows
 */
export function toolchainFor(target) {
  const env = basicEnvironment()
  const architecture = architectures[target.split('-')[0]]
  Object.assign(env, linkingFor(target))
  if (!target.includes('-linux-gnu')) addLibrary(target, builtLibrary(target, env))
  // That of this machine came with the compiler.
  else if (architecture !== 'amd64') addLibrary(target, debianLibrary(target, architecture))
  return env
}

/** Variables that cargo needs besides to link for Windows; none for other targets. */
export function linkingFor(target) {
  if (!target.includes('windows')) return {}
  const linker = `CARGO_TARGET_${target.toUpperCase().replaceAll('-', '_')}_LINKER`
  return { [linker]: WINDOWS_GCC, LIBNODE_PATH: nodeLibrary() }
}

const rustRoot = () => unpacked('rust', { suite: SUITE, packages: compiler })
const rustLibraries = () => join(rustRoot(), 'usr/lib/rustlib')

/** The environment in which `cargo` works, for this machine and for targets whose standard library it builds. */
export function basicEnvironment() {
  const root = rustRoot()
  const wrapped = (name) =>
    `LD_LIBRARY_PATH='${root}/usr/lib/x86_64-linux-gnu' exec '${root}/usr/bin/${name}' "$@"`
  const scripts = {
    cargo: wrapped('cargo'),
    rustc: wrapped('rustc'),
    zig: `exec '${zig()}' "$@"`,
    'cargo-zigbuild': `exec '${zigbuild()}' "$@"`,
    // Debian's Rust comes without it, and the guard is linked with it. zig's is of one flavor.
    'rust-lld': `[ "$1" = -flavor ] && shift 2\nexec '${zig()}' ld.lld "$@"`,
  }
  const programs = once('programs', scripts, (folder) => {
    for (const [name, script] of Object.entries(scripts)) write(folder, name, script)
  })
  const { RUSTUP_TOOLCHAIN: _, RUSTFLAGS: __, ...inherited } = process.env
  return {
    ...inherited,
    PATH: `${programs}${delimiter}${process.env.PATH}`,
    CARGO: join(programs, 'cargo'),
    RUSTC: join(programs, 'rustc'),
    CARGO_ZIGBUILD_ZIG_PATH: join(programs, 'zig'),
    CARGO_TARGET_DIR: join(cache, 'target'),
    // Line tables are half of a debug build, and tests here need none.
    CARGO_PROFILE_DEV_DEBUG: 'false',
    CARGO_INCREMENTAL: '0',
  }
}

/** The folder of Debian's standard library for another processor. It must be of the compiler's version. */
function debianLibrary(target, architecture) {
  const packages = ['libstd-rust-web-dev']
  const folder = unpacked(`rust-${target}`, { suite: SUITE, architecture, packages })
  return join(folder, 'usr/lib/rustlib', target)
}

/** The parts of std that are built; `test` is for the tests of Windows. */
const parts = 'std,panic_unwind,panic_abort,test'

/** Builds std with the bitcode that link-time optimisation needs, also the guard's, and returns its folder. */
function builtLibrary(target, env) {
  const flags = [...flagsFor(target), '-Cembed-bitcode=yes']
  return once(`rust-${target}`, { compiler, target, flags, parts }, (folder) => {
    mkdirSync(join(folder, 'src'))
    writeFileSync(
      join(folder, 'Cargo.toml'),
      '[package]\nname = "only_std"\nversion = "0.0.0"\nedition = "2024"\n[profile.release]\npanic = "unwind"\n[workspace]\n',
    )
    writeFileSync(join(folder, 'src/lib.rs'), '')
    quietly('cargo', ['build', '--release', `-Zbuild-std=${parts}`, '--target', target], {
      cwd: folder,
      env: {
        ...env,
        RUSTC_BOOTSTRAP: '1',
        CARGO_TARGET_DIR: join(folder, 'target'),
        CARGO_ENCODED_RUSTFLAGS: flags.join('\x1f'),
      },
    })
    const built = join(folder, 'target', target, 'release/deps')
    mkdirSync(join(folder, 'lib'))
    for (const name of readdirSync(built).filter((name) => name.endsWith('.rlib') && !/only_std/.test(name)))
      copyFileSync(join(built, name), join(folder, 'lib', name))
    rmSync(join(folder, 'target'), { recursive: true })
  })
}

/** A library without content. napi wants one of Node.js to link with, and then looks for the names in the program itself. */
function nodeLibrary() {
  return once('libnode', WINDOWS_GCC, (folder) => {
    writeFileSync(join(folder, 'empty.c'), '')
    quietly(WINDOWS_GCC, ['-shared', '-o', join(folder, 'libnode.dll'), join(folder, 'empty.c')])
  })
}

/** Makes a standard library known to the compiler, which looks in one place only. */
function addLibrary(target, folder) {
  const place = join(rustLibraries(), target)
  rmSync(place, { recursive: true, force: true })
  symlinkSync(folder, place)
}

function write(folder, name, command) {
  const file = join(folder, name)
  writeFileSync(file, `#!/bin/sh\n${command}\n`)
  chmodSync(file, 0o755)
}
