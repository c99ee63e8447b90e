// The rows of a job's log, read once and followed while the job goes on.
import type { Fleet } from '../../lib/fleet'
import type { AgentEvent } from '../../lib/harness'
import { timed, type TimedEvent } from '../../lib/fleet/job'
import { timers } from '../../lib/host'
import { bodyOf, rowOf, searchedText, type EventLine } from './row'
import type { Row } from './source'
import { TimelineBuilder } from './timeline'

/** Pieces of a message come as one row, up to here. */
const mostMerged = 64 << 10
/** Most rows of one job, in memory. */
const mostRows = 50_000
const mostBytes = 64 << 20
/** A page that is opened waits no longer for the first rows. */
const patienceMs = 300

export class JobRows {
  readonly timeline = new TimelineBuilder('job')
  /** Once the first rows are there, or are long in coming. */
  readonly begun: Promise<void>
  tokens: { input: number; output: number; cached: number } | null = null
  costUsd = 0
  problem: string | null = null
  readonly #lines: EventLine[] = []
  readonly #startedAtMs: number
  #bytes = 0
  #isClosed = false

  constructor(fleet: Fleet, id: string, startedAtMs: number) {
    this.#startedAtMs = startedAtMs
    const read = this.#read(fleet, id).catch((error: Error) => {
      this.problem = error.message
    })
    this.begun = Promise.race([read, new Promise<void>((done) => timers.setTimeout(done, patienceMs))])
  }

  get length(): number {
    return this.#lines.length
  }

  rows(from: number, count: number): Row[] {
    const lines = this.#lines.slice(from, from + count)
    return lines.map((line, at) => rowOf(line, from + at, line, this.#lines[from + at - 1]?.ms))
  }

  row(index: number): { text: string; isCut: boolean } | undefined {
    const line = this.#lines[index]
    return line && bodyOf(line)
  }

  search(words: string): number[] {
    const wanted = words.toLowerCase()
    return this.#lines.flatMap((line, at) => (searchedText(line).toLowerCase().includes(wanted) ? [at] : []))
  }

  /** The rows as plain text. */
  async *lines(): AsyncGenerator<string> {
    for (const line of this.#lines) yield `${searchedText(line)}\n`
  }

  close(): void {
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
    const event = told as AgentEvent
    const line: EventLine = { ms: Math.max(0, storedAtMs - this.#startedAtMs), attempt, event }
    this.timeline.onEvent(line, this.#lines.length)
    if (event.type === 'usage') {
      this.tokens ??= { input: 0, output: 0, cached: 0 }
      this.tokens.input += event.inputTokens
      this.tokens.output += event.outputTokens
      this.tokens.cached += event.cachedInputTokens
      this.costUsd += event.costUsd ?? 0
    }
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
