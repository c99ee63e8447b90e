// Base of the two indexes of a record: they follow its file while the run goes on, one reading at a time.
import type { Found, Prompt, Row } from './source'
import { TimelineBuilder } from './timeline'

export abstract class RecordIndex {
  readonly timeline: TimelineBuilder
  readonly tokens = { input: 0, output: 0, cached: 0 }
  costUsd = 0
  hasUsage = false
  /** The agent's words in its last turn. */
  answer = ''
  /** Changes with whatever is read. */
  version = 0
  readonly prompts: Prompt[] = []
  #reading: Promise<void> | undefined

  constructor(kind: 'run' | 'turn' | 'session') {
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

  /** Reads on to the present end of the file. */
  protected abstract read(): Promise<void>

  abstract get length(): number
  abstract rows(from: number, count: number): Promise<Row[]>
  abstract row(index: number): Promise<{ text: string; isCut: boolean } | undefined>
  abstract search(words: string, from: number): Promise<Found>
  /** The whole run as plain text, piece by piece. */
  abstract lines(): AsyncGenerator<string>
}
