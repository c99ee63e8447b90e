// A turn that failed, and whose result nobody asked for: a warning of the process, as for a program that did not start.
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Harness, type AgentErrorKind } from '..'
import { setTimeout as sleep } from 'node:timers/promises'
import { failure, following } from './played-agent'

const told: string[] = []
const onWarning = (warning: Error) => void (warning.name === 'SheepdogWarning' && told.push(warning.message))
beforeEach(() => {
  told.length = 0
  process.on('warning', onWarning)
})
afterEach(() => void process.off('warning', onWarning))

/** Each message is given once in a process, so each case fails for a reason of its own. */
const failing = (fail: Exclude<AgentErrorKind, 'max_turns'>) => following([{ fail }])

it('is told when neither its events nor its result are looked at', async () => {
  failing('auth').start('hi')
  await expect.poll(() => told, { timeout: 10_000 }).toEqual([expect.stringContaining('API key')])
  expect(told[0]).toMatch(/^a turn failed, and its result is not watched: AGENT_/)
})

it('is told after a loop over its events, and after one that is left early', async () => {
  for await (const _ of failing('quota').start('hi'));
  await expect.poll(() => told, { timeout: 10_000 }).toHaveLength(1)
  for await (const _ of failing('permission').start('hi')) break
  await expect.poll(() => told.length, { timeout: 10_000 }).toBe(2)
})

it('is told of an agent that is not installed', async () => {
  for await (const _ of new Harness({ provider: 'codex', binary: 'no-such-agent' }).start('hi'));
  await expect.poll(() => told, { timeout: 10_000 }).toEqual([expect.stringContaining('AGENT_NOT_FOUND')])
})

it('is not told where the result is asked for, before or after the loop, or the turn was aborted or succeeded', async () => {
  const before = failing('context_length').start('hi')
  await failure(before.result)
  const after = failing('invalid_request').start('hi')
  for await (const _ of after);
  await failure(after.result)
  const aborted = following([{ stallMs: 60_000 }]).start('hi')
  await aborted.abort()
  for await (const _ of following([{ say: 'Hello.' }]).start('hi'));
  await sleep(100)
  expect(told).toEqual([])
})
