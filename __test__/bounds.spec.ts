// Every promise of the public API is in docs/internals/bounds.md with the bound within which it settles, and keeps it when the other side
// never answers.
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import ts from '@typescript/typescript6'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { complete } from '../entries/model.js'
import { CopilotClient, RuntimeConnection } from '../entries/copilot.js'
import { Fleet } from '../entries/fleet.js'
import { Harness, run, spawn, type OpenOptions } from '../index.js'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'

const root = join(__dirname, '..')

/** Functions, methods and properties of the package whose type is a promise. */
function publicPromises(): string[] {
  const entries = readdirSync(join(root, 'entries')).filter((name) => name.endsWith('.d.ts'))
  const files = [join(root, 'index.d.ts'), ...entries.map((name) => join(root, 'entries', name))]
  const lib = ['lib.esnext.d.ts', 'lib.esnext.disposable.d.ts']
  const program = ts.createProgram(files, { skipLibCheck: true, target: ts.ScriptTarget.ESNext, lib })
  const checker = program.getTypeChecker()
  const isPromise = (type: ts.Type) => checker.typeToString(type).startsWith('Promise<')
  const returns = (declaration: ts.SignatureDeclaration) =>
    isPromise(checker.getSignatureFromDeclaration(declaration)!.getReturnType())
  const found = new Set<string>()
  const exports = files.flatMap((file) =>
    checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(file)!)!),
  )
  for (const exported of exports) {
    const isAlias = exported.flags & ts.SymbolFlags.Alias
    const symbol = isAlias ? checker.getAliasedSymbol(exported) : exported
    for (const declaration of symbol.declarations ?? []) {
      if (ts.isFunctionDeclaration(declaration) && returns(declaration)) found.add(`${exported.name}()`)
      if (!ts.isClassDeclaration(declaration)) continue
      for (const member of declaration.members) {
        if (!member.name || ts.getCombinedModifierFlags(member) & ts.ModifierFlags.Private) continue
        const name = `${exported.name}.${member.name.getText()}`
        if (ts.isMethodDeclaration(member)) {
          if (returns(member)) found.add(`${name}()`)
        } else if (isPromise(checker.getTypeAtLocation(member))) found.add(name)
      }
    }
  }
  return [...found].sort()
}

it('every promise of the public API has a row in docs/internals/bounds.md', () => {
  const page = readFileSync(join(root, 'docs/internals/bounds.md'), 'utf8')
  const rows = [...page.matchAll(/^\| `([^`]+)` \|([^|]*)\|([^|]*)\|/gm)]
  expect(rows.map(([, name]) => name).sort()).toEqual(publicPromises())
  for (const [, name, , bound] of rows) expect(bound!.trim(), name).not.toBe('')
})

/** Settles within so long, or the test fails; how it settled. */
async function within<T>(ms: number, promise: Promise<T>): Promise<PromiseSettledResult<T>> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not settled within ${ms} ms`)), ms)
  })
  try {
    return (await Promise.race([Promise.allSettled([promise]), late]))[0]!
  } finally {
    clearTimeout(timer)
  }
}
const rejected = (code: string) => ({ status: 'rejected', reason: { code } })
const resolved = { status: 'fulfilled' }
/** For what a busy machine adds. */
const slackMs = 10_000

describe.concurrent('a program that never ends, reads nothing and ignores SIGTERM', () => {
  const stubborn = ['-c', "trap '' TERM; echo up; while :; do sleep 60; done"]
  const options = { killGraceMs: 200 }

  it('run() and RunningProcess.result', async () => {
    const timed = run('sh', stubborn, { ...options, timeoutMs: 500 })
    expect(await within(slackMs, timed)).toMatchObject(rejected('PROCESS_TIMED_OUT'))
    const silent = spawn('sh', stubborn, { ...options, idleTimeoutMs: 500 })
    expect(await within(slackMs, silent.started)).toMatchObject(resolved)
    expect(await within(slackMs, silent.result)).toMatchObject(rejected('PROCESS_IDLE'))
  })

  it('RunningProcess.kill() and the end of its scope', async () => {
    const child = spawn('sh', stubborn, options)
    await child.started
    expect(await within(slackMs, child.kill())).toMatchObject(resolved)
    const other = spawn('sh', stubborn, options)
    await other.started
    expect(await within(slackMs, other[Symbol.asyncDispose]())).toMatchObject(resolved)
  })

  it('RunningProcess.saveOutput(), ProcessStdin.write() and end()', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'bounds-'))
    const child = spawn('sh', stubborn, { ...options, stdin: 'pipe', idleTimeoutMs: 500 })
    const all = [
      child.stdin!.write('x'.repeat(1 << 20)),
      child.stdin!.end(),
      child.saveOutput({ stdout: join(folder, 'out') }),
    ]
    const [written, ended, saved] = await Promise.all(
      all.map((one: Promise<unknown>) => within(slackMs, one)),
    )
    expect(written).toMatchObject(resolved)
    expect(ended).toMatchObject(resolved)
    expect(saved).toMatchObject(rejected('PROCESS_IDLE'))
    rmSync(folder, { recursive: true })
  })
})

describe.concurrent('an agent that never answers', () => {
  /** `fault` befalls the method, as fixtures/acp/faults.mjs says. */
  const opened = (fault: string, options: OpenOptions = {}) => {
    const binary = [process.execPath, join(root, 'fixtures/acp/agent.mjs'), '--start', fault]
    return new Harness({ provider: 'gemini', binary }).open({ killGraceMs: 300, ...options })
  }

  it('Harness.open()', async () => {
    for (const fault of ['initialize-silent', 'new-silent'])
      expect(await within(slackMs, opened(fault, { startTimeoutMs: 1000 }))).toMatchObject(
        rejected('AGENT_IDLE'),
      )
  })

  it('AgentSession.prompt(), cancel() and close()', async () => {
    const session = await opened('prompt-never')
    // Aborted from the start: one that was sent could only be ended with the session.
    expect(await within(slackMs, session.prompt('x', { signal: AbortSignal.abort() }))).toMatchObject(
      rejected('AGENT_ABORTED'),
    )
    const first = session.start('x')
    const prompts = [first.result, session.prompt('y')].map((prompt) => within(slackMs, prompt))
    // Its first event comes when it is sent.
    await first[Symbol.asyncIterator]().next()
    expect(await within(slackMs, session.cancel())).toMatchObject(resolved)
    expect(await prompts[0]).toMatchObject(rejected('AGENT_ABORTED'))
    expect(await within(slackMs, session.close())).toMatchObject(resolved)
    // It was sent after the first, or was not, by what the agent did of the cancel.
    expect(['AGENT_ABORTED', 'SESSION_CLOSED']).toContain(
      ((await prompts[1]) as { reason: { code: string } }).reason.code,
    )
    const timed = await opened('prompt-never')
    expect(await within(slackMs, timed.prompt('x', { timeoutMs: 500 }))).toMatchObject(
      rejected('AGENT_TIMED_OUT'),
    )
    expect(await within(slackMs, timed[Symbol.asyncDispose]())).toMatchObject(resolved)
  })

  it('AgentSession.setMode(), setOption() and steer()', async () => {
    const startTimeoutMs = 3000
    const moded = await opened('silent of session/set_mode', { startTimeoutMs, permission: 'ask' })
    expect(await within(slackMs, moded.setMode('plan'))).toMatchObject({ status: 'rejected' })
    await moded.close()
    const optioned = await opened('silent of session/set_config_option', {
      startTimeoutMs,
      permission: 'ask',
    })
    expect(await within(slackMs, optioned.setOption('model', 'large'))).toMatchObject({ status: 'rejected' })
    await optioned.close()
    const binary = [process.execPath, join(root, 'fixtures/acp/agent.mjs'), '--version', '2']
    binary.push('--start', 'silent of _session/steering')
    const steered = await new Harness({ provider: 'gemini', binary }).open({
      startTimeoutMs,
      permission: 'ask',
    })
    expect(await within(slackMs, steered.steer('x'))).toMatchObject({ status: 'rejected' })
    await steered.close()
  })

  it('Harness.run(), Turn.abort()', async () => {
    const mute = {
      provider: 'codex',
      binary: ['sh', '-c', "trap '' TERM; while :; do sleep 60; done"],
    } as const
    const harness = new Harness({ ...mute, killGraceMs: 300 } as never)
    const idle = harness.run('x', { startTimeoutMs: 500, retry: { attempts: 1 } })
    expect(await within(slackMs, idle)).toMatchObject(rejected('AGENT_IDLE'))
    const turn = harness.start('x')
    expect(await within(slackMs, turn.abort())).toMatchObject(resolved)
    expect(await within(slackMs, turn.result)).toMatchObject(rejected('AGENT_ABORTED'))
  })
})

describe.concurrent('a server that accepts and says nothing', () => {
  let server: Server
  let port: number
  beforeAll(async () => {
    server = createServer((socket) => socket.on('error', () => {}).resume()).listen(0, '127.0.0.1')
    await once(server, 'listening')
    port = (server.address() as AddressInfo).port
  })
  afterAll(() => void server.close())

  it('complete()', async () => {
    const asked = complete({
      baseUrl: `http://127.0.0.1:${port}`,
      model: 'm',
      messages: [{ role: 'user', content: 'x' }],
      timeoutMs: 500,
      retry: { attempts: 1 },
    })
    expect(await within(slackMs, asked)).toMatchObject(rejected('MODEL_TIMED_OUT'))
  })

  it('RuntimeClient.connect()', async () => {
    const connected = RuntimeClient.connect(`ws://127.0.0.1:${port}`, { connectTimeoutMs: 500 })
    expect(await within(slackMs, connected)).toMatchObject(rejected('RUNTIME_TIMED_OUT'))
  })

  it('CopilotClient.start(), stop() and forceStop()', async () => {
    const connection = RuntimeConnection.forUri(`127.0.0.1:${port}`)
    const client = new CopilotClient({ connection, startTimeoutMs: 500 })
    expect(await within(slackMs, client.start())).toMatchObject({ status: 'rejected' })
    expect((await within(slackMs, client.stop())).status).toBe('fulfilled')
    expect((await within(slackMs, client.forceStop())).status).toBe('fulfilled')
  })

  it('Fleet.connect()', async () => {
    const connected = Fleet.connect({ servers: `nats://127.0.0.1:${port}` })
    expect(await within(30_000 + slackMs, connected)).toMatchObject(rejected('FLEET_UNREACHABLE'))
  })
})

describe.concurrent('a handler of a runtime that never returns', () => {
  it('RuntimeClient.query(), executeCommands(), endSession(), close() and RuntimeServer.close()', async () => {
    const server = await serveRuntime({ port: 0, handler: { run: () => new Promise(() => {}) } })
    const client = await RuntimeClient.connect(server.url)
    const query = client.query('x', { systemPrompt: '', model: '', timeoutMs: 500 })
    expect(await within(slackMs, query)).toMatchObject(rejected('RUNTIME_TIMED_OUT'))
    expect(await within(60_000 + slackMs, client.endSession())).toMatchObject(resolved)
    expect(await within(slackMs, client.close())).toMatchObject(resolved)
    const other = await RuntimeClient.connect(server.url)
    const commands = other.executeCommands(['sleep 60'], { idleTimeoutMs: 500 })
    expect(await within(slackMs, commands)).toMatchObject(rejected('RUNTIME_IDLE'))
    expect(await within(8000 + slackMs, server.close())).toMatchObject(resolved)
    expect(await within(slackMs, server.closed)).toMatchObject(resolved)
    expect(await within(slackMs, other.close())).toMatchObject(resolved)
  })
})
