// `npm run trial -- faults [--seed N --trials N --strait NAME]`: random harm to everything that Sheepdog starts, in plenty and in
// straits (fixtures/faults). `--only N` repeats one trial of a seed. What can't be had on this machine is named.
import { parseArgs } from 'node:util'
import { fail, prepare } from '../scripts/setup.mjs'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    trials: { type: 'string', default: '300' },
    strait: { type: 'string' },
    only: { type: 'string' },
    built: { type: 'boolean' },
  },
})
if (process.platform !== 'linux') fail('the fault suite counts processes by /proc: Linux only')
if (!values.built) prepare({ addon: 'any' })

const { runSubject, straits } = await import('../fixtures/faults/straits.mjs')
const names = Object.keys(straits).filter((name) => !values.strait || values.strait === name)
if (names.length === 0) fail(`no such strait; there are ${Object.keys(straits).join(', ')}`)
const [seed, trials] = [Number(values.seed), Number(values.trials)]
const only = values.only === undefined ? undefined : Number(values.only)
console.log(`seed ${seed}`)
let found = 0
for (const strait of names) {
  const lacking = straits[strait].lacks?.()
  if (lacking) {
    console.log(`${strait}: SKIPPED, it takes ${lacking}`)
    continue
  }
  const begun = performance.now()
  const limitMs = 60_000 + trials * 4000
  const { problems, ends = {}, rounds } = await runSubject({ strait, seed, trials, only, limitMs })
  found += problems.length
  const seconds = ((performance.now() - begun) / 1000).toFixed(0)
  console.log(
    `${strait}: ${problems.length} problems in ${only === undefined ? trials : 1} trials, ${seconds} s`,
  )
  for (const { descriptors, threads, rssMb } of rounds ?? []) {
    console.log(
      `  after a half of them: ${descriptors} descriptors, ${threads} threads, ${rssMb.toFixed(0)} MB`,
    )
  }
  for (const [kind, counts] of Object.entries(ends)) {
    const shown = Object.entries(counts).sort(([, one], [, other]) => other - one)
    console.log(`  ${kind.padEnd(9)} ${shown.map(([end, count]) => `${end} ${count}`).join(', ')}`)
  }
  for (const problem of problems) console.log(`  PROBLEM ${problem}`)
}
if (found > 0) fail(`${found} problems; \`npm run trial -- faults --seed ${seed}\` repeats them`)
console.log('nothing hung, nothing leaked, nobody survived')
