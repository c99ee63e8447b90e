// The calls for operators of a fleet: titles and tags, lists, pauses, drains, schedules, many jobs at once.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Fleet, type FleetOptions, type JobListOptions, type JobRecord } from '../entries/fleet.js'
import { gate, hasServer, newFolder, newQueue } from './fleet-worker'

const program = join(__dirname, '../cli/sheepdog.js')

const engines: [string, FleetOptions][] = [['in memory', { memory: true }]]
if (hasServer) {
  engines.push(['on a server', { dir: newFolder(), leaseMs: 3000 }])
}

describe.each(engines)('a fleet %s', (_, options) => {
  let fleet: Fleet
  beforeAll(async () => {
    fleet = await Fleet.connect(options)
  })
  afterAll(() => fleet.close())

  const list = async (filter: JobListOptions) => {
    const found: JobRecord[] = []
    for await (const record of fleet.jobs(filter)) found.push(record)
    return found
  }
  const ids = async (filter: JobListOptions) => (await list(filter)).map(({ id }) => id)

  it('keeps the title, the tags, the data and the attempts of a job in its record', async () => {
    const queue = newQueue()
    let runs = 0
    const worker = await fleet.work({
      name: `flaky-${queue}`,
      queues: [queue],
      handlers: {
        flaky() {
          if (++runs === 1) throw Object.assign(new Error('no'), { code: 'E_NO' })
          return 7
        },
      },
    })
    const data = { part: 1 }
    const job = await fleet.submit({ handler: 'flaky', queue, title: 'Part one', tags: ['a', 'b'], data })
    expect(await job.result).toBe(7)
    const record = await job.record()
    expect(record).toMatchObject({
      title: 'Part one',
      tags: ['a', 'b'],
      data,
      result: 7,
      maxAttempts: 3,
      attempts: [
        { attempt: 1, worker: `flaky-${queue}`, reason: 'E_NO', error: { code: 'E_NO', message: 'no' } },
        { attempt: 2, worker: `flaky-${queue}` },
      ],
    })
    for (const { startedAt, endedAt } of record.attempts) expect(endedAt).toBeGreaterThanOrEqual(startedAt)
    expect(record.attempts[1]).not.toHaveProperty('error')
    expect(record.attempts[1]).not.toHaveProperty('reason')
    await worker.close()
  })

  it('lists jobs by queue, state, tag and title, page by page', async () => {
    const queue = newQueue()
    const all = Array.from({ length: 5 }, (__, n) => `${queue}-${n}`)
    for (const [n, id] of all.entries())
      await fleet.submit({ handler: 'h', queue, id, title: `Job ${n}`, tags: [n % 2 ? 'odd' : 'even'] })
    expect(await ids({ queue })).toEqual(all)
    expect(await ids({ queue, tag: 'odd' })).toEqual([all[1], all[3]])
    expect(await ids({ queue, title: 'JOB 2' })).toEqual([all[2]])
    expect(await ids({ queue, limit: 2 })).toEqual(all.slice(0, 2))
    expect(await ids({ queue, limit: 2, after: all[1]! })).toEqual(all.slice(2, 4))
    expect(await ids({ queue, state: 'done' })).toEqual([])
    await (await fleet.job(all[0]!)).cancel()
    expect(await ids({ queue, state: ['cancelled', 'done'] })).toEqual([all[0]])
    await expect(list({ after: 'nobody' })).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
    for (const wrong of [{ state: 'away' }, { limit: 0 }, { state: ['done', 7] }, { tag: 7 }] as never[])
      await expect(list(wrong)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  it('tries all jobs of a queue again that failed', async () => {
    const queue = newQueue()
    let isBad = true
    const handlers = {
      maybe: () => (isBad ? Promise.reject(new Error('no')) : 'yes'),
    }
    const worker = await fleet.work({ queues: [queue], handlers })
    const jobs = await Promise.all(
      [1, 2, 3].map(() => fleet.submit({ handler: 'maybe', queue, attempts: 1 })),
    )
    for (const job of jobs) await expect(job.result).rejects.toMatchObject({ code: 'JOB_FAILED' })
    isBad = false
    expect(await fleet.retryMany({ queue })).toEqual({ jobs: 3 })
    for (const { id } of jobs) expect(await (await fleet.job(id)).result).toBe('yes')
    expect(await fleet.retryMany({ queue })).toEqual({ jobs: 0 })
    await expect(fleet.retryMany({ state: 'done' })).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await worker.close()
  })

  it('refuses to pause a queue that nobody knows', async () => {
    await expect(fleet.pause('typo')).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('queue: no worker serves the queue "typo"'),
    })
  })

  it('starts no job of a paused queue', async () => {
    const queue = newQueue()
    const seen: unknown[] = []
    const worker = await fleet.work({ queues: [queue], handlers: { note: ({ data }) => seen.push(data) } })
    await fleet.pause(queue)
    const job = await fleet.submit({ handler: 'note', queue, data: 1 })
    await new Promise((done) => setTimeout(done, 300))
    expect(seen).toEqual([])
    expect((await fleet.status()).queues[queue]).toMatchObject({ isPaused: true, queued: 1 })
    await fleet.resume(queue)
    await job.result
    expect(seen).toEqual([1])
    expect((await fleet.status()).queues[queue]?.isPaused ?? false).toBe(false)
    await worker.close()
  })

  it('lists each of two workers by one name, and drains both', async () => {
    const queue = newQueue()
    const named = async () => (await fleet.status()).workers.filter(({ name }) => name === queue)
    const [first, second, third] = await Promise.all(
      [1, 2, 3].map(() => fleet.work({ name: queue, queues: [queue], handlers: { h: () => 1 } })),
    )
    await vi.waitFor(async () => expect(await named()).toHaveLength(3), { timeout: 60_000 })
    await first!.close()
    await vi.waitFor(async () => expect(await named()).toHaveLength(2), { timeout: 60_000 })
    await fleet.drain(queue)
    await Promise.all([second!.closed, third!.closed])
    expect(await named()).toEqual([])
  })

  it('drains a worker by its name', async () => {
    const queue = newQueue()
    const { held, go } = gate()
    const worker = await fleet.work({ name: queue, queues: [queue], handlers: { hold: () => held } })
    const job = await fleet.submit({ handler: 'hold', queue })
    await vi.waitFor(
      async () => {
        const { workers } = await fleet.status()
        expect(workers.find(({ name }) => name === queue)?.running).toEqual([job.id])
      },
      { timeout: 60_000 },
    )
    await fleet.drain(queue)
    const later = await fleet.submit({ handler: 'hold', queue })
    go()
    await worker.closed
    await job.result
    expect((await later.record()).state).toBe('queued')
    await expect(fleet.drain(queue)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  it('submits the job of a schedule once for each time', async () => {
    const queue = newQueue()
    const seen: string[] = []
    const worker = await fleet.work({ queues: [queue], handlers: { tick: ({ id }) => seen.push(id) } })
    await fleet.schedule(queue, { cron: '* * * * * *' }, { handler: 'tick', queue, title: 'Tick', data: 1 })
    expect(await fleet.schedules()).toMatchObject([
      {
        id: queue,
        cron: '* * * * * *',
        timeZone: 'UTC',
        catchUp: 'skip',
        job: { handler: 'tick', queue, title: 'Tick', data: 1 },
        nextAt: expect.any(Number),
      },
    ])
    await vi.waitFor(() => expect(seen.length).toBeGreaterThan(1), { timeout: 60_000 })
    expect(await fleet.unschedule(queue)).toBe(true)
    expect(await fleet.unschedule(queue)).toBe(false)
    expect(await fleet.schedules()).toEqual([])
    expect(seen[0]).toMatch(new RegExp(`^${queue}@\\d{4}-\\d\\d-\\d\\dT[\\d:]+Z$`))
    expect(new Set(seen).size).toBe(seen.length)
    const job = { handler: 'tick' }
    for (const [times, spec, path] of [
      [{ cron: 'often' }, job, 'cron'],
      [{ cron: '0 0 30 2 *' }, job, 'cron'],
      [{}, job, 'cron'],
      [{ cron: '@daily', timeZone: 'Mars/North' }, job, 'timeZone'],
      [{ cron: '@daily', catchUp: 'all' }, job, 'catchUp'],
      [{ cron: '@daily' }, { ...job, id: 'x' }, 'job.id'],
      [{ cron: '@daily' }, {}, 'provider'],
    ] as [never, never, string][])
      await expect(fleet.schedule('s', times, spec)).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringContaining(path),
      })
    await worker.close()
  })

  it('tells of each job that changes', async () => {
    const queue = newQueue()
    const changes = fleet.watch({ queue })
    const first = changes.next()
    // The watch is open once it was asked a moment ago.
    await new Promise((done) => setTimeout(done, 300))
    const { id } = await fleet.submit({ handler: 'h', queue, title: 'New' })
    expect((await first).value).toMatchObject({ id, state: 'queued', title: 'New' })
    await (await fleet.job(id)).cancel()
    expect((await changes.next()).value).toMatchObject({ id, state: 'cancelled' })
  })

  it('prunes jobs in the states that are named', async () => {
    const queue = newQueue()
    const job = await fleet.submit({ handler: 'h', queue })
    await job.cancel()
    expect(await fleet.prune({ olderThanMs: 0, queue, states: ['done'] })).toMatchObject({ jobs: 0 })
    expect(await fleet.prune({ olderThanMs: 0, queue, states: ['cancelled'] })).toMatchObject({ jobs: 1 })
    await expect(fleet.prune({ olderThanMs: 0, states: ['queued'] })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    })
  })
})

const commandAt =
  (at: string[]) =>
  (...args: string[]) => {
    const options = { encoding: 'utf8' } as const
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args, ...at], options)
    return { status, stdout, stderr }
  }

describe.runIf(hasServer)('sheepdog fleet and sheepdog jobs', () => {
  it('pause, schedule, drain, list by title, watch and try again', async () => {
    const dir = join(newFolder(), 'fleet')
    const at = ['--dir', dir]
    const run = commandAt(at)
    const fleet = await Fleet.connect({ dir, leaseMs: 3000 })
    const worker = await fleet.work({
      name: 'w',
      handlers: { bad: () => Promise.reject(new Error('no')) },
    })
    expect(run('fleet', 'pause', 'default')).toMatchObject({ status: 0, stdout: '' })
    const watch = spawn(process.execPath, [program, 'jobs', '--watch', ...at], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const lines: string[] = []
    createInterface(watch.stdout).on('line', (line) => lines.push(line))
    expect(
      run(
        'submit',
        '--handler',
        'bad',
        '--id',
        'one',
        '--title',
        'The bad one',
        '--tag',
        't',
        '--attempts',
        '1',
      ),
    ).toMatchObject({ status: 0 })
    expect(run('fleet', 'status').stdout).toContain('queue default: 0 running, 1 queued, paused')
    expect(run('jobs', '--title', 'bad').stdout).toMatch(/^one +queued +bad +"The bad one"/)
    expect(run('jobs', 'ls', '--tag', 'other').stdout).toBe('')
    await vi.waitFor(() => expect(lines.join('\n')).toMatch(/^one +queued/m), { timeout: 60_000 })
    expect(run('fleet', 'resume', 'default')).toMatchObject({ status: 0 })
    await vi.waitFor(() => expect(lines.join('\n')).toMatch(/^one +failed/m), { timeout: 60_000 })
    watch.kill('SIGKILL')
    expect(run('jobs', 'retry', '--all', '--tag', 't').stdout).toBe('1 job\n')
    expect(run('fleet', 'schedule', 'n', '--cron', '0 2 * * *', '--job', '{"handler":"bad"}').status).toBe(0)
    expect(run('fleet', 'schedule').stdout).toMatch(/^n {2}0 2 \* \* \* {2}UTC {2}next 20/)
    expect(run('fleet', 'schedule', 'n', '--remove').status).toBe(0)
    expect(run('fleet', 'schedule', 'n', '--remove').status).toBe(1)
    expect(run('fleet', 'schedule').stdout).toMatch(/^no schedule/)
    expect(run('fleet', 'drain', 'w')).toMatchObject({ status: 0 })
    await worker.closed
    expect(run('fleet', 'drain', 'w')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('the fleet has no worker "w"'),
    })
    for (const [args, message] of [
      [['fleet', 'pause'], 'a name is needed: sheepdog fleet pause QUEUE'],
      [['fleet', 'schedule', 'n'], 'schedule needs --cron'],
      [['fleet', 'schedule', 'n', '--cron', '@daily', '--job', '{'], '--job: invalid JSON'],
      [['jobs', '--limit', 'x'], '--limit: expected'],
      [['jobs', 'retry'], 'the id of a job is needed'],
    ] as const)
      expect(run(...args)).toMatchObject({ status: 2, stderr: expect.stringContaining(message) })
    if (watch.exitCode === null && watch.signalCode === null) await once(watch, 'exit')
    await fleet.close()
  })
})
