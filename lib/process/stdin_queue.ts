// Chunks on their way to a program's stdin, in order: one native call at a time, and what comes meanwhile goes together.
import type { NativeProcess } from '../../native/native'
import { settle } from '../error'
import { nextTurn } from '../host'

/** Most bytes of one native call: it is copied on this thread, and small chunks are put together up to it. */
const BATCH_BYTES = 256 << 10

interface Waiting {
  bytes: Uint8Array
  resolve?(taken: boolean): void
}

const nothing = new Uint8Array()

export class StdinQueue {
  readonly #waiting: Waiting[] = []
  #waitingBytes = 0
  #isOpen = true
  #flushing: Promise<void> | undefined

  constructor(private readonly process: NativeProcess) {}

  /** False once the program takes no more. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Not taken yet. */
  get waitingBytes(): number {
    return this.#waitingBytes
  }

  /** Whether the pipe took it; false when the program takes no more. */
  async write(chunk: string | Uint8Array, encoding?: BufferEncoding): Promise<boolean> {
    if (!this.#isOpen) {
      // After a turn of the loop: who writes in a loop must not starve the host.
      await nextTurn()
      return false
    }
    if (chunk.length === 0) return true
    this.add(chunk, encoding)
    return this.taken()
  }

  /** As `write`, for who does not wait for each chunk: a promise for each costs more than the chunk. */
  add(chunk: string | Uint8Array, encoding?: BufferEncoding): void {
    if (chunk.length === 0) return
    // A copy: the caller may fill its buffer again before this one is sent.
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk)
    this.#waitingBytes += bytes.length
    this.#waiting.push({ bytes })
    this.#flushing ??= this.#flush()
  }

  /** Whether the pipe took all that was given so far; false when the program takes no more. */
  taken(): Promise<boolean> {
    const taken = new Promise<boolean>((resolve) => this.#waiting.push({ bytes: nothing, resolve }))
    this.#flushing ??= this.#flush()
    return taken
  }

  /** Closes stdin when everything is written. */
  async end(): Promise<void> {
    await this.#flushing
    this.#isOpen = false
    this.process.endStdin()
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#next()
      const taken = await this.#send(batch.map(({ bytes }) => bytes))
      for (const { bytes, resolve } of batch) {
        this.#waitingBytes -= bytes.length
        resolve?.(taken)
      }
    }
    this.#flushing = undefined
  }

  #next(): Waiting[] {
    let length = 0
    let count = 0
    for (const { bytes } of this.#waiting) {
      length += bytes.length
      if (count > 0 && length > BATCH_BYTES) break
      count++
    }
    return this.#waiting.splice(0, count)
  }

  async #send(chunks: Uint8Array[]): Promise<boolean> {
    const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
    for (let at = 0; at < bytes.length && this.#isOpen; at += BATCH_BYTES) {
      const piece = bytes.subarray(at, at + BATCH_BYTES)
      this.#isOpen = await settle(this.process.writeStdin(piece))
    }
    return this.#isOpen
  }
}
