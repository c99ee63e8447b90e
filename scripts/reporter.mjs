// Tells `npm test` which files and tests of the package failed, and what went wrong outside of any test: a file of JSON at
// SHEEPDOG_TEST_REPORT.
import { writeFileSync } from 'node:fs'
import { relative } from 'node:path'

export default class Reporter {
  #root = process.cwd()

  onInit(vitest) {
    this.#root = vitest.config.root
  }

  onTestRunEnd(modules, errors) {
    const failed = modules.filter((module) => !['passed', 'skipped'].includes(module.state()))
    const tests = failed.flatMap((module) =>
      [...module.children.allTests('failed')].map((test) => `${module.relativeModuleId} > ${test.fullName}`),
    )
    // An error of no test is that of the file that was running.
    const blamed = errors
      .filter((error) => error.VITEST_TEST_PATH)
      .map((error) => relative(this.#root, error.VITEST_TEST_PATH))
    const report = {
      passed: modules.length - failed.length,
      files: [...new Set([...failed.map((module) => module.relativeModuleId), ...blamed])],
      tests,
      homeless: errors.length - blamed.length,
      errors: errors.map(({ message, stack }) => stack ?? message ?? 'an error without words'),
    }
    if (process.env.SHEEPDOG_TEST_REPORT)
      writeFileSync(process.env.SHEEPDOG_TEST_REPORT, JSON.stringify(report))
  }
}
