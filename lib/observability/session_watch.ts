// A session as the channel `sheepdog:session` sees it.
import type { AgentName } from '../harness/agent_program'
import { elapsedMs } from '../host'
import { channels, nextId, publish } from './channel'

export class SessionWatch {
  readonly id = nextId()
  readonly #provider: AgentName
  readonly #startedMs = elapsedMs()
  #sessionId: string | undefined
  #isOver = false

  /** There is one only where somebody looks when the session begins. */
  static start(
    provider: AgentName,
    { cwd, resume }: { cwd?: string | URL; resume?: string },
  ): SessionWatch | undefined {
    if (!channels.session.hasSubscribers) return undefined
    const watch = new SessionWatch(provider)
    publish('session', { phase: 'start', id: watch.id, provider, cwd, resume })
    return watch
  }

  private constructor(provider: AgentName) {
    this.#provider = provider
  }

  onOpen(sessionId: string): void {
    this.#sessionId = sessionId
    publish('session', { phase: 'open', ...this.#facts(), sessionId })
  }

  /** Once: a session that is lost is closed as well. */
  end(error?: Error): void {
    if (this.#isOver) return
    this.#isOver = true
    publish('session', { phase: 'end', ...this.#facts(), sessionId: this.#sessionId, error })
  }

  #facts() {
    return { id: this.id, provider: this.#provider, durationMs: elapsedMs() - this.#startedMs }
  }
}
