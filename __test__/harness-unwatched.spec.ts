// A turn that failed, and whose result nobody asked for: a warning of the process, as for a program that did not start.
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Harness } from '..'
import { setTimeout as sleep } from 'node:timers/promises'
import { answer, failed, failure, played, printed, session } from './played-agent'

const told: string[] = []
const onWarning = (warning: Error) => void (warning.name === 'SheepdogWarning' && told.push(warning.message))
beforeEach(() => {
  told.length = 0
  process.on('warning', onWarning)
})
afterEach(() => void process.off('warning', onWarning))

/** Each message is given once in a process, so each case fails with words of its own. */
const failing = (words: string) => played([printed(session, failed(words))])

it('is told when neither its events nor its result are looked at', async () => {
  failing('broken one').start('hi')
  await expect.poll(() => told, { timeout: 10_000 }).toEqual([expect.stringContaining('broken one')])
  expect(told[0]).toMatch(/^a turn failed, and its result is not watched: AGENT_/)
})

it('is told after a loop over its events, and after one that is left early', async () => {
  for await (const _ of failing('broken two').start('hi'));
  await expect.poll(() => told, { timeout: 10_000 }).toEqual([expect.stringContaining('broken two')])
  for await (const _ of failing('broken three').start('hi')) break
  await expect.poll(() => told.length, { timeout: 10_000 }).toBe(2)
})

it('is told of an agent that is not installed', async () => {
  for await (const _ of new Harness({ provider: 'codex', binary: 'no-such-agent' }).start('hi'));
  await expect.poll(() => told, { timeout: 10_000 }).toEqual([expect.stringContaining('AGENT_NOT_FOUND')])
})

it('is not told where the result is asked for, before or after the loop, or the turn was aborted or succeeded', async () => {
  const before = failing('broken four').start('hi')
  await failure(before.result)
  const after = failing('broken five').start('hi')
  for await (const _ of after);
  await failure(after.result)
  const aborted = played([{ hang: true }] as never).start('hi')
  await aborted.abort()
  for await (const _ of played(answer).start('hi'));
  await sleep(100)
  expect(told).toEqual([])
})
