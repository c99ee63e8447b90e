// How a connection begins and ends, against the scripted runtime: exits, silence, noise, floods.
import { describe, expect, it } from 'vitest'
import { CopilotClient, RuntimeConnection } from '../entries/copilot.js'
import { isAlive } from './alive'
import { rejection, scripted } from './copilot/peer'
import { missingFields } from './promised-fields'

async function pidOf(client: CopilotClient): Promise<number> {
  // The scripted runtime's own process is the parent of nothing: it is found by its message of a timeout.
  const session = await client.createSession()
  const error = await rejection(session.sendAndWait({ prompt: 'who' }, 50))
  return Number(/pid (\d+)/.exec(error.message)![1])
}

describe('the exit of the runtime', () => {
  it.each(['exits-before-reply', 'exits-after-reply'])(
    '%s ends the turn at once, with status and stderr',
    async (name) => {
      const { client } = scripted(['--play', name])
      const session = await client.createSession()
      const exited = new Promise((resolve) => client.onExit(resolve))
      const began = performance.now()
      const error = await rejection(session.sendAndWait('go', 30_000))
      expect(performance.now() - began).toBeLessThan(25_000)
      expect(error).toMatchObject({ code: 'CONNECTION_LOST', exitCode: 7, signal: null })
      expect(error.stderr).toContain('something terrible')
      expect(await exited).toMatchObject({
        exitCode: 7,
        signal: null,
        stderr: expect.stringContaining('terrible'),
      })
      expect((await rejection(client.ping())).code).toBe('CONNECTION_LOST')
      expect((await rejection(client.createSession())).code).toBe('CONNECTION_LOST')
      expect((await rejection(session.send('more'))).code).toMatch(/CONNECTION_LOST|SESSION_CLOSED/)
      await client.start()
      expect((await client.ping('again')).message).toBe('pong: again')
    },
  )

  it('is told of every pending request', async () => {
    const { client } = scripted(['--play', 'exits-before-reply', '--silent', 'status.get'])
    const session = await client.createSession()
    const pending = [client.getStatus(), session.send('go')].map(rejection)
    for (const error of await Promise.all(pending))
      expect(error).toMatchObject({ code: 'CONNECTION_LOST', exitCode: 7 })
  })

  it('a closed stdout counts as one', async () => {
    const { client } = scripted(['--play', 'closes-stdout'])
    const session = await client.createSession()
    expect((await rejection(session.sendAndWait('go', 20_000))).code).toBe('CONNECTION_LOST')
  })

  it('restart: on-demand brings back a session that was idle, and no other', async () => {
    const { client, asked } = scripted(['--play', 'exits-after-reply'], { restart: 'on-demand' })
    const idle = await client.createSession({ sessionId: 'idle' })
    const busy = await client.createSession({ sessionId: 'busy' })
    const exited = new Promise((resolve) => client.onExit(resolve))
    await rejection(busy.sendAndWait('go', 10_000))
    await exited
    await idle.rpc.tasks.list()
    await rejection(busy.send('again'))
    const resumed = asked().filter(({ method }) => method === 'session.resume')
    expect(resumed.map(({ params }) => params?.sessionId)).toEqual(['idle'])
    expect(asked().filter(({ method }) => method === 'session.send')).toHaveLength(1)
  })
})

describe('start()', () => {
  it('is single-flight', async () => {
    const { client, asked } = scripted()
    await Promise.all([client.start(), client.start(), client.createSession()])
    expect(asked().filter(({ method }) => method === 'connect')).toHaveLength(1)
  })

  it('ends with CONNECTION_TIMED_OUT when the handshake is not answered, and leaves nothing running', async () => {
    const { client } = scripted(['--silent', 'connect'], { startTimeoutMs: 500 })
    const error = await rejection(client.start())
    expect(error.code).toBe('CONNECTION_TIMED_OUT')
    expect(client.state).toBe('error')
  })

  it('can be stopped meanwhile', async () => {
    const { client } = scripted(['--silent', 'connect'])
    const started = rejection(client.start())
    await client.forceStop()
    expect((await started).code).toBe('SESSION_CLOSED')
  })

  it("takes ping for an old runtime's handshake", async () => {
    const { client } = scripted(['--no-connect'])
    await client.start()
    expect((await client.ping('x')).message).toBe('pong: x')
  })

  it.each(['2', '4', 'none'])('refuses protocol version %s', async (version) => {
    const { client } = scripted(['--protocol', version])
    const error = await rejection(client.start())
    expect(error.code).toBe('PROTOCOL_MISMATCH')
    expect(missingFields(error)).toEqual([])
    expect(error.message).toContain('SDK protocol version mismatch')
  })

  it('reads the protocol version beside a field of another type', async () => {
    const { client } = scripted(['--runtime-version', '7'])
    await client.start()
    expect(client.state).toBe('connected')
  })

  it('says what to install when there is no runtime', async () => {
    const client = new CopilotClient({ connection: RuntimeConnection.forStdio({ path: '/nowhere/copilot' }) })
    const error = await rejection(client.start())
    expect(error.code).toBe('PROCESS_NOT_FOUND')
    expect(error.message).toContain('COPILOT_CLI_PATH')
  })

  it('rejects when the runtime exits, with what it said', async () => {
    const { client } = scripted([], {
      connection: RuntimeConnection.forStdio({
        path: process.execPath,
        args: ['-e', 'console.error("no"); process.exit(3)', '--'],
      }),
    })
    const error = await rejection(client.start())
    expect(error).toMatchObject({ code: 'CONNECTION_LOST', exitCode: 3, stderr: 'no' })
  })
})

describe('stop()', () => {
  it('ends a runtime that ignores SIGTERM and says no goodbye', async () => {
    const { client } = scripted(['--stubborn', '--silent', 'session.detach,runtime.shutdown,session.send'])
    const pid = await pidOf(client)
    const began = performance.now()
    const errors = await client.stop()
    expect(performance.now() - began).toBeLessThan(14_000)
    expect(errors.length).toBeGreaterThan(0)
    expect(isAlive(pid)).toBe(false)
    expect(client.state).toBe('disconnected')
  })

  it('forceStop() ends it without waiting for answers', async () => {
    const { client } = scripted(['--stubborn', '--silent', 'session.send'])
    const pid = await pidOf(client)
    const began = performance.now()
    await client.forceStop()
    expect(performance.now() - began, 'stop() takes six seconds').toBeLessThan(5000)
    expect(isAlive(pid)).toBe(false)
  })

  it('may be called twice, and again', async () => {
    const { client } = scripted()
    await client.start()
    expect(await Promise.all([client.stop(), client.stop()])).toEqual([[], []])
    expect(await client.stop()).toEqual([])
    await client.start()
    expect((await client.ping('back')).message).toBe('pong: back')
  })

  it('await using ends it', async () => {
    let pid = 0
    {
      await using client = scripted(['--silent', 'session.send']).client
      pid = await pidOf(client)
    }
    expect(isAlive(pid)).toBe(false)
  })
})

describe('what is no message', () => {
  it.each(['garbage', 'talks-before', 'megabyte-frames', 'unknown-everything'])(
    '%s does not keep the answer away',
    async (name) => {
      const { client } = scripted(['--play', name])
      const session = await client.createSession()
      const answer = await session.sendAndWait('go', 20_000)
      expect(answer?.type).toBe('assistant.message')
    },
  )

  it('unknown events reach their subscribers, unknown requests are refused', async () => {
    const { client } = scripted(['--play', 'unknown-everything'])
    const session = await client.createSession()
    const seen: unknown[] = []
    session.on('brand.new_event', (event) => seen.push(event))
    await session.sendAndWait('go', 5000)
    expect(seen).toMatchObject([{ type: 'brand.new_event', extra: 1, data: { code: -32601 } }])
  })

  it('a mebibyte of it without a header is CONNECTION_LOST', async () => {
    const { client } = scripted(['--play', 'endless-garbage'])
    const session = await client.createSession()
    expect((await rejection(session.sendAndWait('go', 20_000))).code).toBe('CONNECTION_LOST')
  })

  it('stderr is not printed, and offered line by line', async () => {
    const lines: string[] = []
    const { client } = scripted(['--play', 'works-on'], { onStderr: (line) => lines.push(line) })
    const session = await client.createSession()
    await rejection(session.sendAndWait('go', 300))
    expect(lines).toContain('still busy')
  })
})

describe('a flood of events', () => {
  it('reaches one handler whole and in order, and leaves the loop alone', async () => {
    const { client } = scripted(['--play', 'flood', '--count', '50000'])
    const session = await client.createSession()
    let next = 0
    let isInOrder = true
    session.on('assistant.message_delta', ({ data }) => {
      isInOrder &&= (data as unknown as { index: number }).index === next++
    })
    await session.sendAndWait('go', 60_000)
    expect(next).toBe(50_000)
    expect(isInOrder).toBe(true)
  })

  it('that nobody subscribed to still ends the turn', async () => {
    const { client } = scripted(['--play', 'flood', '--count', '100000'])
    const session = await client.createSession()
    expect((await session.sendAndWait('go', 60_000))?.type).toBe('assistant.message')
  })
})

it('an unanswered request is bounded', async () => {
  const { client } = scripted(['--silent', 'session.detach'])
  const session = await client.createSession()
  const began = performance.now()
  await client.stop()
  expect(performance.now() - began).toBeLessThan(14_000)
  await session.disconnect()
})
