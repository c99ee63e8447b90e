// What failed in a whole run is run once more, alone: a machine that is busy with both suites is late now and then. What passes
// then is named as flaky, and is a bug to be filed; what fails again fails the command.
import { readFileSync } from 'node:fs'

/**
 * The failed tests of `cargo test --no-fail-fast`, by the program that they are in.
 * @param {string} output both streams of it
 * @returns {{target: string[], tests: string[]}[]} the arguments that name the program, and its tests; a program that died
 * without a list has none
 */
export function failedCoreTests(output) {
  const failed = []
  let tests = []
  let isList = false
  for (const line of output.split('\n')) {
    const rerun = /^error: (?:doc)?test failed, to rerun pass `(.+)`/.exec(line)?.[1]
    if (rerun) {
      failed.push({ target: rerun.split(' '), tests: [...new Set(tests)] })
      tests = []
    } else if (line === 'failures:') {
      isList = true
    } else if (isList && /^ {4}\S+$/.test(line)) {
      tests.push(line.trim())
    } else if (line.startsWith('test result:')) {
      isList = false
    }
  }
  return failed
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
