// The caller's tools, as an agent calls them over HTTP.
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { createRequire } from 'node:module'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { ToolServer as Server } from '../lib/harness/session/tool_server'
import { Harness, defineTool, type AgentSession, type Turn } from '..'
import { scriptedAgent } from '../entries/testing.js'
import { failure } from './played-agent'

// As it is built: the addon is found from there.
const { ToolServer } = createRequire(import.meta.url)('../dist/lib/harness/session/tool_server') as {
  ToolServer: typeof Server
}

/** A tool that waits for its signal, and tells when it was called. */
function waiting() {
  let called!: (signal: AbortSignal) => void
  const isCalled = new Promise<AbortSignal>((resolve) => (called = resolve))
  const handler = async (_: unknown, { signal }: { signal?: AbortSignal }) => {
    called(signal!)
    if (!signal!.aborted) await once(signal!, 'abort')
    return 'stopped'
  }
  return { tool: { name: 'wait', handler }, isCalled }
}

it('a call that the agent cancels is aborted, and no other one', async () => {
  const [first, second] = [waiting(), waiting()]
  const server = await ToolServer.start([first.tool, { ...second.tool, name: 'other' }] as never)
  const { url, headers } = server.server
  const post = (message: object) =>
    fetch(url, {
      method: 'POST',
      headers: { [headers[0]!.name]: headers[0]!.value, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', ...message }),
    })
  const calls = [
    post({ id: 7, method: 'tools/call', params: { name: 'wait' } }),
    post({ id: '7', method: 'tools/call', params: { name: 'other' } }),
  ]
  const signals = await Promise.all([first.isCalled, second.isCalled])
  expect(
    (await post({ method: 'notifications/cancelled', params: { requestId: 7, reason: 'x' } })).status,
  ).toBe(202)
  const answer = (await (await calls[0]!).json()) as { result: { content: unknown } }
  expect(answer.result.content).toEqual([{ type: 'text', text: 'stopped' }])
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, false])
  // Neither an unknown nor a missing id does anything.
  for (const params of [{ requestId: 99 }, {}, undefined])
    await post({ method: 'notifications/cancelled', params })
  expect(signals[1]!.aborted).toBe(false)
  server.cancelCalls()
  await (await calls[1]!).json()
  expect(signals[1]!.aborted).toBe(true)
  await server.close()
})

const harness = new Harness({
  provider: 'gemini',
  binary: [process.execPath, join(__dirname, '../fixtures/acp/agent.mjs')],
})

it('whatever stops a turn aborts the calls that run', async () => {
  const stops = {
    cancel: (session: AgentSession) => session.cancel(),
    'turn.abort()': (_: AgentSession, turn: Turn) => turn.abort(),
    signal: (_: AgentSession, __: Turn, controller: AbortController) => controller.abort(),
    timeoutMs: () => {},
  }
  const provider = scriptedAgent(Object.keys(stops).map(() => ({ tool: { name: 'wait' } })))
  for (const [name, stop] of Object.entries(stops)) {
    const { tool, isCalled } = waiting()
    await using session = await new Harness({ provider }).open({ tools: [tool] as never })
    const controller = new AbortController()
    const timeoutMs = name === 'timeoutMs' ? 1000 : 60_000
    const turn = session.start('Wait.', { signal: controller.signal, timeoutMs })
    const signal = await isCalled
    void stop(session, turn, controller)
    const error = await failure(turn.result)
    expect([name, error.code]).toEqual([name, name === 'timeoutMs' ? 'AGENT_TIMED_OUT' : 'AGENT_ABORTED'])
    await expect.poll(() => [name, signal.aborted]).toEqual([name, true])
  }
})

it('arguments that do not fit the schema do not reach the handler, and the agent is told why', async () => {
  const seen: unknown[] = []
  const tool = defineTool('count', {
    parameters: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
    handler: (args) => seen.push(args),
  })
  await using session = await harness.open({ tools: [tool] })
  const call = async (args: string) => JSON.parse((await session.prompt(`call count ${args}`)).text).called
  for (const args of ['{"n":"x"}', '{}', '[]', '"x"']) {
    const { isError, content } = await call(args)
    expect([args, isError, content[0].text]).toEqual([
      args,
      true,
      expect.stringContaining('Invalid arguments for count: /'),
    ])
  }
  expect((await call('{"n":1}')).isError).toBe(false)
  expect(seen).toEqual([{ n: 1 }])
  const wrong = { name: 'x', parameters: { type: 'strange' }, handler: () => 1 }
  expect(await failure(harness.open({ tools: [wrong] }))).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(/^tools\[0\]\.parameters: /),
  })
})

it('a tool that no model can be given is refused by its name, at its definition and at the session', async () => {
  const object = { type: 'object' }
  const handler = () => 1
  const long = 'x'.repeat(65)
  for (const [name, parameters, problem] of [
    ['', object, /letters, digits/],
    ['look up', object, /letters, digits/],
    ['nachschlagen.ä', object, /letters, digits/],
    [long, object, /1 to 64/],
    ['a', { type: 'string' }, /schema of an object/],
    ['a', { type: ['object', 'null'] }, /schema of an object/],
    ['a', [], /expected a JSON Schema, an object/],
    ['a', true, /expected a JSON Schema, an object/],
    ['a', { oneOf: [object] }, /"oneOf" at the top/],
    ['a', { type: 'object', anyOf: [object] }, /"anyOf" at the top/],
    ['a', { allOf: [object] }, /"allOf" at the top/],
    ['a', { enum: [{}] }, /"enum" at the top/],
    ['a', { properties: { 'first name': {} } }, /"first name"/],
    ['a', { properties: { [long]: {} } }, /1 to 64/],
    ['a', { toJSONSchema: () => ({ type: 'number' }) }, /schema of an object/],
  ] as const) {
    const define = () => defineTool(name, { parameters: parameters as never, handler })
    expect(define).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
    expect(define).toThrow(problem)
    expect(define).toThrow(`tool ${JSON.stringify(name)}`)
    const error = await failure(harness.open({ tools: [{ name, parameters, handler }] as never }))
    expect([error.code, error.message]).toEqual([
      'INVALID_OPTION',
      expect.stringMatching(/^tools\[0\]\.(name|parameters): /),
    ])
  }
})

it('a schema without a type, or without any field, is completed for the model', async () => {
  const handler = () => 1
  const tools = [
    defineTool('none', { handler }),
    defineTool('empty', { parameters: {}, handler }),
    defineTool('open', { parameters: { properties: { 'a.b-c_d': {} } }, handler }),
  ]
  const server = await ToolServer.start(tools as never)
  const { url, headers } = server.server
  const answer = await fetch(url, {
    method: 'POST',
    headers: { [headers[0]!.name]: headers[0]!.value, 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  })
  const listed = (await answer.json()) as { result: { tools: { inputSchema: object }[] } }
  expect(listed.result.tools.map(({ inputSchema }) => inputSchema)).toEqual([
    { type: 'object', properties: {} },
    { type: 'object', properties: {} },
    { type: 'object', properties: { 'a.b-c_d': {} } },
  ])
  await server.close()
})

it('silence is not counted while a handler works', async () => {
  const tool = { name: 'slow', handler: () => sleep(3000) }
  const provider = scriptedAgent([{ tool: { name: 'slow' }, say: 'Done.' }])
  const clocks = { idleTimeoutMs: 1500, toolIdleTimeoutMs: 1500 }
  await using session = await new Harness({ provider }).open({ tools: [tool], ...clocks })
  expect((await session.prompt('Call it.')).text).toBe('Done.')
})

it('keeps the connection of an agent that calls after a long time', async () => {
  const server = await ToolServer.start([{ name: 'x', handler: () => 'fine' }])
  const { url, headers } = server.server
  const agent = new Agent({ keepAlive: true })
  const socketOf = async () => {
    const asked = request(url, { agent, method: 'POST', headers: { authorization: headers[0]!.value } })
    asked.end('{"jsonrpc":"2.0","id":1,"method":"ping"}')
    const [answer] = await once(asked, 'response')
    for await (const _ of answer);
    return asked.socket
  }
  const first = await socketOf()
  // The limit of a server that sets none.
  await sleep(6500)
  expect(first!.destroyed).toBe(false)
  expect(await socketOf()).toBe(first)
  agent.destroy()
  await server.close()
}, 30_000)

it('connections of other processes are bounded, and the agent gets through', async () => {
  const server = await ToolServer.start([{ name: 'x', handler: () => 'fine' }])
  const { url, headers } = server.server
  const post = (body: string, authorization = headers[0]!.value) =>
    fetch(url, { method: 'POST', headers: { authorization }, body })
  const { port } = new URL(url)
  const before = readdirSync('/proc/self/fd').length
  const strangers = Array.from({ length: 400 }, () => {
    const socket = connect(Number(port), '127.0.0.1')
    socket.on('error', () => {})
    socket.write('POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n')
    return socket
  })
  const isOpen = (socket: Socket) => !socket.closed
  await expect.poll(() => strangers.filter(isOpen).length).toBeLessThanOrEqual(64)
  expect(readdirSync('/proc/self/fd').length - before).toBeLessThan(200)
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'x' } }
  expect(await (await post(JSON.stringify(call))).text()).toContain('fine')
  expect((await post('{}', 'Bearer wrong')).headers.get('connection')).toBe('close')
  for (const odd of ['null', '7', '[]', '[null]', '{"id":1,"method":"tools/call","params":null}'])
    expect((await post(odd)).status).toBeLessThan(300)
  for (const socket of strangers) socket.destroy()
  await server.close()
})
