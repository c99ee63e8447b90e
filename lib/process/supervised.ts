// A program that is started again when it ends.
import { waited } from '../abort'
import { type SheepdogError, SheepdogError as Failure, invalidOption } from '../error'
import { timers } from '../host'
import { check, checkOptions, snapshot } from '../option'
import { spawn } from '../process'
import { warnOnce } from '../warning'
import { delayMs, endOf, type EndKind, kindOf, type RunEnd } from './end'
import { isOptions, isReadOnce, type RunOptions } from './request'
import type { RunResult } from './result'
import type { RunningProcess } from './running_process'

/** When and how fast a supervised program is started again. */
export interface RestartOptions {
  /**
   * Ends after which the program is started again. `"exit"`: with exit status 0. `"failure"`: with another status, by a signal,
   * by `timeoutMs`, or because the system refused the start. `"idle"`: killed by `idleTimeoutMs`.
   *
   * @default ["failure", "idle"]
   */
  on?: readonly ('exit' | 'failure' | 'idle')[]
  /**
   * Milliseconds before the first restart in a row. Each further pause is twice as long.
   *
   * @default 1_000
   */
  minDelayMs?: number
  /**
   * Longest pause, in milliseconds.
   *
   * @default 60_000
   */
  maxDelayMs?: number
  /**
   * Most restarts in a row.
   *
   * @default no limit
   * @throws PROCESS_RESTARTS_EXHAUSTED, at `done`.
   */
  maxRestarts?: number
  /**
   * A run of so many milliseconds counts as well: the restarts in a row are counted from 0 again.
   *
   * @default 60_000
   */
  resetAfterMs?: number
}

/** Options of `supervise`: those of `spawn`, without time limits unless they are given. */
export interface SuperviseOptions extends Omit<RunOptions, 'retry'> {
  /** When the program is started again. */
  restart?: RestartOptions
}

/** An event in the life of a supervised program: a start, an end, or a pause before the next start. */
export type SupervisedEvent =
  | {
      type: 'started'
      /** Process id of the program. */
      pid: number
      /** Number of restarts so far. */
      restarts: number
    }
  | {
      type: 'ended'
      /** Why it ended: `"other"` is an end after which it is not started again. */
      reason: EndKind
      result?: RunResult
      error?: SheepdogError
    }
  | {
      type: 'waiting'
      /** Milliseconds until the next start. */
      delayMs: number
      /** Restarts in a row, the one that is waited for included. */
      inRow: number
    }

const checks = {
  on: check.listOf(check.oneOf('exit', 'failure', 'idle')),
  minDelayMs: check.duration,
  maxDelayMs: check.duration,
  maxRestarts: check.count,
  resetAfterMs: check.duration,
}

/** Events that wait for a reader; older ones are dropped. */
const MOST_EVENTS = 1_000

/**
 * Keeps a program running: starts it again when it fails or falls silent, after a pause that grows. Never throws: an error
 * rejects `done`. The program has no time limits unless you give them.
 *
 * @example
 * await using server = supervise('node', ['server.js'], { idleTimeoutMs: 60_000 })
 * for await (const event of server.events()) console.log(event.type)
 */
export function supervise(command: string, args?: readonly string[], options?: SuperviseOptions): Supervised
/** Keeps a program without arguments running. */
export function supervise(command: string, options?: SuperviseOptions): Supervised
export function supervise(command: string, args?: unknown, options?: unknown): Supervised {
  const onlyOptions = isOptions(args, options)
  const given = ((onlyOptions ? args : options) ?? {}) as SuperviseOptions
  const list = onlyOptions ? undefined : Array.isArray(args) ? [...args] : args
  return new Supervised(given, (rest) => spawn(command, list as string[] | undefined, rest) as RunningProcess)
}

/** A program that is started again when it ends. `supervise()` makes one. */
export class Supervised implements AsyncDisposable {
  #restarts = 0
  #current: RunningProcess | undefined
  #last: RunResult | undefined
  #isWatched = false
  readonly #stopped = new AbortController()
  #isOver = false
  readonly #readers = new Set<EventReader>()
  readonly #done: Promise<void>

  /** @internal */
  constructor(options: SuperviseOptions, start: (options: RunOptions) => RunningProcess) {
    this.#done = this.#supervise(options, start).finally(() => {
      this.#isOver = true
      this.#tell(undefined)
    })
    this.#done.catch((error: unknown) => timers.setImmediate(() => this.#warn(error)))
  }

  /** Number of times that the program was started again. */
  get restarts(): number {
    return this.#restarts
  }

  /** The program that runs now; undefined during a pause and after the end. */
  get current(): RunningProcess | undefined {
    return this.#current
  }

  /**
   * Resolves when the program ended with an end after which it is not started again: exit status 0, or `stop()`.
   *
   * @throws PROCESS_RESTARTS_EXHAUSTED after `maxRestarts`, and every error that another start would not mend, as
   *   PROCESS_NOT_FOUND, INVALID_OPTION or PROCESS_ABORTED.
   */
  get done(): Promise<void> {
    this.#isWatched = true
    return this.#done
  }

  /** Yields what happens from now on, until the end. A reader that is slow misses the oldest of more than 1,000 events. */
  events(): AsyncIterableIterator<SupervisedEvent> {
    this.#isWatched = true
    const reader = new EventReader()
    if (this.#isOver) reader.take(undefined)
    else this.#readers.add(reader)
    return reader.read(() => this.#readers.delete(reader))
  }

  /** Ends the program, as `kill()` does, and starts it no more. Resolves when its tree is gone, with the last result. */
  async stop(): Promise<RunResult | undefined> {
    this.#isWatched = true
    this.#stopped.abort()
    await this.#current?.kill().catch(() => {})
    await this.#done.catch(() => {})
    return this.#last
  }

  /** Same as `stop()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #supervise(options: SuperviseOptions, start: (options: RunOptions) => RunningProcess): Promise<void> {
    check.object('options', options)
    const { restart, ...rest } = snapshot(options)
    checkOptions(restart, checks, 'restart')
    if (isReadOnce(rest.input))
      throw invalidOption('input', 'a stream can be read once: for supervise() use text, bytes or { file }')
    const policy = {
      minDelayMs: 1_000,
      maxDelayMs: 60_000,
      maxRestarts: Infinity,
      resetAfterMs: 60_000,
      ...restart,
    }
    const on: readonly string[] = restart?.on ?? ['failure', 'idle']
    const stopped = this.#stopped.signal
    for (let inRow = 0; ; this.#restarts++) {
      const end = await this.#runOnce(start({ timeoutMs: 0, idleTimeoutMs: 0, ...rest, reject: false }))
      const reason = supervisedKind(end)
      this.#tell({ type: 'ended', reason, ...end })
      if (stopped.aborted || (reason === 'exit' && !on.includes(reason))) return
      if (!on.includes(reason)) throw end.error ?? failed(end.result)
      inRow = (end.result?.durationMs ?? 0) >= policy.resetAfterMs ? 1 : inRow + 1
      if (inRow > policy.maxRestarts) throw exhausted(policy.maxRestarts, end)
      const pauseMs = delayMs(inRow, policy.minDelayMs, policy.maxDelayMs)
      this.#tell({ type: 'waiting', delayMs: pauseMs, inRow })
      await waited(pauseMs, rest.signal ? AbortSignal.any([stopped, rest.signal]) : stopped)
      if (stopped.aborted) return
    }
  }

  async #runOnce(child: RunningProcess): Promise<RunEnd> {
    this.#current = child
    const { result } = child
    const { restarts } = this
    const told = child.started.then(
      ({ pid }) => this.#tell({ type: 'started', pid, restarts }),
      () => {},
    )
    const end = await endOf(result)
    // The end of a short run may be here first.
    await told
    this.#current = undefined
    this.#last = end.result ?? this.#last
    return end
  }

  #tell(event: SupervisedEvent | undefined): void {
    for (const reader of this.#readers) reader.take(event)
  }

  /** It ended by itself, and nobody will hear of it. */
  #warn(error: unknown): void {
    if (this.#isWatched || !(error instanceof Failure)) return
    warnOnce(`supervise() ended, and done is not watched: ${error.code}: ${error.message}`)
  }
}

/** Events on their way to one reader; undefined is their end. */
class EventReader {
  readonly #waiting: (SupervisedEvent | undefined)[] = []
  #wake = () => {}

  take(event: SupervisedEvent | undefined): void {
    if (this.#waiting.push(event) > MOST_EVENTS) this.#waiting.shift()
    this.#wake()
  }

  async *read(onLeft: () => void): AsyncGenerator<SupervisedEvent, void> {
    try {
      for (;;) {
        if (this.#waiting.length === 0) await new Promise<void>((resolve) => (this.#wake = resolve))
        const event = this.#waiting.shift()
        if (!event) return
        yield event
      }
    } finally {
      onLeft()
    }
  }
}

/** A supervised program that was killed, by its user or a time limit, or that the system could not start, has failed. */
function supervisedKind(end: RunEnd): EndKind {
  const kind = kindOf(end)
  if (kind === 'timeout') return 'failure'
  const code = end.error?.code
  return code === 'PROCESS_KILLED' || code === 'PROCESS_SPAWN_FAILED' ? 'failure' : kind
}

function exhausted(restarts: number, { result, error }: RunEnd): SheepdogError {
  const last = error?.message ?? `the last run ${howItEnded(result)}`
  return new Failure(
    'PROCESS_RESTARTS_EXHAUSTED',
    `the program failed again after ${restarts} restarts in a row: ${last}`,
    { restarts, result },
    error,
  )
}

function failed(result: RunResult | undefined): SheepdogError {
  return new Failure('PROCESS_FAILED', `the program ${howItEnded(result)}`, {
    exitCode: result?.exitCode ?? undefined,
    signal: result?.signal ?? undefined,
    result,
  })
}

function howItEnded(result: RunResult | undefined): string {
  return result?.signal ? `was ended by ${result.signal}` : `exited with status ${result?.exitCode}`
}
