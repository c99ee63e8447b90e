// The time line of a record, from its events alone.
import { expect, it } from 'vitest'
import { TimelineBuilder } from '../dist/cli/view/timeline'
import { withTries } from '../dist/cli/view/tries'
type EventLine = Parameters<TimelineBuilder['onEvent']>[0]

const line = (ms: number, event: object, attempt = 1) => ({ ms, attempt, event }) as EventLine
const bars = (kind: 'turn' | 'session' | 'job', lines: EventLine[]) => {
  const builder = new TimelineBuilder(kind)
  for (const [row, one] of lines.entries()) builder.onEvent(one, row)
  const { bars } = builder.timeline()
  return bars
    .filter(({ lane }) => lane === 'attempt')
    .map(({ label, fromMs, toMs }) => [label, fromMs, toMs] as const)
}
const text = { type: 'text', text: 'words' }

it('an attempt is heard of from its first event on', () => {
  const judged = { ms: 900, attempt: 1, judged: { retry: 'rate_limit' } } as EventLine
  const lines = [line(700, text), judged, line(2000, text, 2)]
  for (const kind of ['turn', 'job'] as const)
    expect(bars(kind, lines)).toEqual([
      ['attempt 1', 700, 900],
      ['attempt 2', 2000, null],
    ])
})

it('an attempt begins with its process, and the time before it is waiting', () => {
  const builder = new TimelineBuilder('turn')
  for (const [row, one] of [line(700, text), line(2000, text, 2)].entries()) builder.onEvent(one, row)
  const attempt = { worker: null, tokens: null, costUsd: null }
  const tries = [
    { ...attempt, attempt: 1, fromMs: 400, toMs: 900, error: 'exit 1' },
    { ...attempt, attempt: 2, fromMs: 1500, toMs: 2100, error: null },
  ]
  const shown = (isWaiting: boolean, all = tries) =>
    withTries(builder.timeline(), all, { first: 'waits for its turn', isWaiting })
      .bars.filter(({ lane }) => lane === 'attempt' || lane === 'wait')
      .map(({ lane, label, fromMs, toMs, row, isError }) => [lane, label, fromMs, toMs, row, isError])
  expect(shown(false)).toEqual([
    ['wait', 'waits for its turn', 0, 400, 0, false],
    ['wait', 'after exit 1', 900, 1500, 1, false],
    ['attempt', 'attempt 1', 400, 900, 0, true],
    ['attempt', 'attempt 2', 1500, 2100, 1, false],
  ])
  expect(shown(true).at(2)).toEqual(['wait', 'pause before the next attempt', 2100, null, 1, false])
  // It waits for nothing while an attempt goes on; nor is it known what went before the first one that is listed.
  expect(shown(true, [{ ...tries[1]!, toMs: null } as never])).toEqual([
    ['attempt', 'attempt 1', 700, 2000, 0, false],
    ['attempt', 'attempt 2', 1500, null, 1, false],
  ])
})

it('a pause for a usage limit lasts until something comes', () => {
  const builder = new TimelineBuilder('session')
  const lines = [line(100, { type: 'retry', message: 'the limit' }), line(900, text), line(950, text)]
  for (const [row, one] of lines.entries()) builder.onEvent(one, row)
  expect(builder.timeline().bars.filter(({ lane }) => lane === 'wait')).toMatchObject([
    { label: 'the limit', fromMs: 100, toMs: 900, row: 0 },
  ])
  const turn = new TimelineBuilder('turn')
  for (const [row, one] of lines.entries()) turn.onEvent(one, row)
  expect(turn.timeline().bars.filter(({ lane }) => lane === 'wait')).toEqual([])
})

it('a session has its turns in place of attempts', () => {
  const lines = [
    line(3000, { type: 'prompt', text: 'Hello.' }),
    line(3010, { type: 'turn_start', turn: 1, by: 'prompt' }),
    line(3100, text),
    line(3200, { type: 'turn_end', turn: 1 }),
    line(9000, { type: 'turn_start', turn: 2, by: 'agent' }),
  ]
  expect(bars('session', lines)).toEqual([
    ['turn 1', 3010, 3200],
    ['turn 2', 9000, null],
  ])
})
