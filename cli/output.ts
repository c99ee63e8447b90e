// stdout and stderr of the command itself: a slow reader is waited for, a reader that is gone is an event, and the live line
// is out of the way while something is written.
import { once } from 'node:events'
import { showBytes } from './figure'
import type { LiveLine } from './live'
import { DataStream, harmless, passThrough, tell, type StreamName } from './screen'

/** A reader that went away (`| head`, a closed terminal) is no fault worth a word. */
export const quietCodes = new Set(['EPIPE', 'EIO'])

/** Bytes that may wait for a slow reader once the command is to end. Further output is left out and counted. */
const maxWaitingBytes = 1 << 20

export class Output {
  readonly #live: LiveLine | undefined
  readonly #onBroken: () => void
  /** Aborted when nobody waits for slow readers any more. */
  readonly #hurried = new AbortController()
  readonly #errorListeners = new Map<StreamName, (error: NodeJS.ErrnoException) => void>()
  #broken: NodeJS.ErrnoException | undefined
  #leftOutBytes = 0
  readonly #data = { stdout: new DataStream('stdout'), stderr: new DataStream('stderr') }
  #mute = false

  /** `onBroken` is called once, when nothing more can be written. */
  constructor(live: LiveLine | undefined, onBroken: () => void) {
    this.#live = live
    this.#onBroken = onBroken
    for (const name of ['stdout', 'stderr'] as const) {
      const listener = (error: NodeJS.ErrnoException) => this.#onError(name, error)
      this.#errorListeners.set(name, listener)
      process[name].on('error', listener)
    }
  }

  /** Why nothing can be written any more. */
  get broken(): NodeJS.ErrnoException | undefined {
    return this.#broken
  }

  /** Whether what broke it is worth telling. */
  get brokenQuietly(): boolean {
    return this.#broken !== undefined && quietCodes.has(this.#broken.code ?? '')
  }

  /** Writes text for a person, without control sequences; resolves when the reader has room for more. */
  write(name: StreamName, text: string): Promise<void> {
    return this.passThrough(name, harmless(text))
  }

  /** Writes a data stream: as it is to a file or a pipe, without control sequences to a terminal. */
  writeData(name: StreamName, text: string): Promise<void> {
    return this.passThrough(name, this.#data[name].fit(text))
  }

  /** Writes the output of a watched program as it is; resolves when the reader has room for more. */
  async passThrough(name: StreamName, data: string | Uint8Array): Promise<void> {
    if (this.#broken) return
    const stream = process[name]
    const isHurried = this.#hurried.signal.aborted
    if (isHurried && stream.writableLength > maxWaitingBytes) {
      this.#leftOutBytes += Buffer.byteLength(data)
      return
    }
    this.#live?.clear()
    const room = passThrough(name, data)
    this.#live?.draw()
    if (room || isHurried || this.#broken) return
    await once(stream, 'drain', { signal: this.#hurried.signal }).catch(() => {})
  }

  /** A line for people. */
  say(message: string): void {
    if (!this.#mute) tell(message)
  }

  /** Says why nothing can be written any more, where that is worth a word. */
  sayBroken(name: string): void {
    const { code, message } = this.#broken ?? {}
    if (this.#broken && !this.brokenQuietly)
      this.say(`${name}: output could not be written (${code ?? message})`)
  }

  /** Stops waiting for slow readers, because the command is to end. At most 1 MiB waits for them from here on. */
  hurry(): void {
    this.#hurried.abort()
  }

  /** Leaves the streams as they were found. Errors that still come concern nobody. */
  close(): void {
    this.#live?.close()
    if (this.#leftOutBytes > 0)
      this.say(`sheepdog: ${showBytes(this.#leftOutBytes)} of output are missing, because they were not read`)
    this.#leftOutBytes = 0
    for (const [name, listener] of this.#errorListeners) {
      process[name].on('error', () => {})
      process[name].off('error', listener)
    }
  }

  #onError(name: StreamName, error: NodeJS.ErrnoException): void {
    this.#mute ||= name === 'stderr'
    if (this.#broken) return
    this.#broken = error
    this.hurry()
    this.#onBroken()
  }
}
