// Calls as strangers write them, wrong: each is refused before anything is started, and the message names what is wrong first.
import { describe, expect, it } from 'vitest'
import { classify, complete, withRetry } from '../entries/model.js'
import { Budget, ConcurrencyLimit, doctor, Harness, replay, run, spawn } from '..'
import { CopilotClient } from '../entries/copilot.js'
import { Fleet } from '../entries/fleet.js'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'

/** Anything goes: what is wrong here does not compile. */
type Wild = any
const wild = { run, spawn, replay, complete, withRetry, serveRuntime, doctor, classify } as Record<
  string,
  Wild
>
const agent = (options: Wild) => new Harness({ provider: 'codex', binary: ['false'], ...options })
const turn = (options: Wild, prompt: Wild = 'x') => agent({}).run(prompt, options)
const model = (options: Wild) =>
  wild.complete({
    baseUrl: 'http://127.0.0.1:1',
    model: 'm',
    messages: [{ role: 'user', content: 'x' }],
    ...options,
  })
const copilot = (options: Wild) => new CopilotClient(options)

/** What is called, and how the message begins. */
const calls: [what: string, call: () => unknown, begins: string][] = [
  ["run('ls -la')", () => wild.run('ls -la'), 'ls -la'],
  ["run('')", () => wild.run(''), 'command:'],
  ['run()', () => wild.run(), 'command:'],
  ['run(42)', () => wild.run(42), 'command:'],
  ["run(['ls'])", () => wild.run(['ls']), 'command:'],
  ["run('ls', '-la')", () => wild.run('ls', '-la'), 'args:'],
  ["run('ls', [1])", () => wild.run('ls', [1]), 'args[0]:'],
  ["run('ls', ['a\\0b'])", () => wild.run('ls', ['a\0b']), 'args[0]:'],
  ['shell: true', () => wild.run('ls', [], { shell: true }), 'shell:'],
  ["stdio: 'pipe'", () => wild.run('ls', [], { stdio: 'pipe' }), 'stdio:'],
  ["stdin: 'x'", () => wild.run('ls', [], { stdin: 'x' }), 'stdin:'],
  ['timeout: 5', () => wild.run('ls', [], { timeout: 5 }), 'timeout:'],
  ['timeoutMS: 5', () => wild.run('ls', [], { timeoutMS: 5 }), 'timeoutMS:'],
  ["timeoutMs: '5s'", () => wild.run('ls', [], { timeoutMs: '5s' }), 'timeoutMs:'],
  ['timeoutMs: NaN', () => wild.run('ls', [], { timeoutMs: NaN }), 'timeoutMs:'],
  ['timeoutMs: null', () => wild.run('ls', [], { timeoutMs: null }), 'timeoutMs:'],
  ["idleTimeoutMs: '1'", () => wild.run('ls', [], { idleTimeoutMs: '1' }), 'idleTimeoutMs:'],
  ['killGraceMs: -1', () => wild.run('ls', [], { killGraceMs: -1 }), 'killGraceMs:'],
  ['killGraceMs: Infinity', () => wild.run('ls', [], { killGraceMs: Infinity }), 'killGraceMs:'],
  ['drainMs: NaN', () => wild.run('ls', [], { drainMs: NaN }), 'drainMs:'],
  ['maxOutputBytes: 0', () => wild.run('ls', [], { maxOutputBytes: 0 }), 'maxOutputBytes:'],
  ['maxOutputBytes: 1e12', () => wild.run('ls', [], { maxOutputBytes: 1e12 }), 'maxOutputBytes:'],
  ['maxOutputBytes: 1.5', () => wild.run('ls', [], { maxOutputBytes: 1.5 }), 'maxOutputBytes:'],
  ['maxLineBytes: -1', () => wild.run('ls', [], { maxLineBytes: -1 }), 'maxLineBytes:'],
  ['cwd: 5', () => wild.run('ls', [], { cwd: 5 }), 'cwd:'],
  ["cwd: ''", () => wild.run('ls', [], { cwd: '' }), 'cwd:'],
  ['env: { A: 1 }', () => wild.run('ls', [], { env: { A: 1 } }), 'env["A"]:'],
  ["env: { 'A=B': '' }", () => wild.run('ls', [], { env: { 'A=B': '' } }), 'env["A=B"]:'],
  ['env: new Map()', () => wild.run('ls', [], { env: new Map() }), 'env:'],
  ['inheritEnv: 1', () => wild.run('ls', [], { inheritEnv: 1 }), 'inheritEnv:'],
  ['input: 5', () => wild.run('ls', [], { input: 5 }), 'input:'],
  ["strays: 'keep-all'", () => wild.run('ls', [], { strays: 'keep-all' }), 'strays:'],
  ["containment: 'docker'", () => wild.run('ls', [], { containment: 'docker' }), 'containment:'],
  ["memoryMaxBytes: '1G'", () => wild.run('ls', [], { memoryMaxBytes: '1G' }), 'memoryMaxBytes:'],
  ['maxProcesses: 0', () => wild.run('ls', [], { maxProcesses: 0 }), 'maxProcesses:'],
  ['signal: new AbortController()', () => wild.run('ls', [], { signal: new AbortController() }), 'signal:'],
  ["signal: 'SIGTERM'", () => wild.run('ls', [], { signal: 'SIGTERM' }), 'signal:'],
  ["sandbox: 'workspce'", () => wild.run('ls', [], { sandbox: 'workspce' }), 'sandbox:'],
  ["sandbox: { write: '/tmp' }", () => wild.run('ls', [], { sandbox: { write: '/tmp' } }), 'sandbox.write:'],
  [
    'sandbox: { network: false }',
    () => wild.run('ls', [], { sandbox: { network: false } }),
    'sandbox.network:',
  ],
  ['options: a string', () => wild.run('ls', [], 'x'), 'options:'],
  ["spawn('ls', [], { stdin: 5 })", () => wild.spawn('ls', [], { stdin: 5 }).result, 'stdin:'],
  ['json({ types: "x" })', () => wild.spawn('true').json({ types: 'x' }), 'types:'],

  ['new Harness()', () => new (Harness as Wild)(), 'options:'],
  ['new Harness({})', () => new (Harness as Wild)({}), 'provider:'],
  ["provider: 'codx'", () => agent({ provider: 'codx' }), 'provider:'],
  ["provider: 'Claude'", () => agent({ provider: 'Claude' }), 'provider:'],
  ['binary: 5', () => agent({ binary: 5 }), 'binary:'],
  ['binary: []', () => agent({ binary: [] }), 'binary:'],
  ['maxConcurrent: 0', () => agent({ maxConcurrent: 0 }), 'maxConcurrent:'],
  ['limit: 4', () => agent({ limit: 4 }), 'limit:'],
  ['modle', () => agent({ modle: 'x' }), 'modle:'],
  ['prompt: 5', () => turn({}, 5), 'prompt:'],
  ['prompt: NUL', () => turn({}, 'a\0b'), 'prompt:'],
  ['model: 5', () => turn({ model: 5 }), 'model:'],
  ["permission: 'yolo'", () => turn({ permission: 'yolo' }), 'permission:'],
  ["cliTools: 'bash'", () => turn({ cliTools: 'bash' }), 'cliTools:'],
  ['maxTurns: 0', () => turn({ maxTurns: 0 }), 'maxTurns:'],
  ['maxBudgetUsd, which was removed', () => turn({ maxBudgetUsd: 1 } as never), 'maxBudgetUsd:'],
  ["schema: 'x'", () => turn({ schema: 'x' }), 'schema:'],
  ["schema: { type: 'objekt' }", () => turn({ schema: { type: 'objekt' } }), 'schema:'],
  ['resume: true', () => turn({ resume: true }), 'resume:'],
  ['retry: 3', () => turn({ retry: 3 }), 'retry:'],
  ['retry: { attempts: 0 }', () => turn({ retry: { attempts: 0 } }), 'retry.attempts:'],
  ['retry: { maxAttempts: 3 }', () => turn({ retry: { maxAttempts: 3 } }), 'retry.maxAttempts:'],
  ["extraArgs: '--x'", () => turn({ extraArgs: '--x' }), 'extraArgs:'],
  ["redact: 'secret'", () => turn({ redact: 'secret' }), 'redact:'],
  ['new Budget({})', () => new Budget({}), 'options:'],
  ['new ConcurrencyLimit(0)', () => new ConcurrencyLimit(0), 'max:'],
  ["replay('codx')", () => wild.replay('codx', { stdout: '' }), 'provider:'],
  ["replay('codex')", () => wild.replay('codex'), 'recorded'],
  [
    "replay('codex', { exitCode: '0' })",
    () => wild.replay('codex', { stdout: '', exitCode: '0' }),
    'recorded.exitCode:',
  ],
  ['doctor({ cwd })', () => wild.doctor({ cwd: '/' }), 'cwd:'],
  ["open({ permission: 'none' })", () => agent({}).open({ permission: 'none' } as Wild), 'permission:'],
  [
    'open({ policy: { allow: {} } })',
    () => agent({}).open({ policy: { allow: {} } } as Wild),
    'policy.allow:',
  ],
  [
    'open({ policy: { allow: [{}] } })',
    () => agent({}).open({ policy: { allow: [{}] } }),
    'policy.allow[0]:',
  ],

  ['complete()', () => wild.complete(), 'options:'],
  ["baseUrl: 'localhost'", () => model({ baseUrl: 'localhost' }), 'baseUrl:'],
  ['model: undefined', () => model({ model: undefined }), 'model:'],
  ["messages: 'hi'", () => model({ messages: 'hi' }), 'messages:'],
  ["temperature: 'hot'", () => model({ temperature: 'hot' }), 'temperature:'],
  ['withRetry(5)', () => wild.withRetry(5), 'operation:'],
  ['withRetry(f, { attempts: 0 })', () => wild.withRetry(() => 1, { attempts: 0 }), 'attempts:'],

  ['port: -1', () => wild.serveRuntime({ port: -1 }), 'port:'],
  ["port: '8080'", () => wild.serveRuntime({ port: '8080' }), 'port:'],
  ["host: '0.0.0.0' without a token", () => wild.serveRuntime({ host: '0.0.0.0', port: 0 }), 'host:'],
  ['handler: {}', () => wild.serveRuntime({ port: 0, handler: {} }), 'handler'],
  ["connect('http://x')", () => RuntimeClient.connect('http://127.0.0.1:1'), 'url:'],
  ['connect()', () => (RuntimeClient as Wild).connect(), 'url:'],

  ['new CopilotClient({ githubToken })', () => copilot({ githubToken: 'x' }), 'githubToken:'],
  ['Fleet.connect({ leaseMs: 0 })', () => Fleet.connect({ leaseMs: 0 }), 'leaseMs:'],
  ['Fleet.connect({ server })', () => (Fleet as Wild).connect({ server: 'x' }), 'server:'],
]

/** A word of another call or another tool, and what the message names in its place. */
const meant: [what: string, call: () => unknown, named: string][] = [
  ['onPermission of a turn', () => turn({ onPermission: () => 'allow' }), 'open()'],
  ['policy of a turn', () => turn({ policy: {} }), 'open()'],
  ['tools of a turn', () => turn({ tools: [] }), 'open({ tools })'],
  ['schema of a program', () => wild.run('ls', [], { schema: {} }), 'harness.run()'],
  ['images of a session', () => agent({}).open({ images: ['x'] } as Wild), 'harness.run()'],
  ['canUseTool', () => turn({ canUseTool: () => true }), '`onPermission`'],
  ['permissionMode', () => turn({ permissionMode: 'plan' }), '`permission`'],
  ['outputSchema', () => turn({ outputSchema: {} }), '`schema`'],
  ['prompt of complete()', () => model({ prompt: 'x' }), '`messages'],
  ['mcpServers as an object', () => turn({ mcpServers: { a: { command: 'x' } } }), 'name: "x"'],
  ['type of a server', () => turn({ mcpServers: [{ name: 'a', type: 'stdio', command: 'x' }] }), '`command`'],
  ['retry: 3', () => turn({ retry: 3 }), '{ attempts: 3 }'],
  ['limit: 4', () => agent({ limit: 4 }), '`maxConcurrent: 4`'],
  ['a rule with tool', () => agent({}).open({ policy: { deny: [{ tool: 'Bash' }] } } as Wild), 'mean name?'],
  [
    'a rule of kind "bash"',
    () => agent({}).open({ policy: { deny: [{ kind: 'bash' }] } } as Wild),
    'mean "execute"?',
  ],
  ['permission: "acceptEdits"', () => turn({ permission: 'acceptEdits' }), 'mean "edit"?'],
  ['permission: "read-only"', () => turn({ permission: 'read-only' }), 'mean "plan"?'],
  ['permission: "bypassPermissions"', () => turn({ permission: 'bypassPermissions' }), 'mean "auto"?'],
  [
    'permission: "default" of a session',
    () => agent({}).open({ permission: 'default' } as Wild),
    'mean "ask"?',
  ],
  ["kill('TERM')", () => wild.spawn('true').kill('TERM'), 'mean "SIGTERM"?'],
  ['kill(Symbol())', () => wild.spawn('true').kill(Symbol('TERM')), 'got a symbol'],
  ['kill(Object.create(null))', () => wild.spawn('true').kill(Object.create(null)), 'got an object'],
  ['kill(9)', () => wild.spawn('true').kill(9), 'mean "SIGKILL"?'],
]

describe('a wrong call', () => {
  it.each(meant)('%s names what is right', async (_, call, named) => {
    const error = await (async () => call())().then(
      (value) => expect.fail(`it was taken: ${JSON.stringify(value)}`),
      (error) => error,
    )
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message).toContain(named)
  })

  it.each(calls)('%s', async (_, call, begins) => {
    const error = await (async () => call())().then(
      (value) => expect.fail(`it was taken: ${JSON.stringify(value)}`),
      (error) => error,
    )
    expect(error.message.slice(0, begins.length)).toBe(begins)
    // A program that is missing is found out by looking for it.
    expect(error.code).toBe(begins === 'ls -la' ? 'PROCESS_NOT_FOUND' : 'INVALID_OPTION')
  })
})
