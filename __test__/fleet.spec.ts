import { statSync, readFileSync, writeFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { Fleet, type JobEvent, type JobContext, type JobHandler } from '../entries/fleet.js'
import { SheepdogError } from '..'
import { freePorts, serve } from './nats-server'
import { gate, hasServer, newFolder, newQueue, wait } from './fleet-worker'
import { failure } from './played-agent'

describe.runIf(hasServer)('a fleet', () => {
  const dir = hasServer ? newFolder() : ''
  let fleet: Fleet
  beforeAll(async () => {
    fleet = await Fleet.connect({ dir, leaseMs: 3000 })
  })
  afterAll(() => fleet.close())

  async function work(handlers: Record<string, JobHandler>, options = {}) {
    const queue = newQueue()
    return { queue, worker: await fleet.work({ queues: [queue], handlers, ...options }) }
  }

  it('runs a handler and keeps its result, its events and its record', async () => {
    const { queue, worker } = await work(
      {
        add: async (job) => {
          await job.emit({ type: 'step', n: 1 })
          await job.emit({ type: 'step', n: 2 })
          return job.data.a + job.data.b
        },
      },
      { name: 'adder' },
    )
    const job = await fleet.submit({ handler: 'add', queue, data: { a: 1, b: 2 } })
    expect(await job.result).toBe(3)
    const events: any[] = []
    for await (const event of job.events()) events.push(event)
    expect(events.map(({ type, n, attempt }) => [type, n, attempt])).toEqual([
      ['step', 1, 1],
      ['step', 2, 1],
    ])
    const rest: any[] = []
    for await (const event of job.events({ from: events[0].cursor })) rest.push(event)
    expect(rest).toEqual([events[1]])
    const record = await job.record()
    expect(record).toMatchObject({ id: job.id, queue, state: 'done', attempt: 1, worker: 'adder', result: 3 })
    expect(record.submittedAt).toBeLessThanOrEqual(record.startedAt!)
    expect(record.startedAt).toBeLessThanOrEqual(record.endedAt!)
    expect(record).not.toHaveProperty('token')
    await worker.close()
  })

  it('tells what is in the log of a job that runs, and ends there when it is asked to', async () => {
    const queue = newQueue()
    const { held, go } = gate()
    const worker = await fleet.work({
      queues: [queue],
      handlers: {
        async hold(job) {
          for (const n of [1, 2, 3]) await job.emit({ type: 'step', n })
          await held
        },
      },
    })
    const job = await fleet.submit({ handler: 'hold', queue })
    const told = async () => {
      const steps: JobEvent[] = []
      for await (const event of job.events({ live: false })) if (event.type === 'step') steps.push(event)
      return steps
    }
    await vi.waitFor(async () => expect(await told()).toHaveLength(3), { timeout: 60_000 })
    const { cursor } = (await told())[1]!
    const rest: JobEvent[] = []
    for await (const event of job.events({ live: false, from: cursor })) rest.push(event)
    expect(rest).toMatchObject([{ type: 'step', n: 3 }])
    go()
    await job.result
    await worker.close()
  })

  it('takes the same id again as the same job, before and after its end', async () => {
    let runs = 0
    const { queue, worker } = await work({ count: () => ++runs })
    const id = `named: ${queue}/1`
    const [one, two] = await Promise.all([1, 2].map(() => fleet.submit({ handler: 'count', queue, id })))
    expect(await one!.result).toBe(1)
    expect(await two!.result).toBe(1)
    const late = await fleet.submit({ handler: 'count', queue, id, priority: 9 })
    expect(await late.result).toBe(1)
    expect((await fleet.job(id)).id).toBe(id)
    await worker.close()
    expect(runs).toBe(1)
  })

  it('ends a job whose handler throws as failed, with its own code, when the attempts are used up', async () => {
    const { queue, worker } = await work({
      bad: async (job) => {
        throw Object.assign(new Error(`attempt ${job.attempt}`), { code: 'E_MINE', extra: { n: 5 } })
      },
    })
    const job = await fleet.submit({ handler: 'bad', queue, attempts: 2 })
    const error = await failure(job.result)
    expect(error).toMatchObject({ code: 'E_MINE', message: 'attempt 2', extra: { n: 5 } })
    expect(await job.record()).toMatchObject({ state: 'failed', attempt: 2 })
    await job.retry()
    expect(await failure(job.result)).toMatchObject({ code: 'E_MINE', message: 'attempt 4' })
    expect(await job.record()).toMatchObject({ state: 'failed', attempt: 4 })
    await worker.close()
  })

  it('runs the highest class first, and the oldest of a class', async () => {
    const queue = newQueue()
    const order: string[] = []
    for (const [id, priority] of [
      ['low', 0],
      ['plain', undefined],
      ['high', 9],
      ['plain2', undefined],
    ] as const)
      await fleet.submit({ handler: 'note', queue, id: `${queue}-${id}`, priority, data: id })
    const worker = await fleet.work({
      queues: [queue],
      concurrency: 1,
      handlers: { note: (job: JobContext) => void order.push(job.data) },
    })
    await (
      await fleet.job(`${queue}-low`)
    ).result
    expect(order).toEqual(['high', 'plain', 'plain2', 'low'])
    await worker.close()
  })

  it('runs at most keyLimit jobs of a key at once', async () => {
    let now = 0
    let most = 0
    const { held, go } = gate()
    const { queue, worker } = await work(
      {
        hold: async () => {
          most = Math.max(most, ++now)
          // As many as may come have come; then there is time for one too many.
          if (now === 2) go()
          await held
          await wait(60)
          now--
        },
      },
      { concurrency: 6 },
    )
    const jobs = await Promise.all(
      Array.from({ length: 6 }, () =>
        fleet.submit({ handler: 'hold', queue, key: `k:${queue}`, keyLimit: 2 }),
      ),
    )
    await Promise.all(jobs.map((job) => job.result))
    expect(most).toBe(2)
    await worker.close()
  })

  it('runs a later job not before its time', async () => {
    const { queue, worker } = await work({ now: () => Date.now() })
    const at = new Date(Date.now() + 700)
    const job = await fleet.submit({ handler: 'now', queue, at })
    expect(await job.record()).toMatchObject({ state: 'queued', notBefore: at.getTime() })
    expect(await job.result).toBeGreaterThanOrEqual(at.getTime())
    await worker.close()
  })

  it('cancels a job that waits: it never runs', async () => {
    const queue = newQueue()
    const job = await fleet.submit({ handler: 'echo', queue, data: 1 })
    expect(await job.cancel()).toMatchObject({ state: 'cancelled' })
    expect((await failure(job.result)).code).toBe('JOB_CANCELLED')
    let runs = 0
    const worker = await fleet.work({ queues: [queue], handlers: { echo: () => ++runs } })
    expect(await (await fleet.submit({ handler: 'echo', queue })).result).toBe(1)
    expect(await job.cancel()).toMatchObject({ state: 'cancelled' })
    // Who tries it again wants it run.
    await job.retry()
    expect(await job.result).toBe(2)
    expect(await job.cancel()).toMatchObject({ state: 'done' })
    await worker.close()
  })

  it('cancels a job that runs: its signal is aborted, and what it returns does not count', async () => {
    let aborted = false
    const { queue, worker } = await work({
      stubborn: async (job) => {
        await job.emit({ type: 'began' })
        await new Promise<void>((resolve) => job.signal.addEventListener('abort', () => resolve()))
        aborted = true
        return 'late'
      },
    })
    const job = await fleet.submit({ handler: 'stubborn', queue })
    for await (const event of job.events()) if (event.type === 'began') break
    expect(await job.cancel()).toMatchObject({ state: 'cancelled', attempt: 1 })
    expect(aborted).toBe(true)
    expect((await job.record()).result).toBeUndefined()
    await worker.close()
  })

  it('forces a job to be cancelled whose worker does not listen, and refuses what it commits', async () => {
    let end = () => {}
    const { queue, worker } = await work({
      deaf: async (job) => {
        await job.emit({ type: 'began' })
        await new Promise<void>((resolve) => (end = resolve))
        return 'late'
      },
    })
    const job = await fleet.submit({ handler: 'deaf', queue })
    for await (const event of job.events()) if (event.type === 'began') break
    expect(await job.cancel({ force: true })).toMatchObject({ state: 'cancelled' })
    end()
    await worker.close()
    expect(await job.record()).toMatchObject({ state: 'cancelled', attempt: 1 })
  })

  it('keeps artifacts: those a handler names, and those that globs find', async () => {
    const cwd = newFolder()
    const { queue, worker } = await work({
      write: async (job) => {
        mkdirSync(join(job.cwd, 'out'))
        writeFileSync(join(job.cwd, 'out/a.txt'), 'hello')
        writeFileSync(join(job.cwd, 'named.bin'), 'x')
        writeFileSync(join(job.cwd, 'other'), 'y')
        await job.artifact('named.bin')
        const outside = await job.artifact('../other').catch((error) => error)
        return outside.code
      },
    })
    const job = await fleet.submit({ handler: 'write', queue, cwd, artifacts: ['out/*.txt'] })
    expect(await job.result).toBe('INVALID_OPTION')
    expect(await job.artifacts()).toEqual([
      {
        path: 'named.bin',
        bytes: 1,
        sha256: '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881',
      },
      {
        path: 'out/a.txt',
        bytes: 5,
        sha256: '2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824',
      },
    ])
    const to = join(newFolder(), 'deep/a.txt')
    await job.download('out/a.txt', to)
    expect(readFileSync(to, 'utf8')).toBe('hello')
    expect((await failure(job.download('nothing', to))).message).toMatch(/^path: /)
    await worker.close()
  })

  it('carries specs and results of megabytes', async () => {
    const { queue, worker } = await work({ echo: (job) => job.data })
    const data = 'x'.repeat(3 << 20)
    const job = await fleet.submit({ handler: 'echo', queue, data })
    expect(await job.result).toBe(data)
    expect((await job.record()).result).toBeUndefined()
    await worker.close()
  })

  it('leaves a job to others that have its handler', async () => {
    const { queue, worker } = await work({ mine: () => 'mine' })
    const other = await fleet.work({ queues: [queue], handlers: { theirs: () => 'theirs' } })
    const results = ['mine', 'theirs', 'mine', 'theirs'].map(
      async (handler) => (await fleet.submit({ handler, queue })).result,
    )
    expect(await Promise.all(results)).toEqual(['mine', 'theirs', 'mine', 'theirs'])
    await Promise.all([worker.close(), other.close()])
  })

  it('gives a drained job to another worker, at no cost of an attempt', async () => {
    const slow: JobHandler = async (job) => {
      await job.emit({ type: 'began' })
      if (job.attempt === 1)
        await new Promise((_, reject) =>
          job.signal.addEventListener('abort', () => reject(job.signal.reason)),
        )
      return job.attempt
    }
    const { queue, worker } = await work({ slow }, { drainTimeoutMs: 1 })
    const job = await fleet.submit({ handler: 'slow', queue, attempts: 1 })
    for await (const event of job.events()) if (event.type === 'began') break
    const other = await fleet.work({ queues: [queue], handlers: { slow } })
    const begun = performance.now()
    await worker.close()
    expect(await job.result).toBe(2)
    expect(performance.now() - begun).toBeLessThan(3000)
    await other.close()
  })

  it('tells what waits, who works and what is stuck', async () => {
    const queue = newQueue()
    const job = await fleet.submit({ handler: 'echo', queue })
    const status = await fleet.status()
    expect(status.leaseMs).toBe(3000)
    expect(status.queues[queue]).toMatchObject({
      queued: 1,
      running: 0,
      oldestSubmittedAt: expect.any(Number),
    })
    expect(status.stuck).toContainEqual({ id: job.id, why: `no worker pulls from the queue ${queue}` })
    const found: string[] = []
    for await (const record of fleet.jobs({ queue, state: 'queued' })) found.push(record.id)
    expect(found).toEqual([job.id])
    await job.cancel()
  })

  it('refuses what it can not take, by its path, and never throws at once', async () => {
    for (const [job, path] of [
      [{}, 'provider: '],
      [{ handler: 'h', priority: 10 }, 'priority: '],
      [{ handler: 'h', priorty: 1 }, 'priorty: '],
      [{ handler: 'h', at: 'soon' }, 'at: '],
      [{ handler: 'h', attempts: 0 }, 'attempts: '],
      [{ handler: 'h', data: 1n }, 'data: '],
      [{ handler: 'h', id: 'x'.repeat(300) }, 'id: '],
      [{ handler: 'h', provider: 'codex', prompt: 'x' }, 'handler: '],
      [{ provider: 'codex' }, 'prompt: '],
      [{ provider: 'kodex', prompt: 'x' }, 'provider: '],
      [{ provider: 'codex', prompt: 'x', idleTimeoutMs: '5s' }, 'idleTimeoutMs: '],
    ] as const) {
      const error = await failure(fleet.submit(job as never))
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message.slice(0, path.length)).toBe(path)
    }
    for (const [options, path] of [
      [{ queues: [] }, 'queues: '],
      [{ concurrency: 0 }, 'concurrency: '],
      [{ handlers: { a: 1 } }, 'handlers["a"]: '],
      [{ harness: { modle: 'x' } }, 'harness.modle: '],
    ] as const) {
      const error = await failure(fleet.work(options as never))
      expect([error.code, error.message.slice(0, path.length)]).toEqual(['INVALID_OPTION', path])
    }
    expect((await failure(fleet.job('nobody'))).code).toBe('JOB_NOT_FOUND')
    expect((await failure(fleet.work({ signal: AbortSignal.abort() }))).code).toBe('FLEET_CLOSED')
  })

  it('keeps its secrets in a file that is nobody else to read', () => {
    expect(statSync(join(dir, 'fleet.json')).mode & 0o777).toBe(0o600)
    expect(statSync(join(dir, 'nats-server.conf')).mode & 0o777).toBe(0o600)
  })

  it('has one lease, and says so when another is asked for', async () => {
    const error = await failure(Fleet.connect({ dir, leaseMs: 5000 }))
    expect([error.code, error.message.slice(0, 9)]).toEqual(['INVALID_OPTION', 'leaseMs: '])
    const same = await Fleet.connect({ dir })
    expect((await same.status()).leaseMs).toBe(3000)
    await same.close()
    expect((await failure(same.submit({ handler: 'h' }))).code).toBe('FLEET_CLOSED')
  })

  it('names the login when the server comes back with another token', async () => {
    const [port] = await freePorts(1)
    const configuration = (token: string) =>
      `listen: 127.0.0.1:${port}\njetstream { store_dir: "${newFolder()}" }\nauthorization { token: ${token} }\n`
    const server = await serve(configuration('first'), port!)
    const fleet = await Fleet.connect({ servers: `nats://127.0.0.1:${port}`, token: 'first' })
    server.kill('SIGKILL')
    await serve(configuration('second'), port!)
    const error = await failure(fleet.submit({ handler: 'h' }))
    expect([error.code, error.message]).toEqual([
      'FLEET_UNAUTHORIZED',
      expect.stringMatching(/token|log ?in/),
    ])
    await fleet.close()
  })

  it('says what is wrong with the way to a server', async () => {
    const { url } = JSON.parse(readFileSync(join(dir, 'fleet.json'), 'utf8'))
    expect((await failure(Fleet.connect({ servers: url, token: 'wrong' }))).code).toBe('FLEET_UNAUTHORIZED')
    expect((await failure(Fleet.connect({ servers: 'nats://127.0.0.1:1' }))).code).toBe('FLEET_UNREACHABLE')
    const named = process.env.SHEEPDOG_NATS_SERVER
    process.env.SHEEPDOG_NATS_SERVER = '/nowhere/nats-server'
    const missing = await failure(Fleet.connect({ dir: newFolder() }))
    process.env.SHEEPDOG_NATS_SERVER = named
    expect(missing.code).toBe('FLEET_SERVER_MISSING')
    expect(missing).toBeInstanceOf(SheepdogError)
  })

  it('ends a job whatever its handler returns or throws', async () => {
    const queue = newQueue()
    let deep: unknown = 1
    for (let depth = 0; depth < 3000; depth++) deep = [deep]
    const handlers = {
      deep: () => deep,
      half: () => '\ud800',
      throwsDeep() {
        throw Object.assign(new Error('no'), { deep, kind: 'mine' })
      },
      throwsGetter() {
        throw Object.defineProperty(new Error('no'), 'message', {
          get() {
            throw new Error('inner')
          },
        })
      },
      throwsProxy() {
        throw new Proxy(
          {},
          {
            get() {
              throw new Error('inner')
            },
          },
        )
      },
    }
    const worker = await fleet.work({ queues: [queue], handlers })
    const ended = async (handler: string) =>
      failure((await fleet.submit({ handler, queue, attempts: 1 })).result)
    expect(await ended('deep')).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('cannot be stored as JSON'),
    })
    let nested: unknown[] = []
    for (let level = 0; level < 127; level++) nested = [nested]
    expect(await failure(fleet.submit({ handler: 'half', queue, data: nested }))).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('nested deeper than 100 levels'),
    })
    const half = await fleet.submit({ handler: 'half', queue, attempts: 1 })
    expect(await half.result).toBe('\ufffd')
    expect(await ended('throwsDeep')).toMatchObject({ code: 'JOB_FAILED', message: 'no' })
    for (const handler of ['throwsGetter', 'throwsProxy'])
      expect(await ended(handler)).toMatchObject({ message: 'the handler threw a value that cannot be read' })
    await worker.close()
  })
})
