// The carried model server is what other specs rest on: it must say what its script says, in each API's own words.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startModelServer } from '../fixtures/model-server.mjs'

const bash = { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] }
const chatTools = [{ type: 'function', function: { name: 'bash', parameters: bash } }]

let server: Awaited<ReturnType<typeof startModelServer>>
beforeAll(async () => {
  server = await startModelServer({ scripts: { greet: 'every;;text=hello there' } })
})
afterAll(() => server.close())

function ask(base: string, path: string, body: object) {
  const headers = { 'content-type': 'application/json' }
  return fetch(base + path, { method: 'POST', headers, body: JSON.stringify(body) })
}

async function events(response: Response): Promise<any[]> {
  const text = await response.text()
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map((line) => JSON.parse(line.slice(6)))
}

describe('each API, streamed and whole', () => {
  const script = 'every;;text=hello there'

  it('chat completions', async () => {
    const base = server.urlFor(script)
    const streamed = await events(
      await ask(base, '/v1/chat/completions', {
        model: 'm',
        stream: true,
        stream_options: { include_usage: true },
      }),
    )
    expect(streamed.map((one) => one.choices[0]?.delta.content ?? '').join('')).toBe('hello there')
    expect(streamed.at(-1).usage).toMatchObject({ prompt_tokens: 900, completion_tokens: 21 })
    const whole: any = await (await ask(base, '/v1/chat/completions', { model: 'm' })).json()
    expect(whole.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'hello there' } })
  })

  it('responses', async () => {
    const base = server.urlFor(script)
    const streamed = await events(await ask(base, '/v1/responses', { model: 'm', stream: true }))
    expect(streamed.map((one) => one.sequence_number)).toEqual(streamed.map((_, index) => index))
    expect(streamed.at(-1)).toMatchObject({
      type: 'response.completed',
      response: {
        status: 'completed',
        output: [{ content: [{ text: 'hello there' }] }],
        usage: { input_tokens: 900 },
      },
    })
    const whole: any = await (await ask(base, '/v1/responses', { model: 'm' })).json()
    expect(whole.output[0].content[0].text).toBe('hello there')
  })

  it('messages', async () => {
    const base = server.urlFor(script)
    const streamed = await events(await ask(base, '/v1/messages', { model: 'm', stream: true }))
    expect(streamed.map((one) => one.delta?.text ?? '').join('')).toBe('hello there')
    expect(streamed[0].message.usage).toMatchObject({ input_tokens: 600, cache_read_input_tokens: 300 })
    expect(streamed.at(-1).type).toBe('message_stop')
    const whole: any = await (await ask(base, '/v1/messages', { model: 'm' })).json()
    expect(whole.content).toEqual([{ type: 'text', text: 'hello there' }])
    const counted: any = await (await ask(base, '/v1/messages/count_tokens', {})).json()
    expect(counted.input_tokens).toBeGreaterThan(0)
  })

  it('gemini', async () => {
    const base = server.urlFor(script)
    const path = '/v1beta/models/gemini-2.5-flash'
    const streamed = await events(await ask(base, `${path}:streamGenerateContent?alt=sse`, {}))
    const text = streamed.flatMap((one) => one.candidates[0].content.parts).map((part) => part.text)
    expect(text.join('')).toBe('hello there')
    expect(streamed.at(-1).candidates[0].finishReason).toBe('STOP')
    const whole: any = await (await ask(base, `${path}:generateContent`, {})).json()
    expect(whole.candidates[0].content.parts).toEqual([{ text: 'hello there' }])
    expect(whole.modelVersion).toBe('gemini-2.5-flash')
  })
})

describe('scripts', () => {
  it('calls the shell tool that is offered, with what it requires, and answers after it', async () => {
    const base = server.urlFor('shell=ls -l')
    const tools = [
      { name: 'read', input_schema: {} },
      {
        name: 'Bash',
        input_schema: {
          properties: {
            command: { type: 'string' },
            description: { type: 'string' },
            timeout: { type: 'number' },
          },
          required: ['command', 'description'],
        },
      },
    ]
    const called: any = await (await ask(base, '/v1/messages', { model: 'm', tools })).json()
    expect(called.content[0]).toMatchObject({ type: 'tool_use', name: 'Bash', input: { command: 'ls -l' } })
    expect(Object.keys(called.content[0].input)).toEqual(['command', 'description'])
    const after: any = await (await ask(base, '/v1/messages', { model: 'm', tools })).json()
    expect(after).toMatchObject({ stop_reason: 'end_turn', content: [{ type: 'text' }] })
  })

  it('gives a list to a tool that wants a list', async () => {
    const schema = {
      properties: { command: { type: 'array', items: { type: 'string' } } },
      required: ['command'],
    }
    const tools = [{ type: 'function', name: 'shell', parameters: schema }]
    const called: any = await (
      await ask(server.urlFor('shell=ls'), '/v1/responses', { model: 'm', tools })
    ).json()
    expect(JSON.parse(called.output[0].arguments)).toEqual({ command: ['bash', '-c', 'ls'] })
  })

  it('streams the arguments of calls in pieces that add up', async () => {
    const base = server.urlFor([
      {
        text: 'looking',
        calls: [
          { name: 'a', input: { x: 'é"' } },
          { name: 'b', input: {} },
        ],
      },
    ])
    const streamed = await events(await ask(base, '/v1/chat/completions', { stream: true, tools: chatTools }))
    const parts = streamed.flatMap((one) => one.choices[0]?.delta.tool_calls ?? [])
    const text = (index: number) =>
      parts
        .filter((part) => part.index === index)
        .map((part) => part.function.arguments)
        .join('')
    expect([JSON.parse(text(0)), JSON.parse(text(1))]).toEqual([{ x: 'é"' }, {}])
    expect(streamed.at(-1).choices[0].finish_reason).toBe('tool_calls')
  })

  it('serves steps in order, repeats the last, and counts each run by itself', async () => {
    const script = 'every;;status=429,7;;text=fine'
    const [left, right] = [server.urlFor(script), server.urlFor(script)]
    const statuses = async (base: string) => (await ask(base, '/v1/chat/completions', {})).status
    expect([await statuses(left), await statuses(left), await statuses(right), await statuses(left)]).toEqual(
      [429, 200, 429, 200],
    )
    const refused = await ask(server.urlFor(script), '/v1/messages', {})
    expect(refused.headers.get('retry-after')).toBe('7')
    expect(await refused.json()).toMatchObject({ type: 'error', error: { type: 'rate_limit_error' } })
  })

  it('does not spend a step on a side call', async () => {
    const base = server.urlFor('text=first;;text=second')
    const say = async (body: object) => {
      const whole: any = await (await ask(base, '/v1/chat/completions', body)).json()
      return whole.choices[0].message.content
    }
    const many = Array(6).fill(chatTools[0])
    expect(await say({})).toBe('side call')
    expect(await say({ tools: many })).toBe('first')
    expect(await say({ tools: chatTools })).toBe('side call')
    expect(await say({ tools: many })).toBe('second')
    expect(server.requests.slice(-4).map((one) => one.side)).toEqual([true, false, true, false])
  })

  it('finds a script by its name', async () => {
    const whole: any = await (await ask(`${server.url}/s/greet/one`, '/v1/messages', {})).json()
    expect(whole.content[0].text).toBe('hello there')
  })

  it('answers a structured request by the tool that is made for it', async () => {
    const script = 'json={"a":1}'
    const tools = [{ name: 'StructuredOutput', input_schema: {} }]
    const called: any = await (await ask(server.urlFor(script), '/v1/messages', { tools })).json()
    expect(called.content[0]).toMatchObject({ name: 'StructuredOutput', input: { a: 1 } })
    const told: any = await (await ask(server.urlFor(`every;;${script}`), '/v1/messages', {})).json()
    expect(told.content[0].text).toBe('{"a":1}')
  })

  it('refuses a step that it does not know', async () => {
    await expect(startModelServer({ script: 'textt=a' })).rejects.toThrow('no such step: textt=a')
  })
})

describe('misbehaviour', () => {
  const chat = (script: string | object[], body: object = { stream: true }) =>
    ask(server.urlFor(script), '/v1/chat/completions', body)

  it('cuts a stream after a delta', async () => {
    const response = await chat('every;;cut')
    expect(response.status).toBe(200)
    await expect(response.text()).rejects.toThrow()
    expect(await server.requests.at(-1)!.closed).toBe('cut')
  })

  it('ends a stream without its terminator', async () => {
    const text = await (await chat('every;;unfinished')).text()
    expect(text).toContain('All is well')
    expect(text).not.toContain('[DONE]')
  })

  it('sends a web page, broken JSON, and any other bytes', async () => {
    expect(await (await chat('every;;html')).text()).toContain('<!doctype html>')
    expect(await (await chat('every;;badjson')).text()).toMatch(/data: \{"choices":\[\{"delta":\n\n$/)
    expect(
      await (await chat([{ every: true }, { raw: 'data: x\r\r', contentType: 'text/plain' }])).text(),
    ).toBe('data: x\r\r')
  })

  it('stalls after a delta, and knows that the client hung up', async () => {
    const abort = new AbortController()
    const base = server.urlFor('every;;stall')
    const response = await fetch(`${base}/v1/messages`, {
      method: 'POST',
      body: '{"stream":true}',
      signal: abort.signal,
    })
    const reader = response.body!.getReader()
    expect((await reader.read()).done).toBe(false)
    abort.abort()
    expect(await server.requests.at(-1)!.closed).toBe('hung up')
  })

  it('keeps silent even about headers', async () => {
    const abort = new AbortController()
    const base = server.urlFor('every;;silent')
    const asked = fetch(`${base}/v1/messages`, { method: 'POST', body: '{}', signal: abort.signal })
    await server.next((request) => base.endsWith(`/${request.run}`))
    abort.abort()
    await expect(asked).rejects.toThrow()
  })

  it('drips and answers at length', async () => {
    const drops = await events(await chat('every;;drip=5,1'))
    expect(drops.map((one) => one.choices[0].delta.content ?? '').join('')).toBe(
      'drop 1 drop 2 drop 3 drop 4 drop 5 ',
    )
    const long: any = await (await chat('every;;long=300000', {})).json()
    expect(long.choices[0].message.content).toHaveLength(300_000)
  })
})

it('closes with exchanges open, and twice', async () => {
  const other = await startModelServer({ script: 'every;;stall' })
  const stalled = await ask(other.url, '/v1/chat/completions', { stream: true })
  const reading = stalled.text()
  await Promise.all([other.close(), expect(reading).rejects.toThrow()])
  await other.close()
})

it('runs as a program', async () => {
  const program = fileURLToPath(new URL('../fixtures/model-server.mjs', import.meta.url))
  const child = spawn(process.execPath, [program, '--script', 'every;;text=hello'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const [line] = await once(createInterface(child.stdout), 'line')
    const { url } = JSON.parse(line)
    const whole: any = await (await ask(url, '/v1/chat/completions', {})).json()
    expect(whole.choices[0].message.content).toBe('hello')
  } finally {
    child.kill()
  }
  const [status] = await once(child, 'exit')
  expect(status).toBe(0)
})
