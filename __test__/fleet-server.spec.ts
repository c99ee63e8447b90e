import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { Fleet, Job } from '../entries/fleet.js'
import { hasServer, newFolder, newQueue } from './fleet-worker'
import { failure } from './played-agent'

const children: ChildProcess[] = []
afterAll(() => children.forEach((child) => child.kill('SIGKILL')))

/** A real server with this configuration; its address. */
async function realServer(configuration: string): Promise<{ servers: string; child: ChildProcess }> {
  const folder = newFolder()
  const file = join(folder, 'server.conf')
  writeFileSync(file, `listen: "127.0.0.1:-1"\nports_file_dir: "${folder}"\n${configuration}`)
  const child = spawn(process.env.SHEEPDOG_NATS_SERVER!, ['-c', file], { stdio: 'ignore', cwd: folder })
  children.push(child)
  const ports = await vi.waitFor(
    () => {
      const name = readdirSync(folder).find((entry) => entry.endsWith('.ports'))!
      return JSON.parse(readFileSync(join(folder, name), 'utf8')) as { nats: string[] }
    },
    { timeout: 20_000 },
  )
  return { servers: ports.nats[0]!, child }
}

/** Says of itself what it is told to say, and answers pings. */
async function fakeServer(info: object): Promise<string> {
  const server = createServer((socket) => {
    const about = { server_id: 'S', max_payload: 1_048_576, headers: true, proto: 1, ...info }
    socket.write(`INFO ${JSON.stringify(about)}\r\n`)
    socket.on('data', (data) => data.includes('PING') && socket.write('PONG\r\n')).on('error', () => {})
  })
  server.listen(0, '127.0.0.1').unref()
  await once(server, 'listening')
  return `nats://127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe('a server that can not carry a fleet', () => {
  it.each(['2.9.25', '2.11.4', '1.4.1', 'x'])('of version %s is too old', async (version) => {
    const error = await failure(Fleet.connect({ servers: await fakeServer({ version, jetstream: true }) }))
    expect(error).toMatchObject({ code: 'FLEET_SERVER_TOO_OLD', version })
    expect(error.message).toContain('2.12')
  })

  it('without JetStream says how it is switched on', async () => {
    const error = await failure(Fleet.connect({ servers: await fakeServer({ version: '2.12.3' }) }))
    expect(error.code).toBe('FLEET_STORAGE')
    expect(error.message).toContain('-js')
  })
})

describe.runIf(hasServer)('a server without room', () => {
  it('takes no fleet when its streams do not fit', async () => {
    const { servers } = await realServer('jetstream { store_dir: "store", max_file_store: 20MB }')
    const error = await failure(Fleet.connect({ servers }))
    expect(error.code).toBe('FLEET_STORAGE')
    expect(error.message).toContain('max_file_store')
  })

  it('refuses jobs while it is full, and takes them again when some are over', async () => {
    const { servers } = await realServer('jetstream { store_dir: "store", max_file_store: 280MB }')
    const fleet = await Fleet.connect({ servers })
    const queue = newQueue()
    // Short enough to stay in the queue's stream: longer ones are objects, which go with their record (prune).
    const data = 'x'.repeat(120_000)
    const accepted: Job[] = []
    const submitted = (): Promise<Job | { code: string }> =>
      fleet.submit({ handler: 'none', queue, data }).catch((error) => error)
    let last = await submitted()
    for (; last instanceof Job && accepted.length < 500; last = await submitted()) accepted.push(last)
    expect(last).toMatchObject({ code: 'FLEET_FULL' })
    expect(accepted.length).toBeGreaterThan(10)
    // What was accepted is there.
    expect((await fleet.status()).queues[queue]?.queued).toBe(accepted.length)
    for (const job of accepted.slice(0, 5)) await job.cancel()
    await vi.waitFor(() => fleet.submit({ handler: 'none', queue, data }), { timeout: 20_000, interval: 200 })
    await fleet.close()
  })
})
