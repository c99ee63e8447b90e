// GitHub tokens that the runtime asks for when it needs one. A registration is the wire's name of a provider.
import type { GitHubTokenAcquireRequest, GitHubTokenAcquireResult } from './generated'

/** The request of a GitHub token. */
export type GitHubTokenProviderArgs = Pick<GitHubTokenAcquireRequest, 'host' | 'sessionId' | 'reason'>
/** A GitHub token, or the refusal to give one. */
export type GitHubTokenProviderResult = GitHubTokenAcquireResult
/** Gives a GitHub token whenever a session needs one. */
export type GitHubTokenProvider = (
  args: GitHubTokenProviderArgs,
) => GitHubTokenProviderResult | Promise<GitHubTokenProviderResult>

interface Registration {
  provider: GitHubTokenProvider
  sessionId: string | undefined
  isOpen: boolean
}

/** @internal */
export class TokenProviders {
  readonly #registrations = new Map<string, Registration>()

  /** Before the session is opened, which may ask already. */
  register(provider: GitHubTokenProvider | undefined, sessionId: string | undefined): string | undefined {
    if (!provider) return undefined
    const id = crypto.randomUUID()
    this.#registrations.set(id, { provider, sessionId, isOpen: false })
    return id
  }

  /** The session is open: the registrations that it had before are over. */
  commit(sessionId: string, id: string | undefined): void {
    this.release(sessionId)
    const registration = id === undefined ? undefined : this.#registrations.get(id)
    if (registration) Object.assign(registration, { sessionId, isOpen: true })
  }

  delete(id: string | undefined): void {
    if (id !== undefined) this.#registrations.delete(id)
  }

  release(sessionId: string): void {
    for (const [id, one] of this.#registrations) {
      if (one.isOpen && one.sessionId === sessionId) this.#registrations.delete(id)
    }
  }

  registrationOf(sessionId: string): string | undefined {
    return [...this.#registrations].find(([, one]) => one.isOpen && one.sessionId === sessionId)?.[0]
  }

  clear(): void {
    this.#registrations.clear()
  }

  async acquire(request: GitHubTokenAcquireRequest): Promise<unknown> {
    const found = this.#registrations.get(request.registrationId)
    if (!found)
      throw new Error(`No GitHub token provider registered for registration ID "${request.registrationId}"`)
    const { host, reason } = request
    return found.provider({ host, reason, sessionId: request.sessionId ?? found.sessionId })
  }
}
