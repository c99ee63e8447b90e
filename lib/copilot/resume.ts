// Resuming sessions: evidence, verdicts, and what a look at a log finds.
import { native } from '../native'
import { check, checkOptions } from '../option'

export const fallbacks = ['evidence', 'unless-corrupt', 'never'] as const

/** When a session that can't be resumed may be opened afresh. */
export type ResumeFallback = (typeof fallbacks)[number]

/** State of a session's log: see `ResumeEvidence`. */
export type SessionLogState = 'absent' | 'empty' | 'no-turns' | 'turns' | 'unreadable' | 'unknown'

export interface ResumeOptions {
  /** Turns that the caller knows the session has: with any, nothing is ever opened afresh. */
  knownTurns?: number
  /** Default "evidence". */
  fallback?: ResumeFallback
  /**
   * "stale": where the runtime says that the session is in use, remove the locks of processes that are gone and resume again.
   * A lock of a living process is never removed: RESUME_IN_USE, with its `pid`.
   *
   * @default nothing is taken over
   */
  takeOver?: 'stale'
  /** Ends the wait with SESSION_ABORTED; a session that comes all the same is let go. */
  signal?: AbortSignal
}

/** What is known about a session beside the error. */
export interface ResumeEvidence {
  /** "unknown" when there is no log to look at, as with a runtime on another machine. */
  log: SessionLogState
  knownTurns?: number
  fallback?: ResumeFallback
  /** Whether the request named an agent that could be left out. */
  agent?: boolean
}

export interface ResumeJudgement {
  verdict: 'recreate' | 'without-agent' | 'corrupt' | 'not-found' | 'in-use' | 'transient' | 'failed'
  reason: string
  /** The damaged line of the log, where it is known. */
  line?: number
}

export interface SessionInspection {
  log: SessionLogState
  /** User messages left in it. */
  turns: number
  lastEventId?: string
  /** The first line that is no event, from 1. */
  badLine?: number
  path: string
}

export interface SessionSalvage {
  /** The new session. */
  sessionId: string
  /** Lines copied. */
  kept: number
  leftOut: { line: number; reason: string }[]
}

/** What a failed resume means: the rule by which `resumeSession` decides. docs/copilot.md has its table. */
export function classifyResumeError(
  error: unknown,
  evidence: ResumeEvidence = { log: 'unknown' },
): ResumeJudgement {
  checkOptions(
    evidence,
    {
      log: check.oneOf('absent', 'empty', 'no-turns', 'turns', 'unreadable', 'unknown'),
      knownTurns: check.duration,
      fallback: check.oneOf(...fallbacks),
      agent: check.boolean,
    },
    'evidence',
  )
  const { rpcCode, code, message } = (typeof error === 'object' && error !== null ? error : {}) as Record<
    string,
    unknown
  >
  const number = [rpcCode, code].find((value) => typeof value === 'number') as number | undefined
  const text = typeof message === 'string' ? message : String(error)
  const { log, knownTurns, fallback, agent } = evidence
  return native.classifyCopilotResume(number, text, { log, knownTurns, fallback, agent })
}
