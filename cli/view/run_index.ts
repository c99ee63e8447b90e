// One run's rows: where each one stands in the files, found once and followed while the run goes on. The text stays on the disk.
import { join } from 'node:path'
import { foldedLines, lookOf, outputLook, type EventLine } from './row'
import type { Row, RunSummary } from './source'
import { readRange, Tail } from './tail'
import { TimelineBuilder } from './timeline'

/** Longest text of one row: more is not shown. */
const mostText = 1 << 20
/** Pieces of a message come as one row, up to here. */
const mostMerged = 64 << 10
/** Pieces of output that come close together are one row, up to here. */
const chunkBytes = 2048

interface Entry {
  ms: number
  attempt: number
  /** The file that it stands in: events, or a stream of output. */
  file: 'events.jsonl' | 'stdout' | 'stderr'
  offset: number
  bytes: number
  /** "text" or "reasoning" when it is made of pieces. */
  delta: string | undefined
}

export class RunIndex {
  readonly timeline = new TimelineBuilder()
  readonly tokens = { input: 0, output: 0, cached: 0 }
  costUsd = 0
  hasUsage = false
  readonly #entries: Entry[] = []
  readonly #tail: Tail
  readonly #offsets = { stdout: 0, stderr: 0 }
  #reading: Promise<boolean> | undefined

  constructor(
    readonly folder: string,
    readonly kind: RunSummary['kind'],
  ) {
    this.#tail = new Tail(join(folder, kind === 'run' ? 'times' : 'events.jsonl'))
  }

  get length(): number {
    return this.#entries.length
  }

  /** Reads what came since the last call; true when there was something. */
  refresh(): Promise<boolean> {
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined))
    return this.#reading
  }

  async #read(): Promise<boolean> {
    let hasNews = false
    for (;;) {
      const lines = await this.#tail.next()
      if (lines.length === 0) return hasNews
      hasNews = true
      for (const { text, offset, bytes } of lines) {
        if (this.kind !== 'run') this.#onEvent(text, offset, bytes)
        else this.#onPiece(text)
      }
    }
  }

  #onEvent(text: string, offset: number, bytes: number): void {
    let line: EventLine
    try {
      line = JSON.parse(text) as EventLine
    } catch {
      // A line that was cut for length, or the empty one around it.
      return
    }
    const { ms, attempt, event } = line
    this.timeline.onEvent(line, this.#entries.length)
    if (event?.type === 'usage') {
      this.hasUsage = true
      this.tokens.input += event.inputTokens
      this.tokens.output += event.outputTokens
      this.tokens.cached += event.cachedInputTokens
      this.costUsd += event.costUsd ?? 0
    }
    const delta =
      (event?.type === 'text' || event?.type === 'reasoning') && event.delta ? event.type : undefined
    const last = this.#entries.at(-1)
    const isNext =
      last && last.delta === delta && last.attempt === attempt && last.offset + last.bytes === offset
    if (delta && isNext && last.bytes < mostMerged) last.bytes += bytes
    else this.#entries.push({ ms, attempt, file: 'events.jsonl', offset, bytes, delta })
  }

  /** A line of `times`. */
  #onPiece(text: string): void {
    const [ms, word, number] = text.split(' ') as [string, string, string]
    if (word !== 'stdout' && word !== 'stderr') return
    const [at, bytes, offset] = [Number(ms), Number(number), this.#offsets[word]]
    this.#offsets[word] += bytes
    const last = this.#entries.at(-1)
    this.timeline.onOutput(at, word, this.#entries.length)
    const isNext = last?.file === word && at - last.ms < 1000 && last.bytes < chunkBytes
    if (isNext) last.bytes += bytes
    else this.#entries.push({ ms: at, attempt: 0, file: word, offset, bytes, delta: undefined })
  }

  async rows(from: number, count: number): Promise<Row[]> {
    const entries = this.#entries.slice(from, from + count)
    return Promise.all(
      entries.map(async (entry, at) => {
        const look = await this.#look(entry, chunkBytes * 4)
        const { label, text, tone } = look
        const isLong = entry.bytes > chunkBytes * 4 && entry.file !== 'events.jsonl'
        const more = Math.max(foldedLines(look), isLong ? 100 : 0)
        return { index: from + at, ms: entry.ms, attempt: entry.attempt, label, text, tone, more }
      }),
    )
  }

  async row(index: number): Promise<{ text: string; isCut: boolean } | undefined> {
    const entry = this.#entries[index]
    if (!entry) return undefined
    const { body } = await this.#look(entry, mostText)
    return { text: body.slice(0, mostText), isCut: body.length > mostText || entry.bytes > mostText }
  }

  /** An event is read whole: its JSON is none when it is cut. */
  async #look(entry: Entry, most: number) {
    const isEvent = entry.file === 'events.jsonl'
    const bytes = await readRange(
      join(this.folder, entry.file),
      entry.offset,
      isEvent ? entry.bytes : Math.min(entry.bytes, most),
    )
    if (!isEvent) return outputLook(entry.file, bytes.toString())
    const lines = bytes
      .toString()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as EventLine)
    const [first] = lines as [EventLine]
    if (!entry.delta) return lookOf(first)
    const text = lines.map(({ event }) => (event as { text: string }).text).join('')
    return lookOf({ ...first, event: { type: entry.delta as 'text', text, delta: true } })
  }
}
