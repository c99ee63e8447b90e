// `npm run trial -- agents [NAME|CASE|turns|limits|levels ...]`: tables of cases for all the real agent CLIs, in the exact versions of
// fixtures/agents.mjs, against the carried model server. A table goes to target/trials when all of it ran.
// `--newest [--write]`: turns and limits with the newest of every CLI, as npm has it today. Prints what is new against
// fixtures/agents-seen.json, which holds what was seen last: versions, and the word of every case. `--write` makes today that. The
// exit status is 1 when a case came out otherwise or failed.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { agents } from '../fixtures/agents.mjs'
import { cases as turnCases } from '../fixtures/agent-cases.mjs'
import { limitCases } from '../fixtures/agent-limit-cases.mjs'
import { levelCases } from '../fixtures/level-cases.mjs'
import { changes } from './agents/change.mjs'
import { installNewest, nodeOf, pinned } from './agents/install.mjs'
import { rowsOf, runTable } from './agents/run.mjs'
import { chosen, writeTable } from './cases.mjs'
import { prepare, root } from '../scripts/setup.mjs'

/** Node's major version for agents whose packages ask for a newer Node than this one. */
const NODE = 22
const seenFile = join(root, 'fixtures', 'agents-seen.json')

const isNewest = process.argv.includes('--newest')
const tables = { turns: turnCases, limits: limitCases, ...(!isNewest && { levels: levelCases }) }
const words = process.argv.slice(2).flatMap((word) => (word in tables ? Object.keys(tables[word]) : word))
const every = Object.assign({}, ...Object.values(tables))
const titles = chosen(Object.keys(every), words)
const names = chosen(Object.keys(agents), words)

if (!words.includes('--built')) prepare({ addon: 'any' })
const installed = names.map(isNewest ? newest : pinned).filter(({ bin }) => bin)
const cases = Object.fromEntries(titles.map((title) => [title, every[title]]))
const { results, failures } = await runTable(installed, cases)
for (const [group, table] of Object.entries(tables)) {
  const isWhole = Object.keys(table).every((title) => title in cases)
  if (isWhole && names.length === Object.keys(agents).length)
    writeTable(
      `npm run trial -- agents ${group}${isNewest ? ' --newest' : ''}`,
      rowsOf(installed, results, Object.keys(table)),
    )
}
const isOtherwise = isNewest && compare()
process.exit(failures > 0 || isOtherwise ? 1 : 0)

function newest(name) {
  const { package: packageName, program, newest } = agents[name]
  const { version, bin, problems } = installNewest(name, newest ?? packageName)
  for (const problem of problems) console.log(`${name}: npm can't install ${problem}`)
  // Each is run by a node that all of them take: what npm gives to a user of that node is what is asked about.
  return { name, version, program, bin, node: nodeOf(NODE) }
}

/** Prints what is new, and tells whether a case came out otherwise. */
function compare() {
  const seen = JSON.parse(readFileSync(seenFile, 'utf8'))
  const now = Object.fromEntries(
    installed.map(({ name, version }) => {
      // Cases that were not asked for keep the word that was seen of the same version.
      const isSame = titles.length < Object.keys(every).length && seen[name]?.version === version
      return [name, { version, cases: { ...(isSame && seen[name].cases), ...results[name] } }]
    }),
  )
  const news = changes(seen, now)
  console.log(`\n${news.length > 0 ? news.join('\n') : 'Nothing has changed.'}`)
  if (words.includes('--write')) writeFileSync(seenFile, `${JSON.stringify({ ...seen, ...now }, null, 2)}\n`)
  return news.some((line) => line.startsWith('!'))
}
