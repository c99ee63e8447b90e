// What a model call fails with, and how often it is tried.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import { startModelServer } from '../fixtures/model-server.mjs'
import { complete, type CompleteOptions } from '../entries/model.js'
import { failure, messages, modelServer, quick, scripted } from './scripted-model'

describe('a failure that may pass', () => {
  it.each([
    ['status=408', 2],
    ['status=409', 2],
    ['status=425', 2],
    ['status=429', 2],
    ['status=500', 2],
    ['status=503', 2],
    ['status=529', 2],
    ['cut', 2],
    ['unfinished', 2],
    ['badjson', 2],
    ['html', 2],
    ['raw=', 2],
    ['raw=data: {"error":{"message":"overloaded"}}', 2],
  ])('%s is asked again, on a fresh connection', async (step) => {
    const { call, requests } = scripted(`${step};;${step};;text=fine`)
    expect(await call).toMatchObject({ text: 'fine', attempts: 3 })
    const ports = requests().map((request) => request.port)
    expect(new Set(ports).size).toBe(3)
  })

  it('is asked again after silence, before the head and within the answer', async () => {
    const before = scripted('silent;;text=fine', { timeoutMs: 1500 })
    expect(await before.call).toMatchObject({ text: 'fine', attempts: 2 })
    const within = scripted('stall;;text=fine', { idleTimeoutMs: 1500 })
    expect(await within.call).toMatchObject({ text: 'fine', attempts: 2 })
    const total = scripted('drip=200,20;;text=fine', { timeoutMs: 1500 })
    expect(await total.call).toMatchObject({ text: 'fine', attempts: 2 })
    for (const { requests } of [before, within, total]) {
      const [first, second] = requests()
      expect(await first!.closed).toBe('hung up')
      expect(second!.port).not.toBe(first!.port)
    }
  })

  it('honours Retry-After, in seconds and as a date, whatever the longest delay of its own', async () => {
    const gap = async (retryAfter: string, retry: object) => {
      const script = [{ status: 429, headers: { 'retry-after': retryAfter } }, { text: 'fine' }]
      const { call, requests } = scripted(script, { retry })
      await call
      const [first, second] = requests()
      return second!.at - first!.at
    }
    expect(await gap('1', quick)).toBeGreaterThanOrEqual(990)
    // A date has whole seconds: two from now are at least one.
    expect(await gap(new Date(Date.now() + 2000).toUTCString(), quick)).toBeGreaterThanOrEqual(900)
    expect(await gap('1', { maxDelayMs: 100 })).toBeGreaterThanOrEqual(990)
  })

  it('is not asked again when the server asks for more than 5 minutes', async () => {
    const script = [{ status: 429, headers: { 'retry-after': '301' } }, { text: 'never' }]
    const { call, requests } = scripted(script, { retry: { maxDelayMs: 100 } })
    expect(await failure(call)).toMatchObject({
      code: 'MODEL_FAILED',
      kind: 'rate_limit',
      status: 429,
      retryAfterMs: 301_000,
      attempts: 1,
    })
    expect(requests()).toHaveLength(1)
  })
})

describe('a failure for good', () => {
  it.each([
    ['status=400', 'invalid_request', 400],
    ['status=401', 'auth', 401],
    ['status=403', 'permission', 403],
    ['status=404', 'invalid_request', 404],
    ['status=422', 'invalid_request', 422],
  ])('%s is not asked again', async (step, kind, status) => {
    const { call, requests } = scripted(`${step};;text=never`)
    expect(await failure(call)).toMatchObject({ code: 'MODEL_FAILED', kind, status, attempts: 1 })
    expect(requests()).toHaveLength(1)
  })

  it('takes the number before the words', async () => {
    const words = { error: { message: 'HTTP 503: overloaded, rate limit, timeout', type: 'server_error' } }
    const { call, requests } = scripted([{ status: 401, body: words }, { text: 'never' }])
    expect(await failure(call)).toMatchObject({ kind: 'auth', status: 401 })
    expect(requests()).toHaveLength(1)
    const other = scripted([
      { status: 500, body: { error: { message: 'invalid api key' } } },
      { text: 'fine' },
    ])
    expect(await other.call).toMatchObject({ attempts: 2 })
  })

  it.each([
    ['status=500', { code: 'MODEL_FAILED', kind: 'server', status: 500 }],
    ['status=429,0', { code: 'MODEL_FAILED', kind: 'rate_limit', status: 429, retryAfterMs: 0 }],
    ['html', { code: 'MODEL_BAD_RESPONSE' }],
    ['badjson', { code: 'MODEL_BAD_RESPONSE' }],
    ['unfinished', { code: 'MODEL_BAD_RESPONSE' }],
    ['cut', { code: 'MODEL_UNREACHABLE', kind: 'network' }],
  ])('%s without end is an error with the number of attempts', async (step, facts) => {
    const { call, requests } = scripted(step)
    expect(await failure(call)).toMatchObject({ ...facts, attempts: 3 })
    expect(requests()).toHaveLength(3)
  })

  it('is MODEL_TIMED_OUT when every attempt was too slow', async () => {
    const silent = scripted('silent', { timeoutMs: 100 })
    expect(await failure(silent.call)).toMatchObject({
      code: 'MODEL_TIMED_OUT',
      kind: 'timeout',
      attempts: 3,
    })
    expect(silent.requests()).toHaveLength(3)
    const stalled = scripted('stall', { idleTimeoutMs: 100, retry: { attempts: 1 } })
    expect(await failure(stalled.call)).toMatchObject({ code: 'MODEL_TIMED_OUT', attempts: 1 })
  })

  it('is MODEL_UNREACHABLE when nobody listens', async () => {
    const other = await startModelServer()
    await other.close()
    const call = complete({ baseUrl: other.url, model: 'm', messages, retry: quick })
    expect(await failure(call)).toMatchObject({ code: 'MODEL_UNREACHABLE', kind: 'network', attempts: 3 })
  })

  it('never shows the key, even when the server quotes it', async () => {
    const apiKey = 'sk-very-secret-key'
    const echo = { error: { message: `Incorrect API key provided: ${apiKey}` } }
    const error = await failure(scripted([{ status: 401, body: echo }], { apiKey }).call)
    expect(error.message).toContain('[REDACTED]')
    expect(JSON.stringify({ ...error, message: error.message, stack: error.stack })).not.toContain(apiKey)
    const wrong = await failure(
      complete({ baseUrl: modelServer().url, apiKey: 'sk-very-secret\n', model: 'm', messages }),
    )
    expect(wrong.code).toBe('INVALID_OPTION')
    expect(wrong.message).not.toContain('very-secret')
  })
})

describe('the number of attempts', () => {
  const attempts = async (options: Partial<CompleteOptions> = {}) => {
    const { call, requests } = scripted('status=500', options)
    const error = await failure(call)
    expect(error.attempts).toBe(requests().length)
    return error.attempts
  }

  it('is an option, or read from the environment at each call', async () => {
    expect(await attempts({ retry: { ...quick, attempts: 2 } })).toBe(2)
    process.env.AGENTFIELD_AI_TIMEOUT_RETRIES = '1'
    expect(await attempts()).toBe(2)
    process.env.SHEEPDOG_AI_TIMEOUT_RETRIES = '0'
    expect(await attempts()).toBe(1)
    process.env.SHEEPDOG_AI_TIMEOUT_RETRIES = 'nonsense'
    expect(await attempts()).toBe(2)
    delete process.env.AGENTFIELD_AI_TIMEOUT_RETRIES
    expect(await attempts()).toBe(3)
  })

  it("is read from a worker thread's own environment", async () => {
    const { call, requests, run } = scripted('status=500', { retry: { attempts: 1 } })
    await failure(call)
    const base = `${modelServer().urlFor('every;;status=500', run)}-worker/v1`
    const code = `
      const { workerData, parentPort } = require('node:worker_threads')
      process.env.SHEEPDOG_AI_TIMEOUT_RETRIES = '1'
      require(workerData.path)
        .complete({ baseUrl: workerData.base, model: 'm', messages: [{}], retry: { baseDelayMs: 1 } })
        .catch((error) => parentPort.postMessage(error.attempts))`
    const worker = new Worker(code, {
      eval: true,
      workerData: { path: require.resolve('../entries/model.js'), base },
    })
    expect(await once(worker, 'message')).toEqual([2])
    await worker.terminate()
    expect(requests()).toHaveLength(1)
  })
})
