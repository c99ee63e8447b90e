// Opens sessions: new ones, those that have a history, and those that a crash took the runtime from.
import { toJson } from '../json'
import { SheepdogError, invalidOptions } from '../error'
import { native } from '../native'
import { check, checkOptions } from '../option'
import type { ClientConnection } from './client_connection'
import type { ClientSettings } from './client_options'
import type { Link } from './link'
import { type TraceContextProvider, traceOf } from './message'
import { type ResumeOutcome, type SessionResumeOptions, checkFallback } from './resume'
import type { CopilotSession, SessionCapabilities, SessionOwner } from './session'
import type { ResumeSessionConfig, SessionConfig } from './session_config'
import { createSessionFsAdapter } from './session_fs'
import type { SessionTable } from './session_table'
import { toWireConfig, toWireCreate, toWireOptions, toWireResume, withModeDefaults } from './session_wire'
import { SharedWork, throwIfLeft } from './shared_work'
import type { TokenProviders } from './token_providers'

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

/** One attempt to open a session. */
interface Attempt {
  session?: CopilotSession
  /** Everybody who waited has left. */
  isAbandoned: boolean
}

/** For the goodbye of sessions, before the runtime's own. */
export const DETACH_TIMEOUT_MS = 1500

export class SessionOpener implements SessionOwner {
  readonly onGetTraceContext: TraceContextProvider | undefined
  readonly #resuming = new Map<string, SharedWork<CopilotSession>>()
  readonly #reviving = new Map<CopilotSession, Promise<void>>()

  constructor(
    private readonly connection: ClientConnection,
    private readonly sessions: SessionTable,
    private readonly tokens: TokenProviders,
    private readonly settings: ClientSettings,
  ) {
    this.onGetTraceContext = settings.onGetTraceContext
  }

  async create(config: SessionConfig): Promise<CopilotSession> {
    checkConfig(config)
    if (config.sessionId != null) check.string('sessionId', config.sessionId)
    throwIfLeft(config.signal)
    const attempt: Attempt = { isAbandoned: false }
    const work = new SharedWork(this.#create(config, attempt), () => this.#abandon(attempt))
    return work.join(config.signal)
  }

  async #create(config: SessionConfig, attempt: Attempt): Promise<CopilotSession> {
    const link = await this.connection.ensureStarted(config.signal)
    const full = withModeDefaults(config, this.settings.mode === 'empty')
    const wire = toWireConfig(full)
    if (full.sessionId != null)
      this.#refuseExisting(full.sessionId, full.configDirectory ?? this.settings.home)
    const isNamedByServer = full.cloud != null && full.sessionId == null
    const sessionId = isNamedByServer ? undefined : (full.sessionId ?? crypto.randomUUID())
    const registration = this.tokens.register(full.gitHubTokenProvider, sessionId)
    if (sessionId !== undefined) attempt.session = this.sessions.register(this, link, sessionId, full)
    try {
      if (attempt.session) this.#setUpFiles(attempt.session, full)
      const params = {
        ...(await traceOf(this.onGetTraceContext)),
        ...wire,
        ...toWireCreate(full),
        ...this.#perClient(registration),
        sessionId,
      }
      const answer = (await link.request<OpenAnswer | null>('session.create', params)) ?? {}
      const named = answer.sessionId ?? sessionId
      if (!named) throw misanswered('session.create response did not include a sessionId')
      if (sessionId !== undefined && named !== sessionId) {
        throw misanswered(`session.create returned sessionId ${named} but the caller requested ${sessionId}`)
      }
      if (!attempt.session) {
        attempt.session = this.sessions.register(this, link, named, full)
        this.#setUpFiles(attempt.session, full)
      }
      const { session } = attempt
      this.#checkStillWanted(link, attempt, session)
      session.opened(answer)
      await this.#finishOpening(session, full)
      this.tokens.commit(named, registration)
      return session
    } catch (error) {
      if (attempt.session) this.sessions.drop(attempt.session)
      this.tokens.delete(registration)
      throw error
    }
  }

  async resume(
    sessionId: string,
    config: ResumeSessionConfig,
    options: SessionResumeOptions,
  ): Promise<CopilotSession> {
    check.string('sessionId', sessionId)
    checkConfig(config)
    checkOptions(options, {
      knownTurns: check.amount,
      fallback: checkFallback,
      takeOver: check.oneOf('stale'),
      signal: check.signal,
    })
    if (config.takeOver != null) check.oneOf('stale')('config.takeOver', config.takeOver)
    const signal = options.signal ?? config.signal
    throwIfLeft(signal)
    let work = this.#resuming.get(sessionId)
    if (!work) {
      const attempt: Attempt = { isAbandoned: false }
      const forget = (): void => {
        if (this.#resuming.get(sessionId) === work) this.#resuming.delete(sessionId)
      }
      work = new SharedWork(this.#resume(sessionId, config, options, attempt), () => {
        forget()
        this.#abandon(attempt)
      })
      this.#resuming.set(sessionId, work)
      void work.settled.then(forget)
    }
    return work.join(signal)
  }

  async #resume(
    sessionId: string,
    config: ResumeSessionConfig,
    options: SessionResumeOptions,
    attempt: Attempt,
  ): Promise<CopilotSession> {
    const link = await this.connection.ensureStarted()
    const full = withModeDefaults(config, this.settings.mode === 'empty')
    // Checked before anything is registered.
    toWireConfig(full)
    const registration = this.tokens.register(full.gitHubTokenProvider, sessionId)
    const session = this.sessions.register(this, link, sessionId, full)
    attempt.session = session
    try {
      if (attempt.isAbandoned) throw left(sessionId)
      this.#setUpFiles(session, full)
      await this.#openHistory(link, session, full, options, attempt, registration)
      this.tokens.commit(sessionId, registration)
      return session
    } catch (error) {
      this.sessions.drop(session)
      this.tokens.delete(registration)
      throw error
    }
  }

  async #openHistory(
    link: Link,
    session: CopilotSession,
    config: ResumeSessionConfig,
    options: SessionResumeOptions,
    attempt: Attempt,
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
      params: toJson('config', { ...common, ...toWireResume(config) }),
      createParams: toJson('config', { ...common, ...toWireCreate(config) }),
      home: config.configDirectory ?? this.settings.home,
      knownTurns: options.knownTurns ?? 0,
      seenTurns: this.sessions.sentTo(sessionId),
      fallback: options.fallback,
      takeOverStale: (options.takeOver ?? config.takeOver) === 'stale',
    })
    this.#checkStillWanted(link, attempt, session)
    const { how, reason } = await this.#withAgent(link, session, config, answer)
    session.opened(answer.response ?? {}, how, reason)
    await this.#finishOpening(session, config)
  }

  /**
   * Runtimes have resumed sessions without the custom agent that was asked for. One that tells of its resume and not of the
   * agent is asked to select it; when it can't, the outcome says so.
   */
  async #withAgent(
    link: Link,
    session: CopilotSession,
    { agent }: ResumeSessionConfig,
    { how, reason }: ResumeAnswer,
  ): Promise<Pick<ResumeAnswer, 'how' | 'reason'>> {
    const { hasResumed, agent: selected } = session.resumeEvents
    if (!agent || how !== 'resumed' || !hasResumed || selected === agent) return { how, reason }
    try {
      await link.request('session.agent.select', { sessionId: session.sessionId, name: agent })
      return { how, reason: `${reason}; its agent "${agent}" had to be selected again` }
    } catch (error) {
      const said = (error as Error).message
      return {
        how: 'without-agent',
        reason: `${reason}, without its agent "${agent}", which could not be selected: ${said}`,
      }
    }
  }

  #abandon(attempt: Attempt): void {
    attempt.isAbandoned = true
    if (attempt.session) this.sessions.drop(attempt.session)
  }

  /** The client was stopped, the session deleted, or its callers left, while the answer was on the way: let it go again. */
  #checkStillWanted(link: Link, attempt: Attempt, session: CopilotSession): void {
    const { sessionId } = session
    if (!attempt.isAbandoned && this.connection.link === link && this.sessions.has(session)) return
    // Another object of the same session may be in use.
    const isAlone = this.sessions.withId(sessionId).every((other) => other === session)
    if (isAlone) link.request('session.detach', { sessionId }, DETACH_TIMEOUT_MS).catch(() => {})
    throw left(sessionId)
  }

  /** Requests that a session needs once it is open. */
  async #finishOpening(session: CopilotSession, config: SessionConfig & ResumeSessionConfig): Promise<void> {
    const { sessionId, link } = session
    if (config.onMcpAuthRequest) {
      await link.request('session.eventLog.registerInterest', { sessionId, eventType: 'mcp.oauth_required' })
    }
    const patch = toWireOptions(config, this.settings.mode === 'empty')
    if (!patch) return
    try {
      await link.request('session.options.update', { sessionId, ...patch })
    } catch (error) {
      await session.detach(DETACH_TIMEOUT_MS).catch(() => {})
      throw error
    }
  }

  forget(session: CopilotSession): void {
    this.sessions.forget(session)
  }

  /** After a crash, a session that had no turn running is brought back. */
  async reach(session: CopilotSession): Promise<void> {
    if (this.connection.isHere(session.link) || !this.connection.mayRestart) return
    if (!this.sessions.has(session)) return
    let revival = this.#reviving.get(session)
    if (!revival) {
      revival = this.#revive(session).finally(() => this.#reviving.delete(session))
      this.#reviving.set(session, revival)
    }
    await revival
  }

  async #revive(session: CopilotSession): Promise<void> {
    const link = await this.connection.ensureStarted()
    if (session.link === link) return
    this.sessions.move(session, link)
    const { config } = session.responder
    const registration = this.tokens.registrationOf(session.sessionId)
    await this.#openHistory(link, session, config, {}, { session, isAbandoned: false }, registration)
  }

  #refuseExisting(sessionId: string, home: string | undefined): void {
    if (home === undefined || native.copilotLogSize(home, sessionId) === 0) return
    const message = `Session ${sessionId} has a history already: use resumeSession, or another id`
    throw new SheepdogError('SESSION_EXISTS', message, { sessionId })
  }

  #perClient(registration: string | undefined): Record<string, unknown> {
    return {
      gitHubTokenProviderRegistrationId: registration,
      enableGitHubTelemetryForwarding: this.settings.onGitHubTelemetry ? true : undefined,
    }
  }

  #setUpFiles(session: CopilotSession, config: SessionConfig): void {
    const { sessionFs } = this.settings
    if (!sessionFs) return
    if (!config.createSessionFsProvider) {
      throw invalidOptions(
        'createSessionFsProvider is required in session config when sessionFs is enabled in client options.',
      )
    }
    const provider = config.createSessionFsProvider(session)
    if (sessionFs.capabilities?.sqlite && !provider.sqlite) {
      throw invalidOptions(
        'SessionFsConfig declares capabilities.sqlite but the provider does not implement sqlite.',
      )
    }
    session.responder.sessionFs = createSessionFsAdapter(provider)
  }
}

function checkConfig(config: SessionConfig): void {
  check.object('config', config)
  if (config.signal !== undefined) check.signal('signal', config.signal)
  if (config.gitHubToken !== undefined && config.gitHubTokenProvider !== undefined) {
    throw invalidOptions('gitHubToken and gitHubTokenProvider are mutually exclusive')
  }
}

function left(sessionId: string): SheepdogError {
  return new SheepdogError('SESSION_CLOSED', `Session ${sessionId} was closed while it was being opened`)
}

/** The runtime answered what makes no sense. */
function misanswered(message: string): SheepdogError {
  return new SheepdogError('RPC_ERROR', message, { method: 'session.create' })
}
