// The time line of a run, from what was heard of it, piece by piece. PURE.
import { inputWords } from '../event'
import type { EventLine } from '../event_line'
import { stopWords } from './row'
import type { Bar, Timeline } from './source'

/** Shorter pauses are no silence. */
const silenceMs = 3000
/** A page draws no more; a run with more of them is drawn up to there. */
const mostBars = 5000

function nameOf({ name, input }: { name: string; input: unknown }): string {
  const words = (input as { command?: unknown } | undefined)?.command ? inputWords(input) : name
  return words.slice(0, 80)
}

export class TimelineBuilder {
  readonly #bars: Bar[] = []
  readonly #silences: Timeline['silences'] = []
  readonly #marks: Timeline['marks'] = []
  readonly #tools = new Map<string, Bar>()
  attempts = 0
  #attempt: Bar | undefined
  #model: Bar | undefined
  heardMs = 0
  #pause: ((ms: number) => void) | undefined

  /** `kind`: a session has turns in place of attempts. */
  constructor(readonly kind: 'run' | 'turn' | 'session' | 'job') {}

  onEvent(line: EventLine, row: number): void {
    this.onHeard(line.ms, row)
    this.#pause?.(line.ms)
    // Its end of turn is told when it is judged already.
    if (line.attempt > this.attempts) {
      this.#close(line.ms)
      this.attempts = line.attempt
      if (this.kind !== 'session')
        this.#attempt = this.#add('attempt', `attempt ${line.attempt}`, line.ms, row)
    }
    const { event, judged } = line
    if (judged) {
      const label = stopWords(judged.stop)
      if (label) this.#marks.push({ atMs: line.ms, label, tone: 'kill' })
      if (judged.retry)
        this.#marks.push({ atMs: line.ms, label: `tried again: ${judged.retry}`, tone: 'retry' })
      return this.#close(line.ms)
    }
    switch (event?.type) {
      case 'turn_start':
        this.#close(line.ms)
        this.#attempt = this.#add('attempt', `turn ${event.turn}`, line.ms, row)
        return
      case 'turn_end':
        return this.#close(line.ms)
      case 'text':
      case 'reasoning':
        if (this.#model) this.#model.toMs = line.ms
        else
          this.#model = this.#add(
            'model',
            event.type === 'text' ? 'answer' : 'thinking',
            line.ms,
            row,
            line.ms,
          )
        return
      case 'tool_start':
        this.#model = undefined
        this.#tools.set(event.id, this.#add('tool', nameOf(event), line.ms, row))
        return
      case 'tool_end': {
        this.#model = undefined
        const bar = this.#tools.get(event.id)
        this.#tools.delete(event.id)
        if (bar) Object.assign(bar, { toMs: line.ms, isError: event.isError })
        return
      }
      case 'retry':
        // Elsewhere another process is started: the pause is between two attempts.
        if (this.kind === 'session') this.#wait(event.message, line.ms, row)
        return
      default:
    }
  }

  /** A pause in one process: for the end of a usage limit. It ends with the next event. */
  #wait(label: string, ms: number, row: number): void {
    const bar = this.#add('wait', label, ms, row)
    this.#pause = (ms) => {
      bar.toMs = ms
      this.#pause = undefined
    }
  }

  /** Output of a program without events: what is heard is drawn as one lane. */
  onOutput(ms: number, stream: string, row: number): void {
    const isPaused = ms - this.heardMs >= 1000
    this.onHeard(ms, row)
    if (this.#model && !isPaused && this.#model.label === stream) this.#model.toMs = ms
    else this.#model = this.#add('model', stream, ms, row, ms)
  }

  onHeard(ms: number, row: number): void {
    if (ms - this.heardMs >= silenceMs) this.#silences.push([this.heardMs, ms, row])
    this.heardMs = Math.max(this.heardMs, ms)
  }

  get hasMarks(): boolean {
    return this.#marks.some(({ tone }) => tone === 'kill')
  }

  timeline(): Timeline {
    return { heardMs: this.heardMs, bars: this.#bars, silences: this.#silences, marks: this.#marks }
  }

  /** Open bars end with their attempt. */
  #close(ms: number): void {
    for (const bar of this.#tools.values()) bar.toMs = ms
    this.#tools.clear()
    if (this.#attempt) this.#attempt.toMs = ms
    this.#attempt = undefined
    this.#model = undefined
  }

  #add(lane: Bar['lane'], label: string, fromMs: number, row: number, toMs: number | null = null): Bar {
    const bar: Bar = { lane, label, fromMs, toMs, isError: false, row }
    if (this.#bars.length < mostBars) this.#bars.push(bar)
    return bar
  }
}
