// What a model call brings.
import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { complete, type CompleteOptions } from '../entries/model.js'
import { failure, messages, scripted } from './scripted-model'

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
    const slow = await scripted('drip=10,150', { idleTimeoutMs: 1200 }).call
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
      json_schema: { name: 'answer', strict: false, schema },
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

describe('the text as it comes', () => {
  it('is told in order, and is whole when the call resolves', async () => {
    const told: [string, number][] = []
    const onText = (delta: string, attempt: number) => void told.push([delta, attempt])
    const { text } = await scripted('text=Hello, stranger', { onText }).call
    expect(told.map(([delta]) => delta).join('')).toBe(text)
    expect(new Set(told.map(([, attempt]) => attempt))).toEqual(new Set([1]))
  })

  it('ends the call with what its listener throws', async () => {
    const mine = new Error('enough')
    const onText = () => {
      throw mine
    }
    await expect(scripted('text=Hello', { onText }).call).rejects.toBe(mine)
  })

  it('refuses a wrong setting by its path', async () => {
    for (const [options, path] of [
      [{ temperature: NaN }, 'temperature: '],
      [{ maxTokens: 0 }, 'maxTokens: '],
      [{ seed: 1.5 }, 'seed: '],
      [{ toolChoice: 'maybe' }, 'toolChoice: '],
      [{ extraBody: [] }, 'extraBody: '],
      [{ onText: true }, 'onText: '],
    ] as [Partial<CompleteOptions>, string][]) {
      const error = await failure(scripted('text=x', options).call)
      expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining(path) })
    }
  })
})
