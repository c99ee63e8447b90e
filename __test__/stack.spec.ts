// An error that comes home later tells who asked.
import { describe, expect, it, onTestFinished } from 'vitest'
import { complete } from '../entries/model.js'
import { CopilotClient, RuntimeConnection } from '../entries/copilot.js'
import { Harness, run, spawn } from '../index.js'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'
import { rejection, scripted } from './copilot/peer'

const missing = '/nowhere/agent'
const nobody = { baseUrl: 'http://127.0.0.1:9', model: 'm', messages: [{ role: 'user', content: 'x' }] }
const copilot = () => new CopilotClient({ connection: RuntimeConnection.forStdio({ path: missing }) })
const harness = new Harness({ provider: 'codex', binary: missing })

const calls: [string, () => Promise<unknown>][] = [
  ['run', () => run('nosuch')],
  ['a result', () => spawn('nosuch').result],
  ['started', () => spawn('nosuch').started],
  ['lines', () => spawn('nosuch').lines().next()],
  ['a turn', () => harness.run('x')],
  ['the result of a turn', () => harness.start('x').result],
  ['complete', () => complete({ ...nobody, retry: { attempts: 1 } })],
  ['connect', () => RuntimeClient.connect('ws://127.0.0.1:9', { connectTimeoutMs: 20 })],
  ['start of a client', () => copilot().start()],
  ['createSession', () => copilot().createSession()],
  ['resumeSession', () => copilot().resumeSession('x')],
]

describe('the stack of a rejection', () => {
  it.each(calls)('names the function that called: %s', async (_, call) => {
    async function mine() {
      await call()
    }
    const { stack, message } = await rejection(mine())
    expect(stack).toContain('at mine ')
    expect(stack).toContain(message)
    // Ours are of no use to who reads it.
    expect(stack).not.toContain('dist/lib')
  })

  it('names it for requests to a runtime', async () => {
    const server = await serveRuntime({ port: 0 })
    onTestFinished(() => server.close())
    const client = await RuntimeClient.connect(server.url)
    onTestFinished(() => client.close())
    async function mine() {
      await client.query('x', { systemPrompt: '', model: 'm' })
    }
    expect((await rejection(mine())).stack).toContain('at mine ')
  })

  it('names it for turns of a session and for what the runtime is asked', async () => {
    const { client } = scripted(['--play', 'reply-lost'])
    const session = await client.createSession()
    async function mine() {
      await session.sendAndWait('x', 50)
    }
    async function another() {
      await session.rpc.factory.getRun({ runId: 'none' })
    }
    expect((await rejection(mine())).stack).toContain('at mine ')
    expect((await rejection(another())).stack).toContain('at another ')
  })

  it('names it when the promise is awaited later', async () => {
    function mine() {
      return run('sleep', ['30'], { timeoutMs: 20 })
    }
    const promise = mine()
    await promise.catch(() => {})
    expect((await rejection(promise)).stack).toContain('at mine ')
  })
})
