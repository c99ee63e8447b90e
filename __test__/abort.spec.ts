// AbortSignal, the same everywhere: one signal for many, one that is aborted already, the caller's own reason.
import { getEventListeners } from 'node:events'
import { describe, expect, it, onTestFinished } from 'vitest'
import { complete, withRetry } from '../entries/model.js'
import { doctor, run, spawn } from '../index.js'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'
import { rejection, scripted } from './copilot/peer'
import { following } from './played-agent'

const nobody = { baseUrl: 'http://127.0.0.1:9', model: 'm', messages: [{ role: 'user', content: 'x' }] }
const reason = new Error('enough')

/** The warnings that the process gives while the test runs. */
function warnings(): Error[] {
  const seen: Error[] = []
  const onWarning = (warning: Error) => seen.push(warning)
  process.on('warning', onWarning)
  onTestFinished(() => void process.off('warning', onWarning))
  return seen
}

describe('one signal', () => {
  it('is listened to once, however many runs, turns and requests have it, and not at all when they are over', async () => {
    const seen = warnings()
    const stop = new AbortController()
    const { signal } = stop
    const server = await serveRuntime({ port: 0 })
    onTestFinished(() => server.close())
    const clients = await Promise.all(
      Array.from({ length: 12 }, () => RuntimeClient.connect(server.url, { signal })),
    )
    const harness = following(Array.from({ length: 12 }, () => ({ stallMs: 60_000 })))
    const work = [
      ...Array.from({ length: 12 }, () => run('sleep', ['30'], { signal })),
      ...Array.from({ length: 12 }, () => harness.run('x', { signal })),
      ...clients.map((client) => client.executeCommands(['sleep 30'], { signal })),
    ]
    // One that ends by itself must leave the others their listener.
    await run('true', [], { signal })
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    stop.abort(reason)
    const errors = (await Promise.allSettled(work)).map((ended) => (ended as PromiseRejectedResult).reason)
    expect(new Set(errors.map(({ code }) => code))).toEqual(
      new Set(['PROCESS_ABORTED', 'AGENT_ABORTED', 'RUNTIME_ABORTED']),
    )
    for (const error of errors) expect(error.cause).toBe(reason)
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
    await Promise.all(clients.map((client) => client.close()))
    await new Promise((resolve) => setImmediate(resolve))
    expect(seen).toEqual([])
  })

  it('leaves the listeners of its owner alone', async () => {
    const stop = new AbortController()
    const told: string[] = []
    stop.signal.onabort = () => told.push('owner')
    const { result } = spawn('sleep', ['30'], { signal: stop.signal })
    stop.abort()
    await expect(result).rejects.toMatchObject({ code: 'PROCESS_ABORTED' })
    expect(told).toEqual(['owner'])
  })
})

describe('a signal that is aborted already', () => {
  const signal = AbortSignal.abort(reason)
  const calls: [string, () => Promise<unknown>, string][] = [
    ['run', () => run('true', [], { signal }), 'PROCESS_ABORTED'],
    ['a turn', () => following([]).run('x', { signal }), 'AGENT_ABORTED'],
    ['doctor', () => doctor({ signal }), 'AGENT_ABORTED'],
    ['complete', () => complete({ ...nobody, signal }), 'MODEL_ABORTED'],
    ['withRetry', () => withRetry(async () => {}, { signal }), 'MODEL_ABORTED'],
    ['connect', () => RuntimeClient.connect('ws://127.0.0.1:9', { signal }), 'RUNTIME_ABORTED'],
    ['serveRuntime', () => serveRuntime({ port: 0, signal }), 'RUNTIME_ABORTED'],
    ['createSession', () => scripted().client.createSession({ signal }), 'SESSION_ABORTED'],
  ]
  it.each(calls)('%s begins nothing, and the error has its reason', async (_, call, code) => {
    expect(await rejection(call())).toMatchObject({ code, cause: reason })
  })
})
