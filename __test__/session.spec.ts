// Sessions, over the real addon, with the scripted agent (fixtures/acp/agent.mjs). The core's own table is crates/agents/tests/acp.
import { getEventListeners } from 'node:events'
import { mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import {
  ConcurrencyLimit,
  Harness,
  defineTool,
  type AgentSession,
  type OpenOptions,
  type ElicitationAnswer,
  type ElicitationRequest,
  type PermissionRequest,
  type SessionEvent,
} from '..'
import { sheepdog } from './cli-command'
import { failure, following } from './played-agent'

const folder = mkdtempSync(join(tmpdir(), 'session-spec-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const agent = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')
const scripted = (version: 1 | 2, start = '') => [
  'node',
  agent,
  '--version',
  String(version),
  '--start',
  start,
]

function open(
  options: OpenOptions = {},
  version: 1 | 2 = 1,
  provider: 'gemini' | 'claude-code' | 'pi' = 'gemini',
) {
  return new Harness({ provider }).open({ binary: scripted(version), cwd: folder, ...options })
}

/** Processes of the session that runs in this folder. */
const alive = () =>
  readdirSync('/proc').filter((pid) => {
    try {
      // Other specs run the same agent at the same time, in folders of their own.
      if (!/^\d+$/.test(pid) || readlinkSync(`/proc/${pid}/cwd`) !== folder) return false
      return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(agent)
    } catch {
      return false
    }
  })

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

test('a wrong option names its path, and nothing is thrown at once', async () => {
  const cases: [object, RegExp][] = [
    [{ permission: 'yolo' }, /^permission: /],
    [{ policy: { allow: [{}] } }, /^policy\.allow\[0\]: /],
    [{ policy: { deny: [{ comand: 'x' }] } }, /^policy\.deny\[0\]\.comand: .*did you mean command/],
    [{ onPermission: 'yes' }, /^onPermission: /],
    [{ tools: [{ name: 'x' }] }, /^tools\[0\]\.handler: /],
    [{ mcpServers: [{ name: 'x' }] }, /^mcpServers\[0\]: /],
    [{ settleMs: -1 }, /^settleMs: /],
    [{ allow: [''] }, /^allow\[0\]: /],
    [{ allow: ['git *', 'git log --output=*'] }, /^allow\[1\]: .*"--output=\*"/],
    [{ allow: ['git *'], permission: 'plan' }, /^allow: applies at permission "edit"/],
    [{ nonsense: 1 }, /^nonsense: no such option/],
  ]
  for (const [options, message] of cases) {
    const error = await failure(open(options as OpenOptions))
    expect([error.code, error.message]).toEqual(['INVALID_OPTION', expect.stringMatching(message)])
  }
  expect((await failure(open({}, 1, 'pi'))).message).toMatch(/^permission: /)
  await using session: AgentSession = await open()
  for (const [text, options] of [
    ['', {}],
    ['hi', { background: 'later' }],
    ['hi', { idleTimeoutMs: 'x' }],
  ] as const) {
    expect((await failure(session.prompt(text, options as never))).code).toBe('INVALID_OPTION')
  }
})

test('claude-code at "plan" has no tool that writes or runs something, over its adapter too', async () => {
  const log = join(folder, 'claude-plan.log')
  const binary = [...scripted(1), '--log', log]
  const beginning = async (permission: 'plan' | 'edit') => {
    rmSync(log, { force: true })
    await using _ = await open({ permission, binary }, 1, 'claude-code')
    return readFileSync(log, 'utf8')
  }
  const plan = await beginning('plan')
  expect(plan).toMatch(/"disallowedTools":\["Bash","PowerShell","Monitor".*"Write","Edit","NotebookEdit"/)
  expect(plan).toContain('"useAutoModeDuringPlan":false')
  const edit = await beginning('edit')
  expect(edit).not.toContain('disallowedTools')
  // As root, claude-code does not start if the mode without permissions is offered.
  for (const held of [plan, edit]) expect(held).toContain('"allowDangerouslySkipPermissions":false')
})

test('programs of mcpServers reach copilot by its command line, for it starts none that a session names', async () => {
  const log = join(folder, 'copilot-servers.log')
  // Notes its arguments and the file that they name, then is the scripted agent.
  const note = [
    'const { execFileSync } = require("child_process"), fs = require("fs")',
    'const given = process.argv.slice(1), file = /@(.*)/.exec(given.join(" "))?.[1]',
    `fs.writeFileSync(${JSON.stringify(log)}, JSON.stringify({ given, file: file && fs.readFileSync(file, "utf8") }) + "\\n")`,
    `execFileSync(process.execPath, [${JSON.stringify(agent)}, "--version", "1", "--start", "", "--log", ${JSON.stringify(log)}], { stdio: "inherit" })`,
  ]
  const binary = ['node', '-e', note.join('\n'), '--']
  const mcpServers = [
    { name: 'local', command: 'own', args: ['${HOME}'], env: { KEY: 'a$b' } },
    { name: 'far', url: 'https://tools.example/mcp' },
  ]
  const harness = new Harness({ provider: 'copilot' })
  await using session = await harness.open({ binary, cwd: folder, permission: 'auto', mcpServers })
  expect((await session.prompt('hello')).text).toBe('Hello world')
  const [start, ...lines] = readFileSync(log, 'utf8').trim().split('\n')
  const { file } = JSON.parse(start!)
  expect(JSON.parse(file).mcpServers).toMatchObject({
    local: { command: 'own', args: ['${SHEEPDOG_DOLLAR}{HOME}'], env: { KEY: 'a${SHEEPDOG_DOLLAR}b' } },
  })
  const asked = lines.find((line) => line.includes('"session/new"'))!
  expect(asked).toContain('tools.example')
  expect(asked).not.toContain('"local"')
  const named = await failure(
    harness.open({ binary, cwd: folder, permission: 'auto', mcpServers: [{ name: 'a b', command: 'own' }] }),
  )
  expect(named).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(/^mcpServers\[0\]\.name: /),
  })
})

test('a session holds its slot until it is closed', async () => {
  const limit = new ConcurrencyLimit(1)
  const harness = following([{ say: 'Hello.' }], { limit })
  const first = await harness.open()
  const second = harness.open()
  const order: string[] = []
  void second.then(() => order.push('second'))
  await first.prompt('hello')
  order.push('first closes')
  await first.close()
  await (await second).close()
  expect(order).toEqual(['first closes', 'second'])
})

test('an agent that is not installed is named with what installs it', async () => {
  const env = { PATH: '/nonexistent' }
  const error = await failure(new Harness({ provider: 'codex', cwd: folder }).open({ env }))
  expect(error.code).toBe('AGENT_NOT_FOUND')
  expect(error.install).toMatch(/^npm install -g @agentclientprotocol\/codex-acp@/)
})

test('a prompt has text, images and resources, as far as the agent takes them', async () => {
  const session = await open()
  const png = Buffer.from('\x89PNG\r\n\x1a\n...', 'latin1')
  const { text } = await session.prompt([
    { type: 'text', text: 'blocks ' },
    { type: 'image', mimeType: 'image/png', data: new Uint8Array(png) },
    { type: 'text', text: 'and' },
    { type: 'resource', uri: 'file:///work/src/a.ts' },
  ])
  expect(JSON.parse(text)).toEqual([
    { type: 'text', text: 'blocks ' },
    { type: 'image', mimeType: 'image/png', data: png.toString('base64') },
    { type: 'text', text: 'and' },
    { type: 'resource_link', uri: 'file:///work/src/a.ts', name: 'a.ts' },
  ])
  const refused = await failure(session.prompt([{ type: 'resource', uri: 'a', text: 'its text' }]))
  expect(refused).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(/^prompt\[0\]: gemini does not take the text of resources/),
  })
  for (const [prompt, path] of [
    [7, 'prompt'],
    [[{ type: 'audio' }], 'prompt[0].type'],
    [[{ type: 'image', data: 'x' }], 'prompt[0].mimeType'],
    [[{ type: 'image', mimeType: 'image/png', data: new Uint8Array([1, 2, 3]) }], 'prompt[0].data'],
  ] as const) {
    const wrong = await failure(session.prompt(prompt as never))
    expect(wrong.message.startsWith(`${path}: `)).toBe(true)
  }
  await session.close()
})

test('a session tells its title, its commands, its context and the files that it changed', async () => {
  const session = await open()
  expect(session.title).toBe(undefined)
  const turn = session.start('facts')
  const seen: SessionEvent[] = []
  for await (const event of turn) seen.push(event)
  expect(seen).toEqual(
    expect.arrayContaining([
      { type: 'title', title: 'The fix' },
      { type: 'commands', commands: [{ name: 'review', description: 'Reviews' }] },
      { type: 'context', usedTokens: 10, maxTokens: 100 },
      { type: 'diff', id: 'e1', path: '/work/a.txt', oldText: 'old', newText: 'new' },
    ]),
  )
  expect(session.title).toBe('The fix')
  await session.close()
})

test('sessions that an agent has kept are listed, page after page', async () => {
  const harness = new Harness({ provider: 'gemini', binary: [...scripted(1), '--lists', 'yes'], cwd: folder })
  const found: object[] = []
  for await (const session of harness.sessions()) found.push(session)
  expect(found).toEqual([
    { sessionId: 'new', title: 'The fix', updatedAt: new Date('2026-11-24T10:00:00Z') },
    { sessionId: 'old' },
  ])
  const none = new Harness({ provider: 'gemini', binary: scripted(1), cwd: folder })
  expect(await failure(none.sessions().next())).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringContaining('does not list its sessions'),
  })
  expect(alive()).toEqual([])
})
