// Runs scenarios: every contender in a Node process of its own, the contenders taking turns round by round, so that a noisy
// machine is as noisy for one as for the other. Only medians and ratios are worth reading.
import { readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { interleave } from './round.mjs'
import { table, verdicts } from './verdict.mjs'

const names = readdirSync(new URL('scenarios/', import.meta.url))
  .map((file) => file.replace(/\.mjs$/, ''))
  .sort()

/** @returns the exit status: 0 when every figure was reached */
export async function bench(args, program) {
  const quick = args.includes('--quick')
  // Fewer contenders, for whoever tunes one of them: the table is shown, nothing is judged.
  const only = args
    .find((argument) => argument.startsWith('--only='))
    ?.slice('--only='.length)
    .split(',')
  // Another state of this project, built, with a copy of this bench/: its contenders take turns with ours.
  const beside = args.find((argument) => argument.startsWith('--beside='))?.slice('--beside='.length)
  const wanted = args.filter((argument) => !argument.startsWith('--'))
  const unknown = [
    ...args.filter(
      (argument) =>
        argument.startsWith('--') && argument !== '--quick' && !/^--(only|beside)=/.test(argument),
    ),
    ...wanted.filter((name) => !names.includes(name)),
  ]
  if (unknown.length > 0) {
    console.error(
      `Usage: npm run bench [-- [--quick] [--only=CONTENDER,...] [--beside=FOLDER] NAME ...]\nNames: ${names.join(', ')}; not: ${unknown.join(', ')}`,
    )
    return 2
  }
  let reached = true
  for (const name of names.filter((each) => wanted.length === 0 || wanted.includes(each))) {
    const scenario = await import(`./scenarios/${name}.mjs`)
    const plan = scenario.plan({ quick })
    if (only) plan.contenders = plan.contenders.filter((one) => only.includes(one.name.split(' @')[0]))
    console.log(`\n${name}: ${scenario.title(plan)}`)
    if (beside) {
      await compare(name, plan, program, resolve(beside))
      continue
    }
    const medians = await interleave(name, plan, program)
    scenario.print(medians, plan)
    reached = (only !== undefined || verdicts(scenario.figures(medians, plan))) && reached
  }
  return reached ? 0 : 1
}

/** Each contender beside its twin of another state: what both measured, and the ratio. */
async function compare(name, plan, program, folder) {
  const file = join(folder, 'bench', 'contender.mjs')
  const twin = (contender) => `${contender} @beside`
  const contenders = plan.contenders.flatMap((one) => [one, { ...one, name: twin(one.name), file }])
  const medians = await interleave(name, { ...plan, contenders }, program)
  table(
    plan.contenders.flatMap((one) =>
      Object.entries(medians[one.name]).map(([what, value]) => {
        const other = medians[twin(one.name)][what]
        return { contender: one.name, what, here: value, beside: other, 'here / beside': value / other }
      }),
    ),
  )
}
