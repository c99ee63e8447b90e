// One piece of work that several callers wait for; each may leave by its signal.
import { SheepdogError } from '../error'

export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw aborted(signal)
}

function aborted(signal: AbortSignal): SheepdogError {
  return new SheepdogError('SESSION_ABORTED', 'The operation was aborted by its signal', {}, signal.reason)
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
    if (!signal) return this.#result
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        reject(aborted(signal))
        if (--this.#waiting === 0) this.#onAbandoned()
      }
      if (signal.aborted) return leave()
      signal.addEventListener('abort', leave, { once: true })
      this.#result.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave))
    })
  }
}
