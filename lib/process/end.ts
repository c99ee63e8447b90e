// How a run ended, for those who start its program again. PURE.
import type { SheepdogError } from '../error'
import type { RunResult } from './result'

/** The end of a run: its result, its error, or both. */
export interface RunEnd {
  result?: RunResult
  error?: SheepdogError
}

/**
 * Why a run ended. `"exit"`: with exit status 0. `"failure"`: with another status, or by a signal. `"idle"`: killed by
 * `idleTimeoutMs`. `"timeout"`: stopped by `timeoutMs`. `"other"`: another start would end in the same way.
 */
export type EndKind = 'exit' | 'failure' | 'idle' | 'timeout' | 'other'

export function kindOf({ result, error }: RunEnd): EndKind {
  switch (error?.code) {
    case undefined:
      return result?.ok ? 'exit' : 'failure'
    case 'PROCESS_FAILED':
    case 'PROCESS_LOST':
      return 'failure'
    case 'PROCESS_IDLE':
      return 'idle'
    case 'PROCESS_TIMED_OUT':
      // Without a result the deadline had passed before the start.
      return result ? 'timeout' : 'other'
    default:
      return 'other'
  }
}

/** Milliseconds to wait before start number `again` (1 is the first one after a failure): they double up to the limit. */
export function delayMs(again: number, minDelayMs: number, maxDelayMs: number): number {
  return Math.min(maxDelayMs, minDelayMs * 2 ** Math.min(again - 1, 30))
}

/** Waits for the end of a run, which never rejects. */
export function endOf(result: Promise<RunResult>): Promise<RunEnd> {
  return result.then(
    (result) => ({ result }),
    (error: SheepdogError) => ({ result: error.result as RunResult | undefined, error }),
  )
}
