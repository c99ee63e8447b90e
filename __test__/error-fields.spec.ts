// The fields that docs/errors.md and the types promise for a code are there, by whatever kind of call it comes.
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Budget, Harness, run, spawn, supervise, type ErrorCode, type TurnOptions } from '..'
import { complete } from '../entries/model.js'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'
import { scriptedAgent, type ScriptedStep } from '../entries/testing.js'
import { failure, played, said, session } from './played-agent'
import { missingFields, promising } from './promised-fields'
import { repository } from './repository'

const folder = mkdtempSync(join(tmpdir(), 'error-fields-'))
const plainFile = join(folder, 'plain')
writeFileSync(plainFile, 'no program')
const sleep = ['-c', 'echo up; sleep 60']
const lines = async (script: string, options: object) => {
  for await (const _ of spawn('sh', ['-c', script], options));
}

type Ways = Record<string, () => Promise<unknown>>
const programs: Partial<Record<ErrorCode, Ways>> = {
  PROCESS_NOT_FOUND: {
    run: () => run('no-such-program'),
    spawn: () => spawn('no-such-program').started,
    supervise: () => supervise('no-such-program', []).done,
  },
  PROCESS_NOT_EXECUTABLE: { run: () => run(plainFile) },
  PROCESS_CWD_MISSING: {
    run: () => run('true', [], { cwd: join(folder, 'none') }),
    turn: () => turnOf([], { cwd: join(folder, 'none') }),
  },
  PROCESS_ARGUMENT_TOO_LONG: { run: () => run('true', ['x'.repeat(1 << 22)]) },
  PROCESS_FAILED: { run: () => run('false', [], { reject: true }) },
  PROCESS_IDLE: {
    run: () => run('sh', sleep, { idleTimeoutMs: 300 }),
    'a loop': () => lines('echo up; sleep 60', { idleTimeoutMs: 300 }),
  },
  PROCESS_TIMED_OUT: {
    run: () => run('sh', sleep, { timeoutMs: 300 }),
    'a deadline that is over': () => run('sh', sleep, { timeoutMs: -1 }),
  },
  PROCESS_LINE_TOO_LONG: { 'a loop': () => lines('yes | tr -d "\\n"', { maxLineBytes: 100 }) },
  PROCESS_OUTPUT_DROPPED: {
    'a late loop': async () => {
      const child = spawn('sh', ['-c', 'yes | head -c 100000'], { maxOutputBytes: 1000 })
      await child.result
      for await (const _ of child);
    },
  },
  PROCESS_EXPECT_TIMED_OUT: {
    expect: async () => {
      await using child = spawn('cat', [], { pty: true, stdin: 'pipe' })
      child.result.catch(() => {})
      await child.expect('never', { timeoutMs: 100 })
    },
  },
  PROCESS_EXPECT_ENDED: { expect: () => spawn('true', [], { pty: true }).expect('never') },
  PROCESS_RESTARTS_EXHAUSTED: {
    supervise: () => supervise('false', [], { restart: { minDelayMs: 1, maxRestarts: 1 } }).done,
  },
}

const once = { retry: { attempts: 1 } }
const harnessOf = (steps: ScriptedStep[]) => new Harness({ provider: scriptedAgent(steps), cwd: folder })
const turnOf = (steps: ScriptedStep[], options: TurnOptions = {}) =>
  harnessOf(steps).run('Hi.', { ...once, ...options })
async function promptOf(steps: ScriptedStep[], options: object = {}, promptOptions: object = {}) {
  await using chat = await harnessOf(steps).open(options)
  await chat.prompt('Hi.', promptOptions)
}
/** An agent of the protocol that is this shell. */
const shell = (script: string) => ({ name: 'shell', command: 'sh', args: ['-c', script] })
const opened = (script: string, options: object = {}) =>
  new Harness({ provider: shell(script), permission: 'auto', cwd: folder }).open(options)
const unauthorized = [process.execPath, join(__dirname, '../fixtures/acp/agent.mjs'), '--start', 'new-auth']
const number = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }
const misfits = [{ say: 'x' }, { say: 'x' }]
const used = [{ say: 'x', usage: { inputTokens: 900, outputTokens: 900 } }]
const silent = [{ stallMs: 60_000 }]
const agents: typeof programs = {
  AGENT_FAILED: {
    turn: () => turnOf([{ fail: 'auth' }]),
    prompt: () => promptOf([{ fail: 'auth' }]),
    open: () => new Harness({ provider: 'gemini', binary: unauthorized, cwd: folder }).open(),
  },
  AGENT_BUDGET: {
    turn: () => turnOf(used, { maxTokens: 100 }),
    prompt: () => promptOf(used, { budget: new Budget({ maxTokens: 100 }) }),
  },
  AGENT_SCHEMA_MISMATCH: {
    turn: () => turnOf(misfits, { schema: number }),
    prompt: () => promptOf(misfits, {}, { schema: number }),
  },
  AGENT_IDLE: {
    turn: () => turnOf(silent, { idleTimeoutMs: 300 }),
    prompt: () => promptOf(silent, {}, { idleTimeoutMs: 300 }),
    open: () => opened('sleep 60', { startTimeoutMs: 300 }),
  },
  AGENT_TIMED_OUT: {
    turn: () => turnOf(silent, { timeoutMs: 2000 }),
    prompt: () => promptOf(silent, {}, { timeoutMs: 300 }),
  },
  AGENT_CRASHED: {
    turn: () => played([session, said('part'), { exit: 7 }]).run('Hi.', once),
    open: () => opened('exit 7'),
  },
  AGENT_TRUNCATED: { turn: () => played([session, said('part')]).run('Hi.', once) },
  AGENT_NOT_FOUND: {
    turn: () => new Harness({ provider: 'codex', binary: join(folder, 'none'), cwd: folder }).run('Hi.'),
    open: () => new Harness({ provider: 'gemini', binary: join(folder, 'none'), cwd: folder }).open(),
  },
  AGENT_DEPTH: {
    turn: async () => {
      process.env.SHEEPDOG_DEPTH = '3'
      onTestFinished(() => void delete process.env.SHEEPDOG_DEPTH)
      await turnOf([])
    },
  },
  WORKTREE_FAILED: { turn: () => turnOf([], { cwd: repository(), worktree: { setup: ['false'] } }) },
}

const model = {
  baseUrl: 'http://127.0.0.1:1',
  model: 'm',
  messages: [{ role: 'user', content: 'x' }],
  ...once,
}
async function served(answer: (response: import('node:http').ServerResponse) => void, options: object = {}) {
  const server = createServer((_, response) => answer(response)).listen(0, '127.0.0.1')
  await new Promise((listening) => server.once('listening', listening))
  onTestFinished(() => void (server.closeAllConnections(), server.close()))
  const { port } = server.address() as { port: number }
  return complete({ ...model, baseUrl: `http://127.0.0.1:${port}`, ...options })
}
const others: typeof programs = {
  MODEL_UNREACHABLE: { complete: () => complete(model) },
  MODEL_TIMED_OUT: {
    complete: () => served(() => {}, { timeoutMs: 300 }),
    'a deadline that is over': () => complete({ ...model, timeoutMs: -1 }),
  },
  MODEL_ABORTED: { complete: () => complete({ ...model, signal: AbortSignal.abort() }) },
  MODEL_FAILED: { complete: () => served((response) => response.writeHead(401).end('{}')) },
  MODEL_BAD_RESPONSE: { complete: () => served((response) => response.end('<html>')) },
  RUNTIME_UNREACHABLE: { connect: () => RuntimeClient.connect('ws://127.0.0.1:1') },
  RUNTIME_PORT_IN_USE: {
    serveRuntime: async () => {
      await using first = await serveRuntime({ port: 0 })
      await serveRuntime({ port: Number(new URL(first.url).port) })
    },
  },
  RUNTIME_FAILED: {
    query: async () => {
      const handler = { run: () => Promise.reject(new Error('no')) }
      await using server = await serveRuntime({ port: 0, handler })
      await using client = await RuntimeClient.connect(server.url)
      await client.query('Hi.')
    },
  },
}

const all = Object.entries({ ...programs, ...agents, ...others }).flatMap(([code, ways]) =>
  Object.entries(ways).map(([way, call]) => [code, way, call] as const),
)

/** Codes whose fields another spec looks at, because it has what provokes them. */
const elsewhere: Record<string, string> = {
  CHANGES_CONFLICT: 'worktree.spec.ts',
  AGENT_NO_PROGRESS: 'harness-clock.spec.ts',
  SESSION_TIMED_OUT: 'copilot_turns.spec.ts',
  SESSION_IDLE: 'copilot_turns.spec.ts',
  SESSION_ERROR: 'copilot_runtime.spec.ts',
  SESSION_EXISTS: 'copilot_history.spec.ts',
  PROTOCOL_MISMATCH: 'copilot_connection.spec.ts',
}
/** A fault of the addon's own: nothing here provokes one. */
const unprovoked = ['ADDON_FAULT']

describe('an error', () => {
  it.each(all)('%s of %s has the fields of its code', async (code, _, call) => {
    const error = await failure(call())
    expect(error.code).toBe(code)
    expect(missingFields(error)).toEqual([])
  })

  it('is looked at for each code that promises fields', () => {
    const seen = new Set([...all.map(([code]) => code), ...Object.keys(elsewhere), ...unprovoked])
    expect(promising.filter((code) => !seen.has(code))).toEqual([])
    for (const [code, spec] of Object.entries(elsewhere)) {
      const text = readFileSync(join(__dirname, spec), 'utf8')
      expect(text, spec).toMatch(new RegExp(`${code}[^]{0,400}expect\\(missingFields\\(`))
    }
  })
})
