// What turns may use: caps of one turn, and budgets that several share.
import { describe, expect, it } from 'vitest'
import { Budget, Harness, SheepdogError, type BudgetOptions, type HarnessOptions, type TurnOptions } from '..'
import { isAlive } from './alive'
import {
  answer,
  counting,
  failed,
  failure,
  folder,
  following,
  played,
  player,
  said,
  session,
} from './played-agent'

/** A played pi: it tells what each message used, as it goes. */
function metered(plan: object[], options: Partial<HarnessOptions> = {}): Harness {
  return new Harness({
    provider: 'pi',
    binary: ['node', player, JSON.stringify([{ line: { type: 'session', id: 'pi-session' } }, ...plan])],
    cwd: folder,
    permission: 'auto',
    ...options,
  })
}

const message = (text: string, input: number, output: number, cost = 0) => ({
  line: {
    type: 'message_end',
    message: {
      role: 'assistant',
      content: [{ type: 'text', text }],
      stopReason: 'stop',
      usage: { input, output, cacheRead: 0, cacheWrite: 0, cost: { total: cost } },
    },
  },
})
/** Agents that answer as often as they are asked, and use 13 tokens each time. */
const answering = (options: Partial<HarnessOptions> = {}) =>
  following(Array(3).fill({ say: 'Hello.', usage: { inputTokens: 10, outputTokens: 3 } }), options)
const over = { line: { type: 'agent_end', messages: [] } }
const hang = { wait: 60_000 }

describe('a turn that uses too much', () => {
  it('is ended at once, with its tree, and tells what there is of it', async () => {
    const harness = metered([message('First.', 400, 100), message('Second.', 500, 101), hang])
    const error = await failure(harness.run('hi', { maxTokens: 1000 }))
    expect(error).toMatchObject({
      code: 'AGENT_BUDGET',
      cap: 'maxTokens',
      shared: false,
      usedTokens: 1101,
      maxTokens: 1000,
      result: { text: 'Second.', sessionId: 'pi-session', usage: { inputTokens: 900, outputTokens: 201 } },
    })
    expect(error.message).toContain('maxTokens (1101 of 1000 tokens')
    expect(error.events.filter(({ type }: { type: string }) => type === 'usage')).toHaveLength(2)
    expect(isAlive(error.result.process.pid)).toBe(false)
  })

  it('may use all of it', async () => {
    const turn = metered([message('All of it.', 900, 100), over]).run('hi', { maxTokens: 1000 })
    expect(await turn).toMatchObject({ text: 'All of it.', usage: { inputTokens: 900, outputTokens: 100 } })
  })

  it('has failed though its end was good: whether that came first is a matter of moments', async () => {
    const error = await failure(answering().run('hi', { maxTokens: 12 }))
    expect(error).toMatchObject({ code: 'AGENT_BUDGET', usedTokens: 13, result: { text: 'Hello.' } })
  })

  it('is held to money by the CLI that tells it, and by prices where it does not', async () => {
    const dear = [message('One.', 10, 10, 0.3), message('Two.', 10, 10, 0.3), hang]
    const told = await failure(metered(dear).run('hi', { maxCostUsd: 0.5 }))
    expect(told).toMatchObject({ code: 'AGENT_BUDGET', cap: 'maxCostUsd', usedCostUsd: 0.6, maxCostUsd: 0.5 })
    // 8 + 2 cached of 10, 3 given: 8 * 3 + 2 * 0.5 + 3 * 15 dollars for a million.
    const prices = { inputPerMillion: 3, outputPerMillion: 15, cachedPerMillion: 0.5 }
    const budget = new Budget({ prices, maxCostUsd: 1 })
    await played(answer).run('hi', { budget })
    expect(budget.usedCostUsd).toBe(0.00007)
    expect(await failure(played(answer).run('hi', { prices, maxCostUsd: 0.00006 }))).toMatchObject({
      code: 'AGENT_BUDGET',
      usedCostUsd: 0.00007,
    })
  })

  it('counts the attempts before: retries and the answer that is asked for again', async () => {
    const busy = [session, failed('unexpected status 503 Service Unavailable'), { exit: 1 }]
    const schema = { type: 'object', required: ['a'] }
    // In a session of its own, and counted on over it.
    const misfit = (id: string, times = 1) => [
      { line: { type: 'thread.started', thread_id: id } },
      said('{}'),
      { line: { type: 'turn.completed', usage: { input_tokens: 10 * times, output_tokens: 3 * times } } },
    ]
    const twice = played([counting(misfit('b-1'), misfit('b-1', 2))])
    const asked = await failure(twice.run('hi', { schema, maxTokens: 25 }))
    expect(asked).toMatchObject({ code: 'AGENT_BUDGET', usedTokens: 26, result: { attempts: 2 } })
    const usedUp = await failure(played([counting(misfit('b-2'))]).run('hi', { schema, maxTokens: 13 }))
    expect(usedUp).toMatchObject({ code: 'AGENT_BUDGET', usedTokens: 13, result: { attempts: 1 } })
    expect(usedUp.message).toContain('not started: nothing is left')
    const retried = played([counting(busy, answer)]).run('hi', { maxTokens: 13, retry: { baseDelayMs: 1 } })
    expect(await retried).toMatchObject({ attempts: 2, usage: { inputTokens: 10 } })
  })

  it('ends while it waits for what runs behind it', async () => {
    const line = (line: object) => ({ line })
    const plan = [
      line({ type: 'system', subtype: 'init', session_id: 's' }),
      line({
        type: 'system',
        subtype: 'task_started',
        task_id: 't',
        is_backgrounded: true,
        description: 'a build',
      }),
      line({
        type: 'result',
        subtype: 'success',
        is_error: false,
        result: 'It builds.',
        session_id: 's',
        total_cost_usd: 0.1,
        usage: { input_tokens: 50, output_tokens: 10 },
      }),
      line({
        type: 'assistant',
        message: { id: 'm', content: [], usage: { input_tokens: 50, output_tokens: 10 } },
        parent_tool_use_id: 'a-sub-agent',
      }),
      hang,
    ]
    const binary = ['node', player, JSON.stringify(plan)]
    const harness = new Harness({ provider: 'claude-code', binary, cwd: folder })
    const error = await failure(harness.run('hi', { maxTokens: 100 }))
    expect(error).toMatchObject({ code: 'AGENT_BUDGET', usedTokens: 120, result: { text: 'It builds.' } })
  })
})

describe('a budget that is shared', () => {
  it('counts over harnesses and lets nothing begin once it is used up', async () => {
    const budget = new Budget({ maxTokens: 20 })
    expect(budget.remaining).toEqual({ tokens: 20, costUsd: Infinity })
    const one = answering({ budget })
    await one.run('hi')
    expect([budget.usedTokens, budget.remaining.tokens]).toEqual([13, 7])
    const two = metered([message('Seven.', 5, 2), over], { budget })
    await two.run('hi')
    expect(budget.remaining.tokens).toBe(0)
    const error = await failure(one.run('hi'))
    expect(error).toMatchObject({ code: 'AGENT_BUDGET', shared: true, usedTokens: 20, maxTokens: 20 })
    expect(error.result).toMatchObject({ attempts: 0, text: '' })
    expect(error.result.process).toBeUndefined()
  })

  it('ends all its turns when one of them crosses it', async () => {
    const budget = new Budget({ maxTokens: 1000 })
    const waiting = metered([message('Some.', 300, 100), hang], { budget })
    const first = waiting.start('hi')
    for await (const event of first) if (event.type === 'usage') break
    const second = metered([message('More.', 500, 101), hang], { budget }).run('hi')
    const errors = await Promise.all([failure(first.result), failure(second)])
    expect(errors.map(({ code, result }) => [code, result.text])).toEqual([
      ['AGENT_BUDGET', 'Some.'],
      ['AGENT_BUDGET', 'More.'],
    ])
    expect(budget.usedTokens).toBe(1001)
    expect(budget.remaining.tokens).toBe(0)
  })

  it('keeps turns that wait in the queue from beginning', async () => {
    const budget = new Budget({ maxTokens: 13 })
    const harness = answering({ budget, maxConcurrent: 1 })
    // Both are awaited from the beginning: the second fails in the moment in which the first one ends.
    const [first, error] = await Promise.all([harness.run('one'), failure(harness.run('two'))])
    expect(first.text).toBe('Hello.')
    expect(error).toMatchObject({ code: 'AGENT_BUDGET', result: { attempts: 0 } })
  })

  it('is not the turn that is asked with another', async () => {
    const small = new Budget({ maxTokens: 1 })
    const large = new Budget({ maxTokens: 100 })
    expect((await answering({ budget: small }).run('hi', { budget: large })).text).toBe('Hello.')
    expect([small.usedTokens, large.usedTokens]).toEqual([0, 13])
  })
})

describe('a budget that could not be held', () => {
  const prices = { inputPerMillion: 1, outputPerMillion: 1 }

  it('is refused before anything is started', async () => {
    const refused = async (options: TurnOptions, provider: 'codex' | 'kimi' = 'codex') =>
      (await failure(new Harness({ provider, binary: 'false' }).run('hi', options))).message
    expect(await refused({ maxCostUsd: 1 })).toMatch(/^maxCostUsd: .*prices/)
    expect(await refused({ budget: new Budget({ maxCostUsd: 1 }) })).toMatch(/^budget\.maxCostUsd: /)
    expect(await refused({ maxTokens: 5 }, 'kimi')).toMatch(/^maxTokens: /)
    expect(await refused({ maxCostUsd: 1, prices }, 'kimi')).toMatch(/^maxCostUsd: /)
  })

  it('is a wrong option where its numbers are none', async () => {
    for (const [options, path] of [
      [{ maxTokens: 0 }, 'maxTokens'],
      [{ maxTokens: 1.5 }, 'maxTokens'],
      [{ maxCostUsd: 0 }, 'maxCostUsd'],
      [{ maxCostUsd: Number.NaN }, 'maxCostUsd'],
      [{ maxCostUsd: Infinity }, 'maxCostUsd'],
      [{ prices: {} }, 'prices.inputPerMillion'],
      [{ prices: { ...prices, outputPerMillion: -1 } }, 'prices.outputPerMillion'],
      [{ prices: { ...prices, cachedPerMillion: Number.NaN } }, 'prices.cachedPerMillion'],
      [{ prices: { ...prices, perMillion: 1 } }, 'prices.perMillion'],
      [{ prices: 3 }, 'prices'],
    ] as [BudgetOptions, string][]) {
      const wrong = expect.objectContaining({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(`^${path}: `),
      })
      expect(() => new Budget(options)).toThrow(wrong)
      await expect(answering().run('hi', options)).rejects.toEqual(wrong)
    }
    const budget = { maxTokens: 5 } as unknown as Budget
    expect((await failure(answering().run('hi', { budget }))).message).toMatch(/^budget: expected a Budget/)
    expect(() => new Budget(5 as unknown as BudgetOptions)).toThrow(SheepdogError)
  })

  it('warns where the CLI told nothing', async () => {
    const silent = played([session, said('Hello.'), { line: { type: 'turn.completed' } }])
    const { warnings } = await silent.run('hi', { budget: new Budget({ maxTokens: 5 }) })
    expect(warnings).toEqual([expect.stringContaining('no budget counts')])
  })
})
