// The server's configuration in examples/fleet: what each of its users may do.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { Fleet } from '..'
import { hasServer, newFolder } from './fleet-worker'
import { freePorts, serve } from './nats-server'

const examples = join(__dirname, '../examples/fleet')

/** The example as it stands, but for its addresses, certificates and companions. */
async function exampleServer(): Promise<number> {
  const [port] = await freePorts(1)
  const folder = newFolder()
  const text = readFileSync(join(examples, 'nats-server.conf'), 'utf8')
    .replaceAll('0.0.0.0:4222', `127.0.0.1:${port}`)
    .replace('/var/lib/nats', join(folder, 'store'))
    .replace('100GB', '1GB')
    .replace(/^tls \{.*?^\}/ms, '')
    .replace(/^cluster \{.*?^\}/ms, '')
  await serve(text, port!, {
    NAME: 'n1',
    ADMIN_PASSWORD: 'a-secret',
    WORKER_PASSWORD: 'w-secret',
    SUBMITTER_PASSWORD: 's-secret',
  })
  return port!
}

describe.runIf(hasServer)('the users of the example', () => {
  it('do what their part is, and no more', async () => {
    const port = await exampleServer()
    const as = (user: string) =>
      Fleet.connect({ servers: `nats://${user}:${user[0]}-secret@127.0.0.1:${port}` })
    const admin = await as('admin')
    const [workers, submitters] = [await as('worker'), await as('submitter')]
    const handlers = {
      async sum(job: any) {
        await job.emit({ type: 'step' })
        return job.data.reduce((sum: number, n: number) => sum + n, 0)
      },
      big: () => 'x'.repeat(400_000),
      bad() {
        throw new Error('no')
      },
      wait: (job: any) => new Promise((_, reject) => job.signal.addEventListener('abort', reject)),
    }
    const worker = await workers.work({ handlers })
    const sum = await submitters.submit({ handler: 'sum', data: [1, 2], key: 'k' })
    expect(await sum.result).toBe(3)
    const types: string[] = []
    for await (const event of sum.events()) types.push(event.type)
    expect(types).toEqual(['step'])
    const long = await submitters.submit({ handler: 'sum', data: Array.from({ length: 300_000 }, () => 1) })
    expect(await long.result).toBe(300_000)
    expect(await (await submitters.submit({ handler: 'big' })).result).toHaveLength(400_000)
    const bad = await submitters.submit({ handler: 'bad', attempts: 1 })
    await expect(bad.result).rejects.toThrow('no')
    await bad.retry()
    await expect(bad.result).rejects.toThrow('no')
    const running = await submitters.submit({ handler: 'wait' })
    await vi.waitFor(async () => expect((await running.record()).state).toBe('running'), { timeout: 30_000 })
    expect(await running.cancel()).toMatchObject({ state: 'cancelled' })
    expect((await submitters.status()).workers.map(({ name }) => name)).toEqual([worker.name])
    // A worker can't give itself work.
    await expect(workers.submit({ handler: 'sum', data: [1] })).rejects.toMatchObject({
      code: 'FLEET_UNAUTHORIZED',
    })
    await worker.close()
    for (const fleet of [workers, submitters, admin]) await fleet.close()
  }, 180_000)
})
