// A program's stdin, to be written to while it runs.
import { Writable } from 'node:stream'
import { callbackify, types } from 'node:util'
import { SheepdogError, invalidOption } from '../error'
import { show } from '../option'
import type { StdinQueue } from './stdin_queue'

/** Called when a write or the end is done, or with its error. */
type Callback = (error?: Error | null) => void

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
   * Writes a chunk. Resolves when the pipe has accepted it, or when the program has stopped reading. The bytes are copied, so
   * that the buffer can be used again at once.
   *
   * @param encoding Encoding of a text. Default: `utf8`.
   * @param callback Called in place of the promise's end, as with a stream of Node.
   * @throws PROCESS_STDIN_CLOSED after `end()`.
   * @throws INVALID_OPTION for a chunk that is neither a string nor a Uint8Array.
   */
  write(
    chunk: string | Uint8Array,
    encoding?: BufferEncoding | Callback,
    callback?: Callback,
  ): Promise<void> {
    return this.#call(chunk, encoding, callback, (chunk, encoding) => this.#write(chunk, encoding))
  }

  /**
   * Closes stdin after everything that was written. Resolves when all of it is written.
   *
   * @param chunk Text or bytes to write before.
   * @param encoding Encoding of a text. Default: `utf8`.
   * @param callback Called in place of the promise's end, as with a stream of Node.
   */
  end(
    chunk?: string | Uint8Array | Callback,
    encoding?: BufferEncoding | Callback,
    callback?: Callback,
  ): Promise<void> {
    if (typeof chunk === 'function') [chunk, callback] = [undefined, chunk]
    return this.#call(chunk, encoding, callback, async (chunk, encoding) => {
      // Before the end, which nothing may follow.
      const written = chunk !== undefined && chunk !== null ? this.#write(chunk, encoding) : undefined
      await Promise.all([written, (this.#ended ??= this.#queue.end())])
    })
  }

  /**
   * This stdin as a web stream. Closing the stream is `end()`. Aborting it says that the input is
   * incomplete: the process tree is killed and the run rejects with PROCESS_INPUT_FAILED. The stream
   * fails with PROCESS_STDIN_CLOSED when you write and the program reads no more.
   */
  get writable(): WritableStream<string | Uint8Array> {
    return (this.#writable ??= new WritableStream<string | Uint8Array>({
      write: async (chunk) => {
        let taken: boolean
        try {
          taken = await this.#write(chunk)
        } catch (error) {
          // The stream is broken from here on: what was written must not pass for the whole input.
          this.#fail(error)
          throw error
        }
        if (!taken) throw takesNoMore()
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

  /** A call with the arguments of a stream of Node. With a callback, an error is told by it alone. */
  #call<C>(
    chunk: C,
    encoding: BufferEncoding | Callback | null | undefined,
    callback: Callback | undefined,
    act: (chunk: C, encoding: BufferEncoding | undefined) => Promise<unknown>,
  ): Promise<void> {
    if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding]
    const done = (async () => {
      // Node's own streams call bytes an encoding, "buffer".
      const isText = typeof chunk === 'string'
      if (isText && encoding !== undefined && encoding !== null && !Buffer.isEncoding(encoding))
        throw invalidOption('encoding', `expected the name of an encoding, got ${show(encoding)}`)
      if (callback !== undefined && callback !== null && typeof callback !== 'function')
        throw invalidOption('callback', `expected a function, got ${show(callback)}`)
      await act(chunk, isText ? (encoding ?? undefined) : undefined)
    })()
    if (typeof callback === 'function') callbackify(() => done)(callback)
    return done
  }

  #write(chunk: unknown, encoding?: BufferEncoding): Promise<boolean> {
    if (typeof chunk !== 'string' && !types.isUint8Array(chunk)) {
      throw invalidOption('chunk', `expected a string or a Uint8Array, got ${show(chunk)}`)
    }
    if (this.#ended) {
      throw new SheepdogError('PROCESS_STDIN_CLOSED', 'stdin is closed: nothing can be written after end()')
    }
    return this.#queue.write(chunk, encoding)
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
