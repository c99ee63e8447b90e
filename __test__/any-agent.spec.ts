// Agents by their command, over the real addon, with the scripted agent (fixtures/acp/agent.mjs).
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, expect, test } from 'vitest'
import { Fleet } from '../entries/fleet.js'
import { Harness, doctor, sandboxSupport, type AgentProgram, type TurnOptions } from '..'
import { command, sheepdog } from './cli-command'
import { failure } from './played-agent'

const folder = mkdtempSync(join(tmpdir(), 'any-agent-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const agent = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')
const scripted: AgentProgram = { name: 'scripted', command: 'node', args: [agent] }
const withArgs = (...args: string[]) => ({ ...scripted, args: [agent, ...args] })
const auto = { cwd: folder, permission: 'auto' } as const
const run = (prompt: string, options: TurnOptions = {}, provider = scripted) =>
  new Harness({ provider }).run(prompt, { ...auto, ...options })

test.each(['1', '2'])('a turn is one prompt over version %s of the protocol', async (version) => {
  const harness = new Harness({ provider: withArgs('--version', version) })
  expect(harness.provider).toBe('scripted')
  const turn = harness.start('hello', auto)
  const seen: string[] = []
  for await (const event of turn) seen.push(event.type)
  expect(await turn.result).toMatchObject({
    text: 'Hello world',
    provider: 'scripted',
    sessionId: 'session-1',
    attempts: 1,
    usage: { inputTokens: 100 },
  })
  expect(seen).toEqual(['session', 'text', 'text', 'usage', 'end'])
})

test('a turn has the verdicts, the clocks and the retries of a named agent', async () => {
  const codes = async (prompt: string, options?: TurnOptions) => {
    const { code, kind, result } = await failure(run(prompt, options))
    return [code, kind, result?.attempts]
  }
  expect(await codes('stall', { idleTimeoutMs: 300 })).toEqual(['AGENT_IDLE', undefined, 1])
  expect(await codes('crash')).toEqual(['AGENT_CRASHED', undefined, 1])
  const retry = { attempts: 2, baseDelayMs: 1 }
  expect(await codes('error -32603 overloaded', { retry })).toEqual(['AGENT_FAILED', 'overloaded', 2])
  const { events, result } = await failure(run('error -32603 overloaded', { retry }))
  expect({ turns: result?.turns, events }).toMatchObject({
    turns: 2,
    events: [
      { type: 'retry', message: expect.stringMatching(/^attempt 1 failed/) },
      { type: 'session' },
      { type: 'text', text: 'API Error: 500' },
      { type: 'error', kind: 'overloaded' },
      { type: 'end', ok: false },
    ],
  })
  expect(await codes('nothing')).toEqual(['AGENT_TRUNCATED', undefined, 1])
  // Nothing holds it to "edit" either; that is of no use to somebody who has mistyped the command.
  const missing = { name: 'missing', command: 'no-such-program' }
  for (const permission of ['auto', 'edit'] as const)
    expect(await failure(run('hi', { permission }, missing))).toMatchObject({
      code: 'AGENT_NOT_FOUND',
      command: 'no-such-program',
    })
})

test('an abort ends a turn, and its agent with it', async () => {
  const turn = new Harness({ provider: scripted }).start('stall', auto)
  for await (const { type } of turn) if (type === 'session') await turn.abort()
  expect(await failure(turn.result)).toMatchObject({ code: 'AGENT_ABORTED' })
})

test('a level is held by the sandbox, by a mode that is named, or refused', async () => {
  for (const permission of ['plan', 'edit'] as const) {
    const refused = await failure(run('hello', { permission }))
    expect(refused).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(/^permission: scripted/),
    })
  }
  const moded = { ...scripted, modes: { plan: 'plan' } }
  expect((await run('hello', { permission: 'plan' }, moded)).text).toBe('Hello world')
  const other = { ...scripted, modes: { plan: 'no-such-mode' } }
  expect(await failure(run('hello', { permission: 'plan' }, other))).toMatchObject({ code: 'INVALID_OPTION' })
  const session = await new Harness({ provider: moded }).open({ cwd: folder, permission: 'plan' })
  expect(session.modes.find(({ isCurrent }) => isCurrent)?.id).toBe('plan')
  await session.close()
})

test.runIf(sandboxSupport().landlock > 0)(
  'in a sandbox the agent writes its folder and its state alone',
  async () => {
    const state = join(folder, 'state')
    const outside = join(folder, 'outside')
    const cwd = mkdtempSync(join(folder, 'work-'))
    const provider = { ...scripted, state: [state] }
    const options = { cwd, permission: 'edit', sandbox: 'workspace' } as const
    for (const [file, isWritten] of [
      [join(cwd, 'in.txt'), true],
      [join(state, 'in.txt'), true],
      [outside, false],
    ] as const) {
      await run(`writes ${file}`, options, provider)
      expect([file, existsSync(file)]).toEqual([file, isWritten])
    }
  },
)

test('a turn on record is a session of one prompt', async () => {
  const { record } = await run('hello', { record: join(folder, 'records') })
  const started = JSON.parse(readFileSync(join(record!.folder, 'run.json'), 'utf8'))
  expect(started).toMatchObject({ kind: 'session', provider: 'scripted', name: 'hello' })
  expect(record).toMatchObject({ leftOutBytes: 0 })
  const { status, stdout } = await sheepdog(['replay', record!.folder])
  expect({ status, stdout }).toEqual({
    status: 0,
    stdout: expect.stringContaining('ok: the session was closed'),
  })
})

test('environment and arguments reach the agent, and the option env comes last', async () => {
  const provider = { ...scripted, env: { FIRST: 'provider', SECOND: 'provider' } }
  const result = await run('env FIRST SECOND', { env: { SECOND: 'option' } }, provider)
  expect(result.text).toBe('FIRST=provider SECOND=option')
})

test('what is wrong is refused by its path', () => {
  const problem = (provider: unknown, options?: { binary: string }) => {
    try {
      void new Harness({ provider: provider as AgentProgram, ...options })
      return ''
    } catch (error) {
      return (error as Error).message
    }
  }
  expect(problem({ command: 'x' })).toMatch(/^provider.name: /)
  expect(problem({ name: 'x' })).toMatch(/^provider.command: /)
  expect(problem({ ...scripted, args: 'x' })).toMatch(/^provider.args: /)
  expect(problem({ ...scripted, state: ['here'] })).toMatch(/^provider.state\[0\]: /)
  expect(problem({ ...scripted, modes: { all: 'x' } })).toMatch(/^provider.modes.all: /)
  for (const name of ['codex', 'a b', 'a/b', '../x', '-x', 'x'.repeat(300)])
    expect(problem({ ...scripted, name })).toMatch(/^provider.name: /)
  for (const name of ['', 'A=B', 'A\0B'])
    expect(problem({ ...scripted, env: { [name]: 'x' } })).toMatch(
      /^provider.env\[".*"\]: invalid variable name/,
    )
  expect(problem({ ...scripted, env: { A: 'a\0b' } })).toMatch(/^provider.env\["A"\]: /)
  expect(problem({ ...scripted, extra: 1 })).toMatch(/^provider.extra: /)
  expect(problem(scripted, { binary: 'node' })).toMatch(/^binary: is given twice/)
  expect(problem('gose')).toMatch(/^provider: no provider is named "gose"; there are .* { name, command }/)
})

test('the doctor shakes hands with it', async () => {
  const [found, missing] = await doctor({
    providers: [scripted, { name: 'missing', command: 'no-such-program' }],
  })
  expect(found).toMatchObject({ provider: 'scripted', found: true, session: { protocolVersion: 1 } })
  expect(missing).toMatchObject({
    found: false,
    problem: expect.stringMatching(/^no-such-program was not found on PATH, nor in node_modules\/\.bin/),
  })
})

test('a fleet runs its jobs, by the command of the job or of the worker', async () => {
  const fleet = await Fleet.connect({ memory: true })
  const own = withArgs('--version', '2')
  const worker = await fleet.work({ harness: { provider: own, permission: 'auto' } })
  const submitted = await fleet.submit({ provider: scripted, prompt: 'hello', ...auto })
  expect(await submitted.result).toMatchObject({ text: 'Hello world', provider: 'scripted' })
  await worker.close()
  await fleet.close()
})

test('the command takes an agent after --', async () => {
  const words = ['--', 'node', agent]
  const turn = await sheepdog(['agent', 'hello', '--permission', 'auto', '--quiet', ...words])
  expect(turn).toMatchObject({ status: 0, stdout: 'Hello world\n' })
  const chat = spawn(process.execPath, [command, 'chat', '--permission', 'auto', ...words])
  chat.stdin.end('hello\n')
  const [[status], stdout] = await Promise.all([once(chat, 'close'), text(chat.stdout)])
  expect({ status, stdout }).toEqual({ status: 0, stdout: 'Hello world\n' })
  const checked = await sheepdog(['doctor', ...words])
  expect(checked).toMatchObject({ status: 0, stdout: expect.stringContaining('protocol version 1') })
  const unheld = await sheepdog(['agent', 'hello', ...words])
  expect(unheld.stderr).toMatch(/^sheepdog: INVALID_OPTION: --permission: .*--sandbox.*`?--mode LEVEL=ID/m)
  const held = await sheepdog(['agent', 'hello', '--quiet', '--mode', 'edit=auto-edit', ...words])
  expect(held).toMatchObject({ status: 0, stdout: 'Hello world\n' })
  const none = await sheepdog(['doctor', '--', 'no-such-program'])
  expect(none).toMatchObject({ status: 1, stdout: expect.stringContaining('was not found') })
})
