// Windows, under wine: the tests of the process crate that are for Windows, and the cases with the addon in Node.js for Windows.
import { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildLibrary, cargo, targets } from '../../scripts/release/library.mjs'
import { fail, root as project } from '../../scripts/step.mjs'
import { cache } from './cache.mjs'
import { npmShim } from './inside/shim.mjs'
import { caseOf, placeCases, readCases } from './outcome.mjs'
import { installed, placePackage } from './package.mjs'
import { withServers } from './servers.mjs'
import { lacksToolchain, toolchainFor } from './toolchain.mjs'
import { lacksWine, runInWine, windowsNode, windowsNpm, windowsPath } from './wine.mjs'

const TARGET = 'x86_64-pc-windows-gnu'

/** The scripts of agent CLIs that are among the packages of this project. */
const agents = {
  qwen: 'node_modules\\@qwen-code\\qwen-code\\cli-entry.js',
  pi: 'node_modules\\@mariozechner\\pi-coding-agent\\dist\\cli.js',
}

/** A case that has not ended by then is killed. */
const TIMEOUT_MS = 600_000

export const windows = {
  title: targets[TARGET],
  place: 'under wine',
  how: 'under wine',
  hasPackage: true,
  lacks: () => [...lacksToolchain(), ...lacksWine()],
  async run({ isPacked }) {
    if (isPacked) return withServers(installedCases)
    const env = toolchainFor(TARGET)
    const tests = testCases(builtTests(env))
    const addon = buildLibrary({ target: TARGET, profile: 'dev', env })
    const { cases, machine } = await withServers((servers) => packageCases(addon, servers))
    return { cases: [...tests, ...cases], machine }
  },
}

/** The program of the tests. */
function builtTests(env) {
  const words = ['test', '--no-run', '--target', TARGET, '--package', 'process', '--test', 'job']
  const messages = cargo(`building the tests for ${TARGET}`, words, { target: TARGET, env })
  return messages.findLast(({ executable }) => executable).executable
}

function testCases(program) {
  const { output, status, end } = runInWine([program, '--test-threads=2'], { timeoutMs: TIMEOUT_MS })
  const cases = [...output.matchAll(/^test (\w+) \.\.\. (\w+)\r?$/gm)]
    .filter(([, name]) => name !== 'plays_its_role')
    .map(([, name, end]) =>
      caseOf({ area: 'trees', name: `core: ${name.replaceAll('_', ' ')}`, isGood: end === 'ok' }),
    )
  const note = `${end}; ${output.slice(-4000)}`
  if (status !== 0 || cases.length === 0)
    cases.push(caseOf({ area: 'trees', name: 'core: all tests are run', isGood: false, note }))
  return cases
}

/** The cases with an addon that was built for them. */
function packageCases(addon, servers) {
  const root = freshRoot()
  placePackage(join(root, 'sheepdog'), targets[TARGET], addon)
  const ended = runCases(root, join(root, 'sheepdog'), servers)
  rmSync(root, { recursive: true })
  return readCases(ended)
}

/** The cases with the package that npm for Windows installs. */
function installedCases(servers) {
  const root = freshRoot()
  const { app, sizes } = installed(targets[TARGET], (words, app) => {
    const command = [windowsNode(), windowsPath(windowsNpm()), ...words]
    const { output, status, end } = runInWine(command, {
      timeoutMs: TIMEOUT_MS,
      env: { npm_config_cache: windowsPath(join(root, 'npm')) },
      cwd: app,
    })
    if (status !== 0) fail(`npm failed under wine: ${end}\n${output}`)
  })
  const ended = runCases(root, join(app, 'node_modules/sheepdog'), servers)
  rmSync(root, { recursive: true })
  return { ...readCases(ended), sizes }
}

function freshRoot() {
  const root = join(cache, 'root-windows')
  rmSync(root, { recursive: true, force: true })
  mkdirSync(root)
  placeCases(root)
  cpSync(join(project, 'examples/agent'), join(root, 'cases/agent'), { recursive: true })
  cpSync(join(project, 'fixtures/acp'), join(root, 'cases/acp'), { recursive: true })
  // Real CLIs behind their batch files, as npm installs them.
  mkdirSync(join(root, 'agents'))
  symlinkSync(join(project, 'node_modules'), join(root, 'agents/node_modules'))
  for (const [name, script] of Object.entries(agents))
    writeFileSync(join(root, 'agents', `${name}.cmd`), npmShim(script))
  return root
}

function runCases(root, folder, servers) {
  const command = [windowsNode(), windowsPath(join(root, 'cases/main.mjs'))]
  const env = {
    SHEEPDOG_PACKAGE: windowsPath(folder),
    SHEEPDOG_AGENTS: windowsPath(join(root, 'agents')),
    ...servers,
  }
  return runInWine(command, { timeoutMs: TIMEOUT_MS, env })
}
