// Sessions as the runtime lists them, and the runtime's own status.
import type { LocalSessionMetadataValue } from './generated'

/** Folder in which a session was created. */
export interface SessionContext {
  /** Working directory of the session. */
  workingDirectory: string
  /** Root of the git repository. */
  gitRoot?: string
  /** GitHub repository as `owner/name`. */
  repository?: string
  /** Git branch. */
  branch?: string
}
/** Selects sessions. */
export interface SessionListFilter extends Omit<SessionContext, 'workingDirectory'> {
  /** Exact working directory. */
  workingDirectory?: string
}
/** Facts about a session. */
export interface SessionMetadata {
  /** Id of the session. */
  sessionId: string
  /** Time at which it was created. */
  startTime: Date
  /** Time of its last change. */
  modifiedTime: Date
  /** Summary of the session. */
  summary?: string
  /** Whether it runs on another machine. */
  isRemote: boolean
  /** Folder in which it was created. */
  context?: SessionContext
}
/** Versions of the runtime. */
export interface GetStatusResponse {
  /** Version of the runtime. */
  version: string
  /** Version of its protocol. */
  protocolVersion: number
}
/** State of the sign-in. */
export interface GetAuthStatusResponse {
  /** Whether an account is signed in. */
  isAuthenticated: boolean
  /** Kind of the sign-in. */
  authType?: 'user' | 'env' | 'gh-cli' | 'hmac' | 'api-key' | 'token'
  /** Address of GitHub. */
  host?: string
  /** Name of the account. */
  login?: string
  /** Message for people. */
  statusMessage?: string
}
/** The session that a terminal interface shows. */
export interface ForegroundSessionInfo {
  /** Id of the session; absent when there is none. */
  sessionId?: string
  /** Folder of the session. */
  workspacePath?: string
}

type WireMetadata = Omit<LocalSessionMetadataValue, 'isRemote'> & { isRemote: boolean }

/** @internal */
export function toSessionMetadata(wire: WireMetadata): SessionMetadata {
  const { sessionId, startTime, modifiedTime, summary, isRemote, context } = wire
  return {
    sessionId,
    startTime: new Date(startTime),
    modifiedTime: new Date(modifiedTime),
    summary,
    isRemote,
    context: context && {
      workingDirectory: context.cwd,
      gitRoot: context.gitRoot,
      repository: context.repository,
      branch: context.branch,
    },
  }
}
