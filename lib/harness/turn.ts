import type { NativeTurn } from '../../native/native'
import { abortable } from '../abort'
import { at, callSite, type CallSite } from '../call-site'
import { delivery } from '../delivery'
import { SheepdogError, settle } from '../error'
import { nextTurn, pause } from '../host'
import type { TurnWatch } from '../observability/turn_watch'
import { conforming } from '../schema'
import { warnOnce } from '../warning'
import { events, withDates, type AgentEvent } from './event'
import { toResult, type TurnEnd, type TurnResult } from './result'
import { WatchedEvents } from './watched_events'

const lastEventsMs = 2000

/** @internal What the maker of a turn adds to its end. */
interface TurnOwner {
  /** Gives the result that the caller gets for that of the core. */
  finish?(ended: Promise<TurnResult>): Promise<TurnResult>
  /** The mistake of a handler that ended the turn. */
  misuse?(): Error | undefined
  onOver?(hasFailed: boolean): void
}

/**
 * A turn that is under way. Iterating over it yields its events. A slow reader slows the agent down;
 * events that nobody reads are dropped. The loop ends with the turn and does not throw: `result` says
 * how the turn went. A failure is a process warning if nobody has asked for `result` when the turn, and
 * the loop over it, are over.
 *
 * @example
 * const turn = codex.start('Fix the build.')
 * for await (const event of turn) if (event.type === 'text') process.stdout.write(event.text)
 * const result = await turn.result
 */
export class Turn<Structured = unknown> implements AsyncIterable<AgentEvent>, AsyncDisposable {
  readonly #native: NativeTurn | undefined
  #iterated = false
  /** Events of a turn that others watch as well. */
  #watched: WatchedEvents | undefined
  readonly #result: Promise<TurnResult<Structured>>
  /** Somebody has asked for the result. */
  #isAwaited = false
  #onLoopEnd!: () => void
  readonly #loopEnd = new Promise<void>((resolve) => (this.#onLoopEnd = resolve))

  /** @internal */
  constructor(
    turn: NativeTurn | Error,
    signal?: AbortSignal,
    schema?: object,
    watch?: TurnWatch,
    { finish, misuse, onOver }: TurnOwner = {},
  ) {
    let result: Promise<TurnResult<Structured>>
    if (turn instanceof Error) {
      result = Promise.reject(turn)
    } else {
      this.#native = turn
      const said = outcome(turn, callSite(), schema)
      const ended = (finish?.(said) ?? said).then(
        (result) => {
          const mistake = misuse?.()
          onOver?.(mistake !== undefined)
          if (mistake) throw mistake
          return result
        },
        (error: unknown) => {
          const mistake = misuse?.()
          onOver?.(true)
          throw mistake ?? error
        },
      ) as Promise<TurnResult<Structured>>
      result = abortable(ended, signal, 'AGENT_ABORTED', () => turn.abort())
    }
    this.#result = watch ? this.#told(result, watch) : result
    // Nobody has to await it: an unawaited failure is a warning, and not the host's end.
    this.#result.catch((error: unknown) => void this.#warn(error))
  }

  /** Resolves and rejects as `Harness.run` does. */
  get result(): Promise<TurnResult<Structured>> {
    this.#isAwaited = true
    return this.#result
  }

  /**
   * Ends the turn; `result` rejects with AGENT_ABORTED. Resolves when the process tree is gone. Does
   * nothing after the end of the turn.
   */
  async abort(): Promise<void> {
    this.#native?.abort()
    await this.#result.catch(() => {})
  }

  /**
   * Yields the events of the turn.
   *
   * @throws TURN_ITERATED for a second iterator.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<AgentEvent> {
    if (this.#iterated) {
      throw new SheepdogError(
        'TURN_ITERATED',
        'the events of this turn are already being read: they can be read once',
      )
    }
    this.#iterated = true
    return ending(this.#watched?.[Symbol.asyncIterator]() ?? this.#events(), this.#onLoopEnd)
  }

  #events(end: Promise<unknown> = this.#end): AsyncIterableIterator<AgentEvent> {
    return events({
      open: () => this.#native?.events(delivery),
      close: () => this.#native?.leave(),
      end,
    })
  }

  /** The promise that an iteration waits for last. A turn that could not begin throws its error there, which is told by that. */
  get #end(): Promise<unknown> {
    return this.#native ? this.#result.catch(() => {}) : this.result
  }

  /** The same, once the others have been told: a program that ends with its turn loses nothing of what it observed. */
  async #told(result: Promise<TurnResult<Structured>>, watch: TurnWatch): Promise<TurnResult<Structured>> {
    const over = result.catch(() => {})
    if (watch.wantsEvents && this.#native) {
      const end = () => this.#result.catch(() => {})
      this.#watched = new WatchedEvents(this.#events(over), (event) => watch.onEvent(event), over, end)
      if (!watch.hasReader) void this.#watched.return()
    }
    await over
    // The last events come right behind the end; a turn waits for no observer's sake for longer.
    if (this.#watched) await Promise.race([this.#watched.isRead, pause(lastEventsMs)])
    await result.then(
      (value) => watch.end(value, undefined),
      (error: Error) => watch.end(undefined, error),
    )
    return result
  }

  /** The verdict would be lost. A loop over the events is awaited first, because a caller asks for the result after it. */
  async #warn(error: unknown): Promise<void> {
    if (this.#iterated) await this.#loopEnd
    await nextTurn()
    if (this.#isAwaited || !(error instanceof SheepdogError) || error.code === 'AGENT_ABORTED') return
    warnOnce(`a turn failed, and its result is not watched: ${error.code}: ${error.message}`)
  }

  /** Aborts the turn if it still runs, and waits until its process tree is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.abort()
  }
}

/** The same events; says when the loop over them is over, however it ends. */
function ending<T>(events: AsyncIterableIterator<T>, onEnd: () => void): AsyncIterableIterator<T> {
  const see = (result: IteratorResult<T>) => {
    if (result.done) onEnd()
    return result
  }
  const fail = (error: unknown) => {
    onEnd()
    throw error
  }
  return {
    next: () => events.next().then(see, fail),
    return: async () => {
      onEnd()
      return (await events.return?.()) ?? { value: undefined, done: true }
    },
    [Symbol.asyncIterator]() {
      return this
    },
  }
}

/** As it crossed, until it is what it is told as. */
interface FailedEnd {
  result?: TurnEnd | TurnResult
  resetAt?: number | Date
  events?: AgentEvent[]
}

async function outcome(turn: NativeTurn, site: CallSite, schema: object | undefined): Promise<TurnResult> {
  try {
    const result = toResult(await settle<TurnEnd>(turn.outcome(), site))
    return await conforming(
      result,
      schema,
      (message, problems) => new SheepdogError('AGENT_SCHEMA_MISMATCH', message, { result, problems }),
    )
  } catch (error) {
    const failed = at(error, site) as Error & FailedEnd
    if (failed.result && 'facts' in failed.result) failed.result = toResult(failed.result)
    if (failed.resetAt !== undefined) failed.resetAt = new Date(failed.resetAt)
    if (failed.events) failed.events = failed.events.map(withDates)
    throw failed
  }
}
