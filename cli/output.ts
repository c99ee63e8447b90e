// stdout and stderr of the command itself: a slow reader is waited for, a reader that is gone is an event, and the live line
// is out of the way while something is written.
import type { LiveLine } from './live'

type StreamName = 'stdout' | 'stderr'

/** A reader that went away (`| head`, a closed terminal) is no fault worth a word. */
export const quietCodes = new Set(['EPIPE', 'EIO'])

export class Output {
  readonly #live: LiveLine | undefined
  readonly #onBroken: () => void
  readonly #waiting = new Set<() => void>()
  readonly #errorListeners = new Map<StreamName, (error: NodeJS.ErrnoException) => void>()
  #broken: NodeJS.ErrnoException | undefined
  #patient = true
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

  /** Writes the text; resolves when the reader has room for more. */
  async write(name: StreamName, text: string | Uint8Array): Promise<void> {
    if (this.#broken) return
    this.#live?.clear()
    const stream = process[name]
    const room = stream.write(text)
    this.#live?.draw()
    if (room || !this.#patient || this.#broken) return
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#waiting.delete(done)
        stream.off('drain', done)
        resolve()
      }
      this.#waiting.add(done)
      stream.on('drain', done)
    })
  }

  /** A line for people. */
  say(message: string): void {
    if (!this.#mute) process.stderr.write(`${message}\n`)
  }

  /** Says why nothing can be written any more, where that is worth a word. */
  sayBroken(name: string): void {
    const { code, message } = this.#broken ?? {}
    if (this.#broken && !this.brokenQuietly)
      this.say(`${name}: output could not be written (${code ?? message})`)
  }

  /** Waits no more for slow readers: the command is to end. */
  hurry(): void {
    this.#patient = false
    for (const done of this.#waiting) done()
  }

  /** Leaves the streams as they were found. Errors that still come concern nobody. */
  close(): void {
    this.#live?.close()
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
