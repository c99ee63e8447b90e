// The tests of the Rust crates. One call of cargo builds all test programs; then the programs run, two at a time, because they
// wait more than they compute. (`cargo test` runs them one after the other, and builds each crate again for its own features.)
import { dirname } from 'node:path'
import { hostTriple, root, runBeside } from './step.mjs'

const AT_A_TIME = 2

/**
 * Makes proptest take its random numbers from xorshift. Without optimization, those of its default (ChaCha) took half of the time of
 * tests with many cases.
 */
const RANDOM = { PROPTEST_RNG_ALGORITHM: 'xs' }

/**
 * Programs whose tests wait for timeouts most of the time, and how many of their tests run at a time; of other programs, as many as
 * there are processors. They start first, so that the others compute meanwhile.
 * @type {Record<string, number>}
 */
const WAITING = {
  'fleet --lib': 16,
  'agents --test acp': 6,
  'runtime --test runtime': 6,
  'process --test process': 4,
}

/**
 * A test program.
 * @typedef {{name: string, executable: string, cwd: string}} CoreProgram
 */

/**
 * Builds the test programs.
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {Promise<{programs: CoreProgram[], problem?: string}>} problem: what cargo printed when it could not build them
 */
export async function buildCorePrograms(env = process.env) {
  // The CLI of napi names the target for the addon. Named here as well, cargo keeps both builds in one folder, and builds the crates
  // that they share once.
  const options = ['--no-run', '--target', hostTriple(), '--message-format=json-render-diagnostics']
  const args = ['test', '--quiet', '--workspace', ...options]
  const { isGood, output } = await runBeside('cargo', args, { env })
  const [messages, others] = [[], []]
  for (const line of output.split('\n')) (line.startsWith('{"reason"') ? messages : others).push(line)
  if (!isGood) return { programs: [], problem: others.join('\n') }
  const programs = messages
    .map((line) => JSON.parse(line))
    .filter(({ executable, profile }) => executable && profile?.test)
    .map(({ executable, manifest_path, target: { name, kind } }) => {
      const cwd = dirname(manifest_path)
      const crate = cwd === root ? 'sheepdog' : cwd.slice(cwd.lastIndexOf('/') + 1)
      return { name: kind.includes('test') ? `${crate} --test ${name}` : `${crate} --lib`, executable, cwd }
    })
  return programs.length > 5 ? { programs } : { programs: [], problem: 'cargo names no test programs' }
}

/**
 * Builds and runs all of them.
 * @returns {Promise<{ends: {program: CoreProgram, isGood: boolean, output: string}[], problem?: string}>} the output of both
 * streams, program by program
 */
export async function runCoreTests() {
  const { programs, problem } = await buildCorePrograms()
  const ends = []
  const isWaiting = ({ name }) => name in WAITING
  const left = [...programs.filter(isWaiting), ...programs.filter((program) => !isWaiting(program))]
  const lane = async () => {
    for (let program = left.shift(); program; program = left.shift()) {
      const { name, executable, cwd } = program
      const args = ['--quiet', ...(isWaiting(program) ? [`--test-threads=${WAITING[name]}`] : [])]
      const env = { ...RANDOM, ...process.env }
      ends.push({ program, ...(await runBeside(executable, args, { cwd, env })) })
    }
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, lane))
  return { ends, problem }
}
