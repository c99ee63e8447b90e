// A host that is stopped (SIGSTOP, Ctrl-Z, a frozen container or machine) for longer than each limit on silence. The time in which
// nobody could have heard is no silence: what came in time by the host's own clock counts.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, it, onTestFinished } from 'vitest'
import { serveRuntime } from '../entries/runtime.js'
import { startModelServer } from '../fixtures/model-server.mjs'
import { hasServer, newFolder } from './fleet-worker'
import { done, player, said, session } from './played-agent'

const root = join(import.meta.dirname, '..')
const folder = mkdtempSync(join(tmpdir(), 'stopped-host-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Each limit, and how long the other side is silent: longer than the limit, of which the host is stopped for the most. */
const LIMIT_MS = 3000
const SILENT_MS = 5000
const STOPPED_MS = 4500

/** Actions of the host, by the limit that they have. Each calls `begun` when its silence begins. */
const works: Record<string, string> = {
  'run: idleTimeoutMs': `
    const child = spawn('sh', ['-c', 'echo a; sleep ' + silentMs / 1000 + '; echo b'], { idleTimeoutMs: limitMs })
    for await (const { text } of child) if (text === 'a') begun()
    return (await child.result).stdout`,
  'turn: idleTimeoutMs': `return turn(begun, { idleTimeoutMs: limitMs })`,
  'session: idleTimeoutMs': `
    const binary = ['node', acpAgent, '--version', '1']
    const chat = await new Harness({ provider: 'gemini' }).open({ binary, cwd: folder, idleTimeoutMs: limitMs })
    const answer = chat.prompt('patient ' + silentMs)
    begun()
    const { text } = await answer
    await chat.close()
    return text`,
  'model: idleTimeoutMs': `
    const answer = complete({ baseUrl: modelUrl, model: 'm', messages: [{ role: 'user', content: 'x' }], idleTimeoutMs: limitMs })
    begun()
    return (await answer).text`,
  'runtime: idleTimeoutMs': `
    const client = await RuntimeClient.connect(runtimeUrl)
    const answer = client.query('x', { systemPrompt: '', model: '', idleTimeoutMs: limitMs })
    begun()
    const { data } = await answer
    await client.close()
    return data.text`,
  'expect: timeoutMs': `
    await others
    const child = spawn('sh', ['-c', 'echo a; sleep 1; echo b'], { pty: true })
    await child.expect('a')
    const found = child.expect('b', { timeoutMs: limitMs })
    begun()
    return (await found).match`,
  'limit: timeoutMs': `
    await others
    const limit = new ConcurrencyLimit(1)
    const first = limit.use(() => run('sleep', ['1']))
    const second = limit.use(() => 'ran', { timeoutMs: limitMs })
    second.catch(() => {})
    begun()
    await first
    return second`,
  'runtime: timeoutMs': `
    const client = await RuntimeClient.connect(runtimeUrl)
    await others
    const answer = client.query('short', { systemPrompt: '', model: '', timeoutMs: limitMs })
    begun()
    const { data } = await answer
    await client.close()
    return data.text`,
  'runtime: connectTimeoutMs': `
    await others
    const connected = RuntimeClient.connect(slowRuntimeUrl, { connectTimeoutMs: limitMs })
    begun()
    await (await connected).close()
    return 'connected'`,
  'copilot: idleTimeoutMs': `
    const { session, stop } = await copilot()
    const answer = session.sendAndWait('' + silentMs, { timeoutMs: 60_000, idleTimeoutMs: limitMs })
    begun()
    const { data } = await answer
    await stop()
    return data.content`,
  'copilot: timeoutMs': `
    const { session, stop } = await copilot()
    await others
    const answer = session.sendAndWait('1000', { timeoutMs: limitMs })
    begun()
    const { data } = await answer
    await stop()
    return data.content`,
  'copilot: startTimeoutMs': `
    await others
    const client = copilotOf(['--slow', 'connect'], { startTimeoutMs: limitMs })
    const started = client.start()
    begun()
    await started
    await client.stop()
    return 'started'`,
  'fleet: a job over its lease': `
    if (!fleet) return begun(), ['fine', 1]
    const connected = await Fleet.connect(fleet)
    const worker = await connected.work({
      handlers: { wait: () => (begun(), new Promise((done) => setTimeout(done, silentMs, 'fine'))) },
    })
    const job = await connected.submit({ handler: 'wait' })
    const result = await job.result
    const { attempt } = await job.record()
    await worker.close()
    await connected.close()
    return [result, attempt]`,
}

const script = (facts: object) => `
  const { run, spawn, Harness, ConcurrencyLimit } = require(${JSON.stringify(root)})
  const { complete } = require(${JSON.stringify(join(root, 'entries/model.js'))})
  const { CopilotClient, RuntimeConnection } = require(${JSON.stringify(join(root, 'entries/copilot.js'))})
  const { Fleet } = require(${JSON.stringify(join(root, 'entries/fleet.js'))})
  const { RuntimeClient } = require(${JSON.stringify(join(root, 'entries/runtime.js'))})
  const { limitMs, silentMs, folder, acpAgent, plan, player, modelUrl, runtimeUrl, slowRuntimeUrl, copilotPeer, fleet } = ${JSON.stringify(facts)}
  const waiting = new Set(${JSON.stringify(Object.keys(works))})
  const short = ${JSON.stringify(Object.keys(works).filter((name) => works[name]!.includes('await others')))}
  let tellOthers
  /** Waits of their own begin when what takes long to start has begun. */
  const others = new Promise((done) => (tellOthers = done))
  const tellBegun = (name) => {
    if (!waiting.delete(name)) return
    if ([...waiting].every((name) => short.includes(name))) tellOthers()
    if (waiting.size === 0) console.log('"begun"')
  }
  async function turn(begun, limits) {
    const harness = new Harness({ provider: 'codex', binary: ['node', player, JSON.stringify(plan)], cwd: folder, ...limits })
    const turn = harness.start('hi')
    for await (const { type } of turn) if (type === 'session') begun()
    return (await turn.result).text
  }
  const copilotOf = (args, more) =>
    new CopilotClient({ connection: RuntimeConnection.forStdio({ path: copilotPeer, args: [...args, '--'] }), baseDirectory: folder, ...more })
  async function copilot() {
    const client = copilotOf(['--play', 'patient'])
    return { session: await client.createSession(), stop: () => client.stop() }
  }
  const works = { ${Object.entries(works).map(([name, body]) => `${JSON.stringify(name)}: async (begun) => {${body}}`)} }
  // A connection that a failed test leaves open keeps no host alive.
  Promise.all(Object.entries(works).map(([name, work]) =>
    work(() => tellBegun(name)).finally(() => tellBegun(name)).then(
      (result) => console.log(JSON.stringify([name, result])),
      (error) => console.log(JSON.stringify([name, error.code + ' ' + error.message])),
    ),
  )).then(() => process.exit())`

it('is no silence for any limit', async () => {
  await using model = await startModelServer()
  await using runtime = await serveRuntime({
    port: 0,
    handler: {
      async run({ userPrompt }) {
        await sleep(userPrompt === 'short' ? 1000 : SILENT_MS)
        return { type: 'text', text: 'fine' }
      },
    },
  })
  // Takes a connection at once, and what comes over it a second later.
  const slow = createServer(async (socket) => {
    await sleep(1000)
    const there = connect(runtime.port, '127.0.0.1')
    socket.pipe(there).pipe(socket)
    for (const side of [socket, there]) side.on('error', () => {})
  })
  await once(slow.listen(0, '127.0.0.1'), 'listening')
  const facts = {
    limitMs: LIMIT_MS,
    silentMs: SILENT_MS,
    folder,
    player,
    acpAgent: join(root, 'fixtures/acp/agent.mjs'),
    plan: [session, { wait: SILENT_MS }, said('fine'), done],
    modelUrl: `${model.urlFor([{ every: true }, { delayMs: SILENT_MS, text: 'fine' }])}/v1`,
    runtimeUrl: runtime.url,
    slowRuntimeUrl: `ws://127.0.0.1:${(slow.address() as AddressInfo).port}`,
    copilotPeer: join(root, 'fixtures/copilot/peer.mjs'),
    fleet: hasServer && { dir: newFolder(), leaseMs: LIMIT_MS },
  }
  const host = spawn(process.execPath, ['-e', script(facts)], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void host.kill('SIGKILL'))
  const ends: Record<string, unknown> = {}
  for await (const line of createInterface(host.stdout)) {
    const told = JSON.parse(line) as string | [string, unknown]
    if (told === 'begun') {
      // No event says that the host is in the middle of its waits: the pause makes it likely.
      await sleep(200)
      host.kill('SIGSTOP')
      setTimeout(() => host.kill('SIGCONT'), STOPPED_MS)
    } else ends[told[0]] = told[1]
  }
  if (host.exitCode === null) await once(host, 'exit')
  slow.close()
  expect(ends).toEqual({
    'run: idleTimeoutMs': 'a\nb\n',
    'turn: idleTimeoutMs': 'fine',
    'session: idleTimeoutMs': 'Now.',
    'model: idleTimeoutMs': 'fine',
    'runtime: idleTimeoutMs': 'fine',
    'expect: timeoutMs': 'b',
    'limit: timeoutMs': 'ran',
    'runtime: timeoutMs': 'fine',
    'runtime: connectTimeoutMs': 'connected',
    'copilot: idleTimeoutMs': 'done',
    'copilot: timeoutMs': 'done',
    'copilot: startTimeoutMs': 'started',
    'fleet: a job over its lease': ['fine', 1],
  })
})
