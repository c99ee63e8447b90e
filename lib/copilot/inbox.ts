// Messages that come from the runtime unasked (events, requests, notifications), brought to whom they concern.
import { quoted } from '../json'
import { HandlerTable, type SessionLifecycleEvent } from './event'
import type { ClientSettings } from './client_options'
import type { GitHubTelemetryNotification } from './generated'
import { InstallationQuestions } from './installation'
import type { Link, LinkReceiver, RuntimeExit } from './link'
import { Refusal, textOf } from './refusal'
import type { RequestAdapter } from './request_handler'
import type { SessionTable } from './session_table'
import type { TokenProviders } from './token_providers'

/** The parts of a client that its inbox needs. */
export interface InboxOwner {
  /** The connection that answers go over. */
  connection(): Link | undefined
  readonly sessions: SessionTable
  readonly tokens: TokenProviders
  readonly requestAdapter: RequestAdapter | undefined
  readonly settings: ClientSettings
  onExit(exit: RuntimeExit): void
}

type Params = { sessionId?: unknown } | null
type Handler = (params: never) => Promise<unknown>

export class Inbox implements LinkReceiver {
  readonly lifecycle = new HandlerTable(() => this.tellWanted())
  readonly #questions: InstallationQuestions | undefined

  constructor(private readonly owner: InboxOwner) {
    const { installationConfirmationHandler } = owner.settings
    this.#questions =
      installationConfirmationHandler && new InstallationQuestions(installationConfirmationHandler)
  }

  /** Notifications that nobody wants stay in the core. */
  tellWanted(): void {
    const wanted: string[] = []
    if (this.lifecycle.wantsAll || this.lifecycle.types.length > 0) wanted.push('session.lifecycle')
    if (this.owner.settings.onGitHubTelemetry) wanted.push('gitHubTelemetry.event')
    if (this.#questions) wanted.push('$/cancelRequest')
    this.owner.connection()?.native.wantNotifications(wanted)
  }

  onEvent(key: number, event: unknown): void {
    this.owner.sessions.withKey(key)?.onEvent(event as never)
  }

  onRequest(id: string, method: string, params: unknown): void {
    void this.#answer(id, method, params as Params)
  }

  async #answer(id: string, method: string, params: Params): Promise<void> {
    const link = this.owner.connection()
    try {
      const handler = this.#handlerOf(id, method, params)
      if (handler) link?.respond(id, await handler(params as never))
      else link?.refuse(id, -32601, `Unhandled method ${method}`)
    } catch (error) {
      if (error instanceof Refusal) return link?.refuse(id, error.rpcCode, error.message, error.data)
      link?.refuse(id, -32603, `Request ${method} failed with message: ${textOf(error)}`)
    }
  }

  #handlerOf(id: string, method: string, params: Params): Handler | undefined {
    const { sessions, tokens, requestAdapter } = this.owner
    if (method === 'gitHubToken.getToken') return (request) => tokens.acquire(request)
    if (method === 'llmInference.httpRequestStart') return requestAdapter?.httpRequestStart
    if (method === 'llmInference.httpRequestChunk') return requestAdapter?.httpRequestChunk
    const { extensionLaunchProvider } = this.owner.settings
    if (method === 'extensionLaunchProvider.resolve' && extensionLaunchProvider)
      return (request) => extensionLaunchProvider.resolve(request)
    if (method === 'installations.confirm' && this.#questions)
      return (request) => this.#questions!.ask(id, request)
    if (typeof params?.sessionId !== 'string') return undefined
    const session = sessions.withId(params.sessionId).at(-1)
    if (!session) throw new Error(`Session not found: ${params.sessionId}`)
    return session.responder.answer(method)
  }

  onNotification(method: string, params: unknown): void {
    if (method === 'session.lifecycle') return this.#onLifecycle(params as never)
    if (method === '$/cancelRequest')
      return this.#questions?.takeBack(quoted((params as { id?: unknown } | null)?.id))
    const { onGitHubTelemetry } = this.owner.settings
    void (async () => onGitHubTelemetry?.(params as GitHubTelemetryNotification))().catch(() => {})
  }

  #onLifecycle(raw: {
    type?: unknown
    sessionId?: unknown
    metadata?: Record<string, string | undefined>
  }): void {
    if (typeof raw?.type !== 'string' || typeof raw.sessionId !== 'string') return
    const { startTime, modifiedTime, summary } = raw.metadata ?? {}
    const metadata =
      startTime && modifiedTime
        ? { startTime: new Date(startTime), modifiedTime: new Date(modifiedTime), summary }
        : undefined
    this.lifecycle.dispatch({ type: raw.type, sessionId: raw.sessionId, metadata } as SessionLifecycleEvent)
  }

  onExit(exit: RuntimeExit): void {
    this.cancelAll()
    this.owner.onExit(exit)
  }

  /** Ends the work for a runtime that is gone. */
  cancelAll(): void {
    this.#questions?.takeBackAll()
    this.owner.requestAdapter?.cancelAll()
  }

  onStderr(line: string): void {
    this.owner.settings.onStderr?.(line)
  }
}
