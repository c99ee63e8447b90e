// A program's stdin, to be written to while it runs.
import { Writable } from 'node:stream'
import { callbackify, types } from 'node:util'
import { SheepdogError, invalidOption } from '../error'
import { show } from '../option'
import type { StdinQueue } from './stdin_queue'

/**
 * The stdin of a process that was spawned with `stdin: "pipe"`. When the program reads slowly, writes
 * wait. When it stops reading, further writes are discarded without an error.
 *
 * @example
 * const child = spawn('psql', { stdin: 'pipe' })
 * await child.stdin.write('select 1;\n')
 * await child.stdin.end()
 */
export class ProcessStdin {
  readonly #queue: StdinQueue
  readonly #fail: (reason: unknown) => void
  #ended: Promise<void> | undefined
  #writable: WritableStream<string | Uint8Array> | undefined
  #writableNode: Writable | undefined

  /** @internal */
  constructor(queue: StdinQueue, fail: (reason: unknown) => void) {
    this.#queue = queue
    this.#fail = fail
  }

  /** False after `end()`, and once the program is known to read no more. */
  get isOpen(): boolean {
    return !this.#ended && this.#queue.isOpen
  }

  /**
   * Writes a chunk. Resolves when the pipe has accepted it, or when the program has stopped reading.
   *
   * @throws PROCESS_STDIN_CLOSED after `end()`.
   */
  async write(chunk: string | Uint8Array): Promise<void> {
    await this.#write(chunk)
  }

  /** Closes stdin after everything that was written. Resolves when all of it is written. */
  end(): Promise<void> {
    return (this.#ended ??= this.#queue.end())
  }

  /**
   * This stdin as a web stream. Closing the stream is `end()`. Aborting it says that the input is
   * incomplete: the process tree is killed and the run rejects with PROCESS_INPUT_FAILED. The stream
   * fails with PROCESS_STDIN_CLOSED when you write and the program reads no more.
   */
  get writable(): WritableStream<string | Uint8Array> {
    return (this.#writable ??= new WritableStream<string | Uint8Array>({
      write: async (chunk) => {
        if (!(await this.#write(chunk))) throw takesNoMore()
      },
      close: () => this.end(),
      abort: (reason) => this.#fail(reason),
    }))
  }

  /**
   * This stdin as a Node stream. Destroying it without an error is `end()`. Destroying it with an error
   * says that the input is incomplete: the process tree is killed and the run rejects with
   * PROCESS_INPUT_FAILED. The stream closes early, without an error, when the program reads no more.
   */
  get writableNode(): Writable {
    return (this.#writableNode ??= this.#makeWritable())
  }

  async #write(chunk: string | Uint8Array): Promise<boolean> {
    if (typeof chunk !== 'string' && !types.isUint8Array(chunk)) {
      throw invalidOption('chunk', `expected a string or a Uint8Array, got ${show(chunk)}`)
    }
    if (this.#ended) {
      throw new SheepdogError('PROCESS_STDIN_CLOSED', 'stdin is closed: nothing can be written after end()')
    }
    return this.#queue.write(chunk)
  }

  #makeWritable(): Writable {
    const write = callbackify(async (chunks: Uint8Array[]) => {
      const taken = await Promise.all(chunks.map((chunk) => this.#write(chunk)))
      if (taken.includes(false)) stream.destroy()
    })
    const stream = new Writable({
      write: (chunk: Uint8Array, _, done) => write([chunk], done),
      writev: (chunks, done) =>
        write(
          chunks.map(({ chunk }) => chunk as Uint8Array),
          done,
        ),
      final: callbackify(() => this.end()),
      destroy: (error, done) => {
        if (error) this.#fail(error)
        else void this.end()
        done(error)
      },
    })
    return stream
  }
}

function takesNoMore(): SheepdogError {
  return new SheepdogError('PROCESS_STDIN_CLOSED', 'the program no longer reads its stdin')
}
