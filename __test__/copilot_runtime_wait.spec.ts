// `sendAndWait` where the runtime itself waits for the end of a message's turn: `session.sendAndWait` of runtimes from 1.0.104 on.
import { describe, expect, it } from 'vitest'
import { rejection, scripted } from './copilot/peer'

const answerOf = (event: unknown) => (event as { data: { content: string } } | undefined)?.data.content

async function play(name: string) {
  const { client, asked } = scripted(['--waits', name])
  const methods = () => asked().map(({ method }) => method)
  return { client, asked, methods, session: await client.createSession() }
}

describe('a runtime that waits for the end of a turn by itself', () => {
  it('is asked to, and its answer is the answer', async () => {
    const { session, methods } = await play('wait-answers')
    const answer = await session.sendAndWait('go', 30_000)
    expect(answerOf(answer)).toBe('answer to go')
    expect(answer?.completionEventId).toMatch(/^0{8}-/)
    expect(Object.keys(answer!)).not.toContain('completionEventId')
    expect(methods()).toContain('session.sendAndWait')
    expect(methods()).not.toContain('session.send')
  })

  it('may say that a message has no answer', async () => {
    const { session } = await play('wait-without-answer')
    expect(await session.sendAndWait('go', 30_000)).toBeUndefined()
  })

  it('is not believed before the event that it names was dispatched', async () => {
    const { session } = await play('wait-overtakes')
    const seen: string[] = []
    session.on('session.idle', (event) => void seen.push((event as { id: string }).id))
    const answer = await session.sendAndWait('go', 30_000)
    expect(seen).toEqual([answer?.completionEventId])
  })

  it('fails a turn with what the named error reported', async () => {
    const { session } = await play('wait-fails')
    const seen: string[] = []
    session.on('session.error', ({ data }) => void seen.push(data.message))
    const error = await rejection(session.sendAndWait('go', 30_000))
    expect(error).toMatchObject({
      code: 'SESSION_ERROR',
      errorType: 'quota',
      statusCode: 402,
      message: 'spent',
    })
    expect(error.cause).toMatchObject({ code: 'RPC_ERROR', rpcCode: -32603 })
    expect(seen).toEqual(['spent'])
  })

  it('gets the messages of concurrent calls in their order', async () => {
    const { session, asked } = await play('wait-answers')
    const prompts = Array.from({ length: 20 }, (_, index) => `message ${index}`)
    const answers = await Promise.all(prompts.map((prompt) => session.sendAndWait(prompt, 30_000)))
    expect(answers.map(answerOf)).toEqual(prompts.map((prompt) => `answer to ${prompt}`))
    const sent = asked().filter(({ method }) => method === 'session.sendAndWait')
    expect(sent.map(({ params }) => params?.['prompt'])).toEqual(prompts)
  })

  it('is told that one wait was cancelled, and goes on with the others', async () => {
    const { session, asked, methods } = await play('wait-hangs')
    const abort = new AbortController()
    const first = rejection(session.sendAndWait('hangs 1', { timeoutMs: 30_000, signal: abort.signal }))
    const second = rejection(session.sendAndWait('hangs 2', { timeoutMs: 400 }))
    expect(answerOf(await session.sendAndWait('go', 30_000))).toBe('answer to go')
    abort.abort()
    expect((await first).code).toBe('SESSION_ABORTED')
    const error = await second
    expect(error.code).toBe('SESSION_TIMED_OUT')
    expect(error.message).toContain('session.sendAndWait was not answered')
    await session.rpc.log({ message: 'a request that follows the notifications' }).catch(() => {})
    const requests = asked().filter(({ method }) => method === 'session.sendAndWait')
    const cancelled = asked().filter(({ method }) => method === '$/cancelRequest')
    expect(cancelled.map(({ params }) => params?.['id'])).toEqual([requests[0]?.['id'], requests[1]?.['id']])
    // Work that somebody else waits for is not aborted.
    expect(methods()).not.toContain('session.abort')
  })

  it('is told to abort when the only one who waits aborts', async () => {
    const { session, methods } = await play('wait-hangs')
    const abort = new AbortController()
    const aborted = rejection(session.sendAndWait('hangs', { timeoutMs: 30_000, signal: abort.signal }))
    await new Promise<void>((resolve) => session.on('user.message', () => resolve()))
    abort.abort()
    expect((await aborted).code).toBe('SESSION_ABORTED')
    await session.rpc.log({ message: 'a request that follows' }).catch(() => {})
    expect(methods().filter((method) => method?.startsWith('$/') || method === 'session.abort')).toEqual([
      '$/cancelRequest',
      'session.abort',
    ])
  })

  it.each([
    ['wait-aborts', 'SESSION_ABORTED'],
    ['wait-shuts-down', 'SESSION_CLOSED'],
  ])('%s ends the wait with %s', async (name, code) => {
    const { session } = await play(name)
    expect((await rejection(session.sendAndWait('go', 30_000))).code).toBe(code)
  })

  it('holds nobody back whose session was disconnected', async () => {
    const { session } = await play('wait-hangs')
    const waiting = rejection(session.sendAndWait('hangs', { timeoutMs: 0 }))
    await new Promise<void>((resolve) => session.on('user.message', () => resolve()))
    await session.disconnect()
    expect((await waiting).code).toBe('SESSION_CLOSED')
  })
})

describe('a runtime that does not know session.sendAndWait', () => {
  it('is asked for it once per session, and gets the messages in their order', async () => {
    const { client, asked } = scripted()
    const session = await client.createSession()
    const prompts = ['one', 'two', 'three']
    const answers = await Promise.all(prompts.map((prompt) => session.sendAndWait(prompt, 30_000)))
    expect(answers.map(answerOf)).toEqual(prompts.map((prompt) => `answer to ${prompt}`))
    expect(asked().filter(({ method }) => method === 'session.sendAndWait')).toHaveLength(1)
    const sent = asked().filter(({ method }) => method === 'session.send')
    expect(sent.map(({ params }) => params?.['prompt'])).toEqual(prompts)
  })
})
