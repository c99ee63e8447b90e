// So many at once: turns, runs, and what users do themselves.
import type { NativeConcurrencyLimit } from '../native/native'
import { orAborted, throwIfAborted } from './abort'
import { SheepdogError, settle } from './error'
import { onWaitedFor } from './host'
import { native } from './native'
import { check, checkOptions } from './option'

const natives = new WeakMap<ConcurrencyLimit, NativeConcurrencyLimit>()

/**
 * A limit on how many turns, runs and pieces of your own work happen at once, shared by everything that
 * is given it. Waiting work starts in the order in which it asked. A slot is free again when the
 * process tree of a run is gone, or when the promise of a piece of work has settled.
 *
 * @example
 * const limit = new ConcurrencyLimit(4)
 * await Promise.all(folders.map((cwd) => run('npm', ['test'], { cwd, limit })))
 */
export class ConcurrencyLimit {
  /**
   * @param max How many may run at once; a whole number of at least 1.
   * @throws INVALID_OPTION for any other value.
   */
  constructor(max: number) {
    check.count('max', max)
    natives.set(this, new native.NativeConcurrencyLimit(max))
  }

  /**
   * Waits for a free slot, calls `work`, and frees the slot when `work` settles, whether it succeeds or
   * fails.
   *
   * @param work Your function. Its result, or its error, is the result of `use`.
   * @param options.signal Ends the wait for a slot: `use` rejects with PROCESS_ABORTED and `work` is
   *   not called. A function that already runs is not interrupted.
   * @param options.timeoutMs Longest wait for a slot, in milliseconds. Default: no limit; 0 and
   *   Infinity mean no limit too. After that, and for a negative value at once, `use` rejects with
   *   PROCESS_TIMED_OUT and `work` is not called.
   * @throws PROCESS_ABORTED, PROCESS_TIMED_OUT, INVALID_OPTION
   */
  async use<T>(
    work: () => T | PromiseLike<T>,
    options?: { signal?: AbortSignal; timeoutMs?: number },
  ): Promise<T> {
    check.function('work', work)
    checkOptions(options, { signal: check.signal, timeoutMs: check.timeout })
    const { signal, timeoutMs = 0 } = options ?? {}
    throwIfAborted(
      signal,
      'PROCESS_ABORTED',
      'the work was not started: its abort signal was already aborted',
    )
    if (timeoutMs < 0) throw noRoom(timeoutMs)
    const place = nativeLimit(this).takePlace()
    const late = new AbortController()
    const stopWaiting = timeoutMs === 0 ? () => {} : onWaitedFor(timeoutMs, () => late.abort())
    try {
      const granted = orAborted(settle(place.granted()), signal, () => aborted(signal))
      await orAborted(granted, late.signal, () => noRoom(timeoutMs))
      stopWaiting()
      return await work()
    } finally {
      stopWaiting()
      place.release()
    }
  }
}

function noRoom(timeoutMs: number): SheepdogError {
  const late = timeoutMs < 0 ? '`timeoutMs` had already passed' : `no slot was free within ${timeoutMs} ms`
  const message = `the work was not started: ${late}; raise \`timeoutMs\`, or the limit`
  return new SheepdogError('PROCESS_TIMED_OUT', message, { timeoutMs })
}

function aborted(signal: AbortSignal | undefined): SheepdogError {
  const message = 'the work was not started: its abort signal was aborted while it waited for a slot'
  return new SheepdogError('PROCESS_ABORTED', message, {}, signal?.reason)
}

/** The check of an option that takes one. */
export const checkLimit = check.expected('a ConcurrencyLimit', (value) => value instanceof ConcurrencyLimit)

export function nativeLimit(limit: ConcurrencyLimit): NativeConcurrencyLimit {
  return natives.get(limit)!
}
