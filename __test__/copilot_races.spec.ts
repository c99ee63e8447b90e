// What happens at once: stops and starts, signals, several who wait for one session.
import { describe, expect, it } from 'vitest'
import { isAlive } from './alive'
import { rejection, scripted } from './copilot/peer'

const requested = (asked: () => { method?: string }[], method: string) =>
  expect.poll(() => asked().some((message) => message.method === method), { timeout: 30_000 }).toBe(true)

describe('stop() and start()', () => {
  it('stop() in the middle of a start ends it, and a later start works', async () => {
    const { client, asked } = scripted(['--slow', 'connect'])
    const started = rejection(client.start())
    await requested(asked, 'connect')
    expect(await client.stop()).toEqual([])
    expect((await started).code).toBe('SESSION_CLOSED')
    expect(client.state).toBe('disconnected')
    await client.start()
    expect(client.state).toBe('connected')
  })

  it('forceStop() in the middle of a start leaves nothing', async () => {
    const { client, asked } = scripted(['--silent', 'connect'])
    const started = rejection(client.start())
    await requested(asked, 'connect')
    await client.forceStop()
    expect((await started).code).toBe('SESSION_CLOSED')
    expect(client.state).toBe('disconnected')
    expect(client.cliProcess).toBeNull()
  })

  it('start() during stop() starts again afterwards', async () => {
    const { client } = scripted()
    await client.start()
    const first = client.cliProcess?.pid
    const stopped = client.stop()
    await client.start()
    await stopped
    expect(client.state).toBe('connected')
    expect(client.cliProcess?.pid).not.toBe(first)
    expect((await client.ping('x')).message).toBe('pong: x')
  })

  it('the last word counts when they are called at once', async () => {
    const { client } = scripted()
    const ends = await Promise.allSettled([client.start(), client.stop(), client.start(), client.stop()])
    expect(ends.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected', 'fulfilled'])
    expect(client.state).toBe('disconnected')
    await client.start()
    expect(client.state).toBe('connected')
  })

  it('a session that is wanted during stop() does not start the runtime again', async () => {
    const { client } = scripted(['--slow', 'runtime.shutdown'])
    await client.start()
    const stopped = client.stop()
    expect((await rejection(client.createSession())).code).toBe('SESSION_CLOSED')
    await stopped
    expect(client.state).toBe('disconnected')
  })

  it('forceStop() cuts a stop() short that a stubborn runtime draws out', async () => {
    const { client, asked } = scripted(['--stubborn', '--silent', 'session.detach,runtime.shutdown'])
    await client.createSession()
    const { pid } = client.cliProcess!
    const stopped = client.stop()
    await requested(asked, 'session.detach')
    const began = performance.now()
    await client.forceStop()
    await stopped
    expect(performance.now() - began).toBeLessThan(5000)
    expect(isAlive(pid)).toBe(false)
  })

  it('cliProcess signals the runtime, and only while it is the runtime', async () => {
    const { client } = scripted()
    expect(client.cliProcess).toBeNull()
    await client.start()
    const runtime = client.cliProcess!
    const exited = new Promise((resolve) => client.onExit(resolve))
    expect(runtime.kill('SIGKILL')).toBe(true)
    expect(await exited).toMatchObject({ signal: 'SIGKILL' })
    expect(client.state).toBe('disconnected')
    expect(runtime.kill()).toBe(false)
    expect(client.cliProcess).toBeNull()
  })
})

describe('a signal', () => {
  it('that is aborted already starts nothing', async () => {
    const { client } = scripted()
    const signal = AbortSignal.abort(new Error('not today'))
    for (const attempt of [
      client.start({ signal }),
      client.createSession({ signal }),
      client.resumeSession('x', { signal }),
      client.resumeSession('x', {}, { signal }),
    ]) {
      const error = await rejection(attempt)
      expect(error.code).toBe('SESSION_ABORTED')
      expect(error.cause.message).toBe('not today')
    }
    expect(client.state).toBe('disconnected')
  })

  it('of what is no AbortSignal is INVALID_OPTION', async () => {
    const { client } = scripted()
    for (const attempt of [
      client.start({ signal: 1 as never }),
      client.createSession({ signal: 1 as never }),
      client.resumeSession('x', {}, { signal: 1 as never }),
    ])
      expect((await rejection(attempt)).message).toMatch(/^signal: /)
  })

  it('ends a start that nobody else waits for', async () => {
    const { client, asked } = scripted(['--silent', 'connect'])
    const controller = new AbortController()
    const started = rejection(client.start({ signal: controller.signal }))
    await requested(asked, 'connect')
    controller.abort()
    expect((await started).code).toBe('SESSION_ABORTED')
    expect(await client.stop()).toEqual([])
  })

  it('leaves a start alone that others wait for', async () => {
    const { client, asked } = scripted(['--slow', 'connect'])
    const controller = new AbortController()
    const left = rejection(client.start({ signal: controller.signal }))
    const other = client.start()
    await requested(asked, 'connect')
    controller.abort()
    expect((await left).code).toBe('SESSION_ABORTED')
    await other
    expect(client.state).toBe('connected')
  })

  it('ends createSession, and a session that comes all the same is let go', async () => {
    const { client, asked } = scripted(['--slow', 'session.create'])
    const controller = new AbortController()
    const created = rejection(client.createSession({ signal: controller.signal }))
    await requested(asked, 'session.create')
    controller.abort()
    expect((await created).code).toBe('SESSION_ABORTED')
    await requested(asked, 'session.detach')
  })

  it('ends resumeSession for one caller, and the other gets the session', async () => {
    const { client, asked } = scripted(['--slow', 'session.resume'])
    const controller = new AbortController()
    const left = rejection(client.resumeSession('x', {}, { signal: controller.signal }))
    const other = client.resumeSession('x')
    await requested(asked, 'session.resume')
    controller.abort()
    expect((await left).code).toBe('SESSION_ABORTED')
    expect((await other).sessionId).toBe('x')
    expect(asked().filter(({ method }) => method === 'session.resume')).toHaveLength(1)
  })

  it('that all have aborted does not let a session go that somebody resumes again', async () => {
    const { client, asked } = scripted(['--slow', 'session.resume'])
    const controller = new AbortController()
    const left = rejection(client.resumeSession('x', { signal: controller.signal }))
    await requested(asked, 'session.resume')
    controller.abort()
    expect((await left).code).toBe('SESSION_ABORTED')
    const session = await client.resumeSession('x')
    expect(asked().filter(({ method }) => method === 'session.resume')).toHaveLength(2)
    expect(asked().filter(({ method }) => method === 'session.detach')).toHaveLength(0)
    await session.disconnect()
  })
})

describe('sessions', () => {
  it('whose goodbye says nothing are gone, and one that is refused twice says why', async () => {
    for (const detach of ['{}', 'null']) {
      const { client } = scripted(['--detach', detach])
      await (await client.createSession()).disconnect()
      expect(await client.stop()).toEqual([])
    }
    const { client } = scripted(['--detach', '{"success":false,"error":"busy"}'])
    const session = await client.createSession()
    const told = `Failed to disconnect session ${session.sessionId}: busy`
    expect((await rejection(session.disconnect())).message).toBe(told)
    expect((await client.stop()).map(({ message }) => message)).toEqual([told])
  })

  it('that are closed say so, whatever is asked of them', async () => {
    const { client } = scripted()
    const session = await client.createSession()
    const other = await client.createSession()
    await session.disconnect()
    for (const ask of [
      session.send('x'),
      session.sendAndWait('x'),
      session.getEvents(),
      session.abort(),
      session.rpc.model.getCurrent(),
    ]) {
      const error = await rejection(ask)
      expect(error.code).toBe('SESSION_CLOSED')
      expect(error.message).toContain('Session not found')
    }
    await client.stop()
    await client.start()
    expect((await rejection(other.send('x'))).code).toBe('SESSION_CLOSED')
  })

  it('sendAndWait comes back before what the runtime says after its idle', async () => {
    const { client } = scripted(['--play', 'talks-on'])
    const session = await client.createSession()
    const types: string[] = []
    session.on(({ type }) => types.push(type))
    for (let turn = 0; turn < 20; turn++) {
      await session.sendAndWait('go', 5000)
      expect(types.at(-1)).toBe('session.idle')
    }
  })

  it('many at once, two messages each, get their own answers', async () => {
    const { client } = scripted()
    const sessions = await Promise.all(Array.from({ length: 20 }, () => client.createSession()))
    const prompts = sessions.flatMap((session, index) => [
      { session, prompt: `a${index}` },
      { session, prompt: `b${index}` },
    ])
    const answers = await Promise.all(
      prompts.map(async ({ session, prompt }) => (await session.sendAndWait(prompt, 10_000))?.data.content),
    )
    expect(answers).toEqual(prompts.map(({ prompt }) => `answer to ${prompt}`))
  })

  it('the end of an `await using` after a crash masks no error', async () => {
    const { client } = scripted(['--play', 'exits-after-reply'])
    const session = await client.createSession()
    const error = await rejection(session.sendAndWait('go', 5000))
    expect(error.code).toBe('CONNECTION_LOST')
    expect((await rejection(session.disconnect())).code).toBe('CONNECTION_LOST')
    await session[Symbol.asyncDispose]()
    expect((await rejection(session.send('x'))).code).toBe('SESSION_CLOSED')
  })

  it('await using lets go of session and client', async () => {
    const { client, asked } = scripted()
    const session = await client.createSession()
    await session[Symbol.asyncDispose]()
    await client[Symbol.asyncDispose]()
    expect(asked().map(({ method }) => method)).toEqual(
      expect.arrayContaining(['session.detach', 'runtime.shutdown']),
    )
    expect(client.state).toBe('disconnected')
  })
})
