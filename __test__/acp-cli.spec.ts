// sheepdog acp: the agent behind it is scripted (fixtures/acp/agent.mjs), and the client is the class below.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Writable } from 'node:stream'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, expect, test } from 'vitest'
import { Harness, sandboxSupport } from '..'
import { command } from './cli-command'
import { failure } from './played-agent'

const folder = mkdtempSync(join(tmpdir(), 'acp-cli-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const agent = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')
const started: Client[] = []
afterEach(() => {
  for (const client of started.splice(0)) client.child.kill('SIGKILL')
})

interface Message {
  id?: number | string
  method?: string
  params?: any
  result?: any
  error?: any
}

/** A client of the protocol on the streams of a program. */
class Client {
  readonly child: ChildProcess
  readonly lines: string[] = []
  readonly asked: Message[] = []
  /** Answers a request of the agent; without it the request is not answered. */
  onAsked?: (message: Message) => object
  stderr = ''
  #next = 0
  readonly #waiting = new Map<number | string, (message: Message) => void>()

  constructor(args: string[], cwd = folder) {
    this.child = spawn(process.execPath, [command, 'acp', ...args], { cwd, stdio: ['pipe', 'pipe', 'pipe'] })
    started.push(this)
    this.child.stderr!.on('data', (text) => (this.stderr += text))
    createInterface({ input: this.child.stdout! }).on('line', (line) => this.#onLine(line))
  }

  #onLine(line: string): void {
    this.lines.push(line)
    const message = JSON.parse(line) as Message
    if (message.method === undefined) this.#waiting.get(message.id!)?.(message)
    else if (message.id !== undefined) {
      this.asked.push(message)
      const result = this.onAsked?.(message)
      if (result) this.write({ id: message.id, result })
    }
  }

  write(message: Message): void {
    this.child.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  }

  request(method: string, params: object): Promise<Message> {
    const id = this.#next++
    this.write({ id, method, params })
    return new Promise((resolve) => this.#waiting.set(id, resolve))
  }

  async open(version = 1, cwd = folder): Promise<Message> {
    await this.request('initialize', { protocolVersion: version, clientCapabilities: {} })
    return this.request('session/new', { cwd, mcpServers: [] })
  }

  prompt(text: string): Promise<Message> {
    return this.request('session/prompt', { sessionId: 'session-1', prompt: [{ type: 'text', text }] })
  }

  get updates(): any[] {
    return this.lines.map((line) => JSON.parse(line).params?.update).filter(Boolean)
  }

  get text(): string {
    return this.updates.map(({ content }) => content?.text ?? '').join('')
  }

  async end(): Promise<number | null> {
    this.child.stdin!.end()
    const [status] = await once(this.child, 'exit')
    return status as number | null
  }
}

const words = (...more: string[]) => ['--', process.execPath, agent, ...more]
const allowOnce = ({ params }: Message) => ({
  outcome: {
    outcome: 'selected',
    optionId: params.options.find(({ kind }: any) => kind === 'allow_once').optionId,
  },
})

/** Processes that work in this folder. */
const alive = (cwd: string) =>
  readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readlinkSync(`/proc/${pid}/cwd`) === cwd
    } catch {
      return false
    }
  })

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 20))
}

test.each([1, 2])('a client of version %s has a session, and nothing is left behind it', async (version) => {
  const cwd = join(folder, `plain-${version}`)
  mkdirSync(cwd)
  const client = new Client(['--permission', 'auto', ...words('--version', String(version))], cwd)
  expect((await client.open(version, cwd)).result).toMatchObject({ sessionId: 'session-1' })
  const { result } = await client.prompt('hello')
  expect(result).toMatchObject(
    version === 1
      ? { stopReason: 'end_turn', usage: { inputTokens: 100 } }
      : { messageId: expect.anything() },
  )
  await until(() => client.text.includes('Hello world'))
  expect(await client.end()).toBe(0)
  expect(alive(cwd)).toEqual([])
})

test('what is unknown passes with every member, in both directions', async () => {
  // It says again whatever it hears.
  const echo = "process.stdin.on('data', (chunk) => process.stdout.write(chunk))"
  const client = new Client(['--permission', 'auto', '--', process.execPath, '-e', echo])
  const messages = [
    '{"jsonrpc":"2.0", "method" : "_x/news","params":{"a":[1.5,1e3],"b":"\\u00e9 é"},"beside":true}',
    '{"jsonrpc":"2.0","method":"_y","params":[null,{"deep":[[{"z":""}]]}],"_meta":{"x":{"y":[-0.5]}}}',
  ]
  for (const message of messages) client.child.stdin!.write(`${message}\n`)
  await until(() => client.lines.length >= 2)
  expect(client.lines.map((line) => JSON.parse(line))).toEqual(messages.map((message) => JSON.parse(message)))
  expect(await client.end()).toBe(0)
})

test('questions go to the client, as far as the level leaves them open', async () => {
  const ask = new Client(['--permission', 'auto', ...words()])
  await ask.open()
  expect((await ask.prompt('ask echo hi')).result).toMatchObject({ stopReason: 'end_turn' })
  expect(ask.asked).toEqual([])
  const open = new Client(['gemini', '--binary', process.execPath, '--binary', agent])
  open.onAsked = allowOnce
  await open.open()
  await open.prompt('ask echo hi')
  expect(open.asked.map(({ method }) => method)).toEqual(['session/request_permission'])
  expect(open.text).toContain('once')
  const plan = new Client(['gemini', '--permission', 'plan', '--binary', process.execPath, '--binary', agent])
  plan.onAsked = allowOnce
  await plan.open()
  await plan.prompt('ask echo hi')
  expect({ asked: plan.asked, text: plan.text }).toEqual({ asked: [], text: expect.stringContaining('no') })
})

test('the level is a mode of the agent, and the client can choose none above it', async () => {
  const client = new Client([
    'gemini',
    '--permission',
    'plan',
    '--binary',
    process.execPath,
    '--binary',
    agent,
  ])
  const { result } = await client.open()
  expect(result.modes.currentModeId).toBe('plan')
  const refused = await client.request('session/set_mode', { sessionId: 'session-1', modeId: 'yolo' })
  expect(refused.error).toMatchObject({
    data: { code: 'INVALID_OPTION' },
    message: expect.stringContaining('yolo'),
  })
  const same = await client.request('session/set_mode', { sessionId: 'session-1', modeId: 'plan' })
  expect(same.result).toEqual({})
  const unheld = new Client(['--permission', 'plan', ...words()])
  expect(await once(unheld.child, 'exit')).toEqual([2, null])
  expect(unheld.stderr).toContain('can\'t be held to "plan"')
})

test.each([1, 2])(
  'a turn that falls silent ends with an error, in version %s, and the session goes on',
  async (version) => {
    const client = new Client([
      '--permission',
      'auto',
      '--idle',
      '500ms',
      ...words('--version', String(version)),
    ])
    await client.open(version)
    const { result, error } = await client.prompt('stall')
    if (version === 1)
      expect({ result, code: error.data.code }).toEqual({ result: undefined, code: 'AGENT_IDLE' })
    else {
      await until(() => client.updates.some(({ stopReason }) => stopReason === 'error'))
      expect(client.updates.find(({ stopReason }) => stopReason === 'error').error.data.code).toBe(
        'AGENT_IDLE',
      )
    }
    await client.prompt('hello')
    await until(() => client.text.includes('Hello world'))
  },
)

test('the time between two prompts is no silence of the agent', async () => {
  const client = new Client(['--permission', 'auto', '--idle', '1s', ...words()])
  await client.open()
  await new Promise((resolve) => setTimeout(resolve, 1200))
  expect((await client.prompt('patient 500')).result).toMatchObject({ stopReason: 'end_turn' })
})

test('an agent that heeds no cancel is killed, and the client told why', async () => {
  const cwd = join(folder, 'deaf')
  mkdirSync(cwd)
  const client = new Client(['--permission', 'auto', '--idle', '500ms', ...words()], cwd)
  await client.open(1, cwd)
  const { error } = await client.prompt('deaf')
  expect(error).toMatchObject({ code: -32603, data: { code: 'AGENT_IDLE' } })
  const [status] = await once(client.child, 'exit')
  expect({ status, stderr: client.stderr }).toEqual({
    status: 1,
    stderr: expect.stringContaining('silent for 0.5 s'),
  })
  expect(alive(cwd)).toEqual([])
})

test('an agent that crashes is told by the answer to every open request', async () => {
  const client = new Client(['--permission', 'auto', ...words()])
  await client.open()
  const { error } = await client.prompt('crash')
  expect(error).toMatchObject({
    data: { code: 'AGENT_CRASHED' },
    message: expect.stringContaining('segmentation fault'),
  })
  expect(await once(client.child, 'exit')).toEqual([1, null])
})

test('a request that comes while the agent ends is answered, and so is one that no agent could get', async () => {
  // It is gone for its client two seconds before it is gone.
  const client = new Client(['--permission', 'auto', '--', 'sh', '-c', 'read line; exec >&-; sleep 2'])
  const open = [client.request('initialize', {})]
  for (let count = 0; count < 4; count++) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    open.push(client.request('_x/ask', {}))
  }
  const over = once(client.child, 'exit').then(() => Promise.reject(new Error('it exited without an answer')))
  const answers = await Promise.race([Promise.all(open), over])
  for (const { error } of answers) expect(error.data).toEqual({ code: 'AGENT_CRASHED' })
  await expect(over).rejects.toThrow()
  expect(client.child.exitCode).toBe(1)
  const missing = new Client(['--permission', 'auto', '--', join(folder, 'no-such-agent')])
  const { error } = await missing.request('initialize', {})
  expect(error).toMatchObject({
    data: { code: 'AGENT_NOT_FOUND' },
    message: expect.stringContaining('no-such-agent'),
  })
  expect(await once(missing.child, 'exit')).toEqual([1, null])
})

test('a signal is told as the reason to the requests that are open', async () => {
  const client = new Client(['--permission', 'auto', ...words()])
  await client.open()
  const answer = client.prompt('deaf')
  client.child.kill('SIGTERM')
  const { error } = await answer
  expect(error).toMatchObject({
    data: { code: 'AGENT_ABORTED' },
    message: expect.stringMatching(/was ended, because .* was told to end \(SIGINT, SIGTERM, SIGHUP\)/),
  })
  expect(await once(client.child, 'exit')).toEqual([143, null])
})

test('what the agent writes to stderr is written to stderr, up to its end', async () => {
  const client = new Client(['--permission', 'auto', ...words()])
  await client.open()
  await client.prompt('logs 3')
  await until(() => client.stderr.endsWith('last\n'))
  expect(client.stderr).toBe(`${`${'l'.repeat(999)}\n`.repeat(3)}last\n`)
  await client.prompt('crash')
  await once(client.child, 'close')
  expect(client.stderr).toMatch(/last\nsegmentation fault\n.*exited with 9/s)
})

test.each(['does not read', 'closes'] as const)(
  'a client that %s stderr gets its answers, and the rest of the log is dropped',
  async (how) => {
    const client = new Client(['--permission', 'auto', ...words()])
    if (how === 'closes') client.child.stderr!.destroy()
    else client.child.stderr!.pause()
    await client.open()
    expect((await client.prompt('logs 8000')).result).toMatchObject({ stopReason: 'end_turn' })
    if (how === 'does not read') client.child.stderr!.resume()
    await client.prompt('hello')
    client.child.stdin!.end()
    expect(await once(client.child, 'close')).toEqual([0, null])
    if (how === 'closes') return
    const [, dropped] = /\[sheepdog: (\d+) bytes of the agent's log were dropped\]/.exec(client.stderr)!
    expect(client.stderr.replace(/\n\[sheepdog.*\n/, '').length + Number(dropped)).toBe(8_000_005)
  },
)

test.each(['client', 'sheepdog'] as const)('SIGKILL of the %s leaves nothing alive', async (whom) => {
  const cwd = join(folder, `kill-${whom}`)
  mkdirSync(cwd)
  // A client that is a process of its own: its death closes the pipes.
  const script = `
    const { spawn } = require('node:child_process')
    const child = spawn(process.execPath, ${JSON.stringify([command, 'acp', '--permission', 'auto', ...words()])}, { stdio: ['pipe', 'pipe', 'ignore'] })
    const send = (id, method, params) => child.stdin.write(JSON.stringify({ jsonrpc: '2.0', id, method, params }) + '\\n')
    send(0, 'initialize', { protocolVersion: 1 })
    send(1, 'session/new', { cwd: process.cwd(), mcpServers: [] })
    send(2, 'session/prompt', { sessionId: 'session-1', prompt: [{ type: 'text', text: 'leavestool' }] })
    child.stdout.on('data', (chunk) => String(chunk).includes('sleep 600') && console.log(child.pid))`
  const client = spawn(process.execPath, ['-e', script], { cwd, stdio: ['ignore', 'pipe', 'ignore'] })
  const [pid] = await once(client.stdout!.setEncoding('utf8'), 'data')
  expect(alive(cwd).length).toBeGreaterThan(2)
  process.kill(whom === 'client' ? client.pid! : Number(pid), 'SIGKILL')
  await until(() => alive(cwd).filter((one) => Number(one) !== client.pid).length === 0)
  client.kill('SIGKILL')
})

test('a record has the prompts and the events', async () => {
  const records = join(folder, 'records')
  const client = new Client(['--permission', 'auto', '--record', records, ...words()])
  await client.open()
  await client.prompt('hello')
  expect(await client.end()).toBe(0)
  const [name] = readdirSync(records)
  const events = readFileSync(join(records, name!, 'events.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).event)
  expect(events[0]).toEqual({ type: 'prompt', text: 'hello' })
  expect(
    events
      .filter(({ type }) => type === 'text')
      .map(({ text }) => text)
      .join(''),
  ).toBe('Hello world')
  expect(events.at(-1)).toEqual({ type: 'end', ok: true })
  expect(JSON.parse(readFileSync(join(records, name!, 'end.json'), 'utf8'))).toMatchObject({ ok: true })
})

test.runIf(sandboxSupport().landlock > 0)('a session outside of the sandbox is refused', async () => {
  const cwd = join(folder, 'inside')
  mkdirSync(cwd)
  const client = new Client(['--sandbox', ...words()], cwd)
  await client.request('initialize', { protocolVersion: 1 })
  const refused = await client.request('session/new', { cwd: folder, mcpServers: [] })
  expect(refused.error).toMatchObject({ code: -32602, message: expect.stringContaining('outside of') })
  const opened = await client.request('session/new', { cwd, mcpServers: [] })
  expect(opened.result.sessionId).toBe('session-1')
  const outside = join(folder, 'outside.txt')
  await client.prompt(`writes ${outside}`)
  expect(existsSync(outside)).toBe(false)
})

test('the budget is that of all turns', async () => {
  const client = new Client([
    'gemini',
    '--permission',
    'auto',
    '--max-tokens',
    '150',
    '--binary',
    process.execPath,
    '--binary',
    agent,
  ])
  await client.open()
  expect((await client.prompt('hello')).result).toMatchObject({ stopReason: 'end_turn' })
  // 220 of 150 tokens: the second turn is over when its tokens are known, and the third is not begun.
  await client.prompt('hello')
  expect((await client.prompt('hello')).error).toMatchObject({ data: { code: 'AGENT_BUDGET' } })
})

test('a flood passes in few writes, and what is no UTF-8 is replaced', async () => {
  const provider = { name: 'scripted', command: process.execPath, args: [agent] }
  const input = new PassThrough()
  const writes: Buffer[] = []
  const output = new Writable({
    write(chunk: Buffer, _, done) {
      writes.push(chunk)
      // A reader that takes its time gets larger blocks, no more of them.
      setImmediate(done)
    },
  })
  const served = new Harness({ provider, cwd: folder }).serve({ input, output }, { permission: 'auto' })
  const send = (message: Message) => input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const answered = (id: number) => until(() => writes.some((chunk) => chunk.includes(`"id":${id},`)))
  send({ id: 1, method: 'initialize', params: { protocolVersion: 1 } })
  send({ id: 2, method: 'session/new', params: { cwd: folder, mcpServers: [] } })
  await answered(2)
  const prompt = (id: number, text: string) => {
    const params = { sessionId: 'session-1', prompt: [{ type: 'text', text }] }
    send({ id, method: 'session/prompt', params })
    return answered(id)
  }
  const before = writes.length
  await prompt(3, 'flood 20000 20')
  const lines = Buffer.concat(writes.slice(before)).toString().trimEnd().split('\n')
  expect(lines.filter((line) => line.includes('"agent_message_chunk"')).length).toBe(20_000)
  // Each read of the agent's pipe is at least a page, except the first and the last of each of its writes.
  expect(writes.length - before).toBeLessThan(20_000 / 10)
  expect(writes.every((chunk) => chunk.at(-1) === 10)).toBe(true)
  const odd = Buffer.concat([
    Buffer.from('{"jsonrpc":"2.0","method":"_x","params":["'),
    Buffer.from([255, 0xc3]),
  ])
  const line = Buffer.concat([odd, Buffer.from('"]}')])
  await prompt(4, `lines ${line.toString('base64')}`)
  const messages = Buffer.concat(writes).toString().trimEnd().split('\n')
  expect(messages.map((line) => JSON.parse(line)).find(({ method }) => method === '_x')).toEqual({
    jsonrpc: '2.0',
    method: '_x',
    params: ['\ufffd\ufffd'],
  })
  input.end()
  await served
})

test('the end of a client is seen though more waits than its agent takes', async () => {
  const cwd = join(folder, 'unread')
  mkdirSync(cwd)
  const client = new Client(
    ['--permission', 'auto', '--', process.execPath, '-e', 'setInterval(() => {}, 1000)'],
    cwd,
  )
  const line = `${JSON.stringify({ jsonrpc: '2.0', method: '_x', params: ['x'.repeat(1 << 20)] })}\n`
  for (let count = 0; count < 20; count++) client.child.stdin!.write(line)
  expect(await client.end()).toBe(0)
  expect(alive(cwd)).toEqual([])
})

test('the end of a client is seen though it takes no answers', async () => {
  const provider = { name: 'scripted', command: process.execPath, args: [agent] }
  const input = new PassThrough()
  const taken: string[] = []
  const output = new Writable({
    write(chunk: Buffer, _, done) {
      taken.push(String(chunk))
      if (taken.length < 4) done()
    },
  })
  const served = new Harness({ provider, cwd: folder }).serve({ input, output }, { permission: 'auto' })
  const send = (message: Message) => input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  send({ id: 1, method: 'session/new', params: { cwd: folder, mcpServers: [] } })
  const prompt = [{ type: 'text', text: 'flood 200000 200' }]
  send({ id: 2, method: 'session/prompt', params: { sessionId: 'session-1', prompt } })
  await until(() => taken.length === 4)
  input.end()
  await served
})

test('a harness serves any two streams', async () => {
  const harness = new Harness({
    provider: { name: 'scripted', command: process.execPath, args: [agent] },
    cwd: folder,
  })
  const [input, output, log] = [new PassThrough(), new PassThrough(), new PassThrough()]
  const served = harness.serve({ input, output, log }, { permission: 'auto', redact: ['s3cret'] })
  input.write(
    `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: 1 } })}\n`,
  )
  const [line] = await once(createInterface({ input: output }), 'line')
  expect(JSON.parse(line as string)).toMatchObject({ id: 1, result: { protocolVersion: 1 } })
  const send = (message: Message) => input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  send({ id: 2, method: 'session/new', params: { cwd: folder, mcpServers: [] } })
  const prompt = [{ type: 'text', text: 'blabs s3cret' }]
  send({ id: 3, method: 'session/prompt', params: { sessionId: 'session-1', prompt } })
  expect(await failure(served)).toMatchObject({ code: 'AGENT_CRASHED' })
  expect(log.setEncoding('utf8').read()).toBe('fatal: bad key [REDACTED]\n')
  for (const client of [{}, { input, output, log: 1 }])
    expect(await failure(harness.serve(client as never))).toMatchObject({ code: 'INVALID_OPTION' })
})
