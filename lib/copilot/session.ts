// A conversation with the agent.
import type { CopilotTurnSpec } from '../../native/native'
import { abortable, throwIfAborted } from '../abort'
import { callSite, placedAt } from '../call-site'
import { SheepdogError, type SheepdogErrorOf, invalidOption, invalidOptions } from '../error'
import {
  type AssistantMessageEvent,
  HandlerTable,
  type SessionEvent,
  type SessionEventHandler,
  type SessionEventType,
  type TypedSessionEventHandler,
} from './event'
import { type SessionFactoryApi, factoryResumeError } from './factory'
import type {
  AutoTier,
  ModelSwitchAutoTierResult,
  OpenCanvasInstance,
  ReasoningSummary,
  SessionRpc,
} from './generated'
import { sessionMethods } from './generated_methods'
import type { Link } from './link'
import {
  type MessageOptions,
  type SendAndWaitOptions,
  type TraceContextProvider,
  messageParams,
  traceOf,
  turnSpec,
} from './message'
import type { ContextTier, ModelCapabilitiesOverride, ReasoningEffort } from './model'
import { type ElicitationParams, type ElicitationResult, type SessionUiApi, sessionUi } from './question'
import { Responder, ownEvents } from './responder'
import type { ResumeEvents, ResumeOutcome } from './resume'
import { rpcTree } from './rpc'
import { runApi } from './run_api'
import type { ResumeSessionConfig, SessionConfig } from './session_config'
import { type ResponseSchema, isResponseSchema, parseAnswer } from './structured_output'
import { type SessionWorkflowApi, workflowResumeError } from './workflow'

/** Abilities of the program behind the runtime. */
export interface SessionCapabilities {
  /** Dialogs and canvases that it can show. */
  ui?: { elicitation?: boolean; mcpApps?: boolean; canvases?: boolean }
}

/** The parts of a client that its sessions need. */
export interface SessionOwner {
  /** The connection that the session lives on, after bringing it back if that is allowed. */
  reach(session: CopilotSession): Promise<void>
  forget(session: CopilotSession): void
  readonly onGetTraceContext: TraceContextProvider | undefined
}

/** The last answer of the main agent to a message. */
export type TurnAnswer = AssistantMessageEvent & {
  /**
   * Id of the event that ended the turn, where the runtime names it (1.0.104 or newer). Handlers of
   * that event were called before.
   */
  readonly completionEventId?: string
}

interface TurnEnd {
  answer: TurnAnswer | null
  completionEventId: string | null
}

/**
 * A session with the Copilot CLI. `CopilotClient.createSession` and `resumeSession` make it.
 *
 * @example
 * const session = await client.createSession({ onPermissionRequest: approveAll })
 * const answer = await session.sendAndWait('What does this repository do?')
 * console.log(answer?.data.content)
 */
export class CopilotSession {
  /** Id of the session. */
  readonly sessionId: string
  /** How `resumeSession` opened this session; undefined for a new session. */
  readonly resumed: ResumeOutcome | undefined
  /** Reason for `resumed`. */
  readonly resumeReason: string | undefined
  /** Runs of registered factories. Experimental, as in the runtime. */
  readonly factory: SessionFactoryApi = runApi(this, 'Factory', factoryResumeError)
  /**
   * Same as `factory`, under the name that runtimes since 1.0.89 use. Both names work with every
   * runtime.
   */
  readonly workflow: SessionWorkflowApi = runApi(
    this,
    'Workflow',
    workflowResumeError,
  ) as unknown as SessionWorkflowApi
  readonly #owner: SessionOwner
  readonly #handlers = new HandlerTable(() => this.#tellWanted())
  #link: Link
  #key: number
  #responder: Responder
  #rpc: SessionRpc | undefined
  #workspacePath: string | undefined
  #capabilities: SessionCapabilities = {}
  #isSuperseded = false
  #resumeEvents: ResumeEvents = { hasResumed: false }
  /** Why nothing can be asked of it any more. */
  #closedWith: string | undefined
  #disconnecting: Promise<void> | undefined

  /** @internal */
  constructor(
    owner: SessionOwner,
    link: Link,
    sessionId: string,
    config: SessionConfig & ResumeSessionConfig,
  ) {
    this.#owner = owner
    this.sessionId = sessionId
    this.#link = link
    this.#key = link.native.openSession(sessionId)
    this.#responder = new Responder(link, sessionId, config)
    if (config.onEvent) this.#handlers.add(undefined, config.onEvent as never)
    else this.#tellWanted()
  }

  /**
   * Methods of the session by path: `session.rpc.model.getCurrent()` sends the request
   * "session.model.getCurrent".
   */
  get rpc(): SessionRpc {
    this.#rpc ??= rpcTree<SessionRpc>(
      (method, params) => this.#request(`session.${method}`, params as object),
      sessionMethods,
    )
    return this.#rpc
  }

  /** Folder of the session's plan, checkpoints and files; undefined when infinite sessions are off. */
  get workspacePath(): string | undefined {
    return this.#workspacePath
  }

  /** Abilities of the program behind the runtime. */
  get capabilities(): SessionCapabilities {
    return this.#capabilities
  }

  /** Canvases that are open now. */
  get openCanvases(): OpenCanvasInstance[] {
    return [...this.#responder.openCanvases]
  }

  /** Dialogs of the program behind the runtime. */
  get ui(): SessionUiApi {
    return sessionUi((params) => this.#elicit(params))
  }

  /**
   * Sends a message. Resolves with its id when the runtime has queued it. Messages of a session are
   * sent in the order of the calls.
   *
   * @throws CONNECTION_TIMED_OUT, CONNECTION_LOST, SESSION_CLOSED
   */
  send(message: string | MessageOptions): Promise<string>
  send(message: MessageOptions): Promise<string>
  async send(message: string | MessageOptions): Promise<string> {
    const params = await this.#prepare(message)
    const sent = await this.#link.send<{ messageId: string }>(this.#key, params)
    return sent.messageId
  }

  /**
   * Sends a message and waits for the end of its turn, including background work. Resolves with the
   * last answer of the main agent to this message, or with undefined when there was none.
   *
   * @throws SESSION_TIMED_OUT and SESSION_IDLE (the work goes on), SESSION_ERROR (reported by the
   *   session), SESSION_ABORTED, SESSION_CLOSED (shutdown, `disconnect()`, `stop()`), CONNECTION_LOST
   */
  sendAndWait(
    message: string | MessageOptions,
    timeout?: number | SendAndWaitOptions,
  ): Promise<TurnAnswer | undefined>
  /**
   * Sends a message and asks for an answer that matches a schema. Resolves with the value that the
   * schema makes of it.
   */
  sendAndWait<TResult>(
    message: string | MessageOptions,
    responseSchema: ResponseSchema<TResult>,
    timeout?: number | SendAndWaitOptions,
  ): Promise<TResult>
  sendAndWait(message: MessageOptions, timeout?: number | SendAndWaitOptions): Promise<TurnAnswer | undefined>
  async sendAndWait(
    message: string | MessageOptions,
    second?: number | SendAndWaitOptions | ResponseSchema<unknown>,
    third?: number | SendAndWaitOptions,
  ): Promise<unknown> {
    if (!isResponseSchema(second)) return this.#sendAndWait(message, second)
    const options = typeof message === 'string' ? { prompt: message } : message
    if (options?.responseSchema !== undefined)
      throw invalidOption('message.responseSchema', 'is given twice: the second argument is a schema too')
    if (options?.mode === 'immediate')
      throw invalidOption('message.mode', 'a message into a running turn has no structured answer of its own')
    return parseAnswer(second, await this.#sendAndWait({ ...options, responseSchema: second }, third))
  }

  async #sendAndWait(
    message: string | MessageOptions,
    timeout?: number | SendAndWaitOptions,
  ): Promise<TurnAnswer | undefined> {
    const options = typeof timeout === 'object' && timeout !== null ? timeout : { timeoutMs: timeout }
    const spec = turnSpec(options)
    const { signal } = options
    const site = callSite()
    throwIfAborted(signal, 'SESSION_ABORTED', 'The turn was aborted by its signal')
    const params = await this.#prepare(message)
    throwIfAborted(signal, 'SESSION_ABORTED', 'The turn was aborted by its signal')
    const kind = params.mode === 'immediate' ? 'steering' : 'message'
    return this.#waitForTurn(params, { ...spec, kind }, signal, site)
  }

  /**
   * Runs the last turn again without a second user message. The model continues with the history as it
   * is, and results of tools that have finished are kept. Use it after a failed turn, while no other
   * turn runs. Resolves as `sendAndWait` does.
   *
   * @throws INVALID_OPTION when a turn runs, or the runtime has no `session.sendMessages` (1.0.102 has
   *   it).
   */
  async retry(options: SendAndWaitOptions = {}): Promise<TurnAnswer | undefined> {
    const spec = { ...turnSpec(options), kind: 'retry' as const }
    const { signal } = options
    const site = callSite()
    throwIfAborted(signal, 'SESSION_ABORTED', 'The turn was aborted by its signal')
    this.#throwIfClosed()
    await this.#owner.reach(this)
    if (this.isBusy) throw invalidOptions('retry(): a turn of this session is still running')
    try {
      return await this.#waitForTurn({ sessionId: this.sessionId, messages: [] }, spec, signal, site)
    } catch (error) {
      const { code, rpcCode } = error as SheepdogErrorOf<'RPC_ERROR'>
      if (code !== 'RPC_ERROR' || rpcCode !== -32601) throw error
      const message =
        "retry(): this runtime has no session.sendMessages, so it can't run a turn again without a new message. Send the message again"
      throw new SheepdogError('INVALID_OPTION', message, {}, error)
    }
  }

  async #waitForTurn(
    params: object,
    spec: CopilotTurnSpec,
    signal: AbortSignal | undefined,
    site: ReturnType<typeof callSite>,
  ): Promise<TurnAnswer | undefined> {
    let abort = () => {}
    const end = this.#link.sendAndWait<TurnEnd>(this.#key, params, spec, (stop) => {
      abort = stop
    })
    const { answer, completionEventId } = await placedAt(
      abortable(end, signal, 'SESSION_ABORTED', () => abort()),
      site,
    )
    if (answer === null) return undefined
    // Not a field of the event: it must not show where the event is printed, compared or stored.
    return Object.defineProperty(answer, 'completionEventId', { value: completionEventId ?? undefined })
  }

  /**
   * Subscribes to events of one type. Returns a function that ends the subscription. Events without a
   * subscriber never reach JavaScript.
   */
  on<K extends SessionEventType>(eventType: K, handler: TypedSessionEventHandler<K>): () => void
  /** Subscribes to events of a type that this version does not know. */
  on(
    eventType: string,
    handler: (event: { type: string; data: unknown; [field: string]: unknown }) => void,
  ): () => void
  /** Subscribes to all events. */
  on(handler: SessionEventHandler): () => void
  on(first: string | SessionEventHandler, handler?: (event: never) => void): () => void {
    if (typeof first === 'string' && handler) return this.#handlers.add(first, handler)
    return this.#handlers.add(undefined, first as never)
  }

  /** Reads the history of the session. */
  async getEvents(): Promise<SessionEvent[]> {
    const { events } = await this.#request<{ events?: SessionEvent[] }>('session.getMessages')
    return events ?? []
  }

  /** Stops the turn that runs. A `sendAndWait` that waits for it rejects with SESSION_ABORTED. */
  async abort(): Promise<void> {
    const aborted = this.#request('session.abort')
    this.#link.native.onAbortRequested(this.#key)
    await aborted
  }

  /** Changes the model, from the next message on. The history is kept. */
  async setModel(
    model: string,
    options?: {
      reasoningEffort?: ReasoningEffort
      reasoningSummary?: ReasoningSummary
      contextTier?: ContextTier
      modelCapabilities?: ModelCapabilitiesOverride
      autoTier?: AutoTier | null
    },
  ): Promise<void> {
    await this.#request('session.model.switchTo', { modelId: model, ...options })
  }

  /** Asks for another tier of the model "auto". It takes effect in a later turn. */
  async setAutoTier(autoTier: AutoTier | null): Promise<ModelSwitchAutoTierResult> {
    return this.#request('session.model.switchAutoTier', { autoTier })
  }

  /** Writes a line into the session's timeline. */
  async log(
    message: string,
    options?: { level?: 'info' | 'warning' | 'error'; ephemeral?: boolean },
  ): Promise<void> {
    await this.#request('session.log', { message, ...options })
  }

  /**
   * Closes the session. Its history stays and can be resumed. Turns that are waited for reject with
   * SESSION_CLOSED.
   */
  disconnect(): Promise<void> {
    if (this.#closedWith !== undefined) return Promise.resolve()
    this.#disconnecting ??= this.#disconnect().finally(() => {
      this.#disconnecting = undefined
    })
    return this.#disconnecting
  }

  /**
   * Same as `disconnect()`.
   *
   * @deprecated Older versions of the Copilot SDK have this name.
   */
  destroy(): Promise<void> {
    return this.disconnect()
  }

  /** Same as `disconnect()`, but without an error when the runtime is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.disconnect()
    } catch (error) {
      if ((error as SheepdogError).code !== 'CONNECTION_LOST') throw error
      this.#owner.forget(this)
      this.close()
    }
  }

  async #disconnect(): Promise<void> {
    await this.detach()
    this.#owner.forget(this)
    this.close()
  }

  /** @internal Tells the runtime; it is asked twice. */
  async detach(timeoutMs?: number): Promise<void> {
    type Answer = { success?: boolean; error?: string } | null
    let answer: Answer = null
    for (let attempt = 0; attempt < 2; attempt++) {
      try {
        answer = await this.#request<Answer>('session.detach', {}, timeoutMs)
      } catch (error) {
        const { code, rpcCode } = error as SheepdogErrorOf<'RPC_ERROR'>
        if (code !== 'RPC_ERROR' || rpcCode !== -32601) throw error
        // Older runtimes know it by another name, and say nothing.
        await this.#request('session.destroy', {}, timeoutMs)
        return
      }
      // Only a no is a no: the field may be missing.
      if (answer?.success !== false) return
    }
    throw new SheepdogError(
      'RPC_ERROR',
      `Failed to disconnect session ${this.sessionId}: ${(answer as Answer)?.error || 'Unknown error'}`,
      { method: 'session.detach' },
    )
  }

  /** @internal */
  close(message = `Session not found for sessionId: ${this.sessionId} (it was disconnected)`): void {
    if (this.#closedWith !== undefined) return
    this.#closedWith = message
    this.#responder.close()
    this.#handlers.clear()
    this.#link.native.closeSession(this.#key, message)
  }

  /** @internal Takes over the answer of `session.create` or `session.resume`. */
  opened(
    answer: {
      workspacePath?: string
      capabilities?: SessionCapabilities
      openCanvases?: OpenCanvasInstance[]
    },
    resumed?: ResumeOutcome,
    reason?: string,
  ): void {
    this.#workspacePath = answer.workspacePath
    this.#capabilities = answer.capabilities ?? {}
    this.#responder.openCanvases = [...(answer.openCanvases ?? [])]
    if (resumed) Object.assign(this, { resumed, resumeReason: reason })
  }

  /** @internal The session goes on over another connection. */
  moveTo(link: Link): void {
    const { sessionFs, config } = this.#responder
    this.#responder.close()
    this.#link = link
    this.#key = link.native.openSession(this.sessionId)
    this.#responder = new Responder(link, this.sessionId, config)
    this.#responder.sessionFs = sessionFs
    this.#tellWanted()
  }

  /** @internal Another object of the same session answers for it from now on, or does not any more. */
  supersede(isSuperseded: boolean): void {
    this.#isSuperseded = isSuperseded
  }

  /** @internal */
  onEvent(event: { type: string; data: never }): void {
    if (event.type === 'session.resume') this.#resumeEvents.hasResumed = true
    if (event.type === 'subagent.selected')
      this.#resumeEvents.agent = (event.data as { agentName?: string })?.agentName
    if (event.type === 'capabilities.changed')
      this.#capabilities = { ...this.#capabilities, ...(event.data as object) }
    if (!this.#isSuperseded) this.#responder.onEvent(event.type, event.data)
    this.#handlers.dispatch(event)
  }

  /** @internal */
  get resumeEvents(): Readonly<ResumeEvents> {
    return this.#resumeEvents
  }

  /** @internal */
  get key(): number {
    return this.#key
  }

  /** @internal */
  get link(): Link {
    return this.#link
  }

  /** @internal */
  get responder(): Responder {
    return this.#responder
  }

  /** @internal */
  get isBusy(): boolean {
    return this.#link.native.isBusy(this.#key)
  }

  async #request<T>(method: string, params: object = {}, timeoutMs?: number): Promise<T> {
    this.#throwIfClosed()
    if (timeoutMs === undefined) await this.#owner.reach(this)
    return await this.#link.request<T>(method, { sessionId: this.sessionId, ...params }, timeoutMs)
  }

  #throwIfClosed(): void {
    if (this.#closedWith !== undefined) throw new SheepdogError('SESSION_CLOSED', this.#closedWith)
  }

  async #prepare(message: string | MessageOptions): Promise<Record<string, unknown>> {
    const params = messageParams(message)
    this.#throwIfClosed()
    // Calls are sent in their order: nothing is awaited that need not be.
    await this.#owner.reach(this)
    const trace = this.#owner.onGetTraceContext ? await traceOf(this.#owner.onGetTraceContext) : {}
    return { ...trace, sessionId: this.sessionId, ...params }
  }

  async #elicit(params: ElicitationParams): Promise<ElicitationResult> {
    if (!this.#capabilities.ui?.elicitation) {
      throw invalidOptions(
        'Elicitation is not supported by the host. Check session.capabilities.ui?.elicitation before calling UI methods.',
      )
    }
    const { message, requestedSchema } = params
    return this.#request('session.ui.elicitation', { message, requestedSchema })
  }

  #tellWanted(): void {
    if (this.#closedWith !== undefined) return
    this.#link.native.wantEvents(this.#key, this.#handlers.wantsAll, [...ownEvents, ...this.#handlers.types])
  }
}
