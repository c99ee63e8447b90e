// The real agent CLIs for tests, in exact versions, in a cache folder (SHEEPDOG_AGENTS, else ~/.cache/sheepdog-agents: 2 GB).
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { agents } from '../fixtures/agents.mjs'
import { fail } from './setup.mjs'

export const agentsFolder = process.env.SHEEPDOG_AGENTS || join(homedir(), '.cache', 'sheepdog-agents')

/** The CLI's program; installed when it is not there. */
export function installAgent(name) {
  const { package: packageName, version, program } = agents[name]
  const place = join(agentsFolder, `${name}-${version}`)
  const binary = join(place, 'node_modules', '.bin', program)
  if (existsSync(binary)) return binary
  console.log(`> installing ${packageName}@${version}`)
  mkdirSync(place, { recursive: true })
  writeFileSync(join(place, 'package.json'), '{"private":true}\n')
  const installed = spawnSync(
    'npm',
    ['install', '--no-audit', '--no-fund', '--loglevel=error', `${packageName}@${version}`],
    { cwd: place, stdio: 'inherit' },
  )
  if (installed.status !== 0 || !existsSync(binary)) fail(`${packageName}@${version} could not be installed`)
  return binary
}
