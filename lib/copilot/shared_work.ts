// One piece of work that several callers wait for; each may leave by its signal.
import { orAborted, throwIfAborted } from '../abort'
import { SheepdogError } from '../error'

const ABORTED = 'The operation was aborted by its signal'

export function throwIfLeft(signal: AbortSignal | undefined): void {
  throwIfAborted(signal, 'SESSION_ABORTED', ABORTED)
}

export class SharedWork<T> {
  /** Whatever the work came to. */
  readonly settled: Promise<void>
  readonly #result: Promise<T>
  readonly #onAbandoned: () => void
  #waiting = 0

  /** `onAbandoned` is called when the last caller has left before the end. */
  constructor(result: Promise<T>, onAbandoned: () => void) {
    this.#result = result
    this.#onAbandoned = onAbandoned
    this.settled = result.then(
      () => {},
      () => {},
    )
  }

  /** The result, or SESSION_ABORTED as soon as the signal is. */
  join(signal?: AbortSignal): Promise<T> {
    this.#waiting++
    return orAborted(this.#result, signal, () => {
      if (--this.#waiting === 0) this.#onAbandoned()
      return new SheepdogError('SESSION_ABORTED', ABORTED, {}, signal?.reason)
    })
  }
}
