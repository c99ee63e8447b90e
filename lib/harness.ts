import type { NativeTurn } from '../native/native'
import { abortable } from './abort'
import { at, callSite, type CallSite } from './call-site'
import { delivery } from './delivery'
import { SheepdogError, invalidOption, settle } from './error'
import { events, type AgentEvent } from './harness/event'
import { host } from './harness/host'
import { ConcurrencyLimit, nativeLimit } from './harness/limit'
import {
  checkHarnessOptions,
  checkTurnOptions,
  merge,
  toSpec,
  type HarnessOptions,
  type ProviderName,
  type TurnOptions,
} from './harness/request'
import { toResult, type TurnEnd, type TurnResult } from './harness/result'
import { native } from './native'
import { check, show } from './option'
import { conform, type StructuredOf } from './schema'

export type { AgentEvent } from './harness/event'
export type { HarnessOptions, ProviderName, TurnOptions } from './harness/request'
export type { AgentErrorKind, AgentUsage, TurnResult } from './harness/result'
export { ConcurrencyLimit } from './harness/limit'
export { doctor, type DoctorOptions, type Finding } from './harness/doctor'
export { replay, type Recorded, type Replay } from './harness/replay'

/**
 * A coding-agent CLI as a function.
 *
 * @example
 * const codex = new Harness({ provider: 'codex', cwd: '/work' })
 * const { text } = await codex.run('Which tests fail, and why?')
 */
export class Harness {
  readonly #options: HarnessOptions
  readonly #limits: ReturnType<typeof nativeLimit>[]

  /** Throws INVALID_OPTION for a wrong option, an unknown provider included. */
  constructor(options: HarnessOptions) {
    checkHarnessOptions(options)
    if (options.limit !== undefined && !(options.limit instanceof ConcurrencyLimit)) {
      throw invalidOption('limit', `expected a ConcurrencyLimit, got ${show(options.limit)}`)
    }
    this.#options = { ...options }
    this.#limits = [new native.NativeConcurrencyLimit(options.maxConcurrent)]
    if (options.limit) this.#limits.push(nativeLimit(options.limit))
  }

  get provider(): ProviderName {
    return this.#options.provider
  }

  /**
   * One turn. Resolves only when the turn succeeded; otherwise rejects with `code` (AGENT_FAILED with `kind`, AGENT_IDLE, ...)
   * with what there is of the `result`, and with the last `events` (at most 200, of 256 KiB together) and the end of `stderr`.
   */
  async run<Schema extends object>(
    prompt: string,
    options: TurnOptions & { schema: Schema },
  ): Promise<TurnResult<StructuredOf<Schema>>>
  async run(prompt: string, options?: TurnOptions): Promise<TurnResult>
  async run(prompt: string, options?: TurnOptions): Promise<TurnResult> {
    return this.#start(prompt, options, false).result
  }

  /** Starts a turn. Never throws: errors reject `result`. */
  start<Schema extends object>(
    prompt: string,
    options: TurnOptions & { schema: Schema },
  ): Turn<StructuredOf<Schema>>
  start(prompt: string, options?: TurnOptions): Turn
  start(prompt: string, options?: TurnOptions): Turn {
    return this.#start(prompt, options, true)
  }

  #start(prompt: string, options: TurnOptions | undefined, hasListener: boolean): Turn {
    try {
      check.string('prompt', prompt)
      checkTurnOptions(options)
      const merged = merge(this.#options, options)
      const { signal } = merged
      const spec = toSpec(prompt, merged, hasListener)
      if (signal?.aborted) throw notStarted(this.provider, signal)
      return new Turn(host.start(spec, this.#limits), signal, merged.schema)
    } catch (error) {
      return new Turn(error as Error)
    }
  }
}

/**
 * A turn under way. Iterating it gives its events; a slow reader slows the agent. Events that nobody iterates are dropped. The
 * iteration just ends with the turn: how the turn went is what `result` says.
 */
export class Turn<Structured = unknown> implements AsyncIterable<AgentEvent>, AsyncDisposable {
  readonly #native: NativeTurn | undefined
  #iterated = false

  /** As of `Harness.run`. Need not be awaited. */
  readonly result: Promise<TurnResult<Structured>>

  /** @internal */
  constructor(turn: NativeTurn | Error, signal?: AbortSignal, schema?: object) {
    if (turn instanceof Error) {
      this.result = Promise.reject(turn)
    } else {
      this.#native = turn
      const ended = outcome(turn, callSite(), schema) as Promise<TurnResult<Structured>>
      this.result = abortable(ended, signal, 'AGENT_ABORTED', () => turn.abort())
    }
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
    const turn = this.#native
    return events({
      open: () => turn?.events(delivery),
      close: () => turn?.leave(),
      end: turn ? this.result.catch(() => {}) : this.result,
    })
  }

  /** Aborts the turn if it still runs, and waits until its tree is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.abort()
  }
}

async function outcome(turn: NativeTurn, site: CallSite, schema: object | undefined): Promise<TurnResult> {
  try {
    const result = toResult(await settle<TurnEnd>(turn.outcome(), site))
    return await conforming(result, schema)
  } catch (error) {
    const failed = at(error, site) as Error & { result?: TurnEnd | TurnResult }
    if (failed.result && 'facts' in failed.result) failed.result = toResult(failed.result)
    throw failed
  }
}

/** What a library's schema makes of the answer; the core has checked the JSON Schema that the library said. */
async function conforming(result: TurnResult, schema: object | undefined): Promise<TurnResult> {
  if (result.structured === undefined) return result
  const conformed = await conform(schema, result.structured)
  if ('value' in conformed) return { ...result, structured: conformed.value }
  const { problems } = conformed
  const message = `the answer fits the JSON Schema, but not the schema that it was made of: ${problems[0]}`
  throw new SheepdogError('AGENT_SCHEMA_MISMATCH', message, { result, problems })
}

function notStarted(provider: ProviderName, signal: AbortSignal): SheepdogError {
  const message = `the ${provider} turn was not started: its abort signal was already aborted`
  const result: TurnResult = {
    text: '',
    turns: 0,
    toolCalls: 0,
    attempts: 0,
    queuedMs: 0,
    durationMs: 0,
    provider,
    recovered: false,
    warnings: [],
  }
  return new SheepdogError('AGENT_ABORTED', message, { result, events: [] }, signal.reason)
}
