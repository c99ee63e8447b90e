// Base of the indexes of runs: they follow a run while it goes on, one reading at a time.
import type { AgentUsage } from '../../lib/index'
import { timers } from '../../lib/host'
import type { EventLine } from '../event_line'
import type { Found, Prompt, Row } from './source'
import { TimelineBuilder } from './timeline'

/** Runs whose rows are known at once. */
const mostIndexes = 16
/** A page that is opened waits no longer for the rows of a long run. */
const mostWaitMs = 250

export abstract class RecordIndex {
  readonly timeline: TimelineBuilder
  /** Tokens and money, as its events tell them. */
  usage: AgentUsage | undefined
  /** The agent's words in its last turn. */
  answer = ''
  /** Changes with whatever is read. */
  version = 0
  readonly prompts: Prompt[] = []
  #reading: Promise<void> | undefined

  constructor(kind: TimelineBuilder['kind']) {
    this.timeline = new TimelineBuilder(kind)
  }

  get isReading(): boolean {
    return this.#reading !== undefined
  }

  /** Reads what came since the last call. */
  refresh(): Promise<void> {
    this.#reading ??= this.read().finally(() => (this.#reading = undefined))
    return this.#reading
  }

  /** An event, before it has its row. */
  protected hear(line: EventLine): void {
    const { event } = line
    this.timeline.onEvent(line, this.length)
    if (event?.type !== 'usage') return
    this.usage ??= { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0 }
    this.usage.inputTokens += event.inputTokens
    this.usage.outputTokens += event.outputTokens
    this.usage.cachedInputTokens += event.cachedInputTokens
    if (event.costUsd) this.usage.costUsd = (this.usage.costUsd ?? 0) + event.costUsd
  }

  /** Nobody asks for it any more. */
  close(): void {}

  /** Reads on to the present end of the run. */
  protected abstract read(): Promise<void>

  abstract get length(): number
  abstract rows(from: number, count: number): Promise<Row[]>
  /** All of a row's text, up to a bound. */
  abstract row(index: number): Promise<{ text: string; isCut: boolean } | undefined>
  /** Rows that contain these words, in either case. */
  abstract search(words: string, from: number): Promise<Found>
  /** The whole run as plain text, piece by piece. */
  abstract lines(): AsyncGenerator<string>
}

/** The indexes of the runs that were asked for last. */
export class Indexes<Index extends RecordIndex = RecordIndex> extends Map<string, Index> {
  /** That of a run, with what is there by now. */
  async of(id: string, make: () => Index): Promise<Index> {
    const index = this.get(id) ?? make()
    this.delete(id)
    this.set(id, index)
    const [oldest] = this
    if (this.size > mostIndexes) this.#drop(...oldest!)
    await shortly(index.refresh())
    return index
  }

  #drop(id: string, index: Index): void {
    index.close()
    this.delete(id)
  }
}

/** Waits for it, but not for long. */
export function shortly(work: Promise<void>): Promise<void> {
  return Promise.race([work, new Promise<void>((done) => timers.setTimeout(done, mostWaitMs).unref())])
}
