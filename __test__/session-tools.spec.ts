// The caller's tools, as an agent calls them over HTTP.
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { ToolServer } from '../lib/harness/session/tool_server'
import { Harness } from '../index.js'

/** A tool that waits for its signal, and tells when it was called. */
function waiting() {
  let called!: (signal: AbortSignal) => void
  const isCalled = new Promise<AbortSignal>((resolve) => (called = resolve))
  const handler = async (_: unknown, { signal }: { signal?: AbortSignal }) => {
    called(signal!)
    if (!signal!.aborted) await once(signal!, 'abort')
    return 'stopped'
  }
  return { tool: { name: 'wait', handler }, isCalled }
}

it('a call that the agent cancels is aborted, and no other one', async () => {
  const [first, second] = [waiting(), waiting()]
  const server = await ToolServer.start([first.tool, { ...second.tool, name: 'other' }] as never)
  const { url, headers } = server.server
  const post = (message: object) =>
    fetch(url, {
      method: 'POST',
      headers: { [headers[0]!.name]: headers[0]!.value, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', ...message }),
    })
  const calls = [
    post({ id: 7, method: 'tools/call', params: { name: 'wait' } }),
    post({ id: '7', method: 'tools/call', params: { name: 'other' } }),
  ]
  const signals = await Promise.all([first.isCalled, second.isCalled])
  expect(
    (await post({ method: 'notifications/cancelled', params: { requestId: 7, reason: 'x' } })).status,
  ).toBe(202)
  const answer = (await (await calls[0]!).json()) as { result: { content: unknown } }
  expect(answer.result.content).toEqual([{ type: 'text', text: 'stopped' }])
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, false])
  // Neither an unknown nor a missing id does anything.
  for (const params of [{ requestId: 99 }, {}, undefined])
    await post({ method: 'notifications/cancelled', params })
  expect(signals[1]!.aborted).toBe(false)
  server.cancelCalls()
  await (await calls[1]!).json()
  expect(signals[1]!.aborted).toBe(true)
  await server.close()
})

it('cancel() aborts the calls that run', async () => {
  const { tool, isCalled } = waiting()
  const harness = new Harness({
    provider: 'gemini',
    binary: [process.execPath, join(__dirname, '../fixtures/acp/agent.mjs')],
  })
  await using session = await harness.open({ tools: [tool] as never })
  const turn = session.prompt('call wait')
  const signal = await isCalled
  const [ended] = await Promise.allSettled([turn, session.cancel()])
  expect(signal.aborted).toBe(true)
  expect(ended).toMatchObject({ status: 'rejected', reason: { code: 'AGENT_ABORTED' } })
})
