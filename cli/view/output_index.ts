// The output of a program, line by line: where each line stands is found once and followed; the text stays on the disk.
import { join } from 'node:path'
import { LineTable, type LineEntry, type StreamName } from './line_table'
import { RecordIndex } from './record_index'
import type { Found, Row } from './source'
import { readRange } from '../../lib/harness/record_file'
import { isFigure } from '../figure'
import { Tail } from '../tail'
import { plainLine, styleAfter, terminalLine, withoutColours, type Style } from './terminal_line'

/** A row shows so many bytes of its line. */
const mostShown = 8 << 10
/** Longest text of one line that is opened. */
const mostText = 1 << 20
const windowBytes = 1 << 20
/** Lines of one answer of a search, and bytes that are read for it. */
const searchLines = 50_000
const searchBytes = 8 << 20
const escape = 0x1b

/** A stream's file, read from its beginning. */
class StreamReader {
  /** Position of the next byte. */
  offset = 0
  /** The line whose end has not come. */
  line = -1
  style: Style | undefined
  #window: Buffer = Buffer.alloc(0)
  #at = 0

  constructor(readonly path: string) {}

  /** Whether the next bytes are at hand; reads on where they are not. False: they are not on the disk yet. */
  async has(count: number): Promise<boolean> {
    if (this.holds(count)) return true
    this.#window = await readRange(this.path, this.offset, Math.max(windowBytes, count))
    this.#at = 0
    return this.holds(count)
  }

  holds(count: number): boolean {
    return this.#window.length - this.#at >= count
  }

  /** The next bytes, which are at hand. */
  take(count: number): Buffer {
    const taken = this.#window.subarray(this.#at, this.#at + count)
    this.#at += count
    this.offset += count
    return taken
  }
}

export class OutputIndex extends RecordIndex {
  readonly #table = new LineTable()
  readonly #tail: Tail
  readonly #streams: Record<StreamName, StreamReader>
  /** Pieces that `times` tells of and that are not read yet. */
  #pieces: { ms: number; stream: StreamName; bytes: number }[] = []

  constructor(readonly folder: string) {
    super('run')
    this.#tail = new Tail(join(folder, 'times'))
    this.#streams = {
      stdout: new StreamReader(join(folder, 'stdout')),
      stderr: new StreamReader(join(folder, 'stderr')),
    }
  }

  get length(): number {
    return this.#table.length
  }

  protected async read(): Promise<void> {
    for (;;) {
      const lines = await this.#tail.next()
      for (const { text } of lines) this.#onTime(text)
      let done = 0
      for (const { ms, stream, bytes } of this.#pieces) {
        const reader = this.#streams[stream]
        const { offset } = reader
        // Most are at hand: to wait for each would cost more than to read it. A piece's bytes can be written a moment later.
        if (!reader.holds(bytes) && !(await reader.has(bytes))) break
        this.#onPiece(ms, stream, offset, reader.take(bytes))
        done++
      }
      this.#pieces.splice(0, done)
      if (done > 0) this.version++
      if (lines.length === 0 || this.#pieces.length > 0) return
    }
  }

  /** A line of `times`. */
  #onTime(text: string): void {
    const [ms, word, number] = text.split(' ') as [string, string, string]
    if (word !== 'stdout' && word !== 'stderr') return
    const [heardMs, bytes] = [Number(ms), Number(number)]
    const isPiece = Number.isSafeInteger(bytes) && bytes > 0 && bytes <= windowBytes * 64
    if (isPiece && isFigure(heardMs)) this.#pieces.push({ ms: heardMs, stream: word, bytes })
  }

  #onPiece(ms: number, stream: StreamName, offset: number, piece: Buffer): void {
    const reader = this.#streams[stream]
    this.timeline.onOutput(ms, stream, this.#table.length)
    let nextEscape = piece.indexOf(escape)
    for (let from = 0; from < piece.length;) {
      const feed = piece.indexOf(10, from)
      const to = feed < 0 ? piece.length : feed + 1
      if (reader.line < 0) reader.line = this.#table.begin(stream, offset + from, ms, reader.style)
      this.#table.extend(reader.line, to - from)
      if (nextEscape >= 0 && nextEscape < to) {
        reader.style = styleAfter(piece.toString('latin1', nextEscape, to), reader.style)
        nextEscape = piece.indexOf(escape, to)
      }
      if (feed >= 0) reader.line = -1
      from = to
    }
  }

  async rows(from: number, count: number): Promise<Row[]> {
    const entries = this.#entries(from, count)
    const texts = await this.#texts(entries, mostShown)
    return entries.map((entry, at) => {
      const index = from + at
      const spans = terminalLine(texts[at]!, entry.style)
      const isCut = entry.bytes > mostShown
      return {
        index,
        ms: entry.ms,
        attempt: 0,
        label: entry.stream,
        text: spans.map(({ text }) => text).join(''),
        tone: entry.stream === 'stderr' ? 'warn' : 'plain',
        more: isCut ? Math.ceil(entry.bytes / 160) : 0,
        spans,
        silenceMs: index === 0 ? entry.ms : entry.ms - this.#table.ms(index - 1),
      }
    })
  }

  async row(index: number): Promise<{ text: string; isCut: boolean } | undefined> {
    const [entry] = this.#entries(index, 1)
    if (!entry) return undefined
    const [text] = await this.#texts([entry], mostText)
    return { text: plainLine(text!), isCut: entry.bytes > mostText }
  }

  async search(words: string, from: number): Promise<Found> {
    const wanted = words.toLowerCase()
    const rows: number[] = []
    let [at, bytes] = [from, 0]
    while (at < this.length && at - from < searchLines && bytes < searchBytes) {
      const entries = this.#entries(at, 5000)
      if (!(await this.#mayHave(entries, wanted))) {
        for (const entry of entries) bytes += entry.bytes
        at += entries.length
        continue
      }
      const texts = await this.#texts(entries, mostShown)
      for (const [place, text] of texts.entries()) {
        bytes += text.length
        const isPlain = !text.includes('\r') && !text.includes('\u001b') && !text.includes('\b')
        if ((isPlain ? text : plainLine(text)).toLowerCase().includes(wanted)) rows.push(at + place)
      }
      at += entries.length
    }
    return { rows, next: at < this.length ? at : null }
  }

  /** Whether these words can stand in one of these lines: all of them are looked at as one text. */
  async #mayHave(entries: LineEntry[], wanted: string): Promise<boolean> {
    for (const stream of ['stdout', 'stderr'] as const) {
      const own = entries.filter((entry) => entry.stream === stream)
      const [first, last] = [own[0], own.at(-1)]
      if (!first || !last) continue
      const bytes = last.offset + last.bytes - first.offset
      if (bytes > 4 * windowBytes) return true
      const read = await readRange(join(this.folder, stream), first.offset, bytes)
      const text = read.toString().replaceAll('\r\n', '\n')
      if (text.includes('\r') || text.includes('\b')) return true
      if (withoutColours(text).toLowerCase().includes(wanted)) return true
    }
    return false
  }

  /** Whole lines of plain text, in the order of the rows. */
  async *lines(): AsyncGenerator<string> {
    for (let at = 0; at < this.length; at += 5000) {
      const texts = await this.#texts(this.#entries(at, 5000), mostText)
      yield texts.map((text) => `${plainLine(text)}\n`).join('')
    }
  }

  #entries(from: number, count: number): LineEntry[] {
    const entries: LineEntry[] = []
    for (let at = from; at < Math.min(from + count, this.length); at++) entries.push(this.#table.at(at))
    return entries
  }

  /** The texts of these lines, each up to so many bytes. Lines of a stream stand one after another: few reads serve many. */
  async #texts(entries: LineEntry[], most: number): Promise<string[]> {
    const texts: string[] = Array.from(entries, () => '')
    for (const stream of ['stdout', 'stderr'] as const) {
      let batch: number[] = []
      let begin = 0
      const flush = async () => {
        const last = entries[batch.at(-1)!]
        if (!last) return
        const read = await readRange(
          join(this.folder, stream),
          begin,
          last.offset + Math.min(last.bytes, most) - begin,
        )
        for (const at of batch) {
          const { offset, bytes } = entries[at]!
          const place = offset - begin
          texts[at] = textOf(read.subarray(place, place + Math.min(bytes, most)))
        }
        batch = []
      }
      for (const [at, entry] of entries.entries()) {
        if (entry.stream !== stream) continue
        if (batch.length > 0 && entry.offset + Math.min(entry.bytes, most) - begin > windowBytes)
          await flush()
        if (batch.length === 0) begin = entry.offset
        batch.push(at)
      }
      await flush()
    }
    return texts
  }
}

function textOf(bytes: Buffer): string {
  return bytes.at(-1) === 10 ? bytes.toString('utf8', 0, bytes.length - 1) : bytes.toString()
}
