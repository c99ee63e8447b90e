// Runs a program again that failed.
import { waited } from '../abort'
import type { SheepdogError } from '../error'
import { check } from '../option'
import { delayMs, endOf, kindOf } from './end'
import type { RunResult } from './result'

/** How often a program that failed is run again. */
export interface RunRetry {
  /** Number of runs, the first one included. */
  attempts: number
  /**
   * Milliseconds before the second run. Each further pause is twice as long.
   *
   * @default 1_000
   */
  minDelayMs?: number
  /**
   * Longest pause, in milliseconds.
   *
   * @default 30_000
   */
  maxDelayMs?: number
  /**
   * Ends after which the program is run again. `"failure"`: an exit status other than 0, or a signal. `"idle"`: killed by
   * `idleTimeoutMs`. `"timeout"`: stopped by `timeoutMs`.
   *
   * @default ["failure", "idle"]
   */
  on?: readonly ('failure' | 'idle' | 'timeout')[]
}

const checks = {
  attempts: check.count,
  minDelayMs: check.duration,
  maxDelayMs: check.duration,
  on: check.listOf(check.oneOf('failure', 'idle', 'timeout')),
}

/** Checks the option `retry`: a number of attempts, or an object. */
export function checkRetry(path: string, value: unknown): void {
  if (typeof value === 'number') return check.count(path, value)
  check.fields(checks)(path, value)
  check.count(`${path}.attempts`, (value as Partial<RunRetry>).attempts)
}

/** Runs until an end that is not retried. `result.attempts` says how many runs it took. */
export async function retried(
  retry: number | RunRetry,
  signal: AbortSignal | undefined,
  runOnce: () => Promise<RunResult>,
): Promise<RunResult> {
  const {
    attempts,
    minDelayMs = 1_000,
    maxDelayMs = 30_000,
    on = ['failure', 'idle'],
  } = typeof retry === 'number' ? { attempts: retry } : retry
  for (let attempt = 1; ; attempt++) {
    const end = await endOf(runOnce())
    if (end.result) end.result.attempts = attempt
    const kind = kindOf(end)
    const isOver = attempt >= attempts || !(on as readonly string[]).includes(kind)
    if (isOver && end.error) throw end.error as SheepdogError
    if (isOver) return end.result!
    await waited(delayMs(attempt, minDelayMs, maxDelayMs), signal)
  }
}
