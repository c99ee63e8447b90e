// What the real runtimes keep of a session: found again, damaged, and what can be read of that.
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { rejection } from './copilot/peer'
import { realRuntime, runtimes } from './copilot/real-runtime'
import { missingFields } from './promised-fields'

const { connect, byScript } = realRuntime()
const answerOf = (event: { data: { content: string } } | undefined) => event?.data.content

describe('histories', () => {
  it('are listed, resumed and deleted', async () => {
    const { client, home } = connect()
    const session = await client.createSession(byScript('text=kept'))
    await session.sendAndWait('remember', 20_000)
    const { sessionId } = session
    expect((await client.listSessions()).map((one) => one.sessionId)).toContain(sessionId)
    expect(await client.getSessionMetadata(sessionId)).toMatchObject({
      sessionId,
      startTime: expect.any(Date),
    })
    await client.stop()
    const other = connect(home).client
    const resumed = await other.resumeSession(sessionId, byScript('text=resumed'))
    expect(resumed).toMatchObject({ resumed: 'resumed', sessionId })
    expect((await resumed.getEvents()).filter(({ type }) => type === 'user.message')).toHaveLength(1)
    expect(answerOf(await resumed.sendAndWait('more', 20_000))).toBe('resumed')
    await resumed.disconnect()
    await expect(resumed.getEvents()).rejects.toThrow(/Session not found/)
    await other.deleteSession(sessionId)
    expect(await other.getSessionMetadata(sessionId)).toBeUndefined()
    expect(await other.inspectSession(sessionId)).toMatchObject({ log: 'absent', turns: 0 })
  })

  it('a session that was never used opens afresh, an existing one is not begun again', async () => {
    const { client, home } = connect()
    const { sessionId } = await client.createSession(byScript('text=x'))
    await client.stop()
    const other = connect(home).client
    const session = await other.resumeSession(sessionId, byScript('text=fresh'))
    expect(session).toMatchObject({ resumed: 'recreated', sessionId })
    expect(session.resumeReason).toContain('never used')
    expect(answerOf(await session.sendAndWait('hi', 20_000))).toBe('fresh')
    await session.disconnect()
    const error = await rejection(other.createSession({ ...byScript('text=x'), sessionId }))
    expect(error.code).toBe('SESSION_EXISTS')
    expect(missingFields(error)).toEqual([])
  })

  it('fallback never, or known turns, open nothing afresh', async () => {
    const { client, home } = connect()
    const sessionId = '99999999-9999-4999-8999-999999999999'
    for (const options of [{ fallback: 'never' as const }, { knownTurns: 1 }]) {
      const error = await rejection(client.resumeSession(sessionId, byScript('text=x'), options))
      expect(error).toMatchObject({ code: 'RESUME_NOT_FOUND', rpcCode: -32603 })
      expect(error.message).toContain('Session not found')
      expect(error.cause).toMatchObject({ code: 'RPC_ERROR', rpcCode: -32603 })
    }
    expect(existsSync(join(home, 'session-state', sessionId))).toBe(false)
  })

  it('a missing agent is left out, once', async () => {
    const { client, home } = connect()
    const session = await client.createSession(byScript('text=x'))
    await session.sendAndWait('hi', 20_000)
    await client.stop()
    const other = connect(home).client
    const config = { ...byScript('text=without'), agent: 'nope' }
    expect(
      (await rejection(other.resumeSession(session.sessionId, config, { fallback: 'never' }))).code,
    ).toBe('RESUME_AGENT_MISSING')
    const resumed = await other.resumeSession(session.sessionId, config)
    expect(resumed.resumed).toBe('without-agent')
    expect(answerOf(await resumed.sendAndWait('more', 20_000))).toBe('without')
  })

  it('a missing directory is no empty session', async () => {
    const { client, home } = connect()
    const session = await client.createSession(byScript('text=x'))
    await session.sendAndWait('hi', 20_000)
    await client.stop()
    const config = { ...byScript('text=x'), workingDirectory: '/nowhere/at/all' }
    expect((await rejection(connect(home).client.resumeSession(session.sessionId, config))).code).toBe(
      'RESUME_FAILED',
    )
  })
})

describe('damaged histories', () => {
  const unknown = {
    id: '22222222-2222-4222-8222-222222222222',
    timestamp: '2026-01-01T00:00:00Z',
    parentId: null,
    type: 'x.y',
    data: {},
  }
  type Expected = string | { line?: number }
  /** Where it differs, what the preview's runtime makes of it: a bad line behind a good beginning is passed over. */
  const cases: [name: string, change: (lines: string[]) => string, expected: Expected, preview?: Expected][] =
    [
      [
        'a bad line in the middle',
        (lines) => [...lines.slice(0, 3), '{oops', ...lines.slice(3)].join('\n'),
        { line: 4 },
        'resumed',
      ],
      [
        'a bad line that speaks of the network',
        (lines) => [...lines.slice(0, 3), 'network timeout 401', ...lines.slice(3)].join('\n'),
        { line: 4 },
        'resumed',
      ],
      ['a partial line after the last', (lines) => `${lines.join('\n')}{"id":\n`, {}, 'resumed'],
      ['garbage', () => 'garbage\n\u0001\u0002\n', { line: 1 }],
      ['no beginning', (lines) => lines.slice(1).join('\n'), {}],
      ['a bad envelope', (lines) => lines.join('\n').replace('"id":"', '"idx":"'), { line: 1 }],
      ['no byte at all', () => '', 'recreated'],
      ['a last line cut short', (lines) => lines.join('\n').slice(0, -30), 'resumed'],
      ['an unknown event', (lines) => `${lines.join('\n')}${JSON.stringify(unknown)}\n`, 'resumed'],
      ['zeros at the end', (lines) => `${lines.join('\n')}\0\0\0`, 'resumed'],
    ]

  const title =
    'surface as RESUME_CORRUPT and stay as they are; what can be read is resumed: the $name runtime'
  it.each(runtimes)(title, async ({ name: runtime, path }) => {
    const { client, home } = connect(undefined, { path })
    const session = await client.createSession(byScript('text=\u2028one\u2028;;text=two'))
    await session.sendAndWait('one', 20_000)
    const { sessionId } = session
    await client.stop()
    const log = join(home, 'session-state', sessionId, 'events.jsonl')
    const good = readFileSync(log, 'utf8')
    for (const [name, change, released, preview = released] of cases) {
      const expected = runtime === 'preview' ? preview : released
      const text = change(good.split('\n'))
      writeFileSync(log, text)
      const other = connect(home, { path }).client
      if (typeof expected === 'string') {
        const resumed = await other.resumeSession(sessionId, byScript('text=x'))
        expect(resumed.resumed, name).toBe(expected)
      } else {
        const error = await rejection(other.resumeSession(sessionId, byScript('text=x')))
        expect(error, name).toMatchObject({ code: 'RESUME_CORRUPT', rpcCode: -32603, ...expected })
        expect(error.message, name).toMatch(/Invalid event|First event|no valid session.start/)
        expect(readFileSync(log, 'utf8'), name).toBe(text)
        // The preview's has a folder of locks beside.
        const sessions = readdirSync(join(home, 'session-state')).filter((name) => !name.startsWith('.'))
        expect(sessions, name).toEqual([sessionId])
      }
      await other.stop()
    }
  })

  it('are salvaged to a new session that can be resumed', async () => {
    const { client, home } = connect()
    const session = await client.createSession(byScript('text=one'))
    await session.sendAndWait('one', 20_000)
    const { sessionId } = session
    await client.stop()
    const log = join(home, 'session-state', sessionId, 'events.jsonl')
    const lines = readFileSync(log, 'utf8').split('\n')
    const text = [...lines.slice(0, 3), '{oops', ...lines.slice(3)].join('\n')
    writeFileSync(log, text)
    const other = connect(home).client
    expect(await other.inspectSession(sessionId)).toMatchObject({
      log: 'turns',
      turns: 1,
      badLine: 4,
      path: log,
    })
    const salvaged = await other.salvageSession(sessionId)
    expect(salvaged).toMatchObject({ kept: lines.length - 1, leftOut: [{ line: 4 }] })
    const resumed = await other.resumeSession(salvaged.sessionId, byScript('text=saved'))
    expect(resumed.resumed).toBe('resumed')
    expect(answerOf(await resumed.sendAndWait('more', 20_000))).toBe('saved')
    expect(readFileSync(log, 'utf8')).toBe(text)
  })

  it('a session that was started over opens', async () => {
    const { client, home } = connect()
    const session = await client.createSession(byScript('text=one'))
    await session.sendAndWait('one', 20_000)
    const first = (await session.getEvents()).find(({ type }) => type === 'user.message')!
    await session.rpc.history.truncate({ eventId: first.id })
    await client.stop()
    const other = connect(home).client
    expect(await other.inspectSession(session.sessionId)).toMatchObject({ log: 'no-turns', turns: 0 })
    expect((await other.resumeSession(session.sessionId, byScript('text=x'))).resumed).toMatch(
      /resumed|recreated/,
    )
  })
})
