// Budgets of sessions: counted over all their turns. The scripted agent says 100 + 10 tokens for each.
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Budget, Harness, type OpenOptions } from '..'
import { answer, failure, folder, played } from './played-agent'

const agent = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')

function open(options: OpenOptions, provider: 'gemini' | 'claude-code' | 'pi' = 'gemini', version = 1) {
  const binary = ['node', agent, '--version', String(version), '--start', '']
  return new Harness({ provider }).open({ binary, cwd: folder, ...options })
}

it('is counted over the session, and what crosses it has failed', async () => {
  for (const version of [1, 2]) {
    await using session = await open({ maxTokens: 200 }, 'gemini', version)
    expect((await session.prompt('hello')).usage).toMatchObject({ inputTokens: 100, outputTokens: 10 })
    const error = await failure(session.prompt('hello'))
    expect(error).toMatchObject({
      code: 'AGENT_BUDGET',
      cap: 'maxTokens',
      shared: false,
      usedTokens: 220,
      maxTokens: 200,
      result: { text: 'Hello world', usage: { inputTokens: 100 } },
    })
    expect(await failure(session.prompt('hello'))).toMatchObject({ code: 'AGENT_BUDGET', usedTokens: 220 })
  }
})

it('is shared with other sessions and with turns, and ends what is under way', async () => {
  const budget = new Budget({ maxTokens: 120 })
  await using one = await open({ budget })
  await using other = await open({ budget })
  await played(answer, { budget }).run('hi')
  const stalled = other.start('stall')
  for await (const event of stalled) if (event.type === 'text') break
  expect(await failure(one.prompt('hello'))).toMatchObject({
    code: 'AGENT_BUDGET',
    shared: true,
    usedTokens: 123,
  })
  expect(await failure(stalled.result)).toMatchObject({ code: 'AGENT_BUDGET', shared: true })
  // It says what it used when it is cancelled, too.
  expect(budget.usedTokens).toBe(233)
  expect(await failure(open({ budget }))).toMatchObject({ code: 'AGENT_BUDGET', usedTokens: 233 })
})

it('counts money as the agent tells it', async () => {
  await using session = await open({ maxCostUsd: 0.5 }, 'claude-code')
  await session.prompt('cost 0.25')
  expect(await failure(session.prompt('cost 0.75'))).toMatchObject({
    code: 'AGENT_BUDGET',
    cap: 'maxCostUsd',
    usedCostUsd: 0.75,
  })
})

it('is refused where it could not be held', async () => {
  const prices = { inputPerMillion: 1, outputPerMillion: 1 }
  const message = async (options: OpenOptions, provider: 'gemini' | 'pi') =>
    (await failure(open(options, provider))).message
  expect(await message({ maxCostUsd: 1 }, 'gemini')).toMatch(/^maxCostUsd: /)
  expect(await message({ maxTokens: 1 }, 'pi')).toMatch(/^maxTokens: /)
  expect(await message({ maxTokens: -1 }, 'gemini')).toMatch(/^maxTokens: /)
  await using session = await open({ maxCostUsd: 1, prices })
  expect((await session.prompt('hello')).text).toBe('Hello world')
})
