// What failed in a whole run is run once more, alone: a machine that is busy with both suites is late now and then. What passes
// then is named as flaky, and is a bug to be filed; what fails again fails the command.
import { readFileSync } from 'node:fs'

/**
 * The failed tests of one Rust test program.
 * @param {string} output both streams of the program
 * @returns {string[]} none if the program died before it could list them
 */
export function failedCoreTests(output) {
  const tests = []
  let isList = false
  for (const line of output.split('\n')) {
    if (line === 'failures:') {
      isList = true
    } else if (isList && /^ {4}\S+$/.test(line)) {
      tests.push(line.trim())
    } else if (line.startsWith('test result:')) {
      isList = false
    }
  }
  return [...new Set(tests)]
}

/**
 * The failed tests of the package by their file, and what went wrong outside of any test.
 * @param {string} path what the reporter `scripts/reporter.mjs` has written; none: vitest ended before it was done
 * @returns {{passed: number, files: string[], tests: string[], homeless: number, errors: string[]} | undefined} homeless: errors without a file to blame
 */
export function failedPackageTests(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return undefined
  }
}
