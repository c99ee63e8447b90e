// The events of a turn or a session: where each row stands in the file, found once and followed while the run goes on. The text
// stays on the disk.
import { join } from 'node:path'
import { eventLineOf, type EventLine } from '../event_line'
import { RecordIndex } from './record_index'
import { bodyOf, rowOf, searchedText } from './row'
import type { Found, Row } from './source'
import { readRange } from '../../lib/harness/record_file'
import { Tail } from '../tail'

/** Pieces of a message come as one row, up to here. */
const mostMerged = 64 << 10
/** Rows are read together up to here. */
const mostRead = 1 << 20
/** Prompts of a session that are listed, and how much of each. */
const mostPrompts = 1000
const mostPrompt = 4000
/** The last answer of a session is kept up to here. */
const mostAnswer = 200_000
/** Rows of one answer of a search, and bytes that are read for it. */
const searchRows = 5000
const searchBytes = 8 << 20

interface Entry {
  ms: number
  attempt: number
  offset: number
  bytes: number
  /** "text" or "reasoning" when it is made of pieces. */
  delta: string | undefined
}

export class RunIndex extends RecordIndex {
  readonly #entries: Entry[] = []
  readonly #tail: Tail
  readonly #path: string

  constructor(folder: string, kind: 'turn' | 'session') {
    super(kind)
    this.#path = join(folder, 'events.jsonl')
    this.#tail = new Tail(this.#path)
  }

  get length(): number {
    return this.#entries.length
  }

  protected async read(): Promise<void> {
    for (;;) {
      const lines = await this.#tail.next()
      if (lines.length === 0) return
      this.version++
      for (const { text, offset, bytes } of lines) this.#onEvent(text, offset, bytes)
    }
  }

  #onEvent(text: string, offset: number, bytes: number): void {
    const line = eventLineOf(text)
    // A line that was cut for length, or the empty one around it.
    if (!line) return
    const { ms, attempt, event } = line
    this.hear(line)
    if (event?.type === 'prompt' && this.prompts.length < mostPrompts)
      this.prompts.push({ text: event.text.slice(0, mostPrompt), row: this.#entries.length })
    if (event?.type === 'turn_start') this.answer = ''
    else if (event?.type === 'text' && this.answer.length < mostAnswer) this.answer += event.text
    const delta =
      (event?.type === 'text' || event?.type === 'reasoning') && event.delta ? event.type : undefined
    const last = this.#entries.at(-1)
    const isNext =
      last && last.delta === delta && last.attempt === attempt && last.offset + last.bytes === offset
    if (delta && isNext && last.bytes < mostMerged) last.bytes += bytes
    else this.#entries.push({ ms, attempt, offset, bytes, delta })
  }

  async rows(from: number, count: number): Promise<Row[]> {
    const entries = this.#entries.slice(from, from + count)
    const lines = await this.#lines(entries)
    return entries.map((entry, at) => rowOf(lines[at]!, from + at, entry, this.#entries[from + at - 1]?.ms))
  }

  async row(index: number): Promise<{ text: string; isCut: boolean } | undefined> {
    const entry = this.#entries[index]
    if (!entry) return undefined
    const [line] = await this.#lines([entry])
    return bodyOf(line!)
  }

  async search(words: string, from: number): Promise<Found> {
    const wanted = words.toLowerCase()
    const rows: number[] = []
    let [at, bytes] = [from, 0]
    while (at < this.length && at - from < searchRows && bytes < searchBytes) {
      const entries = this.#entries.slice(at, at + 200)
      const lines = await this.#lines(entries)
      for (const [place, line] of lines.entries())
        if (searchedText(line).toLowerCase().includes(wanted)) rows.push(at + place)
      for (const entry of entries) bytes += entry.bytes
      at += entries.length
    }
    return { rows, next: at < this.length ? at : null }
  }

  async *lines(): AsyncGenerator<string> {
    for (let at = 0; at < this.length; at += 200) {
      const lines = await this.#lines(this.#entries.slice(at, at + 200))
      yield lines.map((line) => `${searchedText(line)}\n`).join('')
    }
  }

  /** The events of these rows; rows beside each other are read at once. */
  async #lines(entries: Entry[]): Promise<EventLine[]> {
    const lines: EventLine[] = []
    for (let at = 0; at < entries.length;) {
      const first = entries[at]!
      let [to, end] = [at + 1, first.offset + first.bytes]
      for (; to < entries.length; to++) {
        const next = entries[to]!
        if (next.offset + next.bytes - first.offset > mostRead) break
        end = next.offset + next.bytes
      }
      const read = await readRange(this.#path, first.offset, end - first.offset)
      for (; at < to; at++) {
        const entry = entries[at]!
        const place = entry.offset - first.offset
        lines.push(lineOf(entry, read.toString('utf8', place, place + entry.bytes)))
      }
    }
    return lines
  }
}

/** An event, or the pieces of a message as one. */
function lineOf({ delta }: Entry, text: string): EventLine {
  const lines = text
    .trimEnd()
    .split('\n')
    .flatMap((line) => eventLineOf(line) ?? [])
  const [first = { ms: 0, attempt: 0 }] = lines
  if (!delta) return first
  const whole = lines.map(({ event }) => (event as { text: string }).text).join('')
  return { ...first, event: { type: delta as 'text', text: whole, delta: true } }
}
