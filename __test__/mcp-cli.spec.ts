// `sheepdog mcp`: agents as tools of another agent, over stdio.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path, { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { Harness, run } from '..'
import { command } from './cli-command'

const root = join(import.meta.dirname, '..')
const { isBelow } = createRequire(join(root, 'dist/cli/'))(
  './mcp/agents.js',
) as typeof import('../cli/mcp/agents')
const folder = mkdtempSync(join(tmpdir(), 'mcp-cli-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const session = { line: { type: 'thread.started', thread_id: 't-1' } }
const said = (text: string) => ({
  line: { type: 'item.completed', item: { id: 'm', type: 'agent_message', text } },
})
const done = {
  line: { type: 'turn.completed', usage: { input_tokens: 10, cached_input_tokens: 2, output_tokens: 3 } },
}

/** A folder for PATH whose `codex` plays this plan. */
function codexOf(plan: object[]): string {
  const bin = mkdtempSync(join(folder, 'bin-'))
  const agent = join(root, 'fixtures/bin/agent.mjs')
  const program = join(bin, 'codex')
  writeFileSync(join(bin, 'plan.json'), JSON.stringify(plan))
  writeFileSync(
    program,
    `#!/bin/sh\nexec "${process.execPath}" "${agent}" "$(cat "${join(bin, 'plan.json')}")" "$@"\n`,
  )
  chmodSync(program, 0o755)
  return bin
}

/** A client of the protocol that knows as little as it may. */
class Client {
  readonly child: ChildProcess
  readonly exit: Promise<number | null>
  stderr = ''
  #id = 0
  readonly #waiting = new Map<number, (message: any) => void>()

  constructor(plan: object[], options: string[] = [], env: Record<string, string> = {}) {
    const PATH = [codexOf(plan), dirname(process.execPath), '/usr/bin', '/bin'].join(':')
    this.child = spawn(process.execPath, [command, 'mcp', ...options], {
      cwd: folder,
      env: { PATH, HOME: folder, TMPDIR: folder, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    this.exit = once(this.child, 'exit').then(([status]) => status as number | null)
    this.child.stderr!.on('data', (chunk) => (this.stderr += String(chunk)))
    createInterface({ input: this.child.stdout! }).on('line', (line) => {
      const message = JSON.parse(line) as { id: number }
      this.#waiting.get(message.id)?.(message)
    })
    onTestFinished(() => void this.child.kill('SIGKILL'))
  }

  request(method: string, params: object = {}): Promise<any> {
    const id = ++this.#id
    this.child.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
    return new Promise((resolve) => this.#waiting.set(id, resolve))
  }

  /** The JSON of a tool's answer, or the text of its error. `isCancelled`: the client gives up at once. */
  async call(name: string, input: object = {}, isCancelled = false): Promise<any> {
    const answer = this.request('tools/call', { name, arguments: input })
    const cancelled = {
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: this.#id },
    }
    if (isCancelled) this.child.stdin!.write(`${JSON.stringify(cancelled)}\n`)
    const { result } = await answer
    const [{ text }] = result.content
    return result.isError ? text : JSON.parse(text)
  }
}

/** Processes with this title. */
function titled(title: string): string[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(title)
    } catch {
      return false
    }
  })
}

const start = { provider: 'codex', prompt: 'Say hello.' }

describe('sheepdog mcp', () => {
  it('starts an agent, waits for it, and has its answer', async () => {
    const client = new Client([session, { wait: 300 }, said('Hello.'), done])
    const { result } = await client.request('initialize', { protocolVersion: '2025-06-18' })
    expect(result).toMatchObject({ protocolVersion: '2025-06-18', capabilities: { tools: {} } })
    const { result: listed } = await client.request('tools/list')
    const names = listed.tools.map(({ name }: { name: string }) => name)
    expect(names).toEqual(['start_agent', 'agent_status', 'agent_result', 'cancel_agent', 'list_agents'])
    const { id, state } = await client.call('start_agent', start)
    expect(state).toBe('running')
    expect(await client.call('agent_result', { id })).toMatchObject({ state: 'running' })
    const status = await client.call('agent_status', { id, waitMs: 45_000 })
    expect(status).toMatchObject({ id, state: 'done', provider: 'codex' })
    expect(status.events.join('\n')).toContain('Hello.')
    expect(await client.call('agent_result', { id })).toMatchObject({
      state: 'done',
      text: 'Hello.',
      sessionId: 't-1',
    })
    client.child.stdin!.end()
    expect(await client.exit).toBe(0)
    expect(client.stderr).toBe('')
  })

  it('answers or passes over a message whose members have other types, and lives', async () => {
    const client = new Client([session, said('Hello.'), done])
    const params = { name: 'list_agents', arguments: {} }
    const call = { jsonrpc: '2.0', id: 'odd', method: 'tools/call', params }
    for (const value of [1, 'x', true, null, [], [1], {}, { toString: 1 }, { a: { b: [] } }])
      for (const message of [
        value,
        { ...call, id: value },
        { ...call, method: value },
        { ...call, params: value },
        { ...call, params: { ...params, name: value } },
        { ...call, params: { ...params, arguments: value } },
      ])
        client.child.stdin!.write(`${JSON.stringify(message)}\n${JSON.stringify([message])}\n`)
    expect(await client.call('list_agents')).toMatchObject({ agents: [] })
    client.child.stdin!.end()
    expect([await client.exit, client.stderr]).toEqual([0, ''])
  })

  it('reads no more from a client that takes no answers', async () => {
    const client = new Client([session])
    await client.request('ping')
    client.child.stdout!.pause()
    const answers = Array.from({ length: 5_000 }, () => client.request('tools/list'))
    // About 20 MB of answers. It has read on when nothing is left of the questions here.
    await new Promise((resolve) => setTimeout(resolve, 500))
    expect(client.child.stdin!.writableLength).toBeGreaterThan(0)
    client.child.stdout!.resume()
    expect(await Promise.all(answers)).toHaveLength(5_000)
    expect(client.stderr).toBe('')
  })

  it('returns from a wait in time, and cancels with everything that the agent started', async () => {
    const client = new Client([session, { spawn: true }, { hang: true }])
    const { id } = await client.call('start_agent', start)
    expect(await client.call('agent_status', { id, waitMs: 50 })).toMatchObject({ state: 'running' })
    expect(await client.call('cancel_agent', { id })).toMatchObject({ id, state: 'cancelled' })
    expect(await client.call('agent_result', { id })).toMatchObject({ error: { code: 'AGENT_ABORTED' } })
    expect(await client.call('list_agents')).toMatchObject({ agents: [{ id, state: 'cancelled' }] })
  })

  it('tells again what a call told that was cancelled', async () => {
    const client = new Client([session, said('Hello.'), { wait: 600_000 }])
    const { id } = await client.call('start_agent', start)
    let told: string[] = []
    while (told.length === 0) {
      told = (await client.call('agent_status', { id, waitMs: 45_000 }, true)).events
    }
    const { events } = await client.call('agent_status', { id })
    expect(events.slice(0, told.length)).toEqual(told)
    expect((await client.call('agent_status', { id })).events).not.toContain(told[0])
  })

  it('ends its agents when the client closes stdin', async () => {
    const title = `mcp-spec-${process.pid}`
    const client = new Client([session, { title }, said('Here.'), { hang: true }])
    const { id } = await client.call('start_agent', start)
    let events = ''
    while (!events.includes('Here.'))
      events += (await client.call('agent_status', { id, waitMs: 20 })).events.join()
    expect(titled(title)).toHaveLength(1)
    client.child.stdin!.end()
    expect(await client.exit).toBe(0)
    expect(titled(title)).toEqual([])
  })

  it('holds to the rules of its own options', async () => {
    const inner = mkdtempSync(join(folder, 'inner-'))
    mkdirSync(join(inner, 'below'))
    symlinkSync(folder, join(inner, 'out'))
    const client = new Client(
      [session, { hang: true }],
      [...['--provider', 'codex', '--max-agents', '1', '--cwd', inner]],
    )
    expect(await client.call('start_agent', { ...start, provider: 'gemini' })).toMatch(/provider/)
    for (const cwd of ['..', '/', 'out', 'missing'])
      expect(await client.call('start_agent', { ...start, cwd })).toMatch(/^cwd: /)
    expect(await client.call('start_agent', { ...start, permission: 'auto' })).toMatch(/permission/)
    expect(await client.call('agent_status', { id: 'none' })).toMatch(/no agent "none"/)
    const first = await client.call('start_agent', { ...start, cwd: 'below' })
    expect(await client.call('start_agent', start)).toContain(first.id)
    expect(await client.call('agent_status', { id: first.id, waitMs: 60_000 })).toMatch(/waitMs/)
  })

  it.runIf(process.platform === 'linux')('starts agents in the folder that it looked at', async () => {
    const inner = mkdtempSync(join(folder, 'swapped-'))
    mkdirSync(join(inner, 'below'))
    const client = new Client([session, { tell: 'cwd' }, done], ['--provider', 'codex', '--cwd', inner])
    const swap = 'mv below kept; ln -s /etc below; rm below; mv kept below'
    const swapper = spawn('sh', ['-c', `while :; do ${swap}; done`], { cwd: inner, stdio: 'ignore' })
    onTestFinished(() => void swapper.kill('SIGKILL'))
    const told = new Set<string>()
    for (let tries = 0; tries < 30 || told.size === 0; tries++) {
      const started = await client.call('start_agent', { ...start, cwd: 'below' })
      if (typeof started === 'string') continue
      await client.call('agent_status', { id: started.id, waitMs: 45_000 })
      const { text } = await client.call('agent_result', { id: started.id })
      if (text) told.add(text)
    }
    for (const cwd of told) expect(['below', 'kept'].map((name) => join(inner, name))).toContain(cwd)
  })

  it.runIf(process.platform === 'linux')('a folder of a descriptor is held until the start', async () => {
    const [first, second] = ['first', 'second'].map((name) => join(mkdtempSync(join(folder, 'held-')), name))
    mkdirSync(first!)
    const descriptor = openSync(first!, 'r')
    onTestFinished(() => closeSync(descriptor))
    renameSync(first!, second!)
    symlinkSync('/etc', first!)
    const cwd = `/proc/self/fd/${descriptor}`
    expect((await run('pwd', [], { cwd, trim: true })).stdout).toBe(second)
    const binary = join(codexOf([session, { tell: 'cwd' }, done]), 'codex')
    const harness = new Harness({ provider: 'codex', binary, cwd })
    expect((await harness.run('x')).text).toBe(second)
  })

  it.each([
    ['C:\\work', 'C:\\work', true],
    ['C:\\work', 'C:\\work\\..a\\b', true],
    ['C:\\work', 'c:\\WORK\\a', true],
    ['C:\\work', 'D:\\work', false],
    ['C:\\work', 'D:\\work\\a', false],
    ['C:\\work', 'C:\\', false],
    ['C:\\work', 'C:\\workshop', false],
    ['C:\\work', '\\\\host\\share\\work', false],
  ])('has the folder %s hold %s on Windows: %s', (root, folder, expected) => {
    expect(isBelow(root, folder, path.win32)).toBe(expected)
  })

  it('gives its agents their depth, and starts none below the third', async () => {
    const client = new Client([session, { tell: 'env' }, done], [], { SHEEPDOG_DEPTH: '2' })
    const { id } = await client.call('start_agent', start)
    await client.call('agent_status', { id, waitMs: 45_000 })
    const { text } = await client.call('agent_result', { id })
    expect(JSON.parse(text)).toMatchObject({ SHEEPDOG_DEPTH: '3' })
    const deepest = new Client([], [], { SHEEPDOG_DEPTH: '3' })
    expect(await deepest.call('start_agent', start)).toMatch(/^AGENT_DEPTH: .*SHEEPDOG_DEPTH/)
  })

  it('answers what it does not know, and lines that are no JSON', async () => {
    const client = new Client([])
    expect(await client.request('resources/list')).toMatchObject({ error: { code: -32601 } })
    expect(await client.call('no_tool').catch(() => 'none')).toBe('none')
    client.child.stdin!.write('not JSON\n')
    const [line] = (await once(client.child.stdout!, 'data')) as [Buffer]
    expect(JSON.parse(String(line))).toMatchObject({ id: null, error: { code: -32700 } })
    for (const nothing of ['{}', '[]', '{"id":7}']) {
      client.child.stdin!.write(`${nothing}\n`)
      const [answer] = (await once(client.child.stdout!, 'data')) as [Buffer]
      expect(JSON.parse(String(answer))).toMatchObject({ error: { code: -32600 } })
    }
    client.child.stdin!.write('\ufeff{"id":8,"method":"ping"}\n')
    const [pong] = (await once(client.child.stdout!, 'data')) as [Buffer]
    expect(JSON.parse(String(pong))).toEqual({ jsonrpc: '2.0', id: 8, result: {} })
  })

  it.each([
    ['SIGTERM', 143],
    ['SIGHUP', 129],
    ['SIGINT', null],
  ] as const)('ends without a word at %s, and so do its agents', async (signal, status) => {
    const title = `mcp-spec-${process.pid}-${signal}`
    const client = new Client([session, { title }, said('Here.'), { hang: true }])
    const { id } = await client.call('start_agent', start)
    let events = ''
    while (!events.includes('Here.'))
      events += (await client.call('agent_status', { id, waitMs: 20 })).events.join()
    client.child.kill(signal)
    expect([await client.exit, client.stderr, titled(title)]).toEqual([status, '', []])
  })

  it('answers with the id that was sent, also with one that is no number of JavaScript', async () => {
    const client = new Client([])
    const ids = [
      ...['7', '0', '-0', '1.0', '1e3', '9007199254740993', '18446744073709551616', '-9007199254740995'],
      ...['0.12345678901234567890', '1e400', '"a\\u0000\\""', '"9007199254740993"'],
    ]
    const lines: string[] = []
    createInterface({ input: client.child.stdout! }).on('line', (line) => lines.push(line))
    const asked = (id: string) =>
      `{"jsonrpc":"2.0", "params":{"n":9007199254740993}, "id": ${id},"method":"ping"}`
    for (const id of ids) client.child.stdin!.write(`${asked(id)}\n`)
    client.child.stdin!.write(`[${ids.map(asked).join(',')}]\n`)
    client.child.stdin!.end()
    await client.exit
    const answers = ids.map((id) => `{"jsonrpc":"2.0","id":${id},"result":{}}`)
    expect(lines).toEqual([...answers, `[${answers.join(',')}]`])
  })

  it('refuses a prompt that no program can get, and starts and warns of nothing', async () => {
    const client = new Client([session, said('Hello.'), done])
    expect(await client.call('start_agent', { ...start, prompt: 'a\0b' })).toContain('NUL')
    expect(await client.call('list_agents')).toMatchObject({ agents: [] })
    client.child.stdin!.end()
    expect([await client.exit, client.stderr]).toEqual([0, ''])
  })

  it('says what a wrong option is', async () => {
    const { sheepdog } = await import('./cli-command')
    const wrong = await sheepdog(['mcp', '--provider', 'gpt'])
    expect(wrong.status).not.toBe(0)
    expect(wrong.stderr).toContain('--provider: expected one of claude-code')
    expect((await sheepdog(['mcp', '--max-agents', '0'])).stderr).toContain('--max-agents')
    expect((await sheepdog(['mcp', 'codex'])).stderr).toContain('takes only options')
    for (const option of ['--permission', '--model', '--name']) {
      const { status, stderr } = await sheepdog(['mcp', option, ''])
      expect([status, stderr]).toEqual([2, expect.stringContaining(option)])
    }
  })
})
