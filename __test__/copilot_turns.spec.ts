// When `sendAndWait` ends, against the scripted runtime: old and new ways of saying idle, and all the ways to fail.
import { describe, expect, it } from 'vitest'
import { rejection, scripted } from './copilot/peer'
import { missingFields } from './promised-fields'

const answerOf = (event: unknown) => (event as { data: { content: string } } | undefined)?.data.content

async function play(name: string, ...args: string[]) {
  const { client, asked } = scripted(['--play', name, ...args])
  return { client, asked, session: await client.createSession() }
}

describe('an idle with work in the background', () => {
  it.each(['idle-with-agents', 'idle-with-shells', 'idle-with-both'])(
    '%s waits for the idle after it',
    async (name) => {
      const { session } = await play(name)
      expect(answerOf(await session.sendAndWait('go', 5000))).toBe('all done')
    },
  )

  it.each(['idle-with-empty', 'idle-without'])('%s ends the turn', async (name) => {
    const { session } = await play(name)
    expect(answerOf(await session.sendAndWait('go', 5000))).toBe('started')
  })

  it('that never clears ends with a timeout that names it', async () => {
    const { session } = await play('idle-never-clears')
    const error = await rejection(session.sendAndWait('go', 300))
    expect(error.code).toBe('SESSION_TIMED_OUT')
    expect(missingFields(error)).toEqual([])
    expect(error.message).toMatch(/^Timeout after 300ms waiting for session\.idle/)
    expect(error.message).toContain('agent-1')
    expect(error.message).toContain('shell-1')
    expect(error.lastEvent).toBe('session.idle')
  })
})

describe('the reply to session.send', () => {
  it('that is lost is covered by the timeout', async () => {
    const { session } = await play('reply-lost')
    const error = await rejection(session.sendAndWait('go', 300))
    expect(error.code).toBe('SESSION_TIMED_OUT')
    expect(missingFields(error)).toEqual([])
    expect(error.message).toContain('session.send was not answered')
  })

  it('that is lost does not hold up the next message', async () => {
    const { session } = await play('first-reply-lost')
    const lost = rejection(session.sendAndWait('lost', 300))
    expect(answerOf(await session.sendAndWait('next', 5000))).toBe('answer to next')
    expect((await lost).code).toBe('SESSION_TIMED_OUT')
  })

  it('may come after the events of its turn', async () => {
    const { session } = await play('reply-last')
    expect(answerOf(await session.sendAndWait('go', 5000))).toBe('answer to go')
  })

  it('may name no message, as in old runtimes', async () => {
    const { session } = await play('without-ids')
    expect(answerOf(await session.sendAndWait('go', 5000))).toBe('answer to go')
  })
})

describe('errors', () => {
  it('of a failed turn reject it, and its late idle does not answer the next', async () => {
    const { session } = await play('fails-first')
    const error = await rejection(session.sendAndWait('a', 5000))
    expect(error).toMatchObject({
      code: 'SESSION_ERROR',
      message: 'no to a',
      errorType: 'query',
      statusCode: 500,
    })
    expect(answerOf(await session.sendAndWait('b', 5000))).toBe('answer to b')
    expect((await rejection(session.sendAndWait('c', 5000))).message).toBe('no to c')
    expect(answerOf(await session.sendAndWait('d', 5000))).toBe('answer to d')
  })

  it('without an idle reject after two seconds of silence', async () => {
    const { session } = await play('error-alone')
    const error = await rejection(session.sendAndWait('go', 10_000))
    expect(error).toMatchObject({
      code: 'SESSION_ERROR',
      message: 'slow down',
      errorType: 'rate_limit',
      statusCode: 429,
    })
  })

  it("that are not the turn's are let by", async () => {
    const { session } = await play('error-of-others')
    expect(answerOf(await session.sendAndWait('go', 5000))).toBe('answer to go')
  })

  it('session.shutdown ends the turn', async () => {
    const { session } = await play('shutdown')
    const error = await rejection(session.sendAndWait('go', 5000))
    expect(error.code).toBe('SESSION_CLOSED')
    expect(error.message).toContain('out of memory')
  })
})

describe('answers', () => {
  it('of two messages at once are each their own', async () => {
    const { session, asked } = await play('queue')
    const [a, b] = await Promise.all([session.sendAndWait('a', 5000), session.sendAndWait('b', 5000)])
    expect([answerOf(a), answerOf(b)]).toEqual(['answer to a', 'answer to b'])
    const sent = asked().filter(({ method }) => method === 'session.send')
    expect(sent.map(({ params }) => params?.prompt)).toEqual(['a', 'b'])
  })

  it("are the main agent's, and not empty", async () => {
    const { session } = await play('sub-agent-last')
    expect(answerOf(await session.sendAndWait('go', 5000))).toBe('mine')
  })

  it.each(['autopilot', 'autopilot-boundary'])('of %s come at its real end', async (name) => {
    const { session } = await play(name)
    expect(answerOf(await session.sendAndWait('go', 10_000))).toBe('second leg')
  })

  it('come with every event delivered before them, in order', async () => {
    const { session } = await play('answers')
    const seen: string[] = []
    session.on((event) => seen.push(event.type))
    await session.sendAndWait('go')
    expect(seen).toEqual([
      'user.message',
      'assistant.turn_start',
      'assistant.message',
      'assistant.turn_end',
      'assistant.idle',
      'session.idle',
    ])
  })
})

describe('endings by the caller', () => {
  it('abort() ends the turn with SESSION_ABORTED', async () => {
    const { session } = await play('aborted')
    expect((await rejection(session.sendAndWait('go', 5000))).code).toBe('SESSION_ABORTED')
  })

  it('abort() ends a turn that says nothing more', async () => {
    const { session, asked } = await play('works-on')
    const turn = rejection(session.sendAndWait('go', 10_000))
    await new Promise<void>((resolve) => session.on('tool.execution_start', () => resolve()))
    await session.abort()
    expect((await turn).code).toBe('SESSION_ABORTED')
    expect(asked().filter(({ method }) => method === 'session.abort')).toHaveLength(1)
  })

  it('a signal ends the wait and stops the work', async () => {
    const { session, asked } = await play('works-on')
    const controller = new AbortController()
    const turn = rejection(session.sendAndWait('go', { timeoutMs: 10_000, signal: controller.signal }))
    await new Promise<void>((resolve) => session.on('tool.execution_start', () => resolve()))
    controller.abort()
    expect((await turn).code).toBe('SESSION_ABORTED')
    await session.rpc.tasks.list()
    expect(asked().map(({ method }) => method)).toContain('session.abort')
  })

  it('a signal that is aborted already sends nothing', async () => {
    const { session, asked } = await play('answers')
    const error = await rejection(session.sendAndWait('go', { signal: AbortSignal.abort() }))
    expect(error.code).toBe('SESSION_ABORTED')
    expect(asked().map(({ method }) => method)).not.toContain('session.send')
  })

  it('disconnect() and stop() end it with SESSION_CLOSED', async () => {
    const { session, client } = await play('works-on')
    const turn = rejection(session.sendAndWait('go', 10_000))
    await new Promise<void>((resolve) => session.on('tool.execution_start', () => resolve()))
    await session.disconnect()
    expect((await turn).code).toBe('SESSION_CLOSED')
    const other = await client.createSession()
    const second = rejection(other.sendAndWait('go', 10_000))
    await new Promise<void>((resolve) => other.on('tool.execution_start', () => resolve()))
    await client.stop()
    expect((await second).code).toBe('SESSION_CLOSED')
  })
})

describe('clocks', () => {
  it('a timeout says what is pending, and the state of the process', async () => {
    const { session } = await play('works-on')
    const error = await rejection(session.sendAndWait('go', 300))
    expect(error.message).toContain('tool slow_tool')
    expect(error.message).toContain('tool.execution_start')
    expect(error.message).toContain('CLI server running')
    expect(error.message).toContain('still busy')
  })

  it('idleTimeoutMs ends a silent turn', async () => {
    const { session } = await play('works-on')
    const error = await rejection(session.sendAndWait('go', { timeoutMs: 10_000, idleTimeoutMs: 200 }))
    expect(error.code).toBe('SESSION_IDLE')
    expect(missingFields(error)).toEqual([])
  })

  it('idleTimeoutMs leaves a turn alone that goes on', async () => {
    const { session } = await play('ticks')
    expect(answerOf(await session.sendAndWait('go', { timeoutMs: 10_000, idleTimeoutMs: 400 }))).toBe(
      'answer to go',
    )
  })

  it('waitForTasks waits for detached tasks too', async () => {
    const { session } = await play('leaves-tasks')
    const began = performance.now()
    expect(answerOf(await session.sendAndWait('go', { waitForTasks: true }))).toBe('answer to go')
    expect(performance.now() - began).toBeGreaterThan(500)
  })

  it.each([[], ['--waits', 'wait-answers']])(
    'the limits of a wait hold while the runtime does not list its tasks: %j',
    async (...args) => {
      const { session, asked } = await play('answers', '--silent', 'session.tasks.list', ...args)
      const listed = (count: number) =>
        expect.poll(() => asked().filter(({ method }) => method === 'session.tasks.list').length).toBe(count)
      const began = performance.now()
      const timedOut = await rejection(session.sendAndWait('go', { waitForTasks: true, timeoutMs: 300 }))
      expect(timedOut.code).toBe('SESSION_TIMED_OUT')
      const stop = new AbortController()
      const aborted = rejection(session.sendAndWait('go', { waitForTasks: true, signal: stop.signal }))
      await listed(2)
      stop.abort()
      expect((await aborted).code).toBe('SESSION_ABORTED')
      const closed = rejection(session.sendAndWait('go', { waitForTasks: true }))
      await listed(3)
      await session.disconnect()
      expect((await closed).code).toBe('SESSION_CLOSED')
      expect(performance.now() - began).toBeLessThan(8000)
    },
  )

  it('a wrong option is a rejection that names it', async () => {
    const { session } = await play('answers')
    const error = await rejection(session.sendAndWait('go', { timeoutMs: Number.NaN }))
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message).toMatch(/^timeoutMs: /)
  })
})
