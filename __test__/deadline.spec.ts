// A `*TimeoutMs` that comes out negative of a subtraction is a deadline that has passed: over at once, and nothing is begun.
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { complete } from '../entries/model.js'
import { run, spawn } from '../index.js'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'
import { rejection, scripted as copilot, temporaryFolder } from './copilot/peer'
import { answer, counting, played } from './played-agent'

/** An HTTP server and the connections that were made to it. */
async function listener() {
  let connections = 0
  const server = createServer().on('connection', () => connections++)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { port: (server.address() as AddressInfo).port, connections: () => connections }
}

describe('a deadline that has passed', () => {
  it.each([
    [{ timeoutMs: -1 }, 'PROCESS_TIMED_OUT'],
    [{ timeoutMs: -Infinity }, 'PROCESS_TIMED_OUT'],
    [{ idleTimeoutMs: -0.5 }, 'PROCESS_IDLE'],
  ])('starts no program: %j', async (options, code) => {
    const file = join(temporaryFolder(), 'started')
    const error = await rejection(run('touch', [file], options))
    expect(error).toMatchObject({ code })
    expect(error).not.toHaveProperty('result')
    const process = spawn('touch', [file], options)
    await expect(process.started).rejects.toMatchObject({ code })
    expect(process.pid).toBeUndefined()
    expect(existsSync(file)).toBe(false)
  })

  it.each([
    [{ timeoutMs: -1 }, 'AGENT_TIMED_OUT'],
    [{ startTimeoutMs: -1 }, 'AGENT_IDLE'],
    [{ idleTimeoutMs: -1 }, 'AGENT_IDLE'],
    [{ toolIdleTimeoutMs: -1 }, 'AGENT_IDLE'],
  ])('starts no agent: %j', async (options, code) => {
    const plan = counting(answer)
    const error = await rejection(played([plan]).run('hi', options))
    expect(error).toMatchObject({ code, result: { attempts: 0, text: '' } })
    expect(error.message).toContain(Object.keys(options)[0])
    expect(existsSync(plan.count)).toBe(false)
  })

  it.each([{ timeoutMs: -1 }, { idleTimeoutMs: -1 }])('asks no model: %j', async (options) => {
    const { port, connections } = await listener()
    const call = {
      baseUrl: `http://127.0.0.1:${port}`,
      model: 'm',
      messages: [{ role: 'user', content: 'x' }],
    }
    expect(await rejection(complete({ ...call, ...options }))).toMatchObject({
      code: 'MODEL_TIMED_OUT',
      attempts: 0,
      kind: 'timeout',
    })
    expect(connections()).toBe(0)
  })

  it('connects to no runtime', async () => {
    const { port, connections } = await listener()
    const connecting = RuntimeClient.connect(`ws://127.0.0.1:${port}`, { connectTimeoutMs: -1 })
    expect(await rejection(connecting)).toMatchObject({ code: 'RUNTIME_TIMED_OUT' })
    expect(connections()).toBe(0)
  })

  it.each([
    [{ timeoutMs: -1 }, 'RUNTIME_TIMED_OUT'],
    [{ idleTimeoutMs: -1 }, 'RUNTIME_IDLE'],
  ])('sends no request to a runtime: %j', async (options, code) => {
    const server = await serveRuntime({ port: 0 })
    onTestFinished(() => server.close())
    const client = await RuntimeClient.connect(server.url)
    onTestFinished(() => client.close())
    const file = join(temporaryFolder(), 'started')
    expect(await rejection(client.executeCommands([`touch ${file}`], options))).toMatchObject({ code })
    const { results } = await client.executeCommands(['echo next'])
    expect(results).toMatchObject([{ exitCode: 0 }])
    expect(existsSync(file)).toBe(false)
  })

  it.each([
    [-1, 'SESSION_TIMED_OUT'],
    [{ timeoutMs: -1 }, 'SESSION_TIMED_OUT'],
    [{ idleTimeoutMs: -1 }, 'SESSION_IDLE'],
  ])('sends no message to a session: %j', async (options, code) => {
    const { client, asked } = copilot(['--play', 'idle-without'])
    const session = await client.createSession()
    expect(await rejection(session.sendAndWait('go', options))).toMatchObject({ code })
    await session.sendAndWait('next', 5000)
    const sent = asked().filter(({ method }) => method === 'session.send')
    expect(sent.map(({ params }) => params?.prompt)).toEqual(['next'])
  })

  it('starts no Copilot runtime', async () => {
    const { client, asked } = copilot([], { startTimeoutMs: -1 })
    expect(await rejection(client.start())).toMatchObject({ code: 'CONNECTION_TIMED_OUT' })
    expect(asked).toThrow('ENOENT')
  })

  it('of the environment means off', async () => {
    process.env.SHEEPDOG_IDLE_SECONDS = '-1'
    onTestFinished(() => void delete process.env.SHEEPDOG_IDLE_SECONDS)
    expect((await run('sh', ['-c', 'sleep 0.05; echo x'])).stdout).toBe('x\n')
  })
})
