// Windows, under wine: the tests of the process crate that are for Windows, and the cases with the addon in Node.js for Windows.
import { cpSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { buildLibrary, environmentFor, trials } from '../release/library.mjs'
import { root as project } from '../step.mjs'
import { cache, quietly } from './cache.mjs'
import { caseOf, placeCases, readCases } from './outcome.mjs'
import { placePackage } from './package.mjs'
import { lacksToolchain, toolchainFor } from './toolchain.mjs'
import { lacksWine, runInWine, windowsNode, windowsPath } from './wine.mjs'

const TARGET = 'x86_64-pc-windows-gnu'

/** A case that has not ended by then is killed. */
const TIMEOUT_MS = 600_000

export const windows = {
  title: 'Windows',
  place: 'under wine',
  how: 'under wine',
  lacks: () => [...lacksToolchain(), ...lacksWine()],
  run() {
    const env = toolchainFor(TARGET)
    const tests = testCases(builtTests(env))
    const { cases, machine } = packageCases(buildLibrary({ target: TARGET, profile: 'dev', env }))
    return { cases: [...tests, ...cases], machine }
  },
}

/** The program of the tests. */
function builtTests(env) {
  console.log(`> building the tests for ${TARGET}`)
  const words = ['test', '--no-run', '--target', TARGET, '--package', 'process', '--test', 'job']
  // As the addon is built, so that both share what they depend on.
  const options = { cwd: project, env: environmentFor(TARGET, env) }
  const messages = quietly(env.CARGO, [...words, '--message-format=json'], options)
    .split('\n')
    .filter(Boolean)
  return messages.map((line) => JSON.parse(line)).findLast(({ executable }) => executable).executable
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

function packageCases(addon) {
  const root = join(cache, 'root-windows')
  rmSync(root, { recursive: true, force: true })
  mkdirSync(root)
  placeCases(root)
  cpSync(join(project, 'examples/agent'), join(root, 'cases/agent'), { recursive: true })
  placePackage(join(root, 'sheepdog'), trials[TARGET], addon)
  const command = [windowsNode(), windowsPath(join(root, 'cases/main.mjs'))]
  const env = { SHEEPDOG_PACKAGE: windowsPath(join(root, 'sheepdog')) }
  const ended = runInWine(command, { timeoutMs: TIMEOUT_MS, env })
  rmSync(root, { recursive: true })
  return readCases(ended)
}
