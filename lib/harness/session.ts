import type { NativeSession } from '../../native/native'
import { abortable, orAborted } from '../abort'
import { callSite } from '../call-site'
import { attach, delivery, detach, release, type Block, type Reader } from '../delivery'
import { SheepdogError, invalidOption, settle } from '../error'
import { Turn } from './turn'
import { events, type AgentEvent } from './event'
import type { nativeLimit } from '../limit'
import { nativeBudget } from './budget'
import { schemaText, type HarnessOptions, type ProviderName } from './request'
import type { TurnResult } from './result'
import { native } from '../native'
import { SessionWatch } from '../observability/session_watch'
import { activeEnvironment } from '../observability/span'
import { TurnWatch } from '../observability/turn_watch'
import { check, checkOptions, show } from '../option'
import { checkOpenOptions, checkPromptOptions, type OpenOptions, type PromptOptions } from './session/request'
import type { Answer, PermissionRequest } from './session/permission'
import { mergedOptions, openSpec } from './session/specification'
import { ToolServer } from './session/tool_server'

/** A way to work that the agent offers. */
export interface SessionMode {
  id: string
  name: string
  description?: string
  isCurrent: boolean
}

/** A setting of the session. */
export interface SessionOption {
  id: string
  name: string
  description?: string
  /** `mode`, `model`, `thought_level`, ... as the agent says. */
  category?: string
  value: string | boolean
  /** Empty for a boolean. */
  choices: { value: string; name: string; description?: string }[]
}

/** What a session tells: an agent's event, and which turn it belongs to. Between turns there is none. */
export type SessionEvent = AgentEvent & { turn?: number }

const host = new native.SessionHost()

/**
 * Many prompts to one process of an agent, with live questions and a true idle. Made by `Harness.open`.
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
  readonly #letGo: () => void
  readonly #watch: SessionWatch | undefined
  #closing: Promise<void> | undefined
  readonly sessionId: string
  readonly provider: ProviderName
  /** Of the protocol. */
  readonly protocolVersion: 1 | 2
  /** What a resumed agent repeated. */
  readonly history: AgentEvent[]
  /** The folder of its record, when that was asked for. */
  readonly record: string | undefined

  /** @internal */
  constructor(
    session: NativeSession,
    provider: ProviderName,
    facts: SessionFacts,
    options: OpenOptions,
    tools: ToolServer | undefined,
    watch: SessionWatch | undefined,
  ) {
    this.#native = session
    this.#watch = watch
    this.provider = provider
    this.sessionId = facts.sessionId
    this.protocolVersion = facts.protocolVersion
    this.history = facts.history
    this.record = facts.record ?? undefined
    this.#tools = tools
    this.#asked = new Questions(session, facts.channel, options.onPermission, () => {
      watch?.end()
      void tools?.close()
    })
    const { signal } = options
    const onAbort = () => void this.close()
    signal?.addEventListener('abort', onAbort, { once: true })
    this.#letGo = () => signal?.removeEventListener('abort', onAbort)
  }

  /** One prompt, after those that were sent before. Resolves and rejects as `Harness.run` does. */
  async prompt(text: string, options?: PromptOptions): Promise<TurnResult> {
    return this.#start(text, options, false).result
  }

  /** As `prompt`, with the events of the turn. Never throws: errors reject `result`. */
  start(text: string, options?: PromptOptions): Turn {
    return this.#start(text, options, true)
  }

  #start(text: string, options: PromptOptions | undefined, hasListener: boolean): Turn {
    let watch: TurnWatch | undefined
    try {
      check.string('prompt', text)
      checkPromptOptions(options)
      const facts = {
        provider: this.provider,
        prompt: text,
        resume: this.sessionId,
        session: this.#watch?.id,
      }
      watch = TurnWatch.start(facts, hasListener)
      const { schema, background, signal, ...clocks } = options ?? {}
      if (signal?.aborted) {
        const message = 'the prompt was not sent: its abort signal was already aborted'
        throw new SheepdogError('AGENT_ABORTED', message, {}, signal.reason)
      }
      const spec = {
        ...clocks,
        text,
        schema: schema && schemaText(schema),
        waits: background !== 'leave',
        hasListener: hasListener || watch?.wantsEvents === true,
      }
      return new Turn(this.#native.start(spec), signal, schema, watch)
    } catch (error) {
      return new Turn(error as Error, undefined, undefined, watch)
    }
  }

  /**
   * Everything from here on, between prompts too; `turn` says which turn an event belongs to, those that the agent begins by
   * itself included. A slow reader slows the agent. It ends with the session.
   */
  events(): AsyncIterableIterator<SessionEvent> {
    // From this call on, not from the first step of the iteration.
    const all = events({
      open: () => this.#native.events(delivery),
      close: () => {},
      end: Promise.resolve(),
    })
    return numbered(all)
  }

  /**
   * Resolves when nothing runs, in front or behind, for `settleMs` where something was seen behind.
   *
   * @throws AGENT_IDLE when the work behind the turns is silent for `toolIdleTimeoutMs`; AGENT_ABORTED when `signal` is aborted,
   * which ends the wait alone.
   */
  async idle(options?: { signal?: AbortSignal }): Promise<void> {
    checkOptions(options, { signal: check.signal })
    const idle = settle(this.#native.idle(), callSite())
    const message = 'the wait for the session to be idle was aborted by its signal'
    await orAborted(idle, options?.signal, () => new SheepdogError('AGENT_ABORTED', message))
  }

  /** Says something to the agent while it works; INVALID_OPTION where the agent has no way to hear it. */
  async steer(text: string): Promise<void> {
    check.string('text', text)
    await settle(this.#native.steer(text), callSite())
  }

  get modes(): SessionMode[] {
    return JSON.parse(this.#native.modes()) as SessionMode[]
  }

  /** INVALID_OPTION for a mode that the agent does not offer. */
  async setMode(id: string): Promise<void> {
    check.string('mode', id)
    await settle(this.#native.setMode(id), callSite())
  }

  get options(): SessionOption[] {
    return JSON.parse(this.#native.options()) as SessionOption[]
  }

  /** INVALID_OPTION for an option or a choice that the agent does not offer. */
  async setOption(id: string, value: string | boolean): Promise<void> {
    check.string('id', id)
    if (typeof value !== 'string' && typeof value !== 'boolean') {
      throw invalidOption('value', `expected a string or a boolean, got ${show(value)}`)
    }
    await settle(this.#native.setOption(id, JSON.stringify(value)), callSite())
  }

  /**
   * Ends the turn under way: its prompt rejects with AGENT_ABORTED. The session lives on when the agent obeyed within
   * `killGraceMs`; else its tree is killed, and `open` with `resume` goes on. Processes that the turn has started and that still
   * run after it are told by an event, `background`; with `strays: "kill"` they are ended, those of the turn that was cancelled
   * before too.
   */
  async cancel(options?: { strays?: 'kill' | 'leave' }): Promise<void> {
    checkOptions(options, { strays: check.oneOf('kill', 'leave') })
    this.#tools?.cancelCalls()
    await settle(this.#native.cancel(options?.strays === 'kill'), callSite())
  }

  /** Ends the session; resolves when nothing of its tree is left. Once or more often. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#letGo()
    await settle(this.#native.close())
    this.#asked.close()
    this.#watch?.end()
    await this.#tools?.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** Which turn an event belongs to is told by those around it. */
async function* numbered(all: AsyncIterable<AgentEvent>): AsyncGenerator<SessionEvent, void, void> {
  // A prompt's turn may begin while one of the agent's own is still open: what is told meanwhile belongs to that one.
  let own: number | undefined
  let prompted: number | undefined
  for await (const event of all) {
    if (event.type === 'turn_start') {
      if (event.by === 'agent') own = event.turn
      else prompted = event.turn
    }
    const turn = event.type === 'turn_start' || event.type === 'turn_end' ? event.turn : (own ?? prompted)
    yield turn === undefined ? event : Object.assign(event, { turn })
    if (event.type === 'turn_end') {
      if (own === event.turn) own = undefined
      else if (prompted === event.turn) prompted = undefined
    }
  }
}

interface SessionFacts {
  sessionId: string
  protocolVersion: 1 | 2
  history: AgentEvent[]
  channel: number
  record: string | null
}

/** @internal */
export async function openSession(
  defaults: HarnessOptions,
  options: OpenOptions | undefined,
  limits: ReturnType<typeof nativeLimit>[],
): Promise<AgentSession> {
  const site = callSite()
  checkOpenOptions(options)
  const merged = mergedOptions(defaults, options)
  const { signal } = merged
  if (signal?.aborted) {
    const message = 'the session was not opened: its abort signal was already aborted'
    throw new SheepdogError('AGENT_ABORTED', message, {}, signal.reason)
  }
  const watch = SessionWatch.start(defaults.provider, merged)
  merged.env = { ...activeEnvironment(), ...merged.env }
  const tools = merged.tools?.length ? await ToolServer.start(merged.tools) : undefined
  try {
    const session = host.prepare(
      openSpec(defaults.provider, merged, tools),
      limits,
      merged.budget && nativeBudget(merged.budget),
    )
    const opening = settle<string>(session.open(delivery), site)
    const facts = JSON.parse(
      await abortable(opening, signal, 'AGENT_ABORTED', () => session.abort()),
    ) as SessionFacts
    if (tools) tools.sessionId = facts.sessionId
    watch?.onOpen(facts.sessionId)
    return new AgentSession(session, defaults.provider, facts, merged, tools, watch)
  } catch (error) {
    watch?.end(error as Error)
    await tools?.close()
    throw error
  }
}

/** Hands the agent's questions to the handler, each with a signal of its own. */
class Questions implements Reader {
  readonly #session: NativeSession
  readonly #channel: number
  readonly #handler: OpenOptions['onPermission']
  readonly #open = new Map<string, AbortController>()
  readonly #onOver: () => void

  constructor(
    session: NativeSession,
    channel: number,
    handler: OpenOptions['onPermission'],
    onOver: () => void,
  ) {
    this.#session = session
    this.#channel = channel
    this.#handler = handler
    this.#onOver = onOver
    attach(channel, this)
  }

  onBlock(block: Block): void {
    release(this.#channel, block.weight)
    for (const line of block.text.split('\n')) {
      const said = JSON.parse(line) as { question?: PermissionRequest; withdrawn?: string }
      if (said.question) void this.#ask(said.question)
      if (said.withdrawn !== undefined) this.#withdraw(said.withdrawn)
    }
  }

  onEnd(): void {
    for (const id of [...this.#open.keys()]) this.#withdraw(id)
    this.#onOver()
  }

  close(): void {
    detach(this.#channel)
    this.onEnd()
  }

  async #ask(question: PermissionRequest): Promise<void> {
    const controller = new AbortController()
    this.#open.set(question.id, controller)
    try {
      const answer = await this.#handler?.(question, { signal: controller.signal })
      const [word, isOption] = toWord(answer)
      this.#session.answer(question.id, word, isOption)
    } catch (error) {
      this.#session.answer(
        question.id,
        'reject',
        false,
        error instanceof Error ? error.message : String(error),
      )
    } finally {
      this.#open.delete(question.id)
    }
  }

  #withdraw(id: string): void {
    this.#open.get(id)?.abort()
    this.#open.delete(id)
  }
}

function toWord(answer: Answer | undefined): [word: string, isOption: boolean] {
  if (answer === 'allow' || answer === 'allow-always' || answer === 'reject') return [answer, false]
  if (typeof answer === 'object' && typeof answer?.optionId === 'string') return [answer.optionId, true]
  throw new Error(`expected "allow", "allow-always", "reject" or { optionId }, got ${show(answer)}`)
}
