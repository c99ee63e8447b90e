// A real nats-server with a configuration of the test's, on a port that the test knows before.
import { spawn, type ChildProcess } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type Server } from 'node:net'
import { join } from 'node:path'
import { afterAll, expect, vi } from 'vitest'
import { newFolder } from './fleet-worker'

const children: ChildProcess[] = []
afterAll(() => children.forEach((child) => child.kill('SIGKILL')))

/** Ports below those that the system gives to anybody who asks for one: nothing else takes them until their server listens. */
export async function freePorts(count: number): Promise<number[]> {
  const probes: Server[] = []
  while (probes.length < count) {
    const probe = createServer().listen(randomInt(15_000, 32_000), '127.0.0.1')
    const isFree = await once(probe, 'listening').then(
      () => true,
      () => false,
    )
    if (isFree) probes.push(probe)
  }
  const ports = probes.map((probe) => (probe.address() as AddressInfo).port)
  await Promise.all(probes.map((probe) => new Promise((done) => probe.close(done))))
  return ports
}

/** Starts a server on this port; resolves when it listens. */
export async function serve(
  configuration: string,
  port: number,
  env: NodeJS.ProcessEnv = {},
): Promise<ChildProcess> {
  const file = join(newFolder(), 'nats-server.conf')
  writeFileSync(file, configuration)
  const server = spawn(process.env.SHEEPDOG_NATS_SERVER!, ['-c', file], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env,
  })
  children.push(server)
  let said = ''
  server.stderr!.setEncoding('utf8').on('data', (chunk) => (said += chunk))
  await vi.waitFor(
    async () => {
      expect(server.exitCode, said).toBe(null)
      const socket = connect(port, '127.0.0.1')
      await once(socket, 'connect')
      socket.destroy()
    },
    { timeout: 30_000 },
  )
  return server
}
