// `usage.costUsd` by `prices`: the same figure wherever a turn tells what it used.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { Harness, listRuns, replayRecord, type AgentEvent, type AgentUsage } from '..'
import { Fleet } from '../entries/fleet.js'
import { scriptedAgent } from '../entries/testing.js'
import { RecordSource } from '../dist/cli/view/record_source'
import { FleetSource } from '../dist/cli/view/fleet_source'
import { hasServer, newFolder, newQueue } from './fleet-worker'

const base = mkdtempSync(join(tmpdir(), 'priced-turns-'))
afterAll(() => rmSync(base, { recursive: true, force: true }))

const usage = { inputTokens: 1000, outputTokens: 100, cachedInputTokens: 400 }
const prices = { inputPerMillion: 3, outputPerMillion: 15, cachedPerMillion: 0.5 }
// 1000 * 3 + 400 * 0.5 + 100 * 15 dollars for a million: the protocol counts cached tokens beside the others.
const priced = { ...usage, costUsd: 0.0047, costSource: 'prices' }

const agent = () => scriptedAgent([{ say: 'Priced.', usage }])
const turn = async (options: object = {}) => {
  const record = mkdtempSync(join(base, 'record-'))
  const running = new Harness({ provider: agent() }).start('Hi.', { record, ...options })
  const events: AgentEvent[] = []
  for await (const event of running) events.push(event)
  return { record, events, result: await running.result }
}

/** The places in which a turn tells its usage: the name of each, and its content. */
const places: Record<string, (options?: object) => Promise<Partial<AgentUsage> | undefined>> = {
  result: async (options) => (await turn(options)).result.usage,
  record: async (options) => {
    const { end } = await replayRecord((await turn(options)).result.record!.folder)
    return (end as { usage?: AgentUsage }).usage
  },
  'list of runs': async (options) => {
    for await (const run of listRuns((await turn(options)).record)) return run.usage
  },
  "page's data": async (options) => {
    const source = await RecordSource.open((await turn(options)).record)
    const [{ id } = { id: '' }] = await source.list()
    const detail = await source.detail(id)
    return { costUsd: detail?.costUsd ?? undefined }
  },
  'prompt of a session': async (options) => {
    const session = await new Harness({ provider: agent() }).open(options)
    try {
      return (await session.prompt('Hi.')).usage
    } finally {
      await session.close()
    }
  },
}

describe('the cost by prices', () => {
  it.each(Object.keys(places))('stands in the %s, and without prices none does', async (place) => {
    const { costUsd } = (await places[place]!({ prices })) ?? {}
    expect(costUsd).toBe(priced.costUsd)
    expect((await places[place]!())?.costUsd).toBeUndefined()
  })

  it('is told with its source', async () => {
    expect((await turn({ prices })).result.usage).toMatchObject(priced)
  })

  it('stands in the events', async () => {
    const { events } = await turn({ prices })
    const told = events.filter((event) => event.type === 'usage')
    expect(told.map((event) => event.costUsd)).toEqual([priced.costUsd])
  })
})

describe.runIf(hasServer)('the cost by prices of a job', () => {
  it('stands in its result, its record and the data of the page', async () => {
    const fleet = await Fleet.connect({ dir: newFolder() })
    const queue = newQueue()
    const worker = await fleet.work({ queues: [queue], harness: { provider: agent() } })
    try {
      const job = await fleet.submit({ provider: agent(), prompt: 'Hi.', queue, cwd: newFolder(), prices })
      expect(await job.result).toMatchObject({ usage: priced })
      expect((await job.record()).usage).toMatchObject({ costUsd: priced.costUsd })
      expect((await new FleetSource(fleet, 'jobs').detail(job.id))?.costUsd).toBe(priced.costUsd)
    } finally {
      await worker.close()
      await fleet.close()
    }
  })
})
