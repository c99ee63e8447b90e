import type { NativeTurn } from '../../native/native'
import { abortable } from '../abort'
import { at, callSite, type CallSite } from '../call-site'
import { delivery } from '../delivery'
import { SheepdogError, settle } from '../error'
import type { TurnWatch } from '../observability/turn_watch'
import { conforming } from '../schema'
import { events, withDates, type AgentEvent } from './event'
import { toResult, type TurnEnd, type TurnResult } from './result'
import { WatchedEvents } from './watched_events'

/**
 * A turn under way. Iterating it gives its events; a slow reader slows the agent. Events that nobody iterates are dropped. The
 * iteration just ends with the turn: how the turn went is what `result` says.
 */
export class Turn<Structured = unknown> implements AsyncIterable<AgentEvent>, AsyncDisposable {
  readonly #native: NativeTurn | undefined
  #iterated = false
  /** Of a turn whose events others look at as well. */
  readonly #watched: WatchedEvents | undefined

  /** As of `Harness.run`. Need not be awaited. */
  readonly result: Promise<TurnResult<Structured>>

  /** @internal */
  constructor(turn: NativeTurn | Error, signal?: AbortSignal, schema?: object, watch?: TurnWatch) {
    if (turn instanceof Error) {
      this.result = Promise.reject(turn)
    } else {
      this.#native = turn
      const ended = outcome(turn, callSite(), schema) as Promise<TurnResult<Structured>>
      this.result = abortable(ended, signal, 'AGENT_ABORTED', () => turn.abort())
      if (watch?.wantsEvents) {
        this.#watched = new WatchedEvents(this.#events(), (event) => watch.onEvent(event), this.#end)
        if (!watch.hasReader) void this.#watched.return()
      }
    }
    if (watch) void this.#tell(watch)
    // Nobody has to await it: an unawaited failure is not the host's end.
    this.result.catch(() => {})
  }

  /** Ends the turn; resolves when its tree is gone. After the end nothing happens. */
  async abort(): Promise<void> {
    this.#native?.abort()
    await this.result.catch(() => {})
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<AgentEvent> {
    if (this.#iterated) {
      throw new SheepdogError('TURN_ITERATED', 'this turn is being iterated already: one iterator a turn')
    }
    this.#iterated = true
    return this.#watched?.[Symbol.asyncIterator]() ?? this.#events()
  }

  #events(): AsyncIterableIterator<AgentEvent> {
    const turn = this.#native
    return events({
      open: () => turn?.events(delivery),
      close: () => turn?.leave(),
      end: this.#end,
    })
  }

  /** What an iteration waits for last. */
  get #end(): Promise<unknown> {
    return this.#native ? this.result.catch(() => {}) : this.result
  }

  async #tell(watch: TurnWatch): Promise<void> {
    try {
      const result = await this.result
      await this.#watched?.isRead
      watch.end(result, undefined)
    } catch (error) {
      await this.#watched?.isRead
      watch.end(undefined, error as Error)
    }
  }

  /** Aborts the turn if it still runs, and waits until its tree is gone. */
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
