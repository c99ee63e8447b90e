// `npm run trial -- agents-check [-- NAME|CASE ...] [--write]`: the newest of every agent CLI, as npm has it today, through the tables of cases of
// `npm run trial -- agents`. Prints what is new against fixtures/agents-seen.json, which holds what was seen last: versions, and the word
// of every case. `--write` makes today that, and the tables in target/trials. The exit status is 1 when a case came out otherwise or failed.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { agents } from '../fixtures/agents.mjs'
import { cases as turnCases } from '../fixtures/agent-cases.mjs'
import { limitCases } from '../fixtures/agent-limit-cases.mjs'
import { installNewest, nodeOf } from './agents/install.mjs'
import { rowsOf, runTable } from './agents/run.mjs'
import { changes } from './agents/change.mjs'
import { prepare, root } from '../scripts/setup.mjs'
import { writeTable } from './table.mjs'

const file = join(root, 'fixtures', 'agents-seen.json')
const words = process.argv.slice(2)
const names = words.filter((word) => word in agents)
const every = { ...turnCases, ...limitCases }
const only = words.filter((word) => word in every)
const cases = Object.fromEntries(
  Object.entries(every).filter(([title]) => only.length === 0 || only.includes(title)),
)
/** Of those whose packages ask for a newer one than this. */
const NODE = 22

if (!words.includes('--built')) prepare({ addon: 'any' })
const found = (names.length > 0 ? names : Object.keys(agents)).map((name) => {
  const { package: packageName, program, newest } = agents[name]
  return { name, program, ...installNewest(name, newest ?? packageName) }
})
for (const { name, problems } of found)
  for (const problem of problems) console.log(`${name}: npm can't install ${problem}`)
const installed = found.filter(({ bin }) => bin)
// Each is run by a node that all of them take: what npm gives to a user of that node is what is asked about.
for (const agent of installed) agent.node = nodeOf(NODE)

const seen = JSON.parse(readFileSync(file, 'utf8'))
const { results, failures } = await runTable(installed, cases)
const now = Object.fromEntries(
  installed.map(({ name, version }) => {
    // Of the cases that were not asked for, what was seen of the same version.
    const others = only.length > 0 && seen[name]?.version === version ? seen[name].cases : {}
    return [name, { version, cases: { ...others, ...results[name] } }]
  }),
)
const news = changes(seen, now)
console.log(`\n${news.length > 0 ? news.join('\n') : 'Nothing has changed.'}`)
if (words.includes('--write')) {
  const all = { ...seen, ...now }
  writeFileSync(file, `${JSON.stringify(all, null, 2)}\n`)
  const columns = Object.keys(agents)
    .filter((name) => name in all)
    .map((name) => ({ name, version: all[name].version }))
  const results = Object.fromEntries(columns.map(({ name }) => [name, all[name].cases]))
  for (const [name, titles] of [
    ['npm run trial -- agents-check', Object.keys(turnCases)],
    ['npm run trial -- agents-check, a long day', Object.keys(limitCases)],
  ])
    writeTable(name, rowsOf(columns, results, titles))
}
process.exit(failures > 0 || news.some((line) => line.startsWith('!')) ? 1 : 0)
