// Async iterators over a channel: ready text is handed out without a promise of its own in the making.
import { SheepdogError, type SheepdogErrorOf } from './error'
import { attach, detach, release, type Block, type Missed, type Reader } from './delivery'
import { sharingLines, ownLines } from './line'

/** The parts of a run that its iterator needs. */
export interface Source {
  /** Opens the channel; none when nothing was started. */
  open(): number | undefined
  /** Stops delivering. */
  close(): void
  /** Settles with the run: an iteration ends by throwing what it rejects with. */
  end: Promise<unknown>
}

type Stream = 'stdout' | 'stderr'
type Pending<T> = { resolve(result: IteratorResult<T>): void; reject(error: unknown): void }

/**
 * An iterator over blocks. `take` hands out the next item of the block at hand, or `undefined` when it has no more.
 */
abstract class BlockIterator<T> implements AsyncIterableIterator<T>, Reader {
  readonly #source: Source
  readonly #channel: number | undefined
  readonly #blocks: Block[] = []
  #waiting: Pending<T>[] = []
  #ended = false
  #closed = false
  #missed: Missed | undefined

  constructor(source: Source) {
    this.#source = source
    this.#channel = source.open()
    if (this.#channel === undefined) this.#ended = true
    else attach(this.#channel, this)
  }

  protected abstract load(block: Block): void
  protected abstract take(): T | undefined

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<T>> {
    let value: T | undefined
    try {
      value = this.#advance()
    } catch (error) {
      return this.throw(error)
    }
    if (value !== undefined) return Promise.resolve({ value, done: false })
    if (this.#closed) return Promise.resolve({ value: undefined, done: true })
    if (this.#ended) return this.#finish()
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
  }

  return(): Promise<IteratorResult<T>> {
    this.close()
    return Promise.resolve({ value: undefined, done: true })
  }

  /** As `return()`, for a generator that passes an error of its reader on. */
  throw(error: unknown): Promise<IteratorResult<T>> {
    this.close()
    return Promise.reject(error)
  }

  /** Ends the iteration; the output is drained and kept from here on. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    if (!this.#ended) this.#source.close()
    if (this.#channel !== undefined) detach(this.#channel)
    this.#blocks.length = 0
    for (const { resolve } of this.#waiting.splice(0)) resolve({ value: undefined, done: true })
  }

  onBlock(block: Block): void {
    this.#blocks.push(block)
    this.#serve()
  }

  onEnd(missed?: Missed): void {
    this.#ended = true
    this.#missed = missed
    this.#serve()
    for (const { resolve, reject } of this.#waiting.splice(0)) this.#finish().then(resolve, reject)
  }

  #serve(): void {
    while (this.#waiting.length > 0) {
      let value: T | undefined
      try {
        value = this.#advance()
      } catch (error) {
        // An error of the caller's function: it ends the loop, and nothing else.
        const { reject } = this.#waiting.shift()!
        this.close()
        return reject(error)
      }
      if (value === undefined) return
      this.#waiting.shift()!.resolve({ value, done: false })
    }
  }

  #advance(): T | undefined {
    if (this.#closed) return undefined
    for (;;) {
      const value = this.take()
      if (value !== undefined) return value
      const block = this.#blocks.shift()
      if (!block) return undefined
      release(this.#channel!, block.weight)
      this.load(block)
    }
  }

  async #finish(): Promise<IteratorResult<T>> {
    this.#closed = true
    const missed = this.#missed
    // The program goes on, and its end says nothing of this reader.
    if (missed?.reason === 'dropped') throw tooLate(missed.stream, missed.bytes)
    const result = await this.#source.end
    if (missed) {
      throw new SheepdogError(
        'PROCESS_LINE_TOO_LONG',
        `the program printed a line that is longer than \`maxLineBytes\`: raise it`,
        { stream: missed.stream, result: result as SheepdogErrorOf<'PROCESS_LINE_TOO_LONG'>['result'] },
      )
    }
    return { value: undefined, done: true }
  }
}

function tooLate(stream: Stream, droppedBytes: number): SheepdogError {
  return new SheepdogError(
    'PROCESS_OUTPUT_DROPPED',
    `${droppedBytes} bytes of ${stream} were dropped before this reader came: more was printed than \`maxOutputBytes\`. ` +
      'Start reading right after spawn(), or raise `maxOutputBytes`; `result` has the head and the tail',
    { stream, droppedBytes },
  )
}

/** Line by line, each a string of its own. */
export class LineIterator extends BlockIterator<{ stream: Stream; text: string }> {
  #stream: Stream = 'stdout'
  #lines: string[] = []
  #at = 0

  protected load(block: Block): void {
    this.#stream = block.stream
    this.#lines = ownLines(block)
    this.#at = 0
  }

  protected take(): { stream: Stream; text: string } | undefined {
    if (this.#at === this.#lines.length) return undefined
    return { stream: this.#stream, text: this.#lines[this.#at++]! }
  }
}

/** Block by block. */
class WholeIterator<T> extends BlockIterator<T> {
  readonly #of: (block: Block) => T | undefined
  #value: T | undefined

  constructor(source: Source, of: (block: Block) => T | undefined) {
    super(source)
    this.#of = of
  }

  protected load(block: Block): void {
    this.#value = this.#of(block)
  }

  protected take(): T | undefined {
    const value = this.#value
    this.#value = undefined
    return value
  }
}

/** The lines share the memory of their block. */
export const batches = (source: Source) =>
  new WholeIterator(source, ({ stream, text }) => ({ stream, lines: sharingLines(text) }))

/** stdout as it comes. */
export const byteBlocks = (source: Source) => new WholeIterator(source, ({ bytes }) => bytes)

/** JSON objects; what does not parse is skipped. */
export class JsonIterator<T> extends BlockIterator<T> {
  readonly #revive: ((value: T) => T) | undefined
  readonly #onSkipped: ((line: string) => void) | undefined
  /** Lines that do not parse, so far. */
  unparsed = 0
  #lines: string[] = []
  #at = 0

  /**
   * `revive`: makes of a value what JSON has no word for. `onSkipped`: told of lines that are no objects, which then come among
   * the others.
   */
  constructor(source: Source, revive?: (value: T) => T, onSkipped?: (line: string) => void) {
    super(source)
    this.#revive = revive
    this.#onSkipped = onSkipped
  }

  protected load(block: Block): void {
    this.#lines = sharingLines(block.text)
    this.#at = 0
  }

  protected take(): T | undefined {
    while (this.#at < this.#lines.length) {
      const line = this.#lines[this.#at++]!
      if (this.#onSkipped && !/^\s*\{/.test(line)) {
        this.#onSkipped(line)
        continue
      }
      let value: T
      try {
        value = JSON.parse(line) as T
      } catch {
        // Noise between events is no fault of the reader's.
        this.unparsed++
        this.#onSkipped?.(line)
        continue
      }
      return this.#revive ? this.#revive(value) : value
    }
    return undefined
  }
}
