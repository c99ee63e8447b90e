// The attempts of a run as they really began and ended, and the waiting between them. PURE.
import type { Bar, Timeline, Try } from './source'

/** Shorter gaps are the time that a process takes to start. */
const leastWaitMs = 10

interface Waiting {
  /** Why the first attempt did not begin at once. */
  first: string
  /** Whether the run waits for another attempt when none goes on. */
  isWaiting: boolean
}

/** The time line with each attempt from the start of its process to its end, whether or not anything was heard of it. */
export function withTries(timeline: Timeline, tries: Try[], { first, isWaiting }: Waiting): Timeline {
  const heard = new Map(timeline.bars.filter(({ lane }) => lane === 'attempt').map((bar) => [bar.label, bar]))
  const whole: Bar[] = []
  const waits: Bar[] = []
  let freeMs = 0
  let why = first
  const wait = (fromMs: number, toMs: number | null, row: number) => {
    if (toMs === null || toMs - fromMs >= leastWaitMs)
      waits.push({ lane: 'wait', label: why, fromMs, toMs, isError: false, row })
  }
  for (const [index, { attempt, worker, fromMs, toMs, error }] of tries.entries()) {
    const label = `attempt ${attempt}`
    const bar = heard.get(label)
    heard.delete(label)
    const row = bar?.row ?? whole.at(-1)?.row ?? 0
    // The ends of attempts before the first known one are not known.
    const isKnown = index > 0 || attempt === 1
    if (isKnown) wait(freeMs, fromMs, row)
    whole.push({ lane: 'attempt', label, isError: error !== null, row, fromMs, toMs })
    freeMs = toMs ?? Infinity
    const given = worker === null ? 'pause before the next attempt' : 'given to another worker'
    why = error === null ? given : `after ${error.split('\n', 1)[0]!.slice(0, 100)}`
  }
  if (isWaiting && freeMs !== Infinity) wait(freeMs, null, whole.at(-1)?.row ?? 0)
  const others = timeline.bars.filter(({ lane }) => lane !== 'attempt')
  const ends = whole.map(({ toMs }) => toMs ?? 0)
  return {
    ...timeline,
    bars: [...waits, ...heard.values(), ...whole, ...others],
    heardMs: Math.max(timeline.heardMs, ...ends),
  }
}
