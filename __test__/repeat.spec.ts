// The list of failed tests that `npm test` runs once more comes from the output of the test programs and from vitest's reporter.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { failedCoreTests, failedPackageTests } from '../scripts/repeat.mjs'

const root = join(__dirname, '..')

it('names the failed tests of a Rust test program', () => {
  const output = `running 3 tests
.. 2/3
ladder::first --- FAILED

failures:

---- ladder::first stdout ----
thread panicked: failures:
    not::a::name of a test

failures:
    ladder::first
    ladder::second

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 20.86s
`
  expect(failedCoreTests(output)).toEqual(['ladder::first', 'ladder::second'])
  expect(failedCoreTests('running 76 tests\nthread panicked while panicking. aborting.')).toEqual([])
})

it('names the failed files and tests of the package, and errors that belong to none', () => {
  // Inside of the project, for its vitest to be found.
  const parent = join(root, 'target', 'repeat')
  mkdirSync(parent, { recursive: true })
  const folder = mkdtempSync(join(parent, 'spec-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const head = "import { expect, it } from 'vitest'\n"
  writeFileSync(join(folder, 'vitest.config.mjs'), 'export default {}\n')
  writeFileSync(
    join(folder, 'bad.spec.mjs'),
    `${head}it('holds', () => {})\nit('breaks', () => expect(1).toBe(2))\n`,
  )
  writeFileSync(
    join(folder, 'good.spec.mjs'),
    `${head}it('is good', () => {})\nPromise.reject(new Error('of nobody'))\n`,
  )
  writeFileSync(join(folder, 'gone.spec.mjs'), `process.kill(process.pid, 'SIGKILL')\n`)
  const report = join(folder, 'report.json')
  const ended = spawnSync(
    process.execPath,
    [
      join(root, 'node_modules', 'vitest', 'vitest.mjs'),
      'run',
      '--root',
      folder,
      '--reporter',
      join(root, 'scripts', 'reporter.mjs'),
    ],
    { encoding: 'utf8', env: { ...process.env, SHEEPDOG_TEST_REPORT: report } },
  )
  expect(ended.status).toBe(1)
  const failed = failedPackageTests(report)
  expect(failed?.files.toSorted()).toEqual(['bad.spec.mjs', 'gone.spec.mjs', 'good.spec.mjs'])
  expect(failed?.passed).toBe(1)
  expect(failed?.tests).toEqual(['bad.spec.mjs > breaks'])
  expect(failed?.errors.join('\n')).toMatch(/of nobody/)
  expect(failedPackageTests(join(folder, 'none.json'))).toBeUndefined()
})
