// `npm run agents:check [-- NAME ...] [--write]`: the newest of every agent CLI, as npm has it today, through the tables of cases of
// `npm run test:agents`. Prints what is new against fixtures/agents-seen.json, which holds what was seen last: versions, and the word
// of every case. `--write` makes today that. The exit status is 1 when a case came out otherwise or failed.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { agents } from '../fixtures/agents.mjs'
import { cases as turnCases } from '../fixtures/agent-cases.mjs'
import { limitCases } from '../fixtures/agent-limit-cases.mjs'
import { installNewest, nodeOf } from './agents/install.mjs'
import { runTable } from './agents/table.mjs'
import { changes } from './agents/change.mjs'
import { prepare, root } from './setup.mjs'

const file = join(root, 'fixtures', 'agents-seen.json')
const words = process.argv.slice(2)
const names = words.filter((word) => word in agents)
const cases = { ...turnCases, ...limitCases }
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
  installed.map(({ name, version }) => [name, { version, cases: results[name] }]),
)
const news = changes(seen, now)
console.log(`\n${news.length > 0 ? news.join('\n') : 'Nothing has changed.'}`)
if (words.includes('--write')) writeFileSync(file, `${JSON.stringify({ ...seen, ...now }, null, 2)}\n`)
process.exit(failures > 0 || news.some((line) => line.startsWith('!')) ? 1 : 0)
