// `npm run trial -- platforms [NAME ... --packed]`: the addon on other platforms, built and run on one Linux machine (x86-64). Each part fetches and
// builds what it needs into a cache folder (SHEEPDOG_PLATFORMS, else ~/.cache/sheepdog-platforms), by apt, pip and npm alone. A part that
// lacks something says what; that is a failure if the part was named, or with CI=true. `--packed`: with the addon that `release:build` made,
// packed, and installed by npm in an empty folder; only parts that have a package.
import { parts } from './platforms/parts.mjs'
import { fail, prepare } from '../scripts/setup.mjs'
import { writeTable } from './cases.mjs'

if (process.platform !== 'linux' || process.arch !== 'x64') fail('this needs Linux on x86-64')
const words = process.argv.slice(2)
const isPacked = words.includes('--packed')
const named = words.filter((word) => word !== '--packed')
const unknown = named.filter((name) => !(name in parts))
if (unknown.length > 0)
  fail(`no such part: ${unknown.join(', ')}; there are ${Object.keys(parts).join(', ')}`)
const mustRun = named.length > 0 || process.env.CI === 'true'
const all = Object.keys(parts).filter((name) => parts[name].hasPackage || !isPacked)
const bare = named.filter((name) => !all.includes(name))
if (bare.length > 0) fail(`no package of its own: ${bare.join(', ')}`)

// All parts take dist/, and native.js, which are made with the addon of this machine.
prepare({ addon: 'any' })
const problems = []
const rows = [
  isPacked
    ? ['package', 'download', 'installed', 'programs', 'process trees', 'sandbox']
    : ['platform', 'run', 'programs', 'process trees', 'sandbox', 'tests'],
]
for (const name of named.length > 0 ? named : all) {
  const lacking = parts[name].lacks()
  if (lacking.length > 0) {
    console.log(`\n# ${name}: not run, it lacks ${lacking.join(', ')}`)
    if (mustRun) problems.push(`${name} lacks ${lacking.join(', ')}`)
    continue
  }
  console.log(`\n# ${name}: ${parts[name].how}`)
  const started = performance.now()
  const { cases, machine, sizes } = await parts[name].run({ isPacked })
  const failed = report(name, { cases, machine, seconds: (performance.now() - started) / 1000 })
  if (failed > 0) problems.push(`${failed} cases failed on ${name}`)
  const facts = isPacked ? sizes : [parts[name].place]
  const areas = ['programs', 'trees', 'sandbox', ...(isPacked ? [] : ['tests'])]
  rows.push([parts[name].title, ...facts, ...counts(cases, areas)])
}
writeTable(`npm run trial -- platforms${isPacked ? ' --packed' : ''}`, rows)
if (problems.length > 0) fail(problems.join('; '))

/** Prints the table of a part, and returns how many cases failed. */
function report(part, { cases, machine, seconds }) {
  for (const { name, end, ms, note } of cases)
    console.log(`${name.padEnd(42)} ${end.padEnd(8)} ${`${ms}`.padStart(6)} ms  ${note}`.trimEnd())
  if (machine)
    console.log(
      `${machine.system} ${machine.release}, ${machine.arch}, Node.js ${machine.node}, Landlock ${machine.landlock}`,
    )
  const count = (end) => cases.filter((row) => row.end === end).length
  const sums = `${count('passed')} passed, ${count('refused')} refused, ${count('FAILED')} failed`
  console.log(`# ${part}: ${sums}, ${seconds.toFixed(0)} s`)
  return count('FAILED')
}

/** The cells of a row. */
function counts(cases, areas) {
  return areas.map((area) => {
    const rows = cases.filter((row) => row.area === area)
    const refused = rows.filter(({ end }) => end === 'refused').length
    if (rows.length === 0) return '-'
    // A row of tests stands for many.
    const number = rows.reduce((sum, { tests = 1 }) => sum + tests, 0)
    return `${number - refused} passed${refused > 0 ? `, ${refused} refused` : ''}`
  })
}
