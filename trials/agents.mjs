// `npm run trial -- agents [NAME|CASE|levels|limits ...]`: tables of cases for all the real agent CLIs, in the exact versions of
// fixtures/agents.mjs, against the carried model server. That of the levels goes to target/trials when all of it ran; the others are
// written by `npm run trial -- agents-check`.
import { agents } from '../fixtures/agents.mjs'
import { cases as turnCases } from '../fixtures/agent-cases.mjs'
import { limitCases } from '../fixtures/agent-limit-cases.mjs'
import { levelCases } from '../fixtures/level-cases.mjs'
import { install, nodeOf } from './agents/install.mjs'
import { rowsOf, runTable } from './agents/run.mjs'
import { fail, prepare } from '../scripts/setup.mjs'
import { writeTable } from './table.mjs'

const groups = { levels: levelCases, limits: limitCases }

const words = process.argv.slice(2).flatMap((word) => (word in groups ? Object.keys(groups[word]) : word))
const every = { ...turnCases, ...limitCases, ...levelCases }
const only = words.filter((word) => word in every)
const cases = Object.fromEntries(
  Object.entries(every).filter(([title]) => only.length === 0 || only.includes(title)),
)
const wanted = words.filter((word) => word in agents)

if (!process.argv.includes('--built')) prepare({ addon: 'any' })
const installed = (wanted.length > 0 ? wanted : Object.keys(agents)).map((name) => {
  const { package: packageName, version, program, node } = agents[name]
  const { bin, problem } = install(name, packageName, version)
  if (problem) fail(`${packageName}@${version} could not be installed: ${problem}`)
  return { name, version, program, bin, node: node && nodeOf(node) }
})
const { results, failures } = await runTable(installed, cases)
const isWhole = Object.values(results).every((words) =>
  Object.keys(levelCases).every((test) => test in words),
)
if (isWhole && installed.length === Object.keys(agents).length)
  writeTable('npm run trial -- agents levels', rowsOf(installed, results, Object.keys(levelCases)))
process.exit(failures === 0 ? 0 : 1)
