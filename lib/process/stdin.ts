// A program's stdin, to be written to while it runs.
import { Writable } from 'node:stream'
import { callbackify, types } from 'node:util'
import { SheepdogError, invalidOption } from '../error'
import { show } from '../option'
import type { StdinQueue } from './stdin_queue'

/**
 * The stdin of a process that was spawned with `stdin: "pipe"`. A program that reads slowly slows its writer; one that takes no more is
 * no error: what is written then is let go.
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

  /** False after `end()`, and once the program is known to take no more. */
  get isOpen(): boolean {
    return !this.#ended && this.#queue.isOpen
  }

  /** Resolves when the pipe has taken the chunk. Rejects after `end()`: PROCESS_STDIN_CLOSED. */
  async write(chunk: string | Uint8Array): Promise<void> {
    await this.#write(chunk)
  }

  /** The program reads end of file when it has read everything; resolves when everything is written. */
  end(): Promise<void> {
    return (this.#ended ??= this.#queue.end())
  }

  /**
   * The same as a web stream. Closing it is `end()`. To abort it is to say that what is written is torn: the tree is killed,
   * PROCESS_INPUT_FAILED. It fails with PROCESS_STDIN_CLOSED when something is written that the program takes no more.
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
   * The same as a Node stream. To destroy it with an error is to say that what is written is torn: the tree is killed,
   * PROCESS_INPUT_FAILED; without one it is `end()`. It is closed early, without an error, when the program takes no more.
   */
  get writableNode(): Writable {
    return (this.#writableNode ??= this.#makeWritable())
  }

  async #write(chunk: string | Uint8Array): Promise<boolean> {
    if (typeof chunk !== 'string' && !types.isUint8Array(chunk)) {
      throw invalidOption('chunk', `expected a string or a Uint8Array, got ${show(chunk)}`)
    }
    if (this.#ended) {
      throw new SheepdogError('PROCESS_STDIN_CLOSED', 'stdin was ended: nothing can be written after end()')
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
  return new SheepdogError('PROCESS_STDIN_CLOSED', 'the program takes no more from its stdin')
}
