// The package's own specs on a platform: vitest of that platform, which npm brings, and the specs that need neither a network nor an agent.
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root as project } from '../../scripts/step.mjs'
import { once, quietly } from './cache.mjs'
import { caseOf, linesOf } from './outcome.mjs'

/** Packages that the specs import, at the versions of package.json. */
const needed = ['vitest', 'zod', 'valibot', '@valibot/to-json-schema', 'arktype', '@opentelemetry/api']

/** File names of __test__, without ".spec.ts". Not those that need more than busybox: process-output takes the date of GNU. */
const names = [
  'abort',
  'deadline',
  'hint',
  'line',
  'process',
  'process-everyday',
  'process-lines',
  'process-stdin',
  'record',
  'sandbox',
  'sandbox-host-files',
  'tree',
  'wrong-calls',
]

/**
 * Puts the specs, and all that they need, beside the package in `folder`.
 * @param {string} folder it has the package (`placePackage`)
 * @param {{os: string, cpu: string, libc: string}} platform
 */
export function placeSpecs(folder, platform) {
  const { devDependencies } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'))
  const dependencies = Object.fromEntries(needed.map((name) => [name, devDependencies[name]]))
  const key = `vitest-${platform.os}-${platform.cpu}-${platform.libc}`
  const tools = once(key, dependencies, (place) => {
    writeFileSync(join(place, 'package.json'), JSON.stringify({ private: true, dependencies }))
    const words = Object.entries(platform).map(([name, value]) => `--${name}=${value}`)
    quietly('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error', ...words], { cwd: place })
  })
  cpSync(join(tools, 'node_modules'), join(folder, 'node_modules'), {
    recursive: true,
    verbatimSymlinks: true,
  })
  for (const name of ['__test__', 'fixtures', 'lib', 'cli', 'examples', 'vitest.config.mts', 'tsconfig.json'])
    cpSync(join(project, name), join(folder, name), { recursive: true })
}

const REPORT = '/specs.json'

/** The shell's commands that run them and print the report, in a line of its own. `folder` is the package's. */
export function specCommand(folder) {
  const vitest = `node ${folder}/node_modules/vitest/vitest.mjs run --root ${folder} --reporter=json --outputFile=${REPORT}`
  return `${vitest} ${names.map((name) => `__test__/${name}.spec.ts`).join(' ')}\necho; echo "REPORT $(cat ${REPORT})"`
}

/**
 * One case for each spec.
 * @param {{output: string, end: string}} ended
 */
export function readSpecs({ output, end }) {
  const broken = (note) => caseOf({ area: 'tests', name: 'specs', isGood: false, note })
  const [report] = linesOf(output, 'REPORT')
  if (!report) return [broken(`${end}; ${output.slice(-2000)}`)]
  const { testResults } = report
  // A name that no file has would otherwise be a spec that passes.
  const missing = names.length - testResults.length
  return [...testResults.map(specCase), ...(missing > 0 ? [broken(`${missing} were not found`)] : [])]
}

function specCase({ name, status, message, assertionResults, startTime, endTime }) {
  const count = (state) => assertionResults.filter((test) => test.status === state).length
  const failed = assertionResults.filter((test) => test.status === 'failed')
  const notes = failed.map((test) => `${test.fullName}: ${test.failureMessages.join(' ').slice(0, 400)}`)
  const passed = count('passed')
  const sums = `${passed} tests, ${count('skipped') + count('pending')} left out`
  return caseOf({
    area: 'tests',
    name: `spec ${name.replace(/.*\/|\.spec\.ts$/g, '')}`,
    isGood: status === 'passed' && passed > 0,
    note: [sums, message, ...notes].filter(Boolean).join('\n  '),
    ms: endTime - startTime,
    tests: passed,
  })
}
