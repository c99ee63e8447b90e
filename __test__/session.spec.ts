// Sessions, over the real addon, with the scripted agent. The core's own table is crates/agents/tests/acp.
import { getEventListeners } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  Harness,
  defineTool,
  type OpenOptions,
  type ElicitationAnswer,
  type ElicitationRequest,
  type PermissionRequest,
  type SessionEvent,
} from '..'
import { sheepdog } from './cli-command'
import { failure, following } from './played-agent'
import { alive, folder, open, scripted } from './session-agent'

test('a session on record has its prompts and events, and how it ended', async () => {
  const session = await open({ record: join(folder, 'records'), name: 'the talk', redact: ['world'] })
  const record = session.record!
  await session.prompt('hello')
  await session.close()
  const read = (name: string) => readFileSync(join(record, name), 'utf8')
  expect(JSON.parse(read('run.json'))).toMatchObject({
    kind: 'session',
    name: 'the talk',
    provider: 'gemini',
  })
  const events = read('events.jsonl')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).event)
  expect(events[0]).toEqual({ type: 'prompt', text: 'hello' })
  const words = events.filter(({ type }) => type === 'text').map(({ text }) => text)
  expect(words.join('')).toBe('Hello [REDACTED]')
  expect(events.at(-1)).toMatchObject({ type: 'turn_end', turn: 1 })
  expect(JSON.parse(read('end.json'))).toMatchObject({ ok: true })
  expect(read('attempts/1/stdout')).toContain('"jsonrpc"')
  expect(read('attempts/1/stdout')).not.toContain('world')
  const { status, stdout } = await sheepdog(['replay', record])
  expect({ status, last: stdout.trim().split('\n').at(-1) }).toEqual({
    status: 0,
    last: 'ok: the session was closed',
  })
  const refused = await failure(open({ record: '/proc/records' }))
  expect(refused).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringMatching(/^record: /) })
})

test('many prompts go to one process, and their results are those of one-shot turns', async () => {
  for (const version of [1, 2] as const) {
    await using session = await open({}, version)
    expect(session).toMatchObject({
      sessionId: 'session-1',
      provider: 'gemini',
      protocolVersion: version,
      history: [],
    })
    expect(await session.prompt('hello')).toMatchObject({
      text: 'Hello world',
      sessionId: 'session-1',
      usage: { inputTokens: 100, outputTokens: 10, cachedInputTokens: 5 },
      attempts: 1,
      provider: 'gemini',
      warnings: [],
    })
    expect(await session.prompt('tool')).toMatchObject({ text: 'It says hi.', toolCalls: 1 })
  }
})

test('a usage limit is told, and waited out where that is asked for', async () => {
  const harness = new Harness({ provider: 'gemini', retry: { attempts: 5, waitForResetMs: 60_000 } })
  const opened = (options: OpenOptions) => harness.open({ binary: scripted(2), cwd: folder, ...options })
  await using patient = await opened({})
  const turn = patient.start('limit 1500 tool')
  const waits: unknown[] = []
  for await (const event of turn) if (event.type === 'retry') waits.push(event.until)
  expect(await turn.result).toMatchObject({ text: expect.stringMatching(/^A usage limit/), attempts: 1 })
  expect(waits).toEqual([expect.any(Date)])
  await using other = await opened({ retry: { waitForResetMs: 0 } })
  const error = await failure(other.prompt('limit 3600000'))
  expect(error).toMatchObject({ code: 'AGENT_FAILED', kind: 'rate_limit', resetAt: expect.any(Date) })
  expect(error.retryAfterMs).toBeGreaterThan(3_500_000)
  const wrong = await failure(opened({ retry: { attempts: 2 } } as unknown as OpenOptions))
  expect(wrong).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(/^retry\.attempts: /),
  })
})

test('start() gives the same Turn as a harness: events, result, abort', async () => {
  await using session = await open()
  const types: string[] = []
  const turn = session.start('tool')
  for await (const event of turn) types.push(event.type)
  expect(types).toEqual(['session', 'text', 'tool_start', 'tool_end', 'text', 'usage', 'end'])
  expect((await turn.result).text).toBe('It says hi.')
  const stalled = session.start('stall')
  for await (const event of stalled) if (event.type === 'text') break
  await stalled.abort()
  expect((await failure(stalled.result)).code).toBe('AGENT_ABORTED')
  expect((await session.prompt('hello')).text).toBe('Hello world')
})

test('events() tells everything, between prompts too, and which turn it belongs to', async () => {
  await using session = await open({ settleMs: 100 }, 2, 'claude-code')
  const events = session.events()
  expect((await session.prompt('background 20', { background: 'leave' })).text).toBe('started')
  const seen: SessionEvent[] = []
  for await (const event of events) {
    seen.push(event)
    if (event.type === 'turn_end' && event.turn === 2) break
  }
  expect(seen.filter((event) => event.type === 'text')).toEqual([
    { type: 'text', text: 'started', delta: true, turn: 1 },
    { type: 'text', text: 'woken', delta: true, turn: 2 },
  ])
  expect(seen.find((event) => event.type === 'turn_start' && event.turn === 2)).toMatchObject({ by: 'agent' })
  await session.idle()
  expect((await session.prompt('background 20')).text).toBe('started\n\nwoken')
})

test('a loop over events() can be ended at any time, and the session no longer waits for it', async () => {
  await using session = await open()
  const before = session.events()
  await before.return!()
  const waiting = session.events()
  const next = waiting.next()
  await waiting.return!()
  expect(await next).toEqual({ value: undefined, done: true })
  // Far more than is kept for a reader.
  expect((await session.prompt('flood 2000 1000')).text).toHaveLength(2_000_000)
})

test('many sessions share one signal with one listener', async () => {
  const { signal } = new AbortController()
  await using first = await following([]).open({ signal })
  await using second = await following([]).open({ signal })
  expect(getEventListeners(signal, 'abort')).toHaveLength(1)
  await first.close()
  await second.close()
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})

test('orders are carried out in the sequence of the calls', async () => {
  await using session = await open({ permission: 'plan' }, 2, 'claude-code')
  void session.setMode('default')
  expect(JSON.parse((await session.prompt('state')).text).mode).toBe('default')
  const stalled = failure(session.prompt('stall'))
  const cancelled = session.cancel()
  expect((await session.prompt('hello')).text).toBe('Hello world')
  expect((await stalled).code).toBe('AGENT_ABORTED')
  await cancelled
})

test('cancel() right behind prompt() cancels that prompt, sent or not, and the session goes on', async () => {
  await using session = await open()
  for (let round = 0; round < 3; round++) {
    const stalled = failure(session.prompt('stall'))
    await session.cancel()
    expect((await stalled).code).toBe('AGENT_ABORTED')
  }
  expect((await session.prompt('hello')).text).toBe('Hello world')
})

test('a question goes to the handler with a signal of its own, and its answer counts by kind', async () => {
  const asked: PermissionRequest[] = []
  await using session = await open({
    onPermission(request) {
      asked.push(request)
      return asked.length === 1 ? 'allow' : Promise.reject(new Error('I broke'))
    },
    policy: { deny: [{ command: 'rm *' }] },
    allow: ['git *'],
  })
  expect((await session.prompt('ask ls')).text).toBe('chosen: once')
  const refused = await session.prompt('ask ls')
  expect(refused.text).toBe('chosen: no')
  expect(refused.warnings[0]).toContain('I broke')
  expect((await session.prompt('ask rm x')).text).toBe('chosen: no')
  expect((await session.prompt('ask git log')).text).toBe('chosen: once')
  expect((await session.prompt('ask git log; rm x')).text).toBe('chosen: no')
  expect(asked).toHaveLength(2)
  expect(asked[0]).toMatchObject({
    tool: { id: 't1', kind: 'execute', title: 'ls', input: { command: 'ls' } },
    options: [{ kind: 'allow_always' }, { kind: 'allow_once' }, { kind: 'reject_once' }],
  })
})

test('an answer of a handler that is none rejects the turn, and the session goes on', async () => {
  let answer: unknown = true
  await using session = await open({ onPermission: () => answer as 'allow' })
  expect(await failure(session.prompt('ask ls'))).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(/^onPermission: expected "allow", .* got true$/),
  })
  answer = 'approve'
  expect((await failure(session.prompt('ask ls'))).message).toMatch(/did you mean "allow"\?$/)
  answer = 'allow'
  expect((await session.prompt('ask ls')).text).toBe('chosen: once')
})

test('input that the agent asks of the user comes from onElicitation', async () => {
  const asked: ElicitationRequest[] = []
  const answers: ElicitationAnswer[] = [{ action: 'accept', content: { name: 'Ada' } }, { action: 'decline' }]
  await using session = await open({
    onElicitation(request) {
      asked.push(request)
      return answers[asked.length - 1] ?? ({ action: 'perhaps' } as never)
    },
  })
  const events: SessionEvent[] = []
  const seen = (async () => {
    for await (const event of session.events()) events.push(event)
  })()
  expect((await session.prompt('elicit form')).text).toBe('{"action":"accept","content":{"name":"Ada"}}')
  expect((await session.prompt('elicit url')).text).toBe('{"action":"decline"}')
  expect(await failure(session.prompt('elicit form'))).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringContaining('onElicitation: expected { action'),
  })
  expect(asked.slice(0, 2)).toEqual([
    {
      id: expect.any(String),
      message: 'Who are you?',
      mode: 'form',
      schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    },
    { id: expect.any(String), message: 'Who are you?', mode: 'url', url: 'https://example.com/in' },
  ])
  await session.close()
  await seen
  expect(events.filter(({ type }) => type === 'elicitation')).toMatchObject([
    { action: 'accept', by: 'handler' },
    { action: 'decline', by: 'handler' },
    { action: 'cancel', by: 'handler' },
  ])
})

test('a cancel aborts the signal of an open question', async () => {
  let signal: AbortSignal | undefined
  let tellAsked = () => {}
  const asked = new Promise<void>((resolve) => (tellAsked = resolve))
  await using session = await open({
    onPermission(_, context) {
      signal = context.signal
      tellAsked()
      return new Promise(() => {})
    },
  })
  const prompt = failure(session.prompt('ask ls'))
  await asked
  await session.cancel()
  expect((await prompt).code).toBe('AGENT_ABORTED')
  await expect.poll(() => signal?.aborted).toBe(true)
  expect((await session.prompt('hello')).text).toBe('Hello world')
})

test('tools of this process are called over loopback, with a bearer that nothing tells', async () => {
  const calls: unknown[] = []
  const lookup = defineTool<{ word: string }>('lookup', {
    description: 'Looks a word up.',
    parameters: { type: 'object', properties: { word: { type: 'string' } } },
    handler(args, { toolName, sessionId, signal }) {
      calls.push([args, toolName, sessionId, signal?.aborted])
      if (args.word === 'bad') throw new Error('no such word')
      return args.word === 'long' ? 'x'.repeat(1 << 20) : { found: args.word }
    },
  })
  await using session = await open({ tools: [lookup] })
  const call = async (word: string) =>
    JSON.parse((await session.prompt(`call lookup {"word":"${word}"}`)).text)
  expect(await call('seven')).toEqual({
    tools: ['lookup'],
    called: { content: [{ type: 'text', text: '{"found":"seven"}' }], isError: false },
  })
  expect(calls).toEqual([[{ word: 'seven' }, 'lookup', 'session-1', false]])
  expect((await call('bad')).called).toEqual({
    content: [{ type: 'text', text: 'no such word' }],
    isError: true,
  })
  expect((await call('long')).called.content[0].text).toHaveLength(1 << 20)
  const told = JSON.parse((await session.prompt('state')).text).servers[0]
  expect(told.headers[0].value).not.toMatch(/Bearer [\w-]{20}/)
  const wrong: Record<string, string>[] = [{}, { authorization: 'Bearer wrong' }]
  for (const headers of wrong) {
    expect((await fetch(told.url, { method: 'POST', headers, body: '{}' })).status).toBe(401)
  }
  await session.close()
  await expect(fetch(told.url, { method: 'POST' })).rejects.toThrow()
})

test('modes and options are set by what the agent offers', async () => {
  await using session = await open({ permission: 'plan' }, 2, 'claude-code')
  expect(session.modes.find((mode) => mode.isCurrent)?.id).toBe('plan')
  await session.setMode('default')
  expect(session.modes.find((mode) => mode.isCurrent)?.id).toBe('default')
  expect((await failure(session.setMode('godlike'))).message).toMatch(/^mode: /)
  await session.setOption('model', 'large')
  expect(session.options.find((option) => option.id === 'model')).toMatchObject({ value: 'large' })
  expect((await failure(session.setOption('model', 'huge'))).code).toBe('INVALID_OPTION')
  const working = session.start('steer')
  await session.steer('use pnpm')
  expect((await working.result).text).toBe('working, use pnpm')
  await using plain = await open()
  expect((await failure(plain.steer('x'))).code).toBe('INVALID_OPTION')
})

test('a word to the agent right after the first prompt comes behind it', async () => {
  const log = join(folder, 'steered.log')
  await using session = await open(
    { binary: [...scripted(1), '--steers', 'yes', '--log', log] },
    1,
    'claude-code',
  )
  const working = session.start('steer')
  await session.steer('use pnpm')
  expect((await working.result).text).toBe('working, use pnpm')
  const methods = readFileSync(log, 'utf8').match(/session\/(prompt|steering)/g)
  expect(methods).toEqual(['session/prompt', 'session/steering'])
})

test('structured answers, a re-ask included', async () => {
  await using session = await following([
    { structured: { a: 7 } },
    { say: 'five' },
    { structured: { a: 5 } },
  ]).open()
  const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }
  expect(await session.prompt('fits', { schema })).toMatchObject({ structured: { a: 7 }, attempts: 1 })
  expect(await session.prompt('schema', { schema })).toMatchObject({ structured: { a: 5 }, attempts: 2 })
})

test('a failed prompt rejects with its code, kind and what there is of the result', async () => {
  await using session = await open({ idleTimeoutMs: 1500 })
  expect(await failure(session.prompt('error 401'))).toMatchObject({
    code: 'AGENT_FAILED',
    kind: 'auth',
    result: { text: 'API Error: 500', provider: 'gemini' },
  })
  expect(await failure(session.prompt('stall'))).toMatchObject({ code: 'AGENT_IDLE', idleTimeoutMs: 1500 })
  expect(await failure(session.prompt('crash'))).toMatchObject({
    code: 'AGENT_CRASHED',
    exitCode: 9,
    stderr: 'segmentation fault',
  })
  expect(await failure(session.prompt('hello'))).toMatchObject({ code: 'SESSION_CLOSED', exitCode: 9 })
  expect((await failure(session.idle())).code).toBe('SESSION_CLOSED')
})

test('close leaves nothing alive, also of an agent that does not obey', async () => {
  const session = await open({ killGraceMs: 200 })
  const turn = session.start('deaf')
  for await (const event of turn) if (event.type === 'text') break
  await Promise.all([session.close(), session.close()])
  expect((await failure(turn.result)).code).toBe('AGENT_ABORTED')
  await expect.poll(alive).toEqual([])
})

test('an aborted signal gives the opening up, and later closes the session', async () => {
  const early = AbortSignal.abort(new Error('no'))
  expect((await failure(open({ signal: early }))).code).toBe('AGENT_ABORTED')
  const late = new AbortController()
  const opening = failure(open({ signal: late.signal, binary: scripted(1, 'initialize-silent') }))
  late.abort()
  expect((await opening).code).toBe('AGENT_ABORTED')
  const controller = new AbortController()
  const session = await open({ signal: controller.signal })
  const stalled = failure(session.prompt('stall'))
  controller.abort()
  expect((await stalled).code).toBe('AGENT_ABORTED')
  await expect.poll(alive).toEqual([])
})
