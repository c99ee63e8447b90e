// Base of the two indexes of a record: they follow its file while the run goes on, one reading at a time.
import type { Found, Prompt, Row, RowIndex } from './source'
import { TimelineBuilder } from './timeline'

export abstract class RecordIndex implements RowIndex {
  readonly timeline: TimelineBuilder
  readonly tokens = { input: 0, output: 0, cached: 0 }
  costUsd = 0
  hasUsage = false
  answer = ''
  version = 0
  readonly prompts: Prompt[] = []
  #reading: Promise<void> | undefined

  constructor(kind: 'run' | 'turn' | 'session') {
    this.timeline = new TimelineBuilder(kind)
  }

  get isReading(): boolean {
    return this.#reading !== undefined
  }

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
  abstract lines(): AsyncGenerator<string>
}
