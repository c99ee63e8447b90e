// Handlers of a fleet, what they throw, and what they leave behind.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Fleet, type JobHandler } from '../entries/fleet.js'
import { SheepdogError } from '..'
import { hasServer, newFolder, newQueue } from './fleet-worker'

function resolvers<T>() {
  let resolve!: (value: T) => void
  const promise = new Promise<T>((done) => (resolve = done))
  return { promise, resolve }
}

describe.runIf(hasServer)('handlers of a fleet', () => {
  const dir = hasServer ? newFolder() : ''
  let fleet: Fleet
  beforeAll(async () => {
    fleet = await Fleet.connect({ dir })
  })
  afterAll(() => fleet.close())
  const strays: unknown[] = []
  const onStray = (error: unknown) => void strays.push(error)
  beforeAll(() => void process.on('unhandledRejection', onStray))
  afterAll(() => void process.off('unhandledRejection', onStray))

  /** The error of a job whose handler throws this. */
  async function thrown(value: unknown): Promise<any> {
    const queue = newQueue()
    await using _worker = await fleet.work({
      queues: [queue],
      handlers: {
        it() {
          throw value
        },
      },
    })
    const job = await fleet.submit({ handler: 'it', queue, attempts: 1 })
    // The worker closes at the end of this block.
    return await job.result.then(
      () => undefined,
      (error: unknown) => error,
    )
  }

  it('tells an error whose class sets its name, and lets no field take the place of a member', async () => {
    class Own extends Error {
      constructor(message: string) {
        super(message)
        this.name = 'Own'
      }
    }
    const own = Object.assign(new Own('no'), {
      code: 'E_OWN',
      toJSON: 'mine',
      constructor: 'mine',
      toString: 'mine',
      jobId: 'mine',
      n: 0,
      nothing: null,
    })
    const error = await thrown(own)
    expect(error).toBeInstanceOf(SheepdogError)
    expect(error).toMatchObject({
      name: 'SheepdogError',
      code: 'E_OWN',
      message: 'no',
      errorName: 'Own',
      n: 0,
      nothing: null,
    })
    expect(error.jobId).not.toBe('mine')
    expect(error.toJSON()).toMatchObject({ name: 'SheepdogError', code: 'E_OWN' })
    expect(error.constructor).toBe(SheepdogError)
    expect(String(error)).toBe('SheepdogError: no')
  })

  it('tells the causes, the inner errors, and each field that can travel', async () => {
    const inner = Object.assign(new Error('connect refused'), { code: 'ECONNREFUSED', port: 1 })
    const circle: Record<string, unknown> = {}
    circle.self = circle
    const error = await thrown(
      Object.assign(
        new AggregateError([inner, new TypeError('second')], 'all failed', {
          cause: new RangeError('why', { cause: 'deep' }),
        }),
        {
          circle,
          big: 10n,
          get broken() {
            return 1
          },
          bytes: new Uint8Array([1, 2, 250]),
          fine: { deep: [1, 2] },
        },
      ),
    )
    expect(error).toMatchObject({
      code: 'JOB_FAILED',
      message: 'all failed',
      errorName: 'AggregateError',
      big: '10n',
    })
    expect(error).toMatchObject({
      bytes: 'AQL6',
      fine: { deep: [1, 2] },
      circle: { self: '[circular]' },
    })
    expect(error.cause).toBeInstanceOf(Error)
    expect(error.cause).toMatchObject({ name: 'RangeError', message: 'why', cause: 'deep' })
    expect(error.errors.map((one: Error) => one.name)).toEqual(['Error', 'TypeError'])
    expect(error.errors[0]).toMatchObject({ code: 'ECONNREFUSED', message: 'connect refused', port: 1 })
  })

  it('tells nothing of a request and its logins, and is bounded', async () => {
    const error = await thrown(
      Object.assign(new Error('Request failed: Bearer abcdefgh12345678'), {
        status: 401,
        config: { headers: { Authorization: 'Bearer abcdefgh12345678' } },
        response: { status: 401, headers: { 'set-cookie': 'x' }, data: 'words' },
        apiKey: 'sk-1',
        long: 'x'.repeat(100_000),
        many: Array.from({ length: 1000 }, (_, at) => at),
      }),
    )
    const text = JSON.stringify(error)
    expect(text).not.toMatch(/abcdefgh|set-cookie|sk-1/)
    expect(error).toMatchObject({ status: 401, response: { status: 401, data: 'words' } })
    expect(text.length).toBeLessThan(10_000)
  })

  it.each([
    ['a string', 'no', 'no'],
    ['undefined', undefined, 'undefined'],
    ['an object with a message', { message: 'no', code: 'E_NO' }, 'no'],
    ['an object', { a: 1 }, '{"a":1}'],
    ['null', null, 'null'],
    ['a symbol', Symbol('x'), 'Symbol(x)'],
  ])('tells %s', async (_, value, message) => {
    expect(await thrown(value)).toMatchObject({ message })
  })

  it.each([[null], [0], [false], [''], [[]]])('gets the data %j', async (data) => {
    const queue = newQueue()
    await using _worker = await fleet.work({
      queues: [queue],
      handlers: { it: (job) => ({ got: job.data }) },
    })
    const job = await fleet.submit({ handler: 'it', queue, data })
    expect(await job.result).toEqual({ got: data })
    expect((await job.record()).data).toEqual(data)
  })

  it.each([[null], [undefined], [0], [false], [''], [[null]]])('has the result %j', async (result) => {
    const queue = newQueue()
    await using _worker = await fleet.work({ queues: [queue], handlers: { it: () => result } })
    const job = await fleet.submit({ handler: 'it', queue })
    expect(await job.result).toEqual(result)
    expect((await job.record()).result).toEqual(result)
  })

  /** The reason of the signal of a job that runs, when this is done. */
  async function reason(
    end: (job: Awaited<ReturnType<Fleet['submit']>>, close: () => Promise<void>) => Promise<unknown>,
  ) {
    const queue = newQueue()
    const began = resolvers<void>()
    const told = resolvers<SheepdogError>()
    const handler: JobHandler = ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          told.resolve(signal.reason as SheepdogError)
          reject(signal.reason as Error)
        })
        began.resolve()
      })
    const worker = await fleet.work({ queues: [queue], handlers: { it: handler }, drainTimeoutMs: 0 })
    const job = await fleet.submit({ handler: 'it', queue, attempts: 1 })
    job.result.catch(() => {})
    await began.promise
    await end(job, () => worker.close())
    const error = await told.promise
    await worker.close()
    await job.cancel({ force: true })
    return { code: error.code, message: error.message }
  }

  it('is told why it has to stop: the job was cancelled', async () => {
    expect(await reason((job) => job.cancel())).toMatchObject({
      code: 'JOB_CANCELLED',
      message: expect.stringContaining('it was cancelled'),
    })
  })

  it('is told why it has to stop: the worker closes, without a grace when that is 0', async () => {
    expect(await reason((_, close) => close())).toMatchObject({
      code: 'FLEET_CLOSED',
      message: expect.stringContaining('this worker closes'),
    })
  })

  it('may emit events when its job is over: nobody has to wait for them', async () => {
    const queue = newQueue()
    const late: Promise<void>[] = []
    const handlers: Record<string, JobHandler> = {
      it(job) {
        setTimeout(() => {
          void job.emit({ type: 'late' })
          void job.artifact('missing')
          void job.emit('wrong' as never)
          late.push(job.emit({ type: 'late' }))
        }, 100)
      },
    }
    await using _worker = await fleet.work({ queues: [queue], handlers })
    const job = await fleet.submit({ handler: 'it', queue })
    await job.result
    while (late.length === 0) await new Promise((resolve) => setTimeout(resolve, 20))
    // A handler that awaits the late event gets the error.
    await expect(late[0]).rejects.toMatchObject({ code: 'JOB_LEASE_LOST' })
    expect(strays).toEqual([])
  })

  it('leaves errors behind in sheepdog work, which go to stderr and end no other job', async () => {
    const queue = newQueue()
    const handlers = join(newFolder(), 'handlers.mjs')
    writeFileSync(
      handlers,
      `export default {
        stray: () => { Promise.reject(new Error('left behind')); setTimeout(() => { throw new Error('thrown later') }); return 1 },
        slow: async () => { await new Promise((resolve) => setTimeout(resolve, 1500)); return 2 },
      }`,
    )
    const program = join(__dirname, '../cli/sheepdog.js')
    const worker = spawn(
      process.execPath,
      [program, 'work', '--handlers', handlers, '--queue', queue, '--dir', dir],
      {
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    )
    let stderr = ''
    worker.stderr.on('data', (data) => (stderr += data))
    const exited = once(worker, 'exit')
    const slow = await fleet.submit({ handler: 'slow', queue, attempts: 1 })
    const stray = await fleet.submit({ handler: 'stray', queue, attempts: 1 })
    expect(await stray.result).toBe(1)
    expect(await slow.result).toBe(2)
    worker.kill('SIGTERM')
    expect((await exited)[0]).toBe(0)
    expect(stderr).toMatch(/sheepdog work: a handler left an error behind: Error: left behind/)
    expect(stderr).toMatch(/sheepdog work: a handler left an error behind: Error: thrown later/)
  })
})
