// A client of the Copilot CLI's runtime: starts it, talks to it, and takes it down again.
import { callSite, placedAt } from '../call-site'
import { SheepdogError, settle, invalidOptions } from '../error'
import { native } from '../native'
import { check, checkOptions } from '../option'
import { ClientConnection, type ConnectionState } from './client_connection'
import { type ClientSettings, type CopilotClientOptions, toSettings } from './client_options'
import type {
  SessionLifecycleEventType,
  SessionLifecycleHandler,
  TypedSessionLifecycleHandler,
} from './event'
import type { ServerRpc } from './generated'
import { Inbox } from './inbox'
import type { RuntimeExit } from './link'
import { type ModelInfo, completeModel } from './model'
import { createRequestAdapter } from './request_handler'
import type { SessionResumeOptions, SessionInspection, SessionSalvage } from './resume'
import { serverMethods } from './generated_methods'
import { rpcTree } from './rpc'
import type { CopilotSession } from './session'
import type { ResumeSessionConfig, SessionConfig } from './session_config'
import {
  type GetAuthStatusResponse,
  type GetStatusResponse,
  type SessionListFilter,
  type SessionMetadata,
  toSessionMetadata,
} from './session_metadata'
import { DETACH_TIMEOUT_MS, SessionOpener } from './session_opener'
import { SessionTable } from './session_table'
import { TokenProviders } from './token_providers'

export type { ConnectionState }

interface Outcome {
  success?: boolean
  error?: string
}

/**
 * A client of the Copilot CLI's runtime. It starts the runtime with `start()` or with the first
 * session. `stop()`, or `await using`, leaves no process behind.
 *
 * @example
 * await using client = new CopilotClient()
 * const session = await client.createSession({ onPermissionRequest: approveAll })
 * const answer = await session.sendAndWait('What does this repository do?')
 */
export class CopilotClient {
  readonly #settings: ClientSettings
  readonly #exitHandlers = new Set<(exit: RuntimeExit) => void>()
  readonly #connection: ClientConnection
  readonly #sessions: SessionTable
  readonly #opener: SessionOpener
  readonly #inbox: Inbox
  #models: Promise<ModelInfo[]> | undefined
  #rpc: ServerRpc | undefined

  /**
   * Starts nothing yet.
   *
   * @throws INVALID_OPTION for options that are wrong or contradict each other.
   */
  constructor(options: CopilotClientOptions = {}) {
    this.#settings = toSettings(options)
    const tokens = new TokenProviders()
    const sessions = new SessionTable((sessionId) => tokens.release(sessionId))
    const requestAdapter =
      options.requestHandler &&
      createRequestAdapter(options.requestHandler, (method, params) =>
        this.#connection.connected().request(method, params),
      )
    this.#inbox = new Inbox({
      connection: () => this.#connection.link,
      sessions,
      tokens,
      requestAdapter,
      settings: this.#settings,
      onExit: (exit) => this.#onExit(exit),
    })
    this.#connection = new ClientConnection(
      {
        receiver: this.#inbox,
        onConnected: () => this.#inbox.tellWanted(),
        letSessionsGo: () => this.#letSessionsGo(),
        closeSessions: () => {
          sessions.closeAll('The client was stopped')
          this.#inbox.cancelAll()
          tokens.clear()
        },
        onDisconnected: () => {
          this.#models = undefined
          sessions.onDisconnected()
        },
      },
      this.#settings,
    )
    this.#sessions = sessions
    this.#opener = new SessionOpener(this.#connection, sessions, tokens, this.#settings)
  }

  /** Methods of the runtime by path: `client.rpc.models.list()` sends the request "models.list". */
  get rpc(): ServerRpc {
    if (!this.#connection.link)
      throw new SheepdogError('CONNECTION_LOST', 'Client is not connected. Call start() first.')
    this.#rpc ??= rpcTree<ServerRpc>((method, params) => this.#request(method, params), serverMethods)
    return this.#rpc
  }

  async #request<T>(method: string, params: unknown): Promise<T> {
    return (await this.#connection.live()).request(method, params)
  }

  /** State of the connection. */
  get state(): ConnectionState {
    return this.#connection.state
  }

  /** Port that the runtime listens on; null unless the connection uses TCP. */
  get runtimePort(): number | null {
    return this.#connection.runtimePort
  }

  /**
   * The runtime's process while it runs; null when there is none, or when this client did not start it.
   */
  get cliProcess(): RuntimeProcess | null {
    const { pid } = this.#connection
    if (pid === undefined) return null
    return {
      pid,
      kill: (signal: string | number = 'SIGTERM') => {
        // The number may be another program's by now.
        if (this.#connection.pid !== pid) return false
        try {
          return process.kill(pid, signal)
        } catch {
          return false
        }
      },
    }
  }

  /**
   * Starts the runtime and waits for its handshake. Does nothing when it runs already. Calls at the
   * same time share one start, and a call during `stop()` starts the runtime again afterwards. The
   * start is given up when the signals of all its callers are aborted.
   *
   * @throws PROCESS_NOT_FOUND (the message says what to install), CONNECTION_LOST (the runtime exited),
   *   CONNECTION_TIMED_OUT, PROTOCOL_MISMATCH, SESSION_CLOSED (stopped meanwhile), SESSION_ABORTED.
   *   Nothing is left running then.
   */
  async start(options: { signal?: AbortSignal } = {}): Promise<void> {
    checkOptions(options, { signal: check.signal })
    await placedAt(this.#connection.start(options.signal), callSite())
  }

  /**
   * Closes the sessions and ends the runtime, first by request and then by force. No process of the
   * runtime's tree is left. Never rejects: it resolves with the errors on the way.
   */
  stop(): Promise<Error[]> {
    return this.#connection.stop()
  }

  async #letSessionsGo(): Promise<Error[]> {
    const errors: Error[] = []
    const detached = this.#sessions.all.map(async (session) => {
      try {
        await session.detach(DETACH_TIMEOUT_MS)
      } catch (error) {
        const failure = `Failed to disconnect session ${session.sessionId}`
        const { code, message } = error as SheepdogError
        const told = message.startsWith(failure) ? message : `${failure}: ${message}`
        errors.push(new SheepdogError(code ?? 'RPC_ERROR', told, {}, error))
      }
    })
    await Promise.all(detached)
    return errors
  }

  /** Kills the runtime at once. */
  forceStop(): Promise<void> {
    return this.#connection.forceStop()
  }

  /** Same as `stop()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /**
   * Opens a new session, and starts the runtime when it does not run.
   *
   * @throws SESSION_EXISTS when the session with this id has a history; SESSION_ABORTED when
   *   `config.signal` is aborted.
   */
  createSession(config: SessionConfig = {}): Promise<CopilotSession> {
    return placedAt(this.#opener.create(config), callSite())
  }

  /**
   * Opens a session with its history. A session that is truly empty (never used, started over, or
   * unknown) is opened empty under the same id. A session whose custom agent is missing is opened
   * without it. `session.resumed` and `session.resumeReason` tell which. Calls at the same time for one
   * session share it, with the configuration of the first call.
   *
   * @throws RESUME_CORRUPT (with `line`), RESUME_NOT_FOUND, RESUME_IN_USE, RESUME_AGENT_MISSING,
   *   RESUME_TRANSIENT, RESUME_FAILED; the runtime's own error is the `cause`. Nothing is created and
   *   no log is changed then. SESSION_ABORTED when `options.signal` or `config.signal` is aborted.
   */
  resumeSession(
    sessionId: string,
    config: ResumeSessionConfig = {},
    options: SessionResumeOptions = {},
  ): Promise<CopilotSession> {
    return placedAt(this.#opener.resume(sessionId, config, options), callSite())
  }

  /** Reads a session's log. It needs no runtime and changes nothing. */
  async inspectSession(sessionId: string): Promise<SessionInspection> {
    check.string('sessionId', sessionId)
    const found = native.inspectCopilotSession(this.#homeOf('inspectSession'), sessionId)
    return JSON.parse(await settle<string>(found)) as SessionInspection
  }

  /**
   * Copies the valid lines of a session's log into a new session, which can be resumed. The original
   * stays as it is.
   */
  async salvageSession(sessionId: string): Promise<SessionSalvage> {
    check.string('sessionId', sessionId)
    const home = this.#homeOf('salvageSession')
    const made = native.salvageCopilotSession(home, sessionId, crypto.randomUUID())
    return JSON.parse(await settle<string>(made)) as SessionSalvage
  }

  #homeOf(method: string): string {
    const { home } = this.#settings
    if (home !== undefined) return home
    throw invalidOptions(`${method}: the sessions of this client are not on this machine's disk`)
  }

  /**
   * Checks the connection to the runtime.
   *
   * @throws CONNECTION_TIMED_OUT after 30 seconds.
   */
  async ping(message?: string): Promise<{ message: string; timestamp: string; protocolVersion?: number }> {
    return this.#request('ping', { message })
  }

  /** Reads the versions of the runtime. */
  async getStatus(): Promise<GetStatusResponse> {
    return this.#request('status.get', {})
  }

  /** Reads the state of the sign-in. */
  async getAuthStatus(): Promise<GetAuthStatusResponse> {
    return this.#request('auth.getStatus', {})
  }

  /**
   * Lists the models that the account can use. The list is read once for each connection; a failure is
   * not kept.
   */
  async listModels(): Promise<ModelInfo[]> {
    this.#models ??= this.#askModels().catch((error: unknown) => {
      this.#models = undefined
      throw error
    })
    return [...(await this.#models)]
  }

  async #askModels(): Promise<ModelInfo[]> {
    if (this.#settings.onListModels) return [...(await this.#settings.onListModels())]
    const { models } = await this.#request<{ models?: ModelInfo[] }>('models.list', {})
    return (models ?? []).map(completeModel)
  }

  /** Lists sessions. */
  async listSessions(filter?: SessionListFilter): Promise<SessionMetadata[]> {
    let wire: object | undefined
    if (filter) {
      const { workingDirectory, ...rest } = filter
      wire = { ...rest, cwd: workingDirectory }
    }
    const { sessions } = await this.#request<{ sessions?: never[] }>('session.list', { filter: wire })
    return (sessions ?? []).map(toSessionMetadata)
  }

  /** Reads facts about a session; undefined when there is no such session. */
  async getSessionMetadata(sessionId: string): Promise<SessionMetadata | undefined> {
    const answer = await this.#request<{ session?: never }>('session.getMetadata', { sessionId })
    return answer.session ? toSessionMetadata(answer.session) : undefined
  }

  /** Gives the id of the session that was changed last. */
  async getLastSessionId(): Promise<string | undefined> {
    return (await this.#request<{ sessionId?: string }>('session.getLastId', {})).sessionId
  }

  /** Deletes a session and its history for good. */
  async deleteSession(sessionId: string): Promise<void> {
    check.string('sessionId', sessionId)
    const { success, error } = await this.#request<Outcome>('session.delete', { sessionId })
    if (!success) {
      const message = `Failed to delete session ${sessionId}: ${error || 'Unknown error'}`
      throw new SheepdogError('RPC_ERROR', message, { method: 'session.delete' })
    }
    this.#sessions.delete(sessionId)
  }

  /** Gives the session that the runtime's terminal interface shows. */
  async getForegroundSessionId(): Promise<string | undefined> {
    return (await this.#request<{ sessionId?: string }>('session.getForeground', {})).sessionId
  }

  /** Shows a session in the runtime's terminal interface. */
  async setForegroundSessionId(sessionId: string): Promise<void> {
    const { success, error } = await this.#request<Outcome>('session.setForeground', { sessionId })
    if (!success) {
      throw new SheepdogError('RPC_ERROR', error || 'Failed to set foreground session', {
        method: 'session.setForeground',
      })
    }
  }

  /**
   * Subscribes to one type of lifecycle events, of all clients of the runtime. Returns a function that
   * ends the subscription.
   */
  onLifecycle<K extends SessionLifecycleEventType>(
    eventType: K,
    handler: TypedSessionLifecycleHandler<K>,
  ): () => void
  /**
   * Subscribes to all lifecycle events, of all clients of the runtime. Returns a function that ends the
   * subscription.
   */
  onLifecycle(handler: SessionLifecycleHandler): () => void
  onLifecycle(first: string | SessionLifecycleHandler, handler?: (event: never) => void): () => void {
    if (typeof first === 'string' && handler) return this.#inbox.lifecycle.add(first, handler)
    return this.#inbox.lifecycle.add(undefined, first as never)
  }

  /**
   * Called when the runtime exits, or the connection breaks, without `stop()`. Returns a function that
   * ends the subscription.
   */
  onExit(handler: (exit: RuntimeExit) => void): () => void {
    this.#exitHandlers.add(handler)
    return () => void this.#exitHandlers.delete(handler)
  }

  #onExit(exit: RuntimeExit): void {
    this.#connection.onExit()
    this.#models = undefined
    for (const session of this.#sessions.all) {
      // Tools that run have nobody to answer to.
      session.responder.close()
      const mayComeBack = this.#settings.restart === 'on-demand' && !session.isBusy
      if (!mayComeBack) this.#sessions.forget(session)
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

/** The runtime's process. */
export interface RuntimeProcess {
  /** Process id. */
  readonly pid: number
  /** Sends a signal to the process. False when it has ended already. */
  kill(signal?: string | number): boolean
}
