import { SheepdogError, invalidOption } from './error'
import { agentName, type AgentName } from './harness/agent_program'
import { nativeBudget } from './harness/budget'
import { Checkout, checkNoCheckout, type Judge, type There } from './harness/checkout'
import { inside } from './harness/judged'
import { nativeLimit } from './limit'
import {
  checkHarnessOptions,
  checkTurnOptions,
  merge,
  toSpec,
  type HarnessOptions,
  type TurnOptions,
} from './harness/request'
import type { TurnResult } from './harness/result'
import { serveAgent, type ProtocolClient, type ServeOptions } from './harness/face'
import { keptSessions, type KeptSession } from './harness/kept_sessions'
import { openSession, type AgentSession } from './harness/session'
import type { OpenOptions } from './harness/session/request'
import { Turn } from './harness/turn'
import { native } from './native'
import { TurnWatch } from './observability/turn_watch'
import { check, snapshot } from './option'
import type { StructuredOf } from './schema'

export type { AgentName, AgentProgram } from './harness/agent_program'
export type { AgentEvent } from './harness/event'
export type { HarnessOptions, ProviderName, TurnOptions } from './harness/request'
export type { AgentErrorKind, AgentUsage, TurnResult } from './harness/result'
export * from './harness/changes'
export type { WorktreeOptions } from './harness/checkout'
export { Budget, type BudgetOptions, type Prices } from './harness/budget'
export { ConcurrencyLimit } from './limit'
export type { KeptSession } from './harness/kept_sessions'
export type { PromptPart } from './harness/session/prompt'
export type { ProtocolClient, ServeOptions } from './harness/face'
export { doctor, type DoctorOptions, type Finding, type SessionFinding } from './harness/doctor'
export { Turn } from './harness/turn'
export {
  listRuns,
  pruneRuns,
  type ListRunsOptions,
  type PruneRunsOptions,
  type RunState,
  type RunSummary,
} from './harness/recorded_runs'
export * from './harness/replay'

/** One for this JavaScript environment: its turns end with it. */
const host = new native.AgentHost()

/**
 * Runs a coding-agent CLI as a function.
 *
 * @example
 * const codex = new Harness({ provider: 'codex', cwd: '/work' })
 * const { text } = await codex.run('Which tests fail, and why?')
 */
export class Harness {
  readonly #options: HarnessOptions
  readonly #limits: ReturnType<typeof nativeLimit>[]

  /** @throws INVALID_OPTION for a wrong option or an unknown provider. */
  constructor(options: HarnessOptions) {
    checkHarnessOptions(options)
    this.#options = snapshot(options)
    this.#limits = [new native.NativeConcurrencyLimit(options.maxConcurrent)]
    if (options.limit) this.#limits.push(nativeLimit(options.limit))
  }

  /** Name of the agent of this harness. */
  get provider(): AgentName {
    return agentName(this.#options.provider)
  }

  /** Runs a turn whose answer matches a schema; see below. The answer is in `structured`. */
  async run<Schema extends object>(
    prompt: string,
    options: TurnOptions & { schema: Schema },
  ): Promise<TurnResult<StructuredOf<Schema>>>
  /**
   * Runs one turn. Resolves only when the turn succeeded: the agent reported a good end of turn, and
   * its process did not fail. No process of the agent is left then.
   *
   * @throws AGENT_FAILED (with `kind`), AGENT_IDLE, AGENT_TIMED_OUT, AGENT_NOT_FOUND and others
   *   (docs/errors.md). The error has the `result` so far, the last `events` (at most 200, 256 KiB in
   *   all) and the end of `stderr`.
   *
   * @example
   * const { text, usage, sessionId } = await claude.run('Fix the failing test.', {
   *   allow: ['npm test'],
   *   sandbox: 'workspace',
   * })
   */
  async run(prompt: string, options?: TurnOptions): Promise<TurnResult>
  async run(prompt: string, options?: TurnOptions): Promise<TurnResult> {
    return this.#start(prompt, options, false).result
  }

  /** Starts a turn whose answer matches a schema; see below. */
  start<Schema extends object>(
    prompt: string,
    options: TurnOptions & { schema: Schema },
  ): Turn<StructuredOf<Schema>>
  /**
   * Starts a turn and returns at once, so that you can iterate over its events. Never throws: errors
   * reject `result`.
   */
  start(prompt: string, options?: TurnOptions): Turn
  start(prompt: string, options?: TurnOptions): Turn {
    return this.#start(prompt, options, true)
  }

  /**
   * Opens a session: many prompts to one agent process, with live permission requests. The session uses
   * one slot of `maxConcurrent` until it is closed.
   *
   * @throws AGENT_NOT_FOUND (with `install`), AGENT_IDLE (no handshake within `startTimeoutMs`),
   *   AGENT_RESUME_FAILED and others.
   *
   * @example
   * await using session = await codex.open({ permission: 'edit' })
   * const { text } = await session.prompt('Which tests fail?')
   */
  async open(options?: OpenOptions): Promise<AgentSession> {
    return openSession(this.#options, options, this.#limits)
  }

  /**
   * Yields the sessions that the agent has kept of a folder, as the agent lists them. Starts the agent's
   * program, and ends it again.
   *
   * @param options.provider The agent. Default: the harness's.
   * @param options.cwd Folder of the sessions. Default: the harness's `cwd`.
   * @throws INVALID_OPTION for an agent that does not list its sessions; AGENT_NOT_FOUND and others.
   *
   * @example
   * for await (const { sessionId, title } of claude.sessions()) console.log(sessionId, title)
   */
  sessions(
    options?: Pick<OpenOptions, 'cwd' | 'binary' | 'signal'> & Partial<Pick<HarnessOptions, 'provider'>>,
  ): AsyncIterableIterator<KeptSession> {
    return keptSessions(this.#options, options)
  }

  /**
   * Serves the agent to a client of the Agent Client Protocol, for example an editor. The agent runs under
   * the guard, at its permission level, within its clocks and budget, and on record. All other messages
   * pass as they are. Resolves when the client's input has ended and no process of the agent is left.
   *
   * @throws AGENT_NOT_FOUND, AGENT_CRASHED, INVALID_OPTION and others. AGENT_IDLE and AGENT_TIMED_OUT when
   *   the agent had to be killed; a turn that obeyed is an error of the client's request alone.
   *
   * @example
   * await claude.serve({ input: process.stdin, output: process.stdout }, { sandbox: 'workspace' })
   */
  async serve(client: ProtocolClient, options?: ServeOptions): Promise<void> {
    checkNoCheckout(this.#options)
    return serveAgent(this.#options, client, options, this.#limits)
  }

  static {
    inside.start = (harness, prompt, options, judge) => harness.#start(prompt, options, false, judge)
    inside.options = (harness) => harness.#options
  }

  #start(prompt: string, options: TurnOptions | undefined, hasListener: boolean, judge?: Judge): Turn {
    let watch: TurnWatch | undefined
    try {
      checkTurnPrompt(prompt)
      checkTurnOptions(options)
      const merged = merge(this.#options, options)
      const { signal, model, cwd, resume } = merged
      watch = TurnWatch.start({ provider: this.provider, prompt, model, cwd, resume }, hasListener)
      if (watch) merged.env = { ...watch.environment, ...merged.env }
      const checkout = Checkout.of(merged)
      const { changes: _, worktree: __, ...plain } = merged
      const specOf = (there: There) =>
        toSpec(prompt, { ...plain, ...there }, hasListener || watch?.wantsEvents === true)
      const spec = specOf({})
      if (signal?.aborted) throw notStarted(this.provider, signal)
      const budget = merged.budget && nativeBudget(merged.budget)
      const turn = host.start(spec, this.#limits, budget, checkout !== undefined)
      const go = (there: There) => turn.begin(specOf(there), budget)
      return new Turn(turn, signal, merged.schema, watch, {
        finish: checkout && ((ended) => checkout.turn(turn, ended, go, judge)),
      })
    } catch (error) {
      return new Turn(error as Error, undefined, undefined, watch)
    }
  }
}

function checkTurnPrompt(prompt: unknown): void {
  if (Array.isArray(prompt))
    throw invalidOption(
      'prompt',
      'expected a string, got an array: a turn takes files by `images`, and the prompts of a session have parts',
    )
  check.string('prompt', prompt)
}

function notStarted(provider: AgentName, signal: AbortSignal): SheepdogError {
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
