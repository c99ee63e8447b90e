// What ends a turn before its agent does: clocks and aborts.
import { describe, expect, it } from 'vitest'
import { Harness } from '..'
import { scriptedAgent } from '../entries/testing.js'
import { isAlive } from './alive'
import { command, done, failure, following, played, said, session, tool } from './played-agent'
import { missingFields } from './promised-fields'

describe('the clocks', () => {
  // What only waits does so side by side.
  it.concurrent('end an agent that never begins', async () => {
    const error = await failure(played([{ hang: true }]).run('hi', { startTimeoutMs: 500 }))
    expect(error.code).toBe('AGENT_IDLE')
    expect(error.message).toContain('startTimeoutMs')
  })

  it.concurrent('end an agent that falls silent, and nothing of it is left', async () => {
    const error = await failure(
      played([session, said('part'), { spawn: true }, { hang: true }]).run('hi', { idleTimeoutMs: 1500 }),
    )
    expect(error).toMatchObject({ code: 'AGENT_IDLE', result: { text: 'part' } })
    expect(isAlive(error.result.process.pid)).toBe(false)
  })

  it.concurrent('have patience while a tool is open', async () => {
    const result = await played([
      session,
      tool,
      { wait: 3000 },
      { line: { type: 'item.completed', item: { ...command, status: 'completed', exit_code: 0 } } },
      said('Done.'),
      done,
    ]).run('hi', {
      idleTimeoutMs: 1500,
      toolIdleTimeoutMs: 20_000,
    })
    expect(result.text).toBe('Done.')
    const error = await failure(
      played([session, tool, { hang: true }]).run('hi', { idleTimeoutMs: 60_000, toolIdleTimeoutMs: 500 }),
    )
    expect(error.code).toBe('AGENT_IDLE')
    expect(error.message).toContain('toolIdleTimeoutMs')
  })

  it.concurrent('end an attempt that takes too long', async () => {
    const error = await failure(
      played([session, { repeat: [said('more')], every: 50 }]).run('hi', { timeoutMs: 8000 }),
    )
    expect(error).toMatchObject({ code: 'AGENT_TIMED_OUT', result: { text: 'more' } })
  })

  it.concurrent('end chatter without progress', async () => {
    const chatter = { line: { type: 'turn.started' } }
    const error = await failure(
      played([session, { repeat: Array.from({ length: 20 }, () => chatter), every: 10 }]).run('hi'),
    )
    expect(error.code).toBe('AGENT_NO_PROGRESS')
    expect(missingFields(error)).toEqual([])
  })

  it('give a busy tree one extension, and say so', async () => {
    const turn = played([session, { spin: true }]).start('hi', { idleTimeoutMs: 1000 })
    const warnings: string[] = []
    for await (const event of turn) if (event.type === 'warning') warnings.push(event.message)
    const error = await failure(turn.result)
    expect(error.code).toBe('AGENT_IDLE')
    expect(warnings).toEqual([expect.stringContaining('busy')])
    expect(error.result.warnings).toEqual(warnings)
  })

  it('count while output floods, iterated or not', async () => {
    const line = JSON.stringify(said('more').line)
    const harness = played([], { binary: ['sh', '-c', `exec yes '${line}'`], timeoutMs: 700 })
    const started = performance.now()
    const turn = harness.start('hi')
    const [silent] = await Promise.all([
      failure(harness.run('hi')),
      failure(turn.result),
      (async () => {
        for await (const event of turn) void event
      })(),
    ])
    expect(silent.code).toBe('AGENT_TIMED_OUT')
    expect(performance.now() - started).toBeLessThan(20_000)
  })
})

describe('an abort', () => {
  it('ends the whole tree, and the reason is the cause', async () => {
    const controller = new AbortController()
    const onabort = () => {}
    controller.signal.onabort = onabort
    const turn = played([session, { spawn: true }, tool, { hang: true }]).start('hi', {
      signal: controller.signal,
    })
    for await (const event of turn) if (event.type === 'tool_start') controller.abort(new Error('enough'))
    const error = await failure(turn.result)
    expect(error.code).toBe('AGENT_ABORTED')
    expect((error.cause as Error).message).toBe('enough')
    expect(isAlive(error.result.process.pid)).toBe(false)
    expect(controller.signal.onabort).toBe(onabort)
  })

  it('that came before the start starts nothing', async () => {
    const provider = scriptedAgent([{ say: 'Hello.' }])
    const error = await failure(new Harness({ provider }).run('hi', { signal: AbortSignal.abort() }))
    expect(error).toMatchObject({ code: 'AGENT_ABORTED', result: { attempts: 0, text: '' }, events: [] })
    expect(provider.prompts()).toEqual([])
  })

  it('works while the turn is queued, and `await using` ends it', async () => {
    const harness = following([{ stallMs: 60_000 }], { maxConcurrent: 1 })
    await using first = harness.start('hi')
    const second = harness.start('hi')
    await second.abort()
    const error = await failure(second.result)
    expect(error.code).toBe('AGENT_ABORTED')
    expect(error.result.attempts).toBe(0)
    void first
  })
})
