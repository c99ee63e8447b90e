// Tells `npm test` which files and tests of the package failed, and what went wrong outside of any test: a file of JSON at
// SHEEPDOG_TEST_REPORT.
import { writeFileSync } from 'node:fs'

export default class Reporter {
  onTestRunEnd(modules, errors) {
    const failed = modules.filter((module) => !['passed', 'skipped'].includes(module.state()))
    const tests = failed.flatMap((module) =>
      [...module.children.allTests('failed')].map((test) => `${module.relativeModuleId} > ${test.fullName}`),
    )
    const report = {
      passed: modules.length - failed.length,
      files: failed.map((module) => module.relativeModuleId),
      tests,
      errors: errors.map(({ message, stack }) => stack ?? message ?? 'an error without words'),
    }
    if (process.env.SHEEPDOG_TEST_REPORT)
      writeFileSync(process.env.SHEEPDOG_TEST_REPORT, JSON.stringify(report))
  }
}
