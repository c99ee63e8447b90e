// The time line of a record, from its events alone.
import { expect, it } from 'vitest'
import { TimelineBuilder } from '../dist/cli/view/timeline'
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

it('the first attempt of a turn begins with the turn, not with its first event', () => {
  const judged = { ms: 900, attempt: 1, judged: { retry: 'rate_limit' } } as EventLine
  const lines = [line(700, text), judged, line(2000, text, 2)]
  expect(bars('turn', lines)).toEqual([
    ['attempt 1', 0, 900],
    ['attempt 2', 2000, null],
  ])
  // A job waits in its queue first.
  expect(bars('job', lines)[0]).toEqual(['attempt 1', 700, 900])
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
