// Packages of PyPI, each in an environment of its own.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The folder of the programs of these packages, in a virtual environment at `place` that is made once; or in one line why there is
 * none.
 * @param {string} place
 * @param {string[]} packages with their versions: `name==1.2.3`
 * @param {[number, number]} oldest version of Python
 * @returns {{bin: string, problem?: undefined} | {bin?: undefined, problem: string}}
 */
export function pythonPrograms(place, packages, [major, minor]) {
  const bin = join(place, 'bin')
  const stamp = join(place, 'installed')
  const wanted = packages.join(' ')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return { bin }
  const isNewEnough = (python) =>
    spawnSync(python, ['-c', `import sys; sys.exit(sys.version_info < (${major}, ${minor}))`]).status === 0
  const candidates = [process.env.SHEEPDOG_PYTHON, 'python3', 'python3.13', 'python3.12']
  const python = candidates.find((name) => name && isNewEnough(name))
  if (!python) return { problem: `no Python ${major}.${minor} or newer: name one in SHEEPDOG_PYTHON` }
  if (spawnSync(python, ['-m', 'venv', place]).status !== 0) return { problem: 'Python has no working venv' }
  const { status } = spawnSync(join(bin, 'python'), ['-m', 'pip', 'install', '--quiet', ...packages])
  if (status !== 0) return { problem: `${wanted} could not be installed` }
  writeFileSync(stamp, wanted)
  return { bin }
}
