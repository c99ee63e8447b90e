// Usage limits: told, waited out in the same session, and held back for by all turns of the account.
import { describe, expect, it } from 'vitest'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ConcurrencyLimit, Harness, replayRecord, type AgentEvent } from '..'
import {
  answer,
  counting,
  done,
  failed,
  failure,
  folder,
  following,
  played,
  player,
  session,
  tool,
} from './played-agent'

const epoch = (ms: number) => Math.ceil((Date.now() + ms) / 1000)
/** As the service says it, in a second or two. */
const limited = (at: number) => failed(`You've hit your usage limit. {"resets_at":${at}}`)
const exit = { exit: 1 }

describe('a usage limit', () => {
  it('says when it ends', async () => {
    const at = epoch(3_600_000)
    const error = await failure(played([session, limited(at), exit]).run('hi'))
    expect(error).toMatchObject({ code: 'AGENT_FAILED', kind: 'quota', result: { attempts: 1 } })
    expect(error.resetAt).toEqual(new Date(at * 1000))
    expect(error.retryAfterMs).toBeGreaterThan(3_500_000)
    expect(error.retryAfterMs).toBeLessThanOrEqual(3_601_000)
    expect(JSON.parse(JSON.stringify(error)).resetAt).toBe(new Date(at * 1000).toISOString())
  })

  it('says it by the clock of the CLI', async () => {
    const words = "You've hit your usage limit. Try again at 3:51 PM."
    const inZone = async (TZ: string) =>
      (await failure(played([session, failed(words), exit], { env: { TZ } }).run('hi'))).resetAt
    const [honolulu, tokyo] = [await inZone('Pacific/Honolulu'), await inZone('Asia/Tokyo')]
    expect(honolulu.toISOString()).toContain('T01:51:00.000Z')
    expect(tokyo.toISOString()).toContain('T06:51:00.000Z')
  })

  it('says nothing where nobody says it', async () => {
    const error = await failure(played([session, failed("You've hit your usage limit."), exit]).run('hi'))
    expect(error).toMatchObject({ kind: 'quota' })
    expect('resetAt' in error || 'retryAfterMs' in error).toBe(false)
    const other = await failure(
      played([session, failed('unexpected status 401: try again in 5 s'), exit]).run('hi'),
    )
    expect('resetAt' in other).toBe(false)
  })

  it('is waited out, the same session goes on, and no attempt is counted', async () => {
    const at = epoch(1000)
    const first = [session, tool, limited(at), exit]
    const turn = played([counting(first, [session, { tell: 'args' }, done])]).start('Do it.', {
      retry: { attempts: 1, waitForResetMs: 60_000 },
    })
    const events: AgentEvent[] = []
    for await (const event of turn) events.push(event)
    const result = await turn.result
    expect(Date.now()).toBeGreaterThanOrEqual(at * 1000)
    expect(result).toMatchObject({ attempts: 1, toolCalls: 1, sessionId: 't-1' })
    const args = JSON.parse(result.text) as string[]
    expect(args).toContain('t-1')
    expect(args.at(-1)).toMatch(/^A usage limit interrupted you.*\n\nDo it\.$/s)
    expect(events.find(({ type }) => type === 'retry')).toMatchObject({ until: new Date(at * 1000) })
  })

  it('is asked the same again where nothing was begun', async () => {
    const first = [session, limited(epoch(500)), exit]
    const harness = played([counting(first, [session, { tell: 'args' }, done])])
    const result = await harness.run('Do it.', { retry: { waitForResetMs: Infinity } })
    const args = JSON.parse(result.text) as string[]
    expect([args.includes('t-1'), args.at(-1)]).toEqual([true, 'Do it.'])
  })

  it('begins anew where the CLI kept nothing of a session in which nothing was done', async () => {
    const unknown = [{ stderr: 'Error: no rollout found for thread id t-1\n' }, exit]
    const first = [session, limited(epoch(500)), exit]
    const harness = played([counting(first, unknown, answer)], { record: join(folder, 'records') })
    const result = await harness.run('hi', { retry: { waitForResetMs: 10_000, attempts: 1 } })
    expect(result).toMatchObject({ text: 'Hello.', attempts: 1 })
    const { turn } = await replayRecord(result.record!.folder)
    expect(turn).toMatchObject({ ok: true, result: { text: 'Hello.', attempts: 1 } })
  })

  it('is not waited for when it ends too late, and not at all by itself', async () => {
    const far = [session, limited(epoch(60_000)), exit]
    for (const retry of [{ waitForResetMs: 30_000 }, {}]) {
      const started = performance.now()
      const error = await failure(played([counting(far, answer)]).run('hi', { retry }))
      expect(error.code).toBe('AGENT_FAILED')
      expect(performance.now() - started).toBeLessThan(20_000)
    }
  })

  it('that stands again after its end counts as an attempt, so that it ends some time', async () => {
    const past = [session, limited(epoch(-5000)), exit]
    const turn = played([counting(past)]).run('hi', {
      retry: { attempts: 2, baseDelayMs: 1, waitForResetMs: 1000 },
    })
    const error = await failure(turn)
    expect(error).toMatchObject({ code: 'AGENT_FAILED', kind: 'quota', retryAfterMs: 0 })
    expect(error.result.attempts).toBe(2)
  })

  it('that claude-code tells in an answer of its own is no work that was done', async () => {
    const words = `Claude AI usage limit reached|${Math.floor(Date.now() / 1000) - 5}`
    const message = {
      id: 'm1',
      model: '<synthetic>',
      role: 'assistant',
      content: [{ type: 'text', text: words }],
    }
    const plan = [
      { line: { type: 'system', subtype: 'init', session_id: 's-1', model: 'any', tools: [] } },
      { line: { type: 'assistant', session_id: 's-1', message, error: 'rate_limit' } },
      {
        line: {
          type: 'result',
          subtype: 'success',
          is_error: true,
          num_turns: 1,
          result: words,
          session_id: 's-1',
        },
      },
      exit,
    ]
    const starts = counting(plan)
    const harness = played([starts], { provider: 'claude-code' })
    const retry = { attempts: 2, baseDelayMs: 1, waitForResetMs: 1000 }
    const error = await failure(harness.run('hi', { retry }))
    expect(error).toMatchObject({ code: 'AGENT_FAILED', result: { attempts: 2 } })
    // The first start, one after the reset time that was reported, one more because reset times are
    // rounded, and one that uses up the second attempt.
    expect(readFileSync(starts.count, 'utf8')).toHaveLength(4)
  })

  it('can be aborted while it is waited for', async () => {
    const turn = played([session, limited(epoch(60_000)), exit]).start('hi', {
      retry: { waitForResetMs: 120_000 },
    })
    for await (const event of turn) if (event.type === 'retry') break
    await turn.abort()
    const error = await failure(turn.result)
    expect(error).toMatchObject({ code: 'AGENT_ABORTED', result: { sessionId: 't-1' } })
    expect(error.events.at(0)).toMatchObject({ type: 'retry', until: expect.any(Date) })
  })

  it('of claude-code is told by the moment, not by the words that round it', async () => {
    const at = epoch(1_800_000)
    const info = { status: 'rejected', resetsAt: at, rateLimitType: 'five_hour' }
    const words = "You've hit your session limit \u00b7 resets 7pm (Europe/Berlin)"
    const plan = [
      { line: { type: 'system', subtype: 'init', session_id: 's' } },
      { line: { type: 'rate_limit_event', rate_limit_info: info } },
      { line: { type: 'result', subtype: 'success', is_error: true, result: words, session_id: 's' } },
      exit,
    ]
    const binary = ['node', player, JSON.stringify(plan)]
    const error = await failure(new Harness({ provider: 'claude-code', binary, cwd: folder }).run('hi'))
    expect(error).toMatchObject({ kind: 'quota', resetAt: new Date(at * 1000) })
  })
})

describe('other turns of the account', () => {
  const retry = { waitForResetMs: 60_000 }

  it('are held back by a limit that they share, and others are not', async () => {
    const limit = new ConcurrencyLimit(4)
    const first = await failure(played([session, limited(epoch(600_000)), exit], { limit }).run('hi'))
    const patient = { waitForResetMs: 3_600_000 }
    const held = played(answer, { limit, retry: patient }).start('hi')
    for await (const event of held) {
      expect(event).toEqual({
        type: 'retry',
        message: expect.stringContaining('held back'),
        until: first.resetAt,
      })
      break
    }
    // Another account, and a turn that does not wait for so long, go on meanwhile.
    const elsewhere = played(answer, { limit, retry: patient, env: { CODEX_HOME: folder } })
    expect((await elsewhere.run('hi')).text).toBe('Hello.')
    expect((await played(answer, { limit, retry }).run('hi')).text).toBe('Hello.')
    await held.abort()
    expect(await failure(held.result)).toMatchObject({ code: 'AGENT_ABORTED', result: { attempts: 0 } })
  })

  it('go on when it ends', async () => {
    const limit = new ConcurrencyLimit(4)
    const harness = following([{ limit: { resetsInMs: 1000 } }, { say: 'Hello.' }], { limit })
    const { resetAt } = await failure(harness.run('hi', { retry: { attempts: 1 } }))
    expect(await harness.run('hi', { retry })).toMatchObject({ text: 'Hello.', attempts: 1 })
    expect(Date.now()).toBeGreaterThanOrEqual(resetAt.getTime())
  })

  it('run while one waits: it holds no slot', async () => {
    const limit = new ConcurrencyLimit(1)
    const first = [session, limited(epoch(600_000)), exit]
    const waiting = played(first, { limit, retry: { waitForResetMs: 3_600_000 } }).start('hi')
    for await (const event of waiting) if (event.type === 'retry') break
    expect((await played(answer, { limit }).run('hi')).text).toBe('Hello.')
    await waiting.abort()
  })

  it('run while the retry of one backs off', async () => {
    const limit = new ConcurrencyLimit(1)
    const harness = following([{ fail: 'overloaded' }, { say: 'Hello.' }], { limit })
    const backing = harness.start('hi', { retry: { baseDelayMs: 600_000, maxDelayMs: 600_000 } })
    for await (const event of backing) if (event.type === 'retry') break
    expect((await harness.run('hi')).text).toBe('Hello.')
    await backing.abort()
  })
})
