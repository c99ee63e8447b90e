// The rows of a job's log, read once and followed while the job goes on.
import type { Fleet } from '../../lib/fleet'
import type { AgentEvent } from '../../lib/harness'
import { timed, type TimedEvent } from '../../lib/fleet/job'
import { toldEvent, type EventLine } from '../event_line'
import { RecordIndex, shortly } from './record_index'
import { bodyOf, rowOf, searchedText } from './row'
import type { Found, Row } from './source'

/** Pieces of a message come as one row, up to here. */
const mostMerged = 64 << 10
/** Most rows of one job, in memory. */
const mostRows = 50_000
const mostBytes = 64 << 20

export class JobRows extends RecordIndex {
  problem: string | null = null
  readonly #lines: EventLine[] = []
  readonly #follow: () => Promise<void>
  readonly #startedAtMs: number
  #begun: Promise<void> | undefined
  #bytes = 0
  #isClosed = false

  constructor(fleet: Fleet, id: string, startedAtMs: number) {
    super('job')
    this.#startedAtMs = startedAtMs
    this.#follow = () => this.#read(fleet, id).catch((error: Error) => void (this.problem = error.message))
  }

  get length(): number {
    return this.#lines.length
  }

  /** Once the first rows are there, or are long in coming: the others come by themselves. */
  protected read(): Promise<void> {
    return (this.#begun ??= shortly(this.#follow()))
  }

  async rows(from: number, count: number): Promise<Row[]> {
    const lines = this.#lines.slice(from, from + count)
    return lines.map((line, at) => rowOf(line, from + at, line, this.#lines[from + at - 1]?.ms))
  }

  async row(index: number): Promise<{ text: string; isCut: boolean } | undefined> {
    const line = this.#lines[index]
    return line && bodyOf(line)
  }

  async search(words: string): Promise<Found> {
    const wanted = words.toLowerCase()
    const has = (line: EventLine) => searchedText(line).toLowerCase().includes(wanted)
    return { rows: this.#lines.flatMap((line, at) => (has(line) ? [at] : [])), next: null }
  }

  async *lines(): AsyncGenerator<string> {
    for (const line of this.#lines) yield `${searchedText(line)}\n`
  }

  override close(): void {
    this.#isClosed = true
  }

  async #read(fleet: Fleet, id: string): Promise<void> {
    for await (const event of timed(await fleet.job(id))) {
      if (this.#isClosed) return
      this.#bytes += event.bytes
      if (this.#lines.length >= mostRows || this.#bytes > mostBytes) {
        this.problem = `only the first ${this.#lines.length} rows are shown: \`sheepdog jobs logs ${id}\` has all`
        return
      }
      this.#add(event)
    }
  }

  #add({ storedAtMs, attempt, event: told }: TimedEvent): void {
    const event = toldEvent(told)
    const line: EventLine = { ms: Math.max(0, storedAtMs - this.#startedAtMs), attempt, event }
    this.hear(line)
    const last = this.#lines.at(-1)
    if (last && isPiece(event) && last.attempt === attempt && isPiece(last.event)) {
      if (last.event.type === event.type && last.event.text.length < mostMerged) {
        last.event = { ...last.event, text: last.event.text + event.text }
        return
      }
    }
    this.#lines.push(line)
  }
}

type Piece = Extract<AgentEvent, { type: 'text' | 'reasoning' }>

function isPiece(event: AgentEvent | undefined): event is Piece {
  return (event?.type === 'text' || event?.type === 'reasoning') && event.delta === true
}
