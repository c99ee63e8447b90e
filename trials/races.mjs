// `npm run trial -- races [--count N --seed N]`: races whose agents, commands, git processes, guards and hosts are killed at random
// moments (fixtures/races). Afterwards nothing is alive, nothing is left, and the working tree is as it was. 200 take ten minutes.
import { parseArgs } from 'node:util'
import { fail, prepare } from '../scripts/setup.mjs'

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '200' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    built: { type: 'boolean' },
  },
})
if (process.platform !== 'linux') fail('the races find their processes by /proc: Linux only')
if (!values.built) prepare({ addon: 'any' })

const { runRaces } = await import('../fixtures/races/run.mjs')
const [count, seed] = [Number(values.count), Number(values.seed)]
console.log(`seed ${seed}`)
const { problems, kills, ends } = await runRaces({ count, seed, log: console.log })
const shown = (counts) =>
  Object.entries(counts)
    .map(([name, many]) => `${name} ${many}`)
    .join(', ')
console.log(`killed: ${shown(kills)}; ends: ${shown(ends)}`)
for (const problem of problems) console.log(`PROBLEM ${problem}`)
if (problems.length > 0)
  fail(`${problems.length} problems; \`npm run trial -- races --seed ${seed}\` repeats them`)
console.log(`${count} races: nothing alive, nothing left, the working tree as it was`)
