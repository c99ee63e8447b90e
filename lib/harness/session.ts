import { toJson } from '../json'
import type { NativeSession, PromptSpec } from '../../native/native'
import { abortable, onAbort, orAborted, throwIfAborted } from '../abort'
import { callSite } from '../call-site'
import { delivery } from '../delivery'
import { SheepdogError, invalidOption, settle } from '../error'
import type { Changes } from './changes'
import { Checkout, type There } from './checkout'
import { Turn } from './turn'
import { events, type AgentEvent } from './event'
import type { nativeLimit } from '../limit'
import { nativeBudget } from './budget'
import { agentName, type AgentName } from './agent_program'
import { schemaText, type HarnessOptions } from './request'
import type { TurnResult } from './result'
import { absolutePath } from '../host'
import { native } from '../native'
import { folderPath } from '../process/request'
import { warnOnce } from '../warning'
import { type SessionWatch, watchSession } from '../observability/session_watch'
import { activeEnvironment } from '../observability/span'
import { TurnWatch } from '../observability/turn_watch'
import { check, checkNoCallback, checkOptions, show, type Crossing } from '../option'
import { checkOpenOptions, checkPromptOptions, type OpenOptions, type PromptOptions } from './session/request'
import { checkPrompt, promptSpec, type PromptPart } from './session/prompt'
import { Questions } from './session/questions'
import { mergedOptions, openSpec } from './session/specification'
import { ToolServer } from './session/tool_server'

/** A mode of work that the agent offers. */
export interface SessionMode {
  /** Id of the mode, for `setMode`. */
  id: string
  /** Name of the mode, for people. */
  name: string
  /** Description of the mode, for people. */
  description?: string
  /** True for the mode that is active now. */
  isCurrent: boolean
}

/** A setting of the session that the agent offers. */
export interface SessionOption {
  /** Id of the setting, for `setOption`. */
  id: string
  /** Name of the setting, for people. */
  name: string
  /** Description of the setting, for people. */
  description?: string
  /** Category that the agent gives: `"mode"`, `"model"`, `"thought_level"` and others. */
  category?: string
  /** Present value. */
  value: string | boolean
  /** Possible values; empty for a boolean. */
  choices: {
    /** The value, for `setOption`. */
    value: string
    /** Name of the value, for people. */
    name: string
    /** Description of the value, for people. */
    description?: string
  }[]
}

/**
 * An event of a session: the agent's event and the number of its turn. Events between turns have no
 * number.
 */
export type SessionEvent = AgentEvent & {
  /** Number of the turn that the event belongs to. */
  turn?: number
}

const host = new native.SessionHost()

/**
 * A conversation with one agent process: many prompts, live permission requests, and background work.
 * `Harness.open` makes it.
 *
 * @example
 * await using session = await new Harness({ provider: 'claude-code' }).open({
 *   onPermission: ({ tool }) => (tool.kind === 'execute' ? 'reject' : 'allow'),
 * })
 * const { text } = await session.prompt('Which tests fail?')
 */
export class AgentSession implements AsyncDisposable {
  readonly #native: NativeSession
  readonly #asked: Questions
  readonly #tools: ToolServer | undefined
  readonly #checkout: Checkout | undefined
  /** One of its prompts failed. */
  #hasFailed = false
  readonly #letGo: () => void
  readonly #watch: SessionWatch | undefined
  #closing: Promise<void> | undefined
  /** Turns of prompts that are not over, in the order of their calls. */
  readonly #turns = new Set<Turn>()
  /** Mistakes of the caller's handlers, by the turn that they ended. */
  readonly #misuse = new WeakMap<Turn, Error>()
  /** Id of the session, for the option `resume`. */
  readonly sessionId: string
  /** Name of the agent of the session. */
  readonly provider: AgentName
  /** Version of the Agent Client Protocol that the agent speaks. */
  readonly protocolVersion: 1 | 2
  /** Events of the past conversation that a resumed agent has repeated. */
  readonly history: AgentEvent[]
  /** Folder of the session's record; undefined without the option `record`. */
  readonly record: string | undefined

  /** @internal */
  constructor(
    session: NativeSession,
    provider: AgentName,
    facts: SessionFacts,
    options: OpenOptions,
    tools: ToolServer | undefined,
    watch: SessionWatch | undefined,
    checkout: Checkout | undefined,
  ) {
    this.#native = session
    this.#checkout = checkout
    this.#watch = watch
    this.provider = provider
    this.sessionId = facts.sessionId
    this.protocolVersion = facts.protocolVersion
    this.history = facts.history
    this.record = facts.record ?? undefined
    this.#tools = tools
    this.#asked = new Questions(session, facts.channel, options, {
      onStop: () => tools?.cancelCalls(),
      onMisuse: (error) => this.#fail(error),
      onOver() {
        watch?.end()
        void tools?.close()
      },
    })
    this.#letGo = onAbort(options.signal, () => void this.close())
  }

  /**
   * Sends a prompt and waits for the end of its turn. Prompts run one at a time, in the order of the
   * calls. Resolves and rejects as `Harness.run` does.
   *
   * @throws SESSION_CLOSED after the end of the session; INVALID_OPTION for a part of a kind that the agent
   *   does not take.
   */
  async prompt(prompt: string | readonly PromptPart[], options?: PromptOptions): Promise<TurnResult> {
    return this.#start(prompt, options, false).result
  }

  /**
   * Sends a prompt and returns its turn, whose events you can iterate over. Never throws: errors reject
   * `result`.
   */
  start(prompt: string | readonly PromptPart[], options?: PromptOptions): Turn {
    return this.#start(prompt, options, true)
  }

  #start(
    prompt: string | readonly PromptPart[],
    options: PromptOptions | undefined,
    hasListener: boolean,
  ): Turn {
    let watch: TurnWatch | undefined
    try {
      checkPrompt(prompt)
      const said = promptSpec(prompt)
      checkPromptOptions(options)
      const facts = {
        provider: this.provider,
        prompt: said.text,
        resume: this.sessionId,
        session: this.#watch?.id,
      }
      watch = TurnWatch.start(facts, hasListener)
      const { schema, background, signal, ...clocks } = options ?? {}
      clocks satisfies Crossing<typeof clocks, PromptSpec>
      if (signal?.aborted) {
        const message = 'the prompt was not sent: its abort signal was already aborted'
        throw new SheepdogError('AGENT_ABORTED', message, {}, signal.reason)
      }
      const spec = {
        ...clocks,
        ...said,
        schema: schema && schemaText(schema),
        waits: background !== 'leave',
        hasListener: hasListener || watch?.wantsEvents === true,
      }
      const owner = {
        misuse: () => this.#misuse.get(turn),
        onOver: (hasFailed: boolean) => {
          this.#turns.delete(turn)
          this.#hasFailed ||= hasFailed
        },
      }
      const turn: Turn = new Turn(this.#native.start(spec), signal, schema, watch, owner)
      this.#turns.add(turn)
      return turn
    } catch (error) {
      return new Turn(error as Error, undefined, undefined, watch)
    }
  }

  /** Ends the turn that runs, which rejects with this error: prompts run in the order of their calls. */
  #fail(error: Error): void {
    const [running] = this.#turns
    if (running) {
      this.#misuse.set(running, error)
      void running.abort()
    } else {
      warnOnce(error.message)
      settle(this.#native.cancel(false)).catch(() => {})
    }
  }

  /**
   * Yields all events from now on, also those between prompts and those of turns that the agent starts
   * by itself. A slow reader slows the agent down. The loop ends with the session.
   */
  events(): AsyncIterableIterator<SessionEvent> {
    let channel: number
    const source = {
      // From this call on, not from the first step of the iteration.
      open: () => (channel = this.#native.events(delivery)),
      close: () => this.#native.leave(channel),
      end: Promise.resolve(),
    }
    return events<SessionEvent>(source, numbering())
  }

  /**
   * Waits until neither a turn nor background work runs. Where background work was seen, nothing may
   * run for `settleMs`.
   *
   * @param options.signal Ends the wait when aborted. The work goes on.
   * @throws AGENT_IDLE when the background work is silent for `toolIdleTimeoutMs`; AGENT_ABORTED when
   *   `signal` is aborted.
   */
  async idle(options?: { signal?: AbortSignal }): Promise<void> {
    checkOptions(options, { signal: check.signal })
    const idle = settle(this.#native.idle(), callSite())
    const message = 'the wait for the session to be idle was aborted by its signal'
    await orAborted(idle, options?.signal, () => new SheepdogError('AGENT_ABORTED', message))
  }

  /**
   * The changes of the agent in its repository, since the session was opened. Waits until nothing runs. `close()` reads them once
   * more, and from then on these are returned.
   *
   * @throws INVALID_OPTION for a session that was opened without `changes` and `worktree`, or outside of a repository;
   *   WORKTREE_FAILED when the changes cannot be read.
   *
   * @example
   * await using session = await codex.open({ worktree: true })
   * await session.prompt('Fix the failing test.')
   * await (await session.changes()).apply()
   */
  async changes(): Promise<Changes> {
    if (!this.#checkout)
      throw invalidOption(
        'changes',
        'the session was opened without it: give `changes` or `worktree` to `open()`',
      )
    await (this.#closing ?? this.idle().catch(() => {}))
    return this.#checkout.changes()
  }

  /**
   * Sends a message to the agent while it works on a turn (claude-code and codex).
   *
   * @throws INVALID_OPTION when the agent cannot receive messages during a turn.
   */
  async steer(text: string): Promise<void> {
    check.string('text', text)
    await settle(this.#native.steer(text), callSite())
  }

  /** Title of the session, once the agent has told one. */
  get title(): string | undefined {
    return this.#native.title() ?? undefined
  }

  /** Modes that the agent offers. */
  get modes(): SessionMode[] {
    return JSON.parse(this.#native.modes()) as SessionMode[]
  }

  /**
   * Changes the mode of the agent.
   *
   * @throws INVALID_OPTION for a mode that the agent does not offer.
   */
  async setMode(id: string): Promise<void> {
    check.string('mode', id)
    await settle(this.#native.setMode(id), callSite())
  }

  /** Settings that the agent offers. */
  get options(): SessionOption[] {
    return JSON.parse(this.#native.options()) as SessionOption[]
  }

  /**
   * Changes a setting of the session.
   *
   * @throws INVALID_OPTION for a setting or a value that the agent does not offer.
   */
  async setOption(id: string, value: string | boolean): Promise<void> {
    check.string('id', id)
    if (typeof value !== 'string' && typeof value !== 'boolean') {
      throw invalidOption('value', `expected a string or a boolean, got ${show(value)}`)
    }
    await settle(this.#native.setOption(id, toJson('value', value)), callSite())
  }

  /**
   * Cancels the turn that runs; its prompt rejects with AGENT_ABORTED. The session continues when the
   * agent stops within `killGraceMs`. Otherwise its process tree is killed and the session is closed;
   * `open` with `resume` continues it.
   *
   * Processes that the turn started and that still run are reported by an event of type `background`.
   *
   * @param options.strays `"kill"` also ends these processes, including those of the turn that was
   *   cancelled before. Default: `"leave"`.
   */
  async cancel(options?: { strays?: 'kill' | 'leave' }): Promise<void> {
    checkOptions(options, { strays: check.oneOf('kill', 'leave') })
    await settle(this.#native.cancel(options?.strays === 'kill'), callSite())
  }

  /** Ends the session. Resolves when its process tree is gone. You can call it more than once. */
  async close(): Promise<void> {
    checkNoCallback('close', arguments)
    this.#closing ??= this.#close()
    await this.#closing
  }

  async #close(): Promise<void> {
    this.#letGo()
    await settle(this.#native.close())
    this.#asked.close()
    this.#watch?.end()
    await this.#tools?.close()
    await this.#checkout?.end(this.#hasFailed)
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** Gives each event, in their order, the number of its turn: the events around it tell which one that is. */
function numbering(): (event: AgentEvent) => SessionEvent {
  // A prompt's turn may begin while one of the agent's own is still open: what is told meanwhile belongs to that one.
  let own: number | undefined
  let prompted: number | undefined
  return (event) => {
    if (event.type === 'turn_start') {
      if (event.by === 'agent') own = event.turn
      else prompted = event.turn
    }
    const turn = event.type === 'turn_start' || event.type === 'turn_end' ? event.turn : (own ?? prompted)
    if (event.type === 'turn_end') {
      if (own === event.turn) own = undefined
      else if (prompted === event.turn) prompted = undefined
    }
    return turn === undefined ? event : Object.assign(event, { turn })
  }
}

interface SessionFacts {
  sessionId: string
  protocolVersion: 1 | 2
  history: AgentEvent[]
  channel: number
  record: string | null
}

export async function openSession(
  defaults: HarnessOptions,
  options: OpenOptions | undefined,
  limits: ReturnType<typeof nativeLimit>[],
): Promise<AgentSession> {
  const site = callSite()
  checkOpenOptions(options)
  const merged = mergedOptions(defaults, options)
  const { signal } = merged
  throwIfAborted(signal, 'AGENT_ABORTED', 'the session was not opened: its abort signal was already aborted')
  const checkout = Checkout.of(merged)
  const watch = watchSession(agentName(defaults.provider), merged)
  merged.env = { ...activeEnvironment(), ...merged.env }
  let tools: ToolServer | undefined
  try {
    if (merged.tools?.length) tools = await ToolServer.start(merged.tools)
    const budget = merged.budget && nativeBudget(merged.budget)
    const { changes: _, worktree: __, ...plain } = merged
    const specOf = (there: There) => openSpec(defaults.provider, { ...plain, ...there }, tools)
    // The program is searched for around the caller's folder, not around a checkout.
    const cwd = checkout ? { cwd: absolutePath(folderPath(merged.cwd) ?? '.') } : {}
    const session = host.prepare(specOf(cwd), limits, budget, checkout !== undefined)
    const opened = settle<string>(session.open(delivery), site)
    const opening = abortable(opened, signal, 'AGENT_ABORTED', () => session.abort())
    await checkout?.begin(session, opening, (there) => session.begin(specOf(there), budget))
    const facts = JSON.parse(await opening) as SessionFacts
    if (signal?.aborted) {
      // Between the opening and here.
      await settle(session.close())
      throwIfAborted(signal, 'AGENT_ABORTED', 'the session was aborted when it was open')
    }
    if (tools) {
      tools.sessionId = facts.sessionId
      tools.onCall = (begins) => session.ownTool(begins)
      tools.onListed = () => {
        session.ownTool(true)
        session.ownTool(false)
      }
      if (tools.isListed) tools.onListed()
    }
    watch?.onOpen(facts.sessionId)
    return new AgentSession(session, agentName(defaults.provider), facts, merged, tools, watch, checkout)
  } catch (error) {
    watch?.end(error as Error)
    await tools?.close()
    await checkout?.giveUp()
    throw error
  }
}
