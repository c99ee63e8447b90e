// AbortSignal -> cancellation. The one home of that.
import { because, type ErrorCode, SheepdogError } from './error'
import { onWaitedFor } from './host'

/** The work to stop when a signal is aborted. One listener a signal: Node warns of a leak when there are more than ten. */
class Watch {
  static readonly #of = new WeakMap<AbortSignal, Watch>()
  readonly #stops = new Set<{ stop(): void }>()
  readonly #onAbort = () => {
    for (const { stop } of [...this.#stops]) stop()
  }

  static on(signal: AbortSignal): Watch {
    const known = Watch.#of.get(signal)
    if (known) return known
    const watch = new Watch(signal)
    Watch.#of.set(signal, watch)
    return watch
  }

  private constructor(private readonly signal: AbortSignal) {
    signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  add(stop: () => void): () => void {
    const entry = { stop }
    this.#stops.add(entry)
    return () => {
      // Without a listener a signal that nobody holds can be collected.
      if (this.#stops.delete(entry) && this.#stops.size === 0) {
        this.signal.removeEventListener('abort', this.#onAbort)
        Watch.#of.delete(this.signal)
      }
    }
  }
}

/** Calls `stop` when the signal is aborted, now if it is already. Returns what lets go of it: to be called in the end. */
export function onAbort(signal: AbortSignal | undefined, stop: () => void): () => void {
  if (!signal) return () => {}
  if (!signal.aborted) return Watch.on(signal).add(stop)
  stop()
  return () => {}
}

/** Holds what the work belongs to: an object of the addon that is collected ends its work. */
const underWay = new Set<() => void>()

/** The work's result; `stop` ends it when the signal is aborted, and the error with this code then has the signal's reason as its cause. */
export async function abortable<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  code: ErrorCode,
  stop: () => void,
): Promise<T> {
  const letGo = onAbort(signal, stop)
  underWay.add(stop)
  try {
    return await work
  } catch (error) {
    // The core does not know why the signal was aborted.
    throw signal?.aborted ? because(error, code, signal.reason) : error
  } finally {
    underWay.delete(stop)
    letGo()
  }
}

/** The work's result, or `error()` as soon as the signal is aborted; the work itself goes on. */
export async function orAborted<T>(
  work: PromiseLike<T> | T,
  signal: AbortSignal | undefined,
  error: () => Error,
): Promise<T> {
  if (!signal) return work
  let letGo = () => {}
  const aborted = new Promise<never>((_, reject) => {
    letGo = onAbort(signal, () => reject(error()))
  })
  try {
    return await Promise.race([aborted, work])
  } finally {
    letGo()
  }
}

/** Throws the error with this code when the signal is aborted already. */
export function throwIfAborted(signal: AbortSignal | undefined, code: ErrorCode, message: string): void {
  if (signal?.aborted) throw new SheepdogError(code, message, {}, signal.reason)
}

/** Resolves after the time, or when the signal is aborted. */
export async function waited(ms: number, signal: AbortSignal | undefined): Promise<void> {
  let letGo = () => {}
  await new Promise<void>((resolve) => {
    const giveUp = onWaitedFor(ms, resolve)
    letGo = onAbort(signal, () => {
      giveUp()
      resolve()
    })
  })
  letGo()
}
