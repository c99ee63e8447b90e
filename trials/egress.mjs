// `npm run trial -- egress [SECTION|NAME ...]`: the proof that a sandbox with `hosts` and `secrets` holds, with real programs. Its sections
// are the files of trials/egress; a NAME is an agent, a tool or a row of one of them. All servers are on loopback, except for the package
// registries of this machine, which the section `tools` finds by what their own clients ask for. Tables go to target/trials
// when a section ran whole; `--built` takes the addon as it is.
import { enter, isNamed } from './egress/outside.mjs'
import { FAILED, writeTable } from './cases.mjs'
import { fail, prepare } from '../scripts/setup.mjs'

const sections = {
  agents: () => import('./egress/agents.mjs'),
  tools: () => import('./egress/tools.mjs'),
  hostile: () => import('./egress/hostile.mjs'),
  ends: () => import('./egress/ends.mjs'),
}

if (process.platform !== 'linux') fail('the sandbox is for Linux')
const words = process.argv.slice(2).filter((word) => !word.startsWith('--'))
const chosen = Object.keys(sections).filter((name) => words.includes(name))
const names = words.filter((word) => !(word in sections))
if (!process.env.SHEEPDOG_EGRESS_NAME && !process.argv.includes('--built')) prepare({ addon: 'any' })
enter()
let failures = 0
for (const section of chosen.length > 0 ? chosen : Object.keys(sections)) {
  console.log(`\n# ${section}`)
  const started = performance.now()
  const { run } = await sections[section]()
  const { rows, isWhole } = await run(names)
  const failed = rows.flat().filter((cell) => cell.startsWith(FAILED)).length
  failures += failed
  const seconds = ((performance.now() - started) / 1000).toFixed(0)
  console.log(`# ${section}: ${failed === 0 ? 'as it should be' : `${failed} FAILED`}, ${seconds} s`)
  if (isWhole && failed === 0 && isNamed && process.getuid() === 0)
    writeTable(`npm run trial -- egress ${section}`, rows)
}
process.exit(failures === 0 ? 0 : 1)
