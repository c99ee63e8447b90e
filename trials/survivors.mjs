// `npm run trial -- survivors`: trees that are hard to get rid of, against every way in which a run or its host can end.
// Prints survivors / processes that lived, and fails when anybody survived. `--repetitions N` (default 5),
// `--only TEXT` (behaviours or ends whose name is TEXT).
import { parseArgs } from 'node:util'
import { join } from 'node:path'
import { behaviours, buildBehaviours, chooseUser, ends, runCell } from '../fixtures/survivors/matrix.mjs'
import { fail, prepare, root } from '../scripts/setup.mjs'

const { values } = parseArgs({ options: { repetitions: { type: 'string' }, only: { type: 'string' } } })
const repetitions = Number(values.repetitions ?? 5)
if (process.platform !== 'linux')
  fail('the guard is for Linux: on macOS runs are held by their process group')

prepare({ addon: 'any' })
const program = buildBehaviours(join(root, 'target', 'survivors'))
const user = chooseUser(program)
console.log(`Survivors / processes that lived, ${repetitions} runs a cell, hosts run as ${user.name}`)

const isWanted = (behaviour, end) => !values.only || values.only === behaviour || values.only === end
const names = Object.keys(ends).filter((end) => behaviours.some((behaviour) => isWanted(behaviour, end)))
console.log(row('', names))
let survivors = 0
const problems = []
for (const behaviour of behaviours.filter((name) => names.some((end) => isWanted(name, end)))) {
  const cells = []
  for (const end of names) {
    const cell = await runCell({ program, ids: user.ids, behaviour, end, repetitions })
    survivors += cell.survivors
    problems.push(...cell.problems.map((problem) => `${behaviour} x ${end}: ${problem}`))
    cells.push(`${cell.survivors}/${cell.lived}`)
  }
  console.log(row(behaviour, cells))
}
for (const problem of problems) console.log(`unexpected: ${problem}`)
if (survivors > 0 || problems.length > 0)
  fail(`${survivors} processes survived, ${problems.length} unexpected ends`)
console.log('nobody survived')

function row(head, cells) {
  return head.padEnd(10) + cells.map((cell) => cell.padStart(14)).join('')
}
