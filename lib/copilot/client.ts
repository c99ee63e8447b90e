// A client of the Copilot CLI's runtime: starts it, talks to it, and takes it down again.
import { SheepdogError, settle } from '../error'
import { native } from '../native'
import { check, checkOptions } from '../option'
import {
  type ClientSettings,
  type CopilotClientOptions,
  toSettings,
  toWireClientInfo,
} from './client_options'
import {
  HandlerTable,
  type SessionLifecycleEvent,
  type SessionLifecycleEventType,
  type SessionLifecycleHandler,
  type TypedSessionLifecycleHandler,
} from './event'
import type { GitHubTelemetryNotification, ServerRpc } from './generated'
import { Link, type LinkReceiver, type RuntimeExit } from './link'
import { type TraceContextProvider, traceOf } from './message'
import { type ModelInfo, completeModel } from './model'
import { type RequestAdapter, createRequestAdapter } from './request_handler'
import { Refusal } from './responder'
import { type ResumeOptions, type SessionInspection, type SessionSalvage, fallbacks } from './resume'
import { rpcTree } from './rpc'
import { launchCommand, launchEnvironment } from './runtime_connection'
import { CopilotSession, type ResumeOutcome, type SessionCapabilities, type SessionOwner } from './session'
import {
  type ResumeSessionConfig,
  type SessionConfig,
  toWireConfig,
  toWireCreate,
  toWireOptions,
  toWireResume,
  withModeDefaults,
} from './session_config'
import { createSessionFsAdapter } from './session_fs'
import {
  type GetAuthStatusResponse,
  type GetStatusResponse,
  type SessionListFilter,
  type SessionMetadata,
  toSessionMetadata,
} from './session_metadata'
import { TokenProviders } from './token_providers'
import { randomUUID } from 'node:crypto'

export type ConnectionState = 'disconnected' | 'connecting' | 'connected' | 'error'

interface OpenAnswer {
  sessionId?: string
  workspacePath?: string
  capabilities?: SessionCapabilities
}

interface ResumeAnswer {
  how: ResumeOutcome
  reason: string
  response: OpenAnswer | null
}

/** For the goodbye of sessions, before the runtime's own. */
const DETACH_TIMEOUT_MS = 1500

/**
 * Talks to the runtime of the Copilot CLI. Nothing is started before `start()` or the first session; `stop()` (or
 * `await using`) leaves no process behind.
 */
export class CopilotClient implements SessionOwner {
  readonly onGetTraceContext: TraceContextProvider | undefined
  readonly #options: CopilotClientOptions
  readonly #settings: ClientSettings
  readonly #tokens = new TokenProviders()
  readonly #lifecycle = new HandlerTable(() => this.#wantNotifications())
  readonly #exitHandlers = new Set<(exit: RuntimeExit) => void>()
  /** Of one id, the newest object is the last. */
  readonly #sessions = new Map<string, CopilotSession[]>()
  readonly #configs = new WeakMap<CopilotSession, SessionConfig & ResumeSessionConfig>()
  readonly #byKey = new Map<number, CopilotSession>()
  readonly #resuming = new Map<string, Promise<CopilotSession>>()
  /** Messages sent to sessions that are closed by now. */
  readonly #sent = new Map<string, number>()
  readonly #requestAdapter: RequestAdapter | undefined
  #link: Link | undefined
  #state: ConnectionState = 'disconnected'
  #starting: Promise<void> | undefined
  #stopping: Promise<Error[]> | undefined
  #hasCrashed = false
  /** A start that was under way before one of them does not begin after it. */
  #stops = 0
  #runtimePort: number | null = null
  #models: Promise<ModelInfo[]> | undefined
  #rpc: ServerRpc | undefined

  /** Does nothing yet; throws for options that contradict each other. */
  constructor(options: CopilotClientOptions = {}) {
    this.#options = options
    this.#settings = toSettings(options)
    this.onGetTraceContext = options.onGetTraceContext
    this.#runtimePort = this.#settings.address?.port ?? null
    if (options.requestHandler) {
      this.#requestAdapter = createRequestAdapter(options.requestHandler, (method, params) =>
        this.#connected().request(method, params),
      )
    }
  }

  /** Methods of the runtime by path: `client.rpc.models.list()` is the request "models.list". */
  get rpc(): ServerRpc {
    if (!this.#link)
      throw new SheepdogError('CONNECTION_LOST', 'Client is not connected. Call start() first.')
    this.#rpc ??= rpcTree<ServerRpc>(async (method, params) => (await this.#live()).request(method, params))
    return this.#rpc
  }

  /** Where the connection stands. */
  get state(): ConnectionState {
    return this.#state
  }

  /** The port that the runtime listens on, for a connection over TCP. */
  get runtimePort(): number | null {
    return this.#runtimePort
  }

  /**
   * Starts the runtime and shakes hands, or does nothing when that was done. Calls at once share one start.
   *
   * Rejects with PROCESS_NOT_FOUND (and what to install), CONNECTION_LOST (the runtime exited), CONNECTION_TIMED_OUT,
   * PROTOCOL_MISMATCH; nothing is left running then.
   */
  start(): Promise<void> {
    if (this.#state === 'connected') return Promise.resolve()
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined
    })
    return this.#starting
  }

  async #start(): Promise<void> {
    const stops = this.#stops
    if (this.#stopping) await this.#stopping
    // What a crash left behind.
    if (this.#link) await this.#link.kill()
    if (stops !== this.#stops)
      throw new SheepdogError('SESSION_CLOSED', 'The client was stopped while it was starting')
    this.#state = 'connecting'
    this.#hasCrashed = false
    const link = new Link(this.#receiver())
    this.#link = link
    try {
      const started = await link.start(this.#startSpec())
      this.#runtimePort = started.port ?? null
      this.#state = 'connected'
      this.#wantNotifications()
    } catch (error) {
      if (this.#link === link) {
        this.#link = undefined
        this.#state = 'error'
      }
      throw error
    }
  }

  #startSpec(): Parameters<Link['start']>[0] {
    const { connection, address, workingDirectory, env, connectionToken } = this.#settings
    const options = this.#options
    const setup: [string, unknown][] = []
    if (options.builtinPluginDirectories?.length) {
      setup.push(['plugins.builtin.set', { paths: [...options.builtinPluginDirectories] }])
    }
    if (options.sessionFs) {
      const { initialCwd, sessionStatePath, conventions, capabilities } = options.sessionFs
      setup.push(['sessionFs.setProvider', { initialCwd, sessionStatePath, conventions, capabilities }])
    }
    if (options.requestHandler) setup.push(['llmInference.setProvider', {}])
    const handshake = {
      token: connectionToken,
      supportedTaskKinds: ['agent', 'client', 'shell'],
      enableGitHubTelemetryForwarding: options.onGitHubTelemetry ? true : undefined,
      clientInfo: toWireClientInfo(options.clientInfo),
    }
    const common = {
      handshake: JSON.stringify(handshake),
      setup: setup.map(([method, params]) => ({ method, params: JSON.stringify(params) })),
      startTimeoutMs: options.startTimeoutMs,
      tellStderr: options.onStderr !== undefined,
    }
    if (connection.kind === 'uri') return { transport: 'address', args: [], env: [], ...address, ...common }
    const variables = Object.entries(launchEnvironment(env, this.#settings))
    return {
      transport: connection.kind,
      ...launchCommand(connection, this.#settings, env),
      cwd: workingDirectory,
      env: variables.flatMap(([name, value]) => (value === undefined ? [] : [{ name, value: `${value}` }])),
      ...common,
    }
  }

  /**
   * Lets the sessions go and ends the runtime: politely, then by force, within 7 seconds. Never rejects; resolves with what
   * went wrong. No process of the runtime's tree is left.
   */
  stop(): Promise<Error[]> {
    this.#stopping ??= this.#stop().finally(() => {
      this.#stopping = undefined
    })
    return this.#stopping
  }

  async #stop(): Promise<Error[]> {
    const link = this.#link
    this.#stops++
    const errors: Error[] = []
    const sessions = [...this.#sessions.values()].flat()
    const isAlive = link !== undefined && this.#state === 'connected'
    const detached = sessions.map(async (session) => {
      try {
        if (isAlive) await session.detach(DETACH_TIMEOUT_MS)
      } catch (error) {
        const message = `Failed to disconnect session ${session.sessionId}: ${(error as Error).message}`
        errors.push(new SheepdogError((error as SheepdogError).code ?? 'RPC_ERROR', message, {}, error))
      }
    })
    await Promise.all(detached)
    this.#closeSessions('The client was stopped')
    if (link) errors.push(...(await link.stop().catch((error: Error) => [error])))
    await this.#starting?.catch(() => {})
    if (this.#link === link) this.#disconnected()
    return errors
  }

  /** Ends the runtime at once, within a second. */
  async forceStop(): Promise<void> {
    const link = this.#link
    this.#stops++
    this.#closeSessions('The client was stopped')
    await link?.kill()
    await this.#starting?.catch(() => {})
    if (this.#link === link) this.#disconnected()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #disconnected(): void {
    this.#link = undefined
    this.#state = 'disconnected'
    this.#hasCrashed = false
    this.#models = undefined
    this.#runtimePort = this.#settings.address?.port ?? null
    this.#byKey.clear()
  }

  #closeSessions(message: string): void {
    for (const session of [...this.#sessions.values()].flat()) {
      this.#remember(session)
      session.close(message)
    }
    this.#sessions.clear()
    this.#tokens.clear()
  }

  /**
   * Opens a new session. Starts the runtime if need be. An id whose session has a history is refused with SESSION_EXISTS: the
   * runtime would begin a second one in the same log.
   */
  async createSession(config: SessionConfig = {}): Promise<CopilotSession> {
    this.#checkTokens(config)
    const link = await this.#ensureStarted()
    const full = withModeDefaults(config, this.#settings.isEmptyMode)
    const wire = toWireConfig(full)
    if (full.sessionId !== undefined)
      this.#refuseExisting(full.sessionId, full.configDirectory ?? this.#settings.home)
    const isNamedByServer = full.cloud != null && full.sessionId === undefined
    const sessionId = isNamedByServer ? undefined : (full.sessionId ?? randomUUID())
    const registration = this.#tokens.register(full.gitHubTokenProvider, sessionId)
    let session = sessionId === undefined ? undefined : this.#register(link, sessionId, full)
    try {
      if (session) this.#setUpFiles(session, full)
      const params = {
        ...(await traceOf(this.onGetTraceContext)),
        ...wire,
        ...toWireCreate(full),
        ...this.#perClient(registration),
        sessionId,
      }
      const answer = (await link.request<OpenAnswer | null>('session.create', params)) ?? {}
      const named = answer.sessionId ?? sessionId
      if (!named) throw new Error('session.create response did not include a sessionId')
      if (sessionId !== undefined && named !== sessionId) {
        throw new Error(`session.create returned sessionId ${named} but the caller requested ${sessionId}`)
      }
      if (!session) {
        session = this.#register(link, named, full)
        this.#setUpFiles(session, full)
      }
      session.opened(answer)
      await this.#finishOpening(session, full)
      this.#tokens.commit(named, registration)
      return session
    } catch (error) {
      if (session) this.#drop(session)
      this.#tokens.delete(registration)
      throw error
    }
  }

  /**
   * Opens a session's history. A session that is truly empty (never used, or started over) is opened afresh under the same id,
   * one whose custom agent is gone without it: `session.resumed` and `session.resumeReason` say so.
   *
   * Rejects with RESUME_CORRUPT (+ `line`), RESUME_NOT_FOUND, RESUME_IN_USE, RESUME_AGENT_MISSING, RESUME_TRANSIENT,
   * RESUME_FAILED; the runtime's own error is the `cause`. Nothing is created and no log is touched then.
   */
  resumeSession(
    sessionId: string,
    config: ResumeSessionConfig = {},
    options: ResumeOptions = {},
  ): Promise<CopilotSession> {
    const under = this.#resuming.get(sessionId)
    if (under) return under
    const resumed = this.#resumeSession(sessionId, config, options).finally(() =>
      this.#resuming.delete(sessionId),
    )
    this.#resuming.set(sessionId, resumed)
    return resumed
  }

  async #resumeSession(
    sessionId: string,
    config: ResumeSessionConfig,
    options: ResumeOptions,
  ): Promise<CopilotSession> {
    checkOptions(options, { knownTurns: check.duration, fallback: check.oneOf(...fallbacks) })
    this.#checkTokens(config)
    const link = await this.#ensureStarted()
    const full = withModeDefaults(config, this.#settings.isEmptyMode)
    // Checked before anything is registered.
    toWireConfig(full)
    const registration = this.#tokens.register(full.gitHubTokenProvider, sessionId)
    const session = this.#register(link, sessionId, full)
    try {
      this.#setUpFiles(session, full)
      await this.#openHistory(link, session, full, options, registration)
      this.#tokens.commit(sessionId, registration)
      return session
    } catch (error) {
      this.#drop(session)
      this.#tokens.delete(registration)
      throw error
    }
  }

  async #openHistory(
    link: Link,
    session: CopilotSession,
    config: ResumeSessionConfig,
    options: ResumeOptions,
    registration?: string,
  ): Promise<void> {
    const { sessionId } = session
    const common = {
      ...(await traceOf(this.onGetTraceContext)),
      ...toWireConfig(config),
      ...this.#perClient(registration),
      sessionId,
    }
    const answer = await link.resume<ResumeAnswer>({
      sessionId,
      params: JSON.stringify({ ...common, ...toWireResume(config) }),
      createParams: JSON.stringify({ ...common, ...toWireCreate(config) }),
      home: config.configDirectory ?? this.#settings.home,
      knownTurns: options.knownTurns ?? 0,
      seenTurns: this.#sent.get(sessionId) ?? 0,
      fallback: options.fallback,
    })
    if (this.#link !== link || !this.#sessions.get(sessionId)?.includes(session)) {
      // The client was stopped, or the session deleted, while its history was on the way.
      link.request('session.detach', { sessionId }, DETACH_TIMEOUT_MS).catch(() => {})
      throw new SheepdogError('SESSION_CLOSED', `Session ${sessionId} was closed while it was being resumed`)
    }
    session.opened(answer.response ?? {}, answer.how, answer.reason)
    await this.#finishOpening(session, config)
  }

  /** What a session needs once it is open. */
  async #finishOpening(session: CopilotSession, config: SessionConfig & ResumeSessionConfig): Promise<void> {
    const { sessionId, link } = session
    if (config.onMcpAuthRequest) {
      await link.request('session.eventLog.registerInterest', { sessionId, eventType: 'mcp.oauth_required' })
    }
    const patch = toWireOptions(config, this.#settings.isEmptyMode)
    if (!patch) return
    try {
      await link.request('session.options.update', { sessionId, ...patch })
    } catch (error) {
      await session.detach(DETACH_TIMEOUT_MS).catch(() => {})
      throw error
    }
  }

  #register(link: Link, sessionId: string, config: SessionConfig & ResumeSessionConfig): CopilotSession {
    const session = new CopilotSession(this, link, sessionId, config)
    const same = this.#sessions.get(sessionId) ?? []
    for (const other of same) other.supersede(true)
    this.#sessions.set(sessionId, [...same, session])
    this.#configs.set(session, config)
    this.#byKey.set(session.key, session)
    return session
  }

  #drop(session: CopilotSession): void {
    this.forget(session)
    session.close()
  }

  /** @internal */
  forget(session: CopilotSession): void {
    this.#remember(session)
    this.#byKey.delete(session.key)
    this.#tokens.release(session.sessionId)
    const rest = this.#sessions.get(session.sessionId)?.filter((other) => other !== session) ?? []
    rest.at(-1)?.supersede(false)
    if (rest.length > 0) this.#sessions.set(session.sessionId, rest)
    else this.#sessions.delete(session.sessionId)
  }

  /** That a session has turns is remembered, for a later resume that finds none. */
  #remember(session: CopilotSession): void {
    const sent = session.link.countSent(session.key)
    if (sent > 0) this.#sent.set(session.sessionId, (this.#sent.get(session.sessionId) ?? 0) + sent)
    const oldest = this.#sent.size > 10_000 ? this.#sent.keys().next().value : undefined
    if (oldest !== undefined) this.#sent.delete(oldest)
  }

  /** @internal After a crash, a session that had no turn running is brought back. */
  async reach(session: CopilotSession): Promise<void> {
    const isHere = session.link === this.#link && !this.#hasCrashed
    if (isHere || this.#options.restart !== 'on-demand') return
    const config = this.#configs.get(session)
    if (!config || !this.#sessions.get(session.sessionId)?.includes(session)) return
    const { sessionId } = session
    const key = `${sessionId} revival`
    let revival = this.#resuming.get(key)
    if (!revival) {
      revival = this.#revive(session, config).finally(() => this.#resuming.delete(key))
      this.#resuming.set(key, revival)
    }
    await revival
  }

  async #revive(
    session: CopilotSession,
    config: SessionConfig & ResumeSessionConfig,
  ): Promise<CopilotSession> {
    const link = await this.#ensureStarted()
    if (session.link === link) return session
    session.moveTo(link, config)
    this.#byKey.set(session.key, session)
    await this.#openHistory(link, session, config, {}, this.#tokens.registrationOf(session.sessionId))
    return session
  }

  /** Reads a session's log, without the runtime and without changing anything. */
  async inspectSession(sessionId: string): Promise<SessionInspection> {
    return settle(
      native.inspectCopilotSession(this.#homeOf('inspectSession'), sessionId),
    ) as Promise<SessionInspection>
  }

  /** Copies the valid lines of a session's log to a new session, which can be resumed; the original stays as it is. */
  async salvageSession(sessionId: string): Promise<SessionSalvage> {
    return settle(native.salvageCopilotSession(this.#homeOf('salvageSession'), sessionId, randomUUID()))
  }

  #homeOf(method: string): string {
    const { home } = this.#settings
    if (home !== undefined) return home
    throw new SheepdogError(
      'INVALID_OPTION',
      `${method}: the sessions of this client are not on this machine's disk`,
    )
  }

  #refuseExisting(sessionId: string, home: string | undefined): void {
    if (home === undefined || native.copilotLogSize(home, sessionId) === 0) return
    const message = `Session ${sessionId} has a history already: use resumeSession, or another id`
    throw new SheepdogError('SESSION_EXISTS', message, { sessionId })
  }

  #checkTokens(config: SessionConfig): void {
    if (config.gitHubToken !== undefined && config.gitHubTokenProvider !== undefined) {
      throw new Error('gitHubToken and gitHubTokenProvider are mutually exclusive')
    }
  }

  #perClient(registration: string | undefined): Record<string, unknown> {
    return {
      gitHubTokenProviderRegistrationId: registration,
      enableGitHubTelemetryForwarding: this.#options.onGitHubTelemetry ? true : undefined,
    }
  }

  #setUpFiles(session: CopilotSession, config: SessionConfig): void {
    const { sessionFs } = this.#options
    if (!sessionFs) return
    if (!config.createSessionFsProvider) {
      throw new Error(
        'createSessionFsProvider is required in session config when sessionFs is enabled in client options.',
      )
    }
    const provider = config.createSessionFsProvider(session)
    if (sessionFs.capabilities?.sqlite && !provider.sqlite) {
      throw new Error(
        'SessionFsConfig declares capabilities.sqlite but the provider does not implement sqlite.',
      )
    }
    session.responder.sessionFs = createSessionFsAdapter(provider)
  }

  async ping(message?: string): Promise<{ message: string; timestamp: string; protocolVersion?: number }> {
    return (await this.#live()).request('ping', { message })
  }

  async getStatus(): Promise<GetStatusResponse> {
    return (await this.#live()).request('status.get', {})
  }

  async getAuthStatus(): Promise<GetAuthStatusResponse> {
    return (await this.#live()).request('auth.getStatus', {})
  }

  /** Asked once a connection; a failure is not kept. */
  async listModels(): Promise<ModelInfo[]> {
    this.#models ??= this.#askModels().catch((error: unknown) => {
      this.#models = undefined
      throw error
    })
    return [...(await this.#models)]
  }

  async #askModels(): Promise<ModelInfo[]> {
    if (this.#options.onListModels) return [...(await this.#options.onListModels())]
    const { models } = await (await this.#live()).request<{ models?: ModelInfo[] }>('models.list', {})
    return (models ?? []).map(completeModel)
  }

  async listSessions(filter?: SessionListFilter): Promise<SessionMetadata[]> {
    let wire: object | undefined
    if (filter) {
      const { workingDirectory, ...rest } = filter
      wire = { ...rest, cwd: workingDirectory }
    }
    const { sessions } = await (
      await this.#live()
    ).request<{ sessions?: never[] }>('session.list', { filter: wire })
    return (sessions ?? []).map(toSessionMetadata)
  }

  /** undefined when there is no such session. */
  async getSessionMetadata(sessionId: string): Promise<SessionMetadata | undefined> {
    const answer = await (
      await this.#live()
    ).request<{ session?: never }>('session.getMetadata', { sessionId })
    return answer.session ? toSessionMetadata(answer.session) : undefined
  }

  async getLastSessionId(): Promise<string | undefined> {
    return (await (await this.#live()).request<{ sessionId?: string }>('session.getLastId', {})).sessionId
  }

  /** Removes a session and its history for good. */
  async deleteSession(sessionId: string): Promise<void> {
    const { success, error } = await (
      await this.#live()
    ).request<{ success?: boolean; error?: string }>('session.delete', {
      sessionId,
    })
    if (!success) {
      const message = `Failed to delete session ${sessionId}: ${error || 'Unknown error'}`
      throw new SheepdogError('RPC_ERROR', message, { method: 'session.delete' })
    }
    for (const session of this.#sessions.get(sessionId) ?? [])
      session.close(`Session ${sessionId} was deleted`)
    this.#sessions.delete(sessionId)
    this.#sent.delete(sessionId)
    this.#tokens.release(sessionId)
  }

  /** For a runtime with a terminal interface. */
  async getForegroundSessionId(): Promise<string | undefined> {
    return (await (await this.#live()).request<{ sessionId?: string }>('session.getForeground', {})).sessionId
  }

  async setForegroundSessionId(sessionId: string): Promise<void> {
    const { success, error } = await (
      await this.#live()
    ).request<{ success?: boolean; error?: string }>('session.setForeground', { sessionId })
    if (!success) {
      throw new SheepdogError('RPC_ERROR', error || 'Failed to set foreground session', {
        method: 'session.setForeground',
      })
    }
  }

  /** Subscribes to sessions' lives, of any client of the runtime; returns what ends the subscription. */
  onLifecycle<K extends SessionLifecycleEventType>(
    eventType: K,
    handler: TypedSessionLifecycleHandler<K>,
  ): () => void
  onLifecycle(handler: SessionLifecycleHandler): () => void
  onLifecycle(first: string | SessionLifecycleHandler, handler?: (event: never) => void): () => void {
    if (typeof first === 'string' && handler) return this.#lifecycle.add(first, handler)
    return this.#lifecycle.add(undefined, first as never)
  }

  /** Called when the runtime exits, or the connection to it breaks, without `stop()`; returns what ends the subscription. */
  onExit(handler: (exit: RuntimeExit) => void): () => void {
    this.#exitHandlers.add(handler)
    return () => void this.#exitHandlers.delete(handler)
  }

  #connected(): Link {
    if (!this.#link || this.#state === 'connecting')
      throw new SheepdogError('CONNECTION_LOST', 'Client not connected')
    return this.#link
  }

  /** The connection, after bringing it back if that is allowed. */
  async #live(): Promise<Link> {
    if (this.#hasCrashed && this.#options.restart === 'on-demand') await this.start()
    return this.#connected()
  }

  async #ensureStarted(): Promise<Link> {
    const isLost = this.#link === undefined || this.#state === 'connecting'
    if (isLost || (this.#hasCrashed && this.#options.restart === 'on-demand')) await this.start()
    return this.#connected()
  }

  #wantNotifications(): void {
    const wanted: string[] = []
    if (this.#lifecycle.wantsAll || this.#lifecycle.types.length > 0) wanted.push('session.lifecycle')
    if (this.#options.onGitHubTelemetry) wanted.push('gitHubTelemetry.event')
    this.#link?.wantNotifications(wanted)
  }

  #receiver(): LinkReceiver {
    return {
      onEvent: (key, event) => this.#byKey.get(key)?.onEvent(event as never),
      onRequest: (id, method, params) =>
        void this.#answer(id, method, params as { sessionId?: unknown } | null),
      onNotification: (method, params) => this.#onNotification(method, params as never),
      onExit: (exit) => this.#onExit(exit),
      onStderr: (line) => this.#options.onStderr?.(line),
    }
  }

  async #answer(id: string, method: string, params: { sessionId?: unknown } | null): Promise<void> {
    const link = this.#link
    try {
      const handler = this.#handlerOf(method, params)
      if (handler) link?.respond(id, await handler(params as never))
      else link?.refuse(id, -32601, `Unhandled method ${method}`)
    } catch (error) {
      if (error instanceof Refusal) return link?.refuse(id, error.rpcCode, error.message, error.data)
      const message = error instanceof Error ? error.message : String(error)
      link?.refuse(id, -32603, `Request ${method} failed with message: ${message}`)
    }
  }

  #handlerOf(
    method: string,
    params: { sessionId?: unknown } | null,
  ): ((params: never) => Promise<unknown>) | undefined {
    if (method === 'gitHubToken.getToken') return (request) => this.#tokens.acquire(request)
    if (method === 'llmInference.httpRequestStart') return this.#requestAdapter?.httpRequestStart
    if (method === 'llmInference.httpRequestChunk') return this.#requestAdapter?.httpRequestChunk
    if (typeof params?.sessionId !== 'string') return undefined
    const session = this.#sessions.get(params.sessionId)?.at(-1)
    if (!session) throw new Error(`Session not found: ${params.sessionId}`)
    return session.responder.answer(method)
  }

  #onNotification(method: string, params: GitHubTelemetryNotification): void {
    if (method === 'session.lifecycle') return this.#onLifecycleEvent(params as never)
    void (async () => this.#options.onGitHubTelemetry?.(params))().catch(() => {})
  }

  #onLifecycleEvent(raw: {
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
    this.#lifecycle.dispatch({ type: raw.type, sessionId: raw.sessionId, metadata } as SessionLifecycleEvent)
  }

  #onExit(exit: RuntimeExit): void {
    this.#hasCrashed = true
    this.#state = 'disconnected'
    this.#models = undefined
    for (const session of [...this.#sessions.values()].flat()) {
      const mayComeBack = this.#options.restart === 'on-demand' && !session.isBusy
      if (!mayComeBack) this.forget(session)
    }
    for (const handler of this.#exitHandlers) {
      try {
        handler(exit)
      } catch {
        // The other handlers are told all the same.
      }
    }
  }
}
