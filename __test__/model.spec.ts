// Model calls against the carried model server: every kind of failure, counted by the requests that arrived.
import { createServer } from 'node:net'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startModelServer } from '../fixtures/model-server.mjs'
import { SheepdogError, classify, complete, withRetry, type CompleteOptions } from '..'

let server: Awaited<ReturnType<typeof startModelServer>>
beforeAll(async () => {
  server = await startModelServer()
})
afterAll(() => server.close())
afterEach(() => {
  delete process.env.SHEEPDOG_AI_TIMEOUT_RETRIES
  delete process.env.AGENTFIELD_AI_TIMEOUT_RETRIES
})

const messages = [{ role: 'user', content: 'hi' }]
const quick = { baseDelayMs: 1 }

/** A call of a server that plays the script, and the requests that arrived for it. */
function scripted(script: string | object[], options: Partial<CompleteOptions> = {}) {
  const steps = typeof script === 'string' ? `every;;${script}` : [{ every: true }, ...script]
  const base = server.urlFor(steps)
  const run = base.split('/').at(-1)
  const call = complete({ baseUrl: `${base}/v1`, model: 'm', messages, retry: quick, ...options })
  return { call, run, requests: () => server.requests.filter((request) => request.run === run) }
}

async function failure(promise: Promise<unknown>): Promise<SheepdogError> {
  const error = await promise.then(
    (value) => expect.fail(`resolved with ${JSON.stringify(value)}`),
    (error) => error,
  )
  expect(error).toBeInstanceOf(SheepdogError)
  return error
}

describe('an answer', () => {
  it('comes with usage, reason and attempts', async () => {
    const { call, requests } = scripted('text=Grüße 👋', {
      apiKey: 'sk-test-key',
      headers: { 'X-Team': 'blue' },
    })
    expect(await call).toEqual({
      text: 'Grüße 👋',
      toolCalls: [],
      usage: { inputTokens: 900, outputTokens: 21, cachedInputTokens: 300 },
      finishReason: 'stop',
      attempts: 1,
    })
    const [request] = requests()
    expect(request!.headers).toMatchObject({ authorization: 'Bearer sk-test-key', 'x-team': 'blue' })
    expect(request!.body).toEqual({
      model: 'm',
      messages,
      stream: true,
      stream_options: { include_usage: true },
    })
  })

  it('may call tools, with parsed arguments', async () => {
    const calls = [
      { name: 'weather', input: { city: 'Köln', days: [1, 2] } },
      { name: 'clock', input: {} },
    ]
    const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }]
    const { call, requests } = scripted([{ text: 'Let me see.', calls }], { tools })
    const answer = await call
    expect(answer).toMatchObject({ text: 'Let me see.', finishReason: 'tool_calls' })
    expect(answer.toolCalls.map(({ name, arguments: input }) => ({ name, input }))).toEqual(calls)
    expect(new Set(answer.toolCalls.map((one) => one.id)).size).toBe(2)
    expect(requests()[0]!.body.tools).toEqual(tools)
  })

  it('keeps arguments that are no JSON as text', async () => {
    const { call } = scripted([{ calls: [{ name: 'x', input: 'not an object' }] }])
    expect((await call).toolCalls[0]!.arguments).toBe('not an object')
    const raw = {
      choices: [{ message: { tool_calls: [{ id: 'a', function: { name: 'x', arguments: '{bro' } }] } }],
    }
    expect((await scripted([{ raw: JSON.stringify(raw) }]).call).toolCalls).toEqual([
      { id: 'a', name: 'x', arguments: '{bro' },
    ])
  })

  it('may come in one piece from a server that does not stream', async () => {
    const body = { choices: [{ message: { role: 'assistant', content: 'whole' }, finish_reason: 'stop' }] }
    const { call } = scripted([{ raw: JSON.stringify(body), contentType: 'application/json' }])
    expect(await call).toEqual({ text: 'whole', toolCalls: [], finishReason: 'stop', attempts: 1 })
  })

  it('and a question may hold half an emoji', async () => {
    const delta = '{"choices":[{"delta":{"content":"cut \\ud83d"},"finish_reason":"stop"}]}'
    const half = 'cut ' + '👋'[0]
    const { call, requests } = scripted(`raw=data: ${delta}`, { messages: [{ role: 'user', content: half }] })
    expect(await call).toMatchObject({ text: 'cut \ufffd', attempts: 1 })
    expect(requests()[0]!.body.messages).toEqual([{ role: 'user', content: 'cut \ufffd' }])
  })

  it('may be long and may be slow', async () => {
    expect((await scripted('long=2000000').call).text).toHaveLength(2_000_000)
    const slow = await scripted('drip=10,40', { idleTimeoutMs: 250 }).call
    expect(slow.text).toBe('drop 1 drop 2 drop 3 drop 4 drop 5 drop 6 drop 7 drop 8 drop 9 drop 10 ')
  })

  it('does not need the server to close after its end', async () => {
    const finished = { choices: [{ index: 0, delta: { content: 'done' }, finish_reason: 'stop' }] }
    const sockets = new Set<import('node:net').Socket>()
    const silent = createServer((socket) => {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.once('data', () => {
        const event = `data: ${JSON.stringify(finished)}\n\n`
        socket.write(
          `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 10000\r\n\r\n${event}`,
        )
      })
    }).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as import('node:net').AddressInfo
    const answer = await complete({ baseUrl: `http://127.0.0.1:${port}`, model: 'm', messages })
    expect(answer).toMatchObject({ text: 'done', attempts: 1 })
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
})

describe('a schema', () => {
  const schema = {
    type: 'object',
    properties: { name: { type: 'string' }, count: { type: 'integer' } },
    required: ['name', 'count'],
  }

  it('is sent, and the answer parsed and checked', async () => {
    const { call, requests } = scripted('json={"name":"a","count":2}', { schema })
    expect(await call).toMatchObject({ structured: { name: 'a', count: 2 }, text: '{"name":"a","count":2}' })
    expect(requests()[0]!.body.response_format).toEqual({
      type: 'json_schema',
      json_schema: { name: 'answer', strict: true, schema },
    })
  })

  it('finds the value within prose and mends it', async () => {
    const { call } = scripted('text=Sure:\n```json\n{"name": "a } b", "count": 2,} // there\n```', {
      schema: { toJSONSchema: () => schema },
    })
    expect((await call).structured).toEqual({ name: 'a } b', count: 2 })
  })

  it('asks again when the answer does not fit, and tells the problems in the end', async () => {
    const better = scripted('text=no idea;;json={"name":"a","count":2}', { schema })
    expect(await better.call).toMatchObject({ structured: { count: 2 }, attempts: 2 })
    const never = scripted('json={"name":5}', { schema })
    const error = await failure(never.call)
    expect(error).toMatchObject({ code: 'MODEL_BAD_RESPONSE', attempts: 3, text: '{"name":5}' })
    expect(error.problems).toHaveLength(2)
    expect(error.problems).toContain('/name: 5 is not of type "string"')
    expect(error.problems).toContain('/: "count" is a required property')
  })

  it('is not asked of an answer that calls tools', async () => {
    const answer = await scripted([{ calls: [{ name: 'x', input: {} }] }], { schema }).call
    expect(answer.toolCalls).toHaveLength(1)
    expect(answer).not.toHaveProperty('structured')
  })
})

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
    const before = scripted('silent;;text=fine', { timeoutMs: 200 })
    expect(await before.call).toMatchObject({ text: 'fine', attempts: 2 })
    const within = scripted('stall;;text=fine', { idleTimeoutMs: 200 })
    expect(await within.call).toMatchObject({ text: 'fine', attempts: 2 })
    const total = scripted('drip=200,20;;text=fine', { timeoutMs: 300 })
    expect(await total.call).toMatchObject({ text: 'fine', attempts: 2 })
    for (const { requests } of [before, within, total]) {
      const [first, second] = requests()
      expect(await first!.closed).toBe('hung up')
      expect(second!.port).not.toBe(first!.port)
    }
  })

  it('honours Retry-After, in seconds and as a date, within the bound', async () => {
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
    expect(await gap('3600', { maxDelayMs: 100 })).toBeLessThan(2000)
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
      complete({ baseUrl: server.url, apiKey: 'sk-very-secret\n', model: 'm', messages }),
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
    const base = `${server.urlFor('every;;status=500', run)}-worker/v1`
    const code = `
      const { workerData, parentPort } = require('node:worker_threads')
      process.env.SHEEPDOG_AI_TIMEOUT_RETRIES = '1'
      require(workerData.path)
        .complete({ baseUrl: workerData.base, model: 'm', messages: [{}], retry: { baseDelayMs: 1 } })
        .catch((error) => parentPort.postMessage(error.attempts))`
    const worker = new Worker(code, { eval: true, workerData: { path: require.resolve('..'), base } })
    expect(await once(worker, 'message')).toEqual([2])
    await worker.terminate()
    expect(requests()).toHaveLength(1)
  })
})

describe('abort', () => {
  it('before the call: nothing is asked', async () => {
    const { call, requests } = scripted('text=never', { signal: AbortSignal.abort('enough') })
    expect(await failure(call)).toMatchObject({ code: 'MODEL_ABORTED', attempts: 0, cause: 'enough' })
    expect(requests()).toHaveLength(0)
  })

  it.each(['silent', 'stall'])(
    'in a %s answer: the socket is closed, nothing is asked again',
    async (step) => {
      const controller = new AbortController()
      let heard = 0
      controller.signal.onabort = () => heard++
      const { call, run, requests } = scripted(step, { signal: controller.signal })
      const request = await server.next((one) => one.run === run)
      controller.abort()
      expect(await failure(call)).toMatchObject({ code: 'MODEL_ABORTED', attempts: 1 })
      expect(await request.closed).toBe('hung up')
      expect(requests()).toHaveLength(1)
      expect(heard).toBe(1)
    },
  )

  it('between two attempts: the wait ends', async () => {
    const controller = new AbortController()
    const retry = { baseDelayMs: 60_000, maxDelayMs: 60_000 }
    const { call, run } = scripted('status=500', { signal: controller.signal, retry })
    const request = await server.next((one) => one.run === run)
    await request.closed
    setTimeout(() => controller.abort(), 50)
    expect(await failure(call)).toMatchObject({ code: 'MODEL_ABORTED', attempts: 1 })
  })
})

it('shares connections between calls that go well', async () => {
  const first = scripted('text=a')
  await first.call
  const second = scripted('text=b')
  await second.call
  expect(second.requests()[0]!.port).toBe(first.requests()[0]!.port)
})

it('runs many calls at once', async () => {
  const calls = Array.from({ length: 50 }, (_, index) => scripted(`status=503;;text=answer ${index}`).call)
  const answers = await Promise.all(calls)
  expect(answers.map((answer) => answer.text)).toEqual(answers.map((_, index) => `answer ${index}`))
})

describe('wrong options', () => {
  const good = { baseUrl: 'http://127.0.0.1:1', model: 'm', messages }
  it.each([
    ['options: ', undefined],
    ['baseUrl: expected a string, got undefined', { ...good, baseUrl: undefined }],
    ['baseUrl: ', { ...good, baseUrl: 'nonsense' }],
    ['baseUrl: ', { ...good, baseUrl: 'http://' }],
    ['model: ', { ...good, model: '' }],
    ['messages: expected an array of messages, got "hi"', { ...good, messages: 'hi' }],
    ['messages: expected at least one message', { ...good, messages: [] }],
    ['messages[0]: expected an object, got 1', { ...good, messages: [1] }],
    ["messages: can't be sent as JSON", { ...good, messages: [{ content: 1n }] }],
    ['tools: ', { ...good, tools: {} }],
    ['schema: no valid JSON Schema', { ...good, schema: { type: 'nonsense' } }],
    ['schema: expected an object, got "object"', { ...good, schema: 'object' }],
    ['timeoutMs: expected a number of milliseconds, got "5s"', { ...good, timeoutMs: '5s' }],
    ['idleTimeoutMs: ', { ...good, idleTimeoutMs: NaN }],
    ['retry.attempts: expected an integer >= 1, got 0', { ...good, retry: { attempts: 0 } }],
    ['retry.delay: no such option', { ...good, retry: { delay: 1 } }],
    ['headers.a: expected a string, got 1', { ...good, headers: { a: 1 } }],
    ['headers.a b: ', { ...good, headers: { 'a b': 'x' } }],
    ['signal: ', { ...good, signal: {} }],
    ['baseURL: no such option; did you mean baseUrl?', { ...good, baseURL: 'x' }],
  ])('%s', async (message, options) => {
    const error = await failure(complete(options as CompleteOptions))
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message.startsWith(message), error.message).toBe(true)
  })
})

describe('withRetry', () => {
  const failing = (times: number, error: unknown) => {
    const attempts: number[] = []
    const operation = async (attempt: number) => {
      attempts.push(attempt)
      if (attempts.length <= times) throw error
      return 'done'
    }
    return { attempts, operation }
  }

  it('repeats what may pass, and tells the attempt', async () => {
    const { attempts, operation } = failing(2, { status: 503 })
    expect(await withRetry(operation, quick)).toBe('done')
    expect(attempts).toEqual([1, 2, 3])
  })

  it('rejects with the last error as it was', async () => {
    const error = new Error('HTTP 500')
    const { attempts, operation } = failing(9, error)
    await expect(withRetry(operation, { ...quick, attempts: 4 })).rejects.toBe(error)
    expect(attempts).toHaveLength(4)
    process.env.SHEEPDOG_AI_TIMEOUT_RETRIES = '1'
    await expect(withRetry(operation, quick)).rejects.toBe(error)
    expect(attempts).toHaveLength(6)
  })

  it('does not repeat what is for good, unless told so', async () => {
    const { attempts, operation } = failing(1, { status: 401 })
    await expect(withRetry(operation, quick)).rejects.toEqual({ status: 401 })
    expect(attempts).toEqual([1])
    const other = failing(1, 'something odd')
    expect(
      await withRetry(other.operation, { ...quick, retryable: (error) => error === 'something odd' }),
    ).toBe('done')
    const never = failing(1, { status: 503 })
    await expect(withRetry(never.operation, { ...quick, retryable: () => false })).rejects.toEqual({
      status: 503,
    })
  })

  it('honours Retry-After within the bound', async () => {
    const { operation } = failing(1, { status: 429, headers: new Headers({ 'retry-after': '0.4' }) })
    const started = performance.now()
    await withRetry(operation, quick)
    expect(performance.now() - started).toBeGreaterThanOrEqual(390)
    const { operation: patient } = failing(1, { status: 429, headers: { 'Retry-After': '3600' } })
    await withRetry(patient, { maxDelayMs: 20 })
  })

  it('ends at once when aborted: before, within the operation, within the wait', async () => {
    const { attempts, operation } = failing(9, { status: 503 })
    const aborted = { code: 'MODEL_ABORTED' }
    await expect(withRetry(operation, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      ...aborted,
      attempts: 0,
    })
    expect(attempts).toEqual([])
    const within = new AbortController()
    const hanging = withRetry(() => new Promise(() => {}), { signal: within.signal })
    within.abort('enough')
    await expect(hanging).rejects.toMatchObject({ ...aborted, attempts: 1, cause: 'enough' })
    const waiting = new AbortController()
    setTimeout(() => waiting.abort(), 30)
    const patient = withRetry(operation, { baseDelayMs: 30_000, signal: waiting.signal })
    await expect(patient).rejects.toMatchObject({ ...aborted, attempts: 1 })
  })

  it('never throws synchronously', async () => {
    await expect(withRetry('x' as never)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(withRetry(async () => 1, { tries: 1 } as never)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    })
    const broken = () => {
      throw new Error('HTTP 401')
    }
    await expect(withRetry(broken, quick)).rejects.toThrow('HTTP 401')
  })
})

describe('classify', () => {
  const refused = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
  const aggregate = new AggregateError([refused], '')
  class RateLimitError extends Error {}

  it.each<[string, unknown, object]>([
    [
      'fetch with a cause',
      new TypeError('fetch failed', { cause: Object.assign(new Error('read'), { code: 'ECONNRESET' }) }),
      { kind: 'network', retryable: true },
    ],
    [
      'fetch with many causes',
      new TypeError('fetch failed', { cause: aggregate }),
      { kind: 'network', retryable: true },
    ],
    ['fetch without a cause', new TypeError('fetch failed'), { kind: 'network', retryable: true }],
    [
      'undici',
      new TypeError('terminated', {
        cause: Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' }),
      }),
      { kind: 'network', retryable: true },
    ],
    [
      'a certificate',
      new TypeError('fetch failed', { cause: Object.assign(new Error('x'), { code: 'CERT_HAS_EXPIRED' }) }),
      { kind: 'network', retryable: false },
    ],
    [
      'AbortError',
      new DOMException('This operation was aborted', 'AbortError'),
      { kind: 'aborted', retryable: false },
    ],
    [
      'TimeoutError',
      new DOMException('The operation was aborted due to timeout', 'TimeoutError'),
      { kind: 'timeout', retryable: true },
    ],
    [
      'openai style',
      Object.assign(new Error('429 slow'), { status: 429, headers: { 'retry-after': '2' }, code: null }),
      { kind: 'rate_limit', retryable: true, status: 429, retryAfterMs: 2000 },
    ],
    [
      'openai headers',
      { status: 503, headers: new Headers({ 'Retry-After-Ms': '150' }) },
      { kind: 'overloaded', retryable: true, status: 503, retryAfterMs: 150 },
    ],
    [
      'axios style',
      Object.assign(new Error('Request failed with status code 401'), {
        code: 'ERR_BAD_REQUEST',
        response: { status: 401, headers: {} },
      }),
      { kind: 'auth', retryable: false, status: 401 },
    ],
    [
      'anthropic body',
      { error: { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } } },
      { kind: 'overloaded', retryable: true },
    ],
    [
      'gemini body',
      { error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'quota' } },
      { kind: 'rate_limit', retryable: true, status: 429 },
    ],
    [
      'aws',
      { name: 'ThrottlingException', $metadata: { httpStatusCode: 429 } },
      { kind: 'rate_limit', retryable: true, status: 429 },
    ],
    ['a class name', new RateLimitError('slow'), { kind: 'rate_limit', retryable: true }],
    [
      'a context that is too long',
      { status: 400, code: 'context_length_exceeded' },
      { kind: 'context_length', retryable: false, status: 400 },
    ],
    ['a status as text', { statusCode: '502' }, { kind: 'server', retryable: true, status: 502 }],
    ['HTTP in words', new Error('HTTP 429'), { kind: 'rate_limit', retryable: true, status: 429 }],
    [
      'a status code in words',
      'Request failed with status code 503',
      { kind: 'overloaded', retryable: true, status: 503 },
    ],
    ['no status at all', new Error('gave up after 1500s and 500 ms'), { kind: 'unknown', retryable: false }],
    [
      'a status before words',
      { status: 400, message: 'timeout, HTTP 503' },
      { kind: 'invalid_request', retryable: false, status: 400 },
    ],
    [
      'our own',
      new SheepdogError('MODEL_TIMED_OUT', 'x', { attempts: 3 }),
      { kind: 'timeout', retryable: true },
    ],
    [
      'our own agent',
      new SheepdogError('AGENT_FAILED', 'x', { kind: 'quota' }),
      { kind: 'quota', retryable: false },
    ],
    ['our own abort', new SheepdogError('PROCESS_ABORTED', 'x'), { kind: 'aborted', retryable: false }],
    [
      'a wrong option',
      new SheepdogError('INVALID_OPTION', 'timeoutMs: x'),
      { kind: 'invalid_request', retryable: false },
    ],
    ['nothing', undefined, { kind: 'unknown', retryable: false }],
    ['a number', 503, { kind: 'overloaded', retryable: true, status: 503 }],
    ['a symbol', Symbol('x'), { kind: 'unknown', retryable: false }],
  ])('%s', (_, error, expected) => {
    expect(classify(error)).toEqual(expected)
  })

  it('takes errors that refer to themselves, and fields that throw', () => {
    const circle: any = new Error('socket hang up')
    circle.cause = circle
    expect(classify(circle)).toEqual({ kind: 'network', retryable: true })
    const hostile = new Proxy(
      {},
      {
        get: () => {
          throw new Error('no')
        },
      },
    )
    expect(classify(hostile)).toEqual({ kind: 'unknown', retryable: false })
  })

  it('reads what complete() rejects with', async () => {
    const error = await failure(scripted([{ status: 429, headers: { 'retry-after': '0' } }]).call)
    expect(classify(error)).toEqual({ kind: 'rate_limit', retryable: true, status: 429, retryAfterMs: 0 })
  })
})
