// What `sheepdog view --fleet` shows, without a browser: the source behind the page.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { Fleet } from '../entries/fleet.js'
import { sheepdog, started } from './cli-command'
import { gate, hasServer, newFolder, newQueue } from './fleet-worker'

describe.runIf(hasServer)('the jobs of a fleet on the page', () => {
  const dir = hasServer ? newFolder() : ''
  let fleet: Fleet
  beforeAll(async () => {
    fleet = await Fleet.connect({ dir })
  })
  afterAll(() => fleet?.close())

  it('are listed, followed live, and cancelled', async () => {
    const queue = newQueue()
    const { held, go } = gate()
    const worker = await fleet.work({
      queues: [queue],
      handlers: {
        async talk(job) {
          await job.emit({ type: 'text', text: 'first words' })
          await held
          await job.emit({ type: 'tool_start', id: 't', name: 'sum', input: { command: '1+1' } })
          await job.emit({ type: 'tool_end', id: 't', name: 'sum', output: '2', isError: false })
          return 2
        },
      },
    })
    const view = started(['view', '--fleet', '--allow-stop', '--dir', dir])
    const base = (await view.printed(/\n/)).trim()
    const get = async (path: string) => {
      const response = await fetch(new URL(`api/${path}`, base))
      expect(response.status).toBe(200)
      return response.json() as Promise<any>
    }
    const talk = await fleet.submit({ handler: 'talk', queue, id: 'talk/1' })
    const waiting = await fleet.submit({ handler: 'nobody', queue, id: 'waits' })
    const unnamed = await fleet.submit({ handler: 'nobody', queue })
    const id = encodeURIComponent(talk.id)
    const texts = async () => (await get(`runs/${id}/rows?from=0&count=50`)).map((row: any) => row.text)
    await vi.waitFor(async () => expect(await texts()).toEqual(['first words']), {
      timeout: 30_000,
      interval: 100,
    })
    const { runs } = await get('runs')
    // A generated id says nothing.
    const names = Object.fromEntries(runs.map(({ id, name }: any) => [id, name]))
    expect(names).toMatchObject({ [talk.id]: 'talk/1', waits: 'waits', [unnamed.id]: 'nobody' })
    expect(runs.map(({ id, state, what }: any) => [id, state, what])).toEqual(
      expect.arrayContaining([
        [talk.id, 'running', 'talk'],
        [waiting.id, 'waiting', 'nobody'],
      ]),
    )
    go()
    await talk.result
    await vi.waitFor(
      async () => {
        expect(await texts()).toEqual(['first words', '1+1', '2'])
        const detail = await get(`runs/${id}`)
        expect(detail).toMatchObject({ state: 'done', attempts: 1, rows: 3 })
        const bars = detail.timeline.bars.filter((bar: any) => bar.lane !== 'wait')
        expect(bars.map((bar: any) => bar.lane)).toEqual(['attempt', 'model', 'tool'])
        expect(detail.facts).toContainEqual(['worker', worker.name])
        expect(detail.facts).toContainEqual(['handler', 'talk'])
        expect(detail.texts).toContainEqual(['result', '2'])
        // From the start of the attempt, not from its first event.
        expect(bars[0].fromMs).toBeLessThan(bars[1].fromMs)
      },
      { timeout: 30_000, interval: 100 },
    )
    view.child.kill('SIGTERM')
    await worker.close()
  })

  it('have each attempt with its error, and the waiting between them', async () => {
    const queue = newQueue()
    const worker = await fleet.work({
      queues: [queue],
      handlers: {
        flaky(job) {
          if (job.attempt < 3) throw Object.assign(new Error(`no ${job.attempt}`), { code: 'E_NO' })
          return 'at last'
        },
      },
    })
    const job = await fleet.submit({ handler: 'flaky', queue, id: 'flaky', data: { part: 1 } })
    await job.result
    const view = started(['view', '--fleet', '--dir', dir])
    const base = (await view.printed(/\n/)).trim()
    const detail: any = await (await fetch(new URL('api/runs/flaky', base))).json()
    expect(detail).toMatchObject({
      state: 'done',
      texts: [
        ['data', expect.stringContaining('"part": 1')],
        ['result', 'at last'],
      ],
      tries: [
        { attempt: 1, worker: worker.name, error: 'E_NO: no 1' },
        { attempt: 2, worker: worker.name, error: 'E_NO: no 2' },
        { attempt: 3, worker: worker.name, error: null },
      ],
    })
    const { attempts, submittedAt } = await job.record()
    const lane = (name: string) => detail.timeline.bars.filter((bar: any) => bar.lane === name)
    expect(lane('attempt').map(({ fromMs, toMs }: any) => [fromMs, toMs])).toEqual(
      attempts.map(({ startedAt, endedAt }) => [startedAt - submittedAt, endedAt! - submittedAt]),
    )
    const pauses = lane('wait').filter(({ label }: any) => label !== 'waits in its queue')
    expect(pauses.map(({ label }: any) => label)).toEqual(['after E_NO: no 1', 'after E_NO: no 2'])
    view.child.kill('SIGTERM')
    await worker.close()
  })

  it('are not shown with a folder', async () => {
    const { status, stderr } = await sheepdog(['view', 'records', '--fleet'])
    expect([status, stderr]).toEqual([2, expect.stringContaining('--fleet takes no FOLDER')])
  })
})
