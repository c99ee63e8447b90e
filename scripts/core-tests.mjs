// The tests of the core: all their programs are built in one go, then run some at a time, as they wait more than they compute
// (`cargo test` runs them one after the other).
import { spawnSync } from 'node:child_process'
import { root, runBeside } from './step.mjs'

const AT_A_TIME = 2
const cargo = (args) => runBeside('cargo', args)

/** The arguments by which cargo knows each test program. */
function corePrograms() {
  const told = spawnSync('cargo', ['metadata', '--no-deps', '--format-version', '1'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  })
  const [{ targets }] = JSON.parse(told.stdout).packages
  const ofTests = targets.filter(({ kind }) => kind.includes('test')).map(({ name }) => ['--test', name])
  return [['--lib'], ...ofTests, ['--doc']]
}

/**
 * Builds and runs them.
 * @returns {Promise<{isGood: boolean, output: string}>} both streams of all of them, program by program
 */
export async function runCoreTests() {
  const built = await cargo(['test', '--quiet', '--no-run'])
  if (!built.isGood) return built
  const programs = corePrograms()
  const ends = []
  const lane = async () => {
    for (let next = programs.shift(); next; next = programs.shift())
      ends.push(await cargo(['test', '--quiet', '--no-fail-fast', ...next]))
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, lane))
  return {
    isGood: ends.every((end) => end.isGood),
    output: ends.map((end) => end.output).join(''),
  }
}
