// Resuming sessions: evidence, verdicts, and what a look at a log finds.
import { native } from '../native'
import { check, checkOptions } from '../option'

const fallbacks = ['evidence', 'unless-corrupt', 'never'] as const

/** @internal */
export const checkFallback = check.oneOf(...fallbacks)

/**
 * When `resumeSession` may open an empty session under the same id instead. `"evidence"`: when the
 * evidence shows that it is empty. `"unless-corrupt"`: by the text of the error alone. `"never"`: not
 * at all.
 */
export type ResumeFallback = (typeof fallbacks)[number]

/**
 * How a resumed session was opened: with its history, empty under the same id, or without its custom
 * agent.
 */
export type ResumeOutcome = 'resumed' | 'recreated' | 'without-agent'

/** State of a session's log. */
export type SessionLogState = 'absent' | 'empty' | 'no-turns' | 'turns' | 'unreadable' | 'unknown'

/** Options of `resumeSession`. */
export interface SessionResumeOptions {
  /**
   * Number of turns that you know the session to have. With any, no empty session is opened in its
   * place.
   *
   * @default 0
   */
  knownTurns?: number
  /**
   * Condition for opening an empty session under the same id instead.
   *
   * @default "evidence"
   */
  fallback?: ResumeFallback
  /**
   * `"stale"`: when the runtime says that the session is in use, remove the locks of processes that are
   * gone and resume again. The lock of a living process is never removed: RESUME_IN_USE with its `pid`.
   *
   * @default nothing is taken over
   */
  takeOver?: 'stale'
  /**
   * Ends the wait when aborted. A session that opens after that is closed again.
   *
   * @throws SESSION_ABORTED
   */
  signal?: AbortSignal
}

/** Facts about a session that could not be resumed, beside its error. */
export interface ResumeEvidence {
  /**
   * State of its log. `"unknown"` when the log cannot be read from here, as with a runtime on another
   * machine.
   */
  log: SessionLogState
  /** Number of turns that you know the session to have. */
  knownTurns?: number
  /** Condition for opening an empty session instead. */
  fallback?: ResumeFallback
  /** True when the request named a custom agent. */
  agent?: boolean
}

/** Meaning of a failed resume. */
export interface ResumeJudgement {
  /** The conclusion from the error and the evidence. */
  verdict: 'recreate' | 'without-agent' | 'corrupt' | 'not-found' | 'in-use' | 'transient' | 'failed'
  /** Reason of the verdict. */
  reason: string
  /** Damaged line of the log, where it is known. */
  line?: number
}

/** Facts about a session's log. */
export interface SessionInspection {
  /** State of the log. */
  log: SessionLogState
  /** Number of user messages in it. */
  turns: number
  /** Id of the last event. */
  lastEventId?: string
  /** The first line that is not an event, counted from 1. */
  badLine?: number
  /** Path of the log. */
  path: string
}

/** Result of `salvageSession`. */
export interface SessionSalvage {
  /** Id of the new session. */
  sessionId: string
  /** Number of lines that were copied. */
  kept: number
  /** Lines that were not copied. */
  leftOut: {
    /** Number of the line. */
    line: number
    /** Reason. */
    reason: string
  }[]
}

/** @internal Events that the runtime sent while it resumed the session. */
export interface ResumeEvents {
  /** It told of the resume at all; a runtime that tells nothing can't be judged by what it left out. */
  hasResumed: boolean
  /** The custom agent that it selected. */
  agent?: string
}

/**
 * Says what a failed resume means. `resumeSession` uses the same rule; docs/copilot.md has its table.
 */
export function classifyResumeError(
  error: unknown,
  evidence: ResumeEvidence = { log: 'unknown' },
): ResumeJudgement {
  checkOptions(
    evidence,
    {
      log: check.oneOf('absent', 'empty', 'no-turns', 'turns', 'unreadable', 'unknown'),
      knownTurns: check.amount,
      fallback: checkFallback,
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
  return JSON.parse(native.classifyCopilotResume(number, text, evidence)) as ResumeJudgement
}
