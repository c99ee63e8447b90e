// A provider that is at its limit is left alone by all workers.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { Fleet } from '../entries/fleet.js'
import { hasServer, newFolder, newQueue, workerProcess } from './fleet-worker'
import { scriptedAgent } from '../entries/testing.js'

describe.runIf(hasServer)('a provider at its limit', () => {
  const dir = hasServer ? newFolder() : ''
  let fleet: Fleet
  beforeAll(async () => {
    fleet = await Fleet.connect({ dir, leaseMs: 2000 })
  })
  afterAll(() => fleet?.close())

  it('is left alone by every worker until the limit is over, and that costs no attempt', async () => {
    const queue = newQueue()
    // One agent for both workers: limited at its first start, well from the second one on.
    const hello = { say: 'Hello.' }
    const provider = scriptedAgent([{ limit: { resetsInMs: 15_000 } }, hello, hello])
    const harness = { provider, retry: { attempts: 1 } } as const
    const options = { queues: [queue], harness: harness as never, concurrency: 1 }
    await workerProcess({ dir }, { ...options, name: 'one' })
    const cwd = newFolder()
    const first = await fleet.submit({ provider, prompt: 'x', queue, cwd, attempts: 1 })
    await vi.waitFor(
      async () =>
        expect(await first.record()).toMatchObject({ state: 'queued', error: { kind: 'rate_limit' } }),
      { timeout: 30_000, interval: 50 },
    )
    const { notBefore } = await first.record()
    await workerProcess({ dir }, { ...options, name: 'two' })
    // A job that neither worker has seen fail, and one of another provider's, in the same queue.
    const second = await fleet.submit({ provider, prompt: 'y', queue, cwd, attempts: 1 })
    const other = await fleet.submit({ handler: 'echo', queue, data: 'not held' })
    expect(await other.result).toBe('not held')
    const held = await fleet.status()
    expect(held.stuck.map(({ id, why }) => [id, why])).toContainEqual([
      second.id,
      expect.stringMatching(/^scripted is at its usage limit/),
    ])
    for (const job of [first, second]) {
      expect(await job.result).toMatchObject({ text: 'Hello.' })
      const record = await job.record()
      expect(record).toMatchObject({ state: 'done', spent: 1 })
      expect(record.startedAt!, 'after the limit').toBeGreaterThanOrEqual(notBefore! - 1000)
    }
    expect((await first.record()).attempt).toBe(2)
    expect((await second.record()).attempt, 'nobody asked the provider in vain').toBe(1)
  })
})
