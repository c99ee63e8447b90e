// Reads the results of the cases from their lines.
import { cpSync } from 'node:fs'
import { join } from 'node:path'

/** Puts the cases into a root. */
export const placeCases = (root) =>
  cpSync(join(import.meta.dirname, 'inside'), join(root, 'cases'), { recursive: true })

/** The cases as a shell starts them; `folder` is the package's. */
export const caseCommand = (folder) => `SHEEPDOG_PACKAGE=${folder} node /cases/main.mjs`

/**
 * @typedef {{area: string, tests?: number, name: string, landlock: number, ms: number, end: 'passed' | 'refused' | 'FAILED', note: string}} Case
 * @typedef {{release: string, arch: string, node: string, landlock: number, holds: string[]}} Machine
 * @param {{output: string, end: string}} ended
 * @returns {{cases: Case[], machine?: Machine}} without the last line, one more case that failed
 */
export function readCases({ output, end }) {
  const cases = linesOf(output, 'CASE')
  const [machine] = linesOf(output, 'MACHINE')
  // A run that ended early has printed less than it should.
  if (!machine) {
    const note = `${end}; the last of what it printed:\n${output.slice(-2000)}`
    cases.push(caseOf({ area: 'programs', name: 'all cases are run', isGood: false, note }))
  }
  return { cases, machine }
}

/** The JSON objects behind `word`, of the lines that begin with `word`. */
export const linesOf = (output, word) =>
  [...output.matchAll(new RegExp(`^${word} (\\{.*\\})\\r?$`, 'gm'))].map(([, text]) => JSON.parse(text))

/** A case that was judged outside. */
export const caseOf = ({ area, name, isGood, note = '', ms = 0, tests = 1 }) => ({
  area,
  name,
  landlock: 0,
  ms: Math.round(ms),
  end: isGood ? 'passed' : 'FAILED',
  note,
  tests,
})
