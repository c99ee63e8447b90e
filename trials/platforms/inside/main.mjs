// Tries the promises that depend on the system, on each platform. It runs inside, with nothing but Node.js, a shell and the
// package (SHEEPDOG_PACKAGE). Each case prints a line, and the machine the last one.
import { rmSync } from 'node:fs'
import { release, type } from 'node:os'
import { processCases } from './process-cases.mjs'
import { sandboxCases } from './sandbox-cases.mjs'
import { treeCases } from './tree-cases.mjs'
import { refusal, support, work } from './tools.mjs'
import { windowsAreas } from './windows-cases.mjs'

const isWindows = process.platform === 'win32'
const areas = isWindows ? windowsAreas : { programs: processCases, trees: treeCases, sandbox: sandboxCases }
const cases = Object.entries(areas).flatMap(([area, cases]) =>
  Object.entries(cases).map(([name, attempt]) => ({ area, name, attempt })),
)
for (const { area, name, attempt } of cases) {
  const { landlock = 0 } = attempt
  const started = performance.now()
  const answer = await outcome(attempt, landlock).catch((error) => ({
    end: 'FAILED',
    note: `${error.stack}`,
  }))
  say('CASE', { area, name, landlock, ms: Math.round(performance.now() - started), ...answer })
}
rmSync(work, { recursive: true, force: true })
const { landlock, holds } = support
say('MACHINE', {
  system: type(),
  release: release(),
  arch: process.arch,
  node: process.versions.node,
  landlock,
  holds,
})

/** A refusal is right where the kernel has less than the case needs, and wrong elsewhere. */
async function outcome(attempt, landlock) {
  if (support.landlock >= landlock) return { end: 'passed', note: (await attempt()) ?? '' }
  const error = await refusal(attempt())
  if (error.code !== 'SANDBOX_UNAVAILABLE') throw error
  return { end: 'refused', note: error.code }
}

function say(word, value) {
  process.stdout.write(`${word} ${JSON.stringify(value)}\n`)
}
