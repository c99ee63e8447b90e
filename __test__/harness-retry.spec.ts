// More than one attempt, and more than one turn.
import { describe, expect, it } from 'vitest'
import { ConcurrencyLimit, type AgentEvent } from '..'
import {
  answer,
  counting,
  done,
  failed,
  failure,
  following,
  played,
  player,
  said,
  session,
  tool,
} from './played-agent'

describe('retries', () => {
  const busy = [session, failed('unexpected status 503 Service Unavailable'), { exit: 1 }]

  it('come for reasons that pass, with every attempt counted', async () => {
    const turn = played([counting(busy, busy, answer)]).start('hi', { retry: { baseDelayMs: 10 } })
    const retries: AgentEvent[] = []
    let ends = 0
    for await (const event of turn) {
      if (event.type === 'retry') retries.push(event)
      if (event.type === 'end') ends++
    }
    expect(await turn.result).toMatchObject({ text: 'Hello.', attempts: 3 })
    expect(retries).toHaveLength(2)
    expect(ends).toBe(1)
  })

  it('end after the attempts that are allowed', async () => {
    const error = await failure(
      played([counting(busy)]).run('hi', { retry: { attempts: 2, baseDelayMs: 10 } }),
    )
    expect(error).toMatchObject({ code: 'AGENT_FAILED', kind: 'overloaded', result: { attempts: 2 } })
  })

  it('never come once a tool ran, unless the caller says so', async () => {
    const worked = [session, tool, ...busy.slice(1)]
    const once = await failure(played([counting(worked, answer)]).run('hi', { retry: { baseDelayMs: 10 } }))
    expect(once.result.attempts).toBe(1)
    const again = await played([counting(worked, answer)]).run('hi', {
      retry: { baseDelayMs: 10, afterTools: true },
    })
    expect(again.attempts).toBe(2)
  })

  it('wait as long as the service asks', async () => {
    const limited = [session, failed('429 Too Many Requests: try again in 1s'), { exit: 1 }]
    const started = performance.now()
    await played([counting(limited, answer)]).run('hi', { retry: { baseDelayMs: 1 } })
    expect(performance.now() - started).toBeGreaterThan(1000)
  })

  it('never come for what stays wrong', async () => {
    const error = await failure(
      played([session, failed('unexpected status 401 Unauthorized'), { exit: 1 }]).run('hi'),
    )
    expect(error.result.attempts).toBe(1)
  })
})

describe('a schema', () => {
  const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }

  it('is read from the final answer, mended where it is only badly written', async () => {
    const result = await following([{ say: 'Here:\n```json\n{"a": 5,}\n```' }]).run('hi', { schema })
    expect(result.structured).toEqual({ a: 5 })
  })

  it('is asked for once more in the same session, with the problems', async () => {
    const harness = played([
      counting([session, said('{"a":"x"}'), done], [session, { tell: 'args' }, said('{"a":6}'), done]),
    ])
    const result = await harness.run('hi', { schema })
    expect(result).toMatchObject({ structured: { a: 6 }, attempts: 2 })
    expect(result.process!.args).toContain('t-1')
    expect(result.process!.args.at(-1)).toContain('/a')
  })

  it('rejects with the problems when the second answer does not fit either', async () => {
    const steps = [{ say: '{"a":"x"}' }, { say: '{"a":"x"}' }]
    const error = await failure(following(steps).run('hi', { schema: { toJSONSchema: () => schema } }))
    expect(error).toMatchObject({
      code: 'AGENT_SCHEMA_MISMATCH',
      problems: [expect.stringContaining('/a')],
      result: { attempts: 2 },
    })
  })
})

describe('an answer that does not fit its schema', () => {
  it('keeps its secrets', async () => {
    const steps = [{ say: '{"a":"s3cret"}' }, { say: '{"a":"s3cret"}' }]
    const harness = following(steps, { redact: ['s3cret'] })
    const error = await failure(
      harness.run('hi', { schema: { type: 'object', properties: { a: { type: 'integer' } } } }),
    )
    const { process, ...result } = error.result
    expect(JSON.stringify([error.message, error, result])).not.toContain('"s3cret')
    expect(error.message).not.toContain('s3cret')
    expect(error.problems).toEqual([expect.not.stringContaining('s3cret')])
    void process
  })

  it('is not waited for where its file is none', async () => {
    const binary = ['sh', '-c', `mkfifo "$TMPDIR/answer.json"; exec node '${player}' "$0"`]
    const plan = JSON.stringify([session, said('{"a":1}'), done])
    const { structured } = await played([], { binary: [...binary, plan] }).run('hi', {
      schema: { type: 'object' },
    })
    expect(structured).toEqual({ a: 1 })
  })
})

describe('the queue', () => {
  it('runs no more turns at once than allowed, in their order, over harnesses', async () => {
    const limit = new ConcurrencyLimit(1)
    const order: number[] = []
    const steps = [0, 1].map(() => ({ stallMs: 100, say: 'Hello.' }))
    const harnesses = [0, 1].map(() => following(steps, { limit }))
    const turns = [0, 1, 2, 3].map((number) =>
      harnesses[number % 2]!.run('hi').then((result) => (order.push(number), result)),
    )
    const results = await Promise.all(turns)
    expect(order).toEqual([0, 1, 2, 3])
    expect(results[3]!.queuedMs).toBeGreaterThan(results[1]!.queuedMs)
  })
})
