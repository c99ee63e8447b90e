// `npm run test:agents [-- NAME|CASE|levels|limits ...]`: tables of cases for all the real agent CLIs, in the exact versions of
// fixtures/agents.mjs, against the carried model server. A table goes to docs/agents.md when all of it ran.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { agents } from '../fixtures/agents.mjs'
import { cases as turnCases } from '../fixtures/agent-cases.mjs'
import { limitCases } from '../fixtures/agent-limit-cases.mjs'
import { levelCases } from '../fixtures/level-cases.mjs'
import { install, nodeOf } from './agents/install.mjs'
import { runTable } from './agents/table.mjs'
import { fail, prepare, root } from './setup.mjs'

/** The tables of docs/agents.md; each is written when all its cases ran with all agents. */
const tables = {
  'npm run test:agents': turnCases,
  'npm run test:agents -- limits': limitCases,
  'npm run test:agents -- levels': levelCases,
}
const groups = { levels: levelCases, limits: limitCases }

const words = process.argv.slice(2).flatMap((word) => (word in groups ? Object.keys(groups[word]) : word))
const every = { ...turnCases, ...limitCases, ...levelCases }
const only = words.filter((word) => word in every)
const cases = Object.fromEntries(
  Object.entries(every).filter(([title]) => only.length === 0 || only.includes(title)),
)
const wanted = words.filter((word) => word in agents)

function writeTable(results, name, tests) {
  const file = join(root, 'docs', 'agents.md')
  const begin = `<!-- table: ${name} -->`
  const end = '<!-- end of table -->'
  const text = readFileSync(file, 'utf8')
  const [before, rest] = text.split(begin)
  const after = rest?.slice(rest.indexOf(end) + end.length)
  if (after === undefined) fail('docs/agents.md has lost the marks of its table')
  const names = Object.keys(results)
  const titles = names.map((name) => `${name} ${agents[name].version}`)
  const rows = Object.keys(tests).map(
    (test) => `| ${test} | ${names.map((name) => results[name][test]).join(' | ')} |`,
  )
  const table = [`| case | ${titles.join(' | ')} |`, `|---|${'---|'.repeat(names.length)}`, ...rows].join(
    '\n',
  )
  writeFileSync(file, `${before}${begin}\n${table}\n${end}${after}`)
}

if (!process.argv.includes('--built')) prepare({ addon: 'any' })
const installed = (wanted.length > 0 ? wanted : Object.keys(agents)).map((name) => {
  const { package: packageName, version, program, node } = agents[name]
  const { bin, problem } = install(name, packageName, version)
  if (problem) fail(`${packageName}@${version} could not be installed: ${problem}`)
  return { name, version, program, bin, node: node && nodeOf(node) }
})
const { results, failures } = await runTable(installed, cases)
for (const [name, tests] of Object.entries(tables)) {
  const ran = Object.values(results).every((words) => Object.keys(tests).every((test) => test in words))
  if (ran && installed.length === Object.keys(agents).length) writeTable(results, name, tests)
}
process.exit(failures === 0 ? 0 : 1)
