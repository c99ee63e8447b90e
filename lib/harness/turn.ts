import type { NativeTurn } from '../../native/native'
import { abortable } from '../abort'
import { at, callSite, type CallSite } from '../call-site'
import { delivery } from '../delivery'
import { SheepdogError, settle } from '../error'
import { pause } from '../host'
import type { TurnWatch } from '../observability/turn_watch'
import { conforming } from '../schema'
import { events, withDates, type AgentEvent } from './event'
import { toResult, type TurnEnd, type TurnResult } from './result'
import { WatchedEvents } from './watched_events'

const lastEventsMs = 2000

/**
 * A turn that is under way. Iterating over it yields its events. A slow reader slows the agent down;
 * events that nobody reads are dropped. The loop ends with the turn and does not throw: `result` says
 * how the turn went.
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

  /** Resolves and rejects as `Harness.run` does. You need not await it. */
  readonly result: Promise<TurnResult<Structured>>

  /** @internal */
  constructor(turn: NativeTurn | Error, signal?: AbortSignal, schema?: object, watch?: TurnWatch) {
    if (turn instanceof Error) {
      this.result = Promise.reject(turn)
    } else {
      this.#native = turn
      const ended = outcome(turn, callSite(), schema) as Promise<TurnResult<Structured>>
      this.result = abortable(ended, signal, 'AGENT_ABORTED', () => turn.abort())
    }
    if (watch) this.result = this.#told(this.result, watch)
    // Nobody has to await it: an unawaited failure is not the host's end.
    this.result.catch(() => {})
  }

  /**
   * Ends the turn; `result` rejects with AGENT_ABORTED. Resolves when the process tree is gone. Does
   * nothing after the end of the turn.
   */
  async abort(): Promise<void> {
    this.#native?.abort()
    await this.result.catch(() => {})
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
    return this.#watched?.[Symbol.asyncIterator]() ?? this.#events()
  }

  #events(end: Promise<unknown> = this.#end): AsyncIterableIterator<AgentEvent> {
    const turn = this.#native
    return events({
      open: () => turn?.events(delivery),
      close: () => turn?.leave(),
      end,
    })
  }

  /** The promise that an iteration waits for last. */
  get #end(): Promise<unknown> {
    return this.#native ? this.result.catch(() => {}) : this.result
  }

  /** The same, once the others have been told: a program that ends with its turn loses nothing of what it observed. */
  async #told(result: Promise<TurnResult<Structured>>, watch: TurnWatch): Promise<TurnResult<Structured>> {
    const over = result.catch(() => {})
    if (watch.wantsEvents && this.#native) {
      const end = () => this.result.catch(() => {})
      this.#watched = new WatchedEvents(this.#events(over), (event) => watch.onEvent(event), over, end)
      if (!watch.hasReader) void this.#watched.return()
    }
    try {
      const value = await result
      await this.#isRead()
      watch.end(value, undefined)
      return value
    } catch (error) {
      await this.#isRead()
      watch.end(undefined, error as Error)
      throw error
    }
  }

  /** The last events come right behind the end; a turn waits for no observer's sake for longer. */
  async #isRead(): Promise<void> {
    if (!this.#watched) return
    await Promise.race([this.#watched.isRead, pause(lastEventsMs)])
  }

  /** Aborts the turn if it still runs, and waits until its process tree is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.abort()
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
