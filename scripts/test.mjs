// `npm test`: everything from a fresh clone to the last test. `npm test -- NAME ...` passes filters on to vitest alone.
import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { findBrowser } from './browser.mjs'
import { runCoreTests } from './core-tests.mjs'
import { findServer } from './nats-server.mjs'
import { failedCoreTests, failedPackageTests } from './repeat.mjs'
import { bin, fail, prepare, root, runBeside, step } from './setup.mjs'

const filters = process.argv.slice(2)
// What is built once is not built again in parts: a sixth less to do.
if (process.env.CI) process.env.CARGO_INCREMENTAL ??= '0'
prepare({ addon: 'any' })
const { server, problem } = findServer()
if (server) process.env.SHEEPDOG_NATS_SERVER = server
else if (process.env.CI) fail(`the fleet's tests need a nats-server: ${problem}`)
else console.warn(`THE FLEET IS NOT TESTED: ${problem}`)
const { browser, problem: noBrowser } = findBrowser()
if (browser) process.env.SHEEPDOG_BROWSER = browser
else if (process.env.CI) fail(`the page needs a browser to be tested in: ${noBrowser}`)
else console.warn(`THE PAGE IS NOT TESTED: ${noBrowser}`)

// This variable makes each Node parse all its certificates at its start: 58 ms of processor time instead of 19 ms. Tests of it set
// it themselves, and the one program that downloads with Node below (npm, in trials/agents/install.mjs) gets it back.
process.env.SHEEPDOG_TEST_CA = process.env.NODE_EXTRA_CA_CERTS ?? ''
delete process.env.NODE_EXTRA_CA_CERTS

const reporters = ['--reporter=default', `--reporter=${join(root, 'scripts', 'reporter.mjs')}`]
const vitest = (files) => [process.execPath, [bin('vitest'), 'run', ...reporters, ...files]]
const report = join(root, 'target', 'tests.json')
process.env.SHEEPDOG_TEST_REPORT = report

if (filters.length > 0) step('tests of the package', ...vitest(filters))
else await everything()

async function everything() {
  mkdirSync(join(root, 'target'), { recursive: true })
  rmSync(report, { force: true })
  console.log('> tests of the package, and beside them those of the core')
  const [ofPackage, ofCore] = await Promise.all([runBeside(...vitest([]), { isShown: true }), runCoreTests()])
  console.log('> tests of the core')
  for (const { program, output } of ofCore.ends)
    process.stdout.write(`${program.name}: ${output.trimStart()}`)
  const failed = []
  const flaky = []
  if (!ofPackage.isGood) {
    const found = failedPackageTests(report)
    if (found?.passed > 0 && found.files.length + found.errors.length === 0) {
      console.warn('vitest ended in an error of its own, after every test had passed')
    } else {
      const outside = found?.errors.map((error) => `outside of a test: ${error}`) ?? []
      const names = [...(found?.tests ?? []), ...outside]
      // Without a file to blame all of them are run again.
      const files = found?.homeless > 0 ? [] : found?.files
      const isGood = files && again('tests of the package', ...vitest(files))
      ;(isGood ? flaky : failed).push(
        ...(names.length > 0 ? names : ['the tests of the package, as a whole']),
      )
    }
  }
  if (ofCore.problem) {
    console.error(ofCore.problem)
    failed.push('the tests of the core could not be built')
  }
  for (const { program, output } of ofCore.ends.filter(({ isGood }) => !isGood)) {
    const tests = failedCoreTests(output)
    const { executable, cwd, name } = program
    const only = tests.length > 0 ? ['--exact', ...tests] : []
    const isGood = again(`tests of the core: ${name}`, executable, ['--quiet', ...only], { cwd })
    const names = tests.length > 0 ? tests : ['all of it']
    ;(isGood ? flaky : failed).push(...names.map((test) => `${name}: ${test}`))
  }
  for (const name of flaky)
    console.warn(`FLAKY (failed beside all others, passed alone; a bug to file): ${name}`)
  for (const name of failed) console.error(`FAILED: ${name}`)
  if (failed.length > 0) fail(`${failed.length} failed`)
}

/** Whether what has failed passes when nothing runs beside it. */
function again(title, command, args, options) {
  console.log(`> once more, alone: ${title}`)
  return spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options }).status === 0
}
