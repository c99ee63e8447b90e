// `npm run trial -- copilot-sdk --checkout DIR [FILTER ...]`: the end-to-end tests of the Copilot SDK's repository (its npm package
// has none), once with the SDK and once with this package in its place. DIR, or COPILOT_SDK_CHECKOUT, is a checkout whose
// packages are installed, with a runtime that this Node.js can run. Fails when a test passes with the SDK and not with this package,
// or when none passes with the SDK; no part of CI.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { prepare, root } from '../scripts/setup.mjs'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { checkout: { type: 'string', default: process.env.COPILOT_SDK_CHECKOUT } },
})

/** What keeps the tests from being run. */
function missing() {
  if (!values.checkout)
    return 'no checkout of the Copilot SDK was given: --checkout DIR, or COPILOT_SDK_CHECKOUT'
  const nodejs = resolve(values.checkout, 'nodejs')
  if (!existsSync(join(nodejs, 'test', 'e2e'))) return `${nodejs}/test/e2e is not there`
  if (!existsSync(join(nodejs, 'node_modules', 'vitest')))
    return `its packages are not installed: run \`npm ci\` in ${nodejs} and in ${resolve(values.checkout, 'test/harness')}`
}

const problem = missing()
if (problem) {
  console.warn(`THE COPILOT SDK'S TESTS ARE NOT RUN: ${problem}`)
  process.exit(0)
}
// Not built anew: a program of a package that is in use stays as it is.
if (!existsSync(join(root, 'index.mjs'))) prepare({ addon: 'any' })
const nodejs = resolve(values.checkout, 'nodejs')
const folder = mkdtempSync(join(tmpdir(), 'sheepdog-copilot-sdk-'))

/** Modules of the SDK's sources whose names this package has; whatever else a test takes from there it gets from there. */
const replaced =
  /(^|\/)src(\/(index|types|client|session|toolSet|canvas|factory|workflow|copilotRequestHandler|sessionFsProvider)(\.js|\.ts)?)?\/?$/

/** The outcome of each test, by its name. */
function outcomes(title, isOurs) {
  const config = join(folder, `${title}.config.mjs`)
  const report = join(folder, `${title}.json`)
  const plugin = `{
    name: 'in-its-place',
    enforce: 'pre',
    resolveId: (source, importer) =>
      importer?.includes('/test/') && ${replaced}.test(source) ? ${JSON.stringify(join(root, 'entries/copilot.mjs'))} : undefined,
  }`
  const own = ['ts', 'mts', 'js', 'mjs'].map((kind) => join(nodejs, `vitest.config.${kind}`)).find(existsSync)
  writeFileSync(
    config,
    `import base from ${JSON.stringify(own ?? join(folder, 'none.mjs'))}
const whole = typeof base === 'function' ? await base({ mode: 'test', command: 'serve' }) : base
export default { ...whole, plugins: [...(whole.plugins ?? []), ${isOurs ? plugin : ''}] }\n`,
  )
  if (!own) writeFileSync(join(folder, 'none.mjs'), 'export default {}\n')
  console.log(`> the Copilot SDK's tests with ${title}`)
  spawnSync(
    process.execPath,
    [
      join(nodejs, 'node_modules/vitest/vitest.mjs'),
      'run',
      ...['--root', nodejs, '--config', config, '--dir', join(nodejs, 'test/e2e')],
      ...['--reporter', 'dot', '--reporter', 'json', '--outputFile.json', report],
      ...positionals,
    ],
    { cwd: nodejs, stdio: ['ignore', 'inherit', 'inherit'] },
  )
  if (!existsSync(report)) throw new Error(`no report of the tests with ${title}: see above`)
  const { testResults } = JSON.parse(readFileSync(report, 'utf8'))
  return new Map(
    testResults.flatMap(({ name, assertionResults }) =>
      assertionResults.map(({ fullName, status, failureMessages }) => [
        `${name.slice(nodejs.length + 1)}: ${fullName}`,
        { status, reason: failureMessages?.[0]?.split('\n')[0] ?? '' },
      ]),
    ),
  )
}

try {
  const theirs = outcomes('the-sdk', false)
  const ours = outcomes('sheepdog', true)
  const passed = (all) => [...all.values()].filter(({ status }) => status === 'passed').length
  console.log(
    `with the SDK ${passed(theirs)} of ${theirs.size} pass, with this package ${passed(ours)} of ${ours.size}`,
  )
  const lost = [...theirs].filter(
    ([name, { status }]) => status === 'passed' && ours.get(name)?.status !== 'passed',
  )
  for (const [name] of lost)
    console.log(`only with the SDK: ${name}\n  ${ours.get(name)?.reason ?? 'not run'}`)
  for (const [name, { status }] of ours)
    if (status === 'passed' && theirs.get(name)?.status !== 'passed')
      console.log(`only with this package: ${name}`)
  process.exitCode = lost.length > 0 || passed(theirs) === 0 ? 1 : 0
} finally {
  rmSync(folder, { recursive: true, force: true })
}
