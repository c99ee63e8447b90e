// The sessions of a client, by their ids and by the core's numbers.
import type { Link } from './link'
import { CopilotSession, type SessionOwner } from './session'
import type { ResumeSessionConfig, SessionConfig } from './session_config'

type AnyConfig = SessionConfig & ResumeSessionConfig

export class SessionTable {
  /** Objects of one session id, the newest last. */
  readonly #byId = new Map<string, CopilotSession[]>()
  readonly #byKey = new Map<number, CopilotSession>()
  /** Messages sent to sessions that are closed by now. */
  readonly #sent = new Map<string, number>()

  constructor(private readonly onForgotten: (sessionId: string) => void) {}

  register(owner: SessionOwner, link: Link, sessionId: string, config: AnyConfig): CopilotSession {
    const session = new CopilotSession(owner, link, sessionId, config)
    const same = this.#byId.get(sessionId) ?? []
    for (const other of same) other.supersede(true)
    this.#byId.set(sessionId, [...same, session])
    this.#byKey.set(session.key, session)
    return session
  }

  /** The session goes on over another connection. */
  move(session: CopilotSession, link: Link): void {
    session.moveTo(link)
    this.#byKey.set(session.key, session)
  }

  get all(): CopilotSession[] {
    return [...this.#byId.values()].flat()
  }

  withKey(key: number): CopilotSession | undefined {
    return this.#byKey.get(key)
  }

  withId(sessionId: string): CopilotSession[] {
    return this.#byId.get(sessionId) ?? []
  }

  has(session: CopilotSession): boolean {
    return this.withId(session.sessionId).includes(session)
  }

  forget(session: CopilotSession): void {
    this.#remember(session)
    this.#byKey.delete(session.key)
    this.onForgotten(session.sessionId)
    const rest = this.withId(session.sessionId).filter((other) => other !== session)
    rest.at(-1)?.supersede(false)
    if (rest.length > 0) this.#byId.set(session.sessionId, rest)
    else this.#byId.delete(session.sessionId)
  }

  drop(session: CopilotSession): void {
    this.forget(session)
    session.close()
  }

  /** The session and its history are gone for good. */
  delete(sessionId: string): void {
    for (const session of this.withId(sessionId)) {
      this.#byKey.delete(session.key)
      session.close(`Session ${sessionId} was deleted`)
    }
    this.#byId.delete(sessionId)
    this.#sent.delete(sessionId)
    this.onForgotten(sessionId)
  }

  closeAll(message: string): void {
    for (const session of this.all) {
      this.#remember(session)
      session.close(message)
    }
    this.#byId.clear()
  }

  /** No more events can come. */
  onDisconnected(): void {
    this.#byKey.clear()
  }

  /** Messages that this client sent to the session, over objects that are closed by now. */
  sentTo(sessionId: string): number {
    return this.#sent.get(sessionId) ?? 0
  }

  /** That a session has turns is remembered, for a later resume that finds none. */
  #remember(session: CopilotSession): void {
    const sent = session.link.native.countSent(session.key)
    if (sent > 0) this.#sent.set(session.sessionId, this.sentTo(session.sessionId) + sent)
    const oldest = this.#sent.size > 10_000 ? this.#sent.keys().next().value : undefined
    if (oldest !== undefined) this.#sent.delete(oldest)
  }
}
