// An error of this package is an ordinary error: it can be changed, extended, printed, copied and sent, whatever its cause holds.
import { inspect } from 'node:util'
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import { run, SheepdogError } from '../index.js'

const circle: Record<string, unknown> = {}
circle.self = circle
const shared = { name: 'shared' }
const revoked = Proxy.revocable({}, {})
revoked.revoke()
const inner = Object.assign(new Error('inner'), { code: 'EINNER' })

/** Causes of every kind, each with its JSON. */
const causes: Record<string, [cause: unknown, json: unknown]> = {
  'a text': ['why', 'why'],
  'a circle': [circle, { self: '[circular]' }],
  'a BigInt': [{ big: 1n }, { big: '1n' }],
  'a function': [{ save() {} }, { save: '[function save]' }],
  'a symbol': [{ mark: Symbol('s') }, { mark: '[Symbol(s)]' }],
  'a getter that throws': [
    Object.defineProperty({}, 'secret', {
      enumerable: true,
      get() {
        throw new Error('no')
      },
    }),
    { secret: '[unreadable: no]' },
  ],
  'a toJSON that throws': [
    {
      toJSON() {
        throw new Error('no')
      },
    },
    '[unreadable: no]',
  ],
  'a revoked proxy': [revoked.proxy, expect.stringContaining('[unreadable: ')],
  'a Map': [new Map([['a', 1]]), [['a', 1]]],
  'NaN and an invalid date': [
    { number: NaN, date: new Date(NaN) },
    { number: 'NaN', date: '[invalid date]' },
  ],
  'a part that stands twice': [
    { a: shared, b: shared },
    { a: shared, b: shared },
  ],
  'an error with a cause': [
    new Error('outer', { cause: inner }),
    { name: 'Error', message: 'outer', cause: { name: 'Error', message: 'inner', code: 'EINNER' } },
  ],
  'several errors': [
    new AggregateError([inner, 'text'], 'both'),
    {
      name: 'AggregateError',
      message: 'both',
      errors: [{ name: 'Error', message: 'inner', code: 'EINNER' }, 'text'],
    },
  ],
  'an error whose toJSON says less': [
    Object.assign(new Error('request failed', { cause: inner }), { toJSON: () => ({}), status: 500 }),
    {
      name: 'Error',
      message: 'request failed',
      cause: { name: 'Error', message: 'inner', code: 'EINNER' },
      toJSON: '[function toJSON]',
      status: 500,
    },
  ],
  'an error that is its own cause': [
    (() => {
      const error: Error & { cause?: unknown } = new Error('round')
      error.cause = error
      return error
    })(),
    { name: 'Error', message: 'round', cause: '[circular]' },
  ],
}

describe.each(Object.entries(causes))('an error whose cause is %s', (_, [cause, json]) => {
  const error = new SheepdogError('PROCESS_ABORTED', 'the signal was aborted', {}, cause)

  it('keeps the cause itself', () => {
    expect(error.cause).toBe(cause)
  })

  it('is written as JSON', () => {
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      name: 'SheepdogError',
      message: 'the signal was aborted',
      code: 'PROCESS_ABORTED',
      cause: json,
    })
  })

  it('is printed and copied without an error', () => {
    expect(inspect(error)).toContain("code: 'PROCESS_ABORTED'")
    expect(inspect(error)).not.toContain('Getter/Setter')
    expect(structuredClone(error)).toMatchObject({ message: error.message })
    const { port1, port2 } = new MessageChannel()
    port1.postMessage(error)
    port1.postMessage(error.toJSON())
    expect(receiveMessageOnPort(port2)?.message).toBeInstanceOf(Error)
    expect(receiveMessageOnPort(port2)?.message).toMatchObject({ code: 'PROCESS_ABORTED' })
    port1.close()
  })
})

it('a run that is aborted with anything as the reason says it in a log', async () => {
  const error = await run('sleep', ['9'], { signal: AbortSignal.abort(circle) }).catch(
    (error: unknown) => error,
  )
  expect(JSON.parse(JSON.stringify(error))).toMatchObject({
    code: 'PROCESS_ABORTED',
    cause: { self: '[circular]' },
  })
})

it('a structure that grows without bounds when it is written is cut', () => {
  let part: object = {}
  for (let level = 0; level < 60; level++) part = { a: part, b: part }
  const error = new SheepdogError('PROCESS_ABORTED', 'aborted', {}, part)
  expect(JSON.stringify(error).length).toBeLessThan(10_000_000)
})

it('bytes in a cause are base64, and numbers beyond JSON texts', () => {
  const cause = {
    bytes: Buffer.from('abc'),
    big: new BigInt64Array([1n]),
    view: new DataView(new ArrayBuffer(3)),
  }
  const error = new SheepdogError('PROCESS_ABORTED', 'aborted', {}, cause)
  expect(JSON.parse(JSON.stringify(error)).cause).toEqual({ bytes: 'YWJj', big: ['1n'], view: 'AAAA' })
})

it('a cause that leads back to its error is printed once', () => {
  const job: Record<string, unknown> = { run() {} }
  job.error = new SheepdogError('PROCESS_ABORTED', 'aborted', {}, job)
  expect(inspect(job, { depth: 20 }).length).toBeLessThan(10_000)
  expect(inspect(job)).toContain('[Circular *1]')
})

it('a cause that is set later is the cause, and no large one is copied for each error', () => {
  const error: Error = new SheepdogError('PROCESS_ABORTED', 'aborted', {}, { save() {} })
  error.cause = 'why'
  expect([error.cause, structuredClone(error).cause]).toEqual(['why', 'why'])
  let reads = 0
  const large = Array.from({ length: 100_000 }, () => ({
    get row() {
      return reads++
    },
  }))
  expect(new SheepdogError('PROCESS_ABORTED', 'aborted', {}, large).cause).toBe(large)
  expect(reads).toBe(0)
})

it('name, message and stack can be changed, as of any error', () => {
  const error: Error = new SheepdogError('PROCESS_FAILED', 'failed')
  expect(Object.keys(error)).toEqual(['code'])
  Object.assign(error, { name: 'BuildError', message: 'the build failed', stack: 'nowhere' })
  expect([String(error), error.stack]).toEqual(['BuildError: the build failed', 'nowhere'])
  expect(JSON.parse(JSON.stringify(error))).toMatchObject({ name: 'BuildError', message: 'the build failed' })
  expect(new SheepdogError('PROCESS_FAILED', 'failed').name).toBe('SheepdogError')
})

it('a subclass has a name of its own', () => {
  class BuildError extends SheepdogError {
    constructor(message: string) {
      super('PROCESS_FAILED', message)
      this.name = 'BuildError'
    }
  }
  const error = new BuildError('failed')
  expect(error).toBeInstanceOf(SheepdogError)
  expect(`${error.name}: ${error.message}`).toBe('BuildError: failed')
})

it('no fact changes what the error is', () => {
  const facts = {
    name: 'E',
    message: 'other',
    stack: 'none',
    toJSON: 1,
    constructor: 2,
    code: 'OTHER',
    exitCode: 3,
  }
  const error = new SheepdogError('PROCESS_FAILED', 'failed', facts as { exitCode: number })
  expect([error.name, error.message, error.code, (error as { exitCode?: number }).exitCode]).toEqual([
    'SheepdogError',
    'failed',
    'PROCESS_FAILED',
    3,
  ])
  expect(JSON.parse(JSON.stringify(error))).toMatchObject({ code: 'PROCESS_FAILED', message: 'failed' })
})
