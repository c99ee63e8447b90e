// Sessions as the runtime lists them, and the runtime's own status.

export interface SessionContext {
  workingDirectory: string
  gitRoot?: string
  repository?: string
  branch?: string
}
export interface SessionListFilter {
  workingDirectory?: string
  gitRoot?: string
  repository?: string
  branch?: string
}
export interface SessionMetadata {
  sessionId: string
  startTime: Date
  modifiedTime: Date
  summary?: string
  isRemote: boolean
  context?: SessionContext
}
export interface GetStatusResponse {
  version: string
  protocolVersion: number
}
export interface GetAuthStatusResponse {
  isAuthenticated: boolean
  authType?: 'user' | 'env' | 'gh-cli' | 'hmac' | 'api-key' | 'token'
  host?: string
  login?: string
  statusMessage?: string
}
export interface ForegroundSessionInfo {
  sessionId?: string
  workspacePath?: string
}

interface WireMetadata {
  sessionId: string
  startTime: string
  modifiedTime: string
  summary?: string
  isRemote: boolean
  context?: { cwd: string; gitRoot?: string; repository?: string; branch?: string }
}

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
