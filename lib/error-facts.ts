// What each code's error carries as fields: types alone. The codes themselves are the core's list (src/error.rs); a code
// without a row here does not compile.
import type { ErrorCode } from '../native/native'
import type { AgentEvent } from './harness/event'
import type { AgentErrorKind, TurnResult } from './harness/result'
import type { ModelErrorKind } from './model'
import type { RunResult } from './process/result'

/** No field beside the code and the message. */
type None = unknown

/** A run that was under way has the result as far as it came; one that was never started has none. */
interface Stopped {
  result?: RunResult
}

interface SystemFault {
  errno?: number
  syscall?: string
}

/** Facts about a failed turn. */
interface FailedTurn {
  /** The result so far. */
  result: TurnResult
  /** The last events: at most 200, 256 KiB in all. */
  events?: AgentEvent[]
  /** End of the CLI's stderr. */
  stderr?: string
  /** When the usage limit ends that the agent met; absent when the agent does not say it. */
  resetAt?: Date
  /** Milliseconds from the failure until the usage limit ends. */
  retryAfterMs?: number
}

/** The last event of the session that was waited for. */
interface FailedWait {
  /** The last event of the session. */
  lastEvent?: unknown
}

interface FailedResume {
  sessionId?: string
  /** State of the session's log. */
  log?: 'absent' | 'empty' | 'no-turns' | 'turns' | 'unreadable' | 'unknown'
  /** First damaged line of the log, counted from 1. */
  line?: number
  rpcCode?: number
}

interface FailedRequest {
  timeoutMs?: number
}

/** Facts about a failed model call: the number of requests, and the reason of the last failure. */
interface FailedCall {
  attempts: number
  kind: ModelErrorKind
  status?: number
  retryAfterMs?: number
}

/** Fields of each error, by its code. */
export interface ErrorFacts {
  INVALID_OPTION: None
  /** `fault`: message of the library that failed. */
  ADDON_FAULT: { fault: string }

  PROCESS_NOT_FOUND: { command: string; install?: string }
  PROCESS_CWD_MISSING: { cwd: string }
  PROCESS_NOT_EXECUTABLE: { command: string }
  PROCESS_ARGUMENT_TOO_LONG: { bytes: number; maxBytes?: number }
  /** `result` is absent when the limit was negative: then nothing was started. */
  PROCESS_IDLE: { idleTimeoutMs: number; result: RunResult }
  PROCESS_TIMED_OUT: { timeoutMs: number } & Stopped
  PROCESS_ABORTED: Stopped
  PROCESS_KILLED: Stopped
  PROCESS_LINE_TOO_LONG: { maxLineBytes?: number; stream: 'stdout' | 'stderr' } & Stopped
  PROCESS_LOST: Stopped
  /** `cause` is the error of the input's source. */
  PROCESS_INPUT_FAILED: { file?: string; errno?: number } & Stopped
  PROCESS_OUTPUT_FAILED: { file?: string; errno?: number }
  PROCESS_STDIN_CLOSED: None
  PROCESS_SPAWN_FAILED: { command?: string; cwd?: string } & SystemFault
  PROCESS_ITERATED: None
  CONTAINMENT_UNAVAILABLE: { containment?: string } & SystemFault
  SANDBOX_UNAVAILABLE: SystemFault

  AGENT_FAILED: FailedTurn & { kind: AgentErrorKind }
  AGENT_TRUNCATED: FailedTurn
  AGENT_CRASHED: FailedTurn
  AGENT_SCHEMA_MISMATCH: FailedTurn & { problems: string[] }
  AGENT_IDLE: FailedTurn
  AGENT_TIMED_OUT: FailedTurn
  AGENT_ABORTED: Partial<FailedTurn>
  AGENT_NOT_FOUND: Partial<FailedTurn> & { command: string; install: string }
  AGENT_NO_PROGRESS: FailedTurn
  /**
   * `cap`: the option whose limit was crossed or used up. `shared`: true when it belongs to a `Budget`.
   */
  AGENT_BUDGET: Partial<FailedTurn> & {
    cap: 'maxTokens' | 'maxCostUsd'
    shared: boolean
    usedTokens: number
    usedCostUsd: number
    maxTokens?: number
    maxCostUsd?: number
  }
  AGENT_RESUME_FAILED: Partial<FailedTurn>
  TURN_ITERATED: None

  SESSION_TIMED_OUT: FailedWait & { timeoutMs: number; tasks?: unknown }
  SESSION_IDLE: FailedWait & { idleTimeoutMs: number; tasks?: unknown }
  SESSION_ERROR: FailedWait & { errorType: string; statusCode?: number }
  SESSION_CLOSED: None
  SESSION_EXISTS: { sessionId: string }
  SESSION_ABORTED: FailedWait
  RESUME_NOT_FOUND: FailedResume
  RESUME_CORRUPT: FailedResume
  RESUME_IN_USE: FailedResume & {
    /** Process that has the session open, where its lock can be read. */
    pid?: number
    /**
     * True when that process is gone: `resumeSession(id, config, { takeOver: 'stale' })` takes the
     * session over.
     */
    stale?: boolean
  }
  RESUME_AGENT_MISSING: FailedResume
  RESUME_TRANSIENT: FailedResume
  RESUME_FAILED: FailedResume
  CONNECTION_LOST: {
    exitCode?: number | null
    signal?: string | null
    stderr?: string
    host?: string
    port?: number
  }
  CONNECTION_TIMED_OUT: FailedRequest & { method?: string; host?: string; port?: number }
  PROTOCOL_MISMATCH: { protocolVersion: unknown }
  RPC_ERROR: { rpcCode?: number; method?: string; data?: unknown }

  RUNTIME_FAILED: { metadata: Record<string, unknown> }
  RUNTIME_TIMED_OUT: FailedRequest
  RUNTIME_IDLE: { idleTimeoutMs?: number }
  RUNTIME_ABORTED: None
  RUNTIME_CLOSED: { status?: number; closeCode?: number; closeReason?: string }
  RUNTIME_UNAUTHORIZED: { status?: number }
  RUNTIME_BUSY: None
  RUNTIME_PORT_IN_USE: { port: number }
  RUNTIME_PROTOCOL: None

  MODEL_TIMED_OUT: FailedCall
  MODEL_ABORTED: FailedCall
  MODEL_FAILED: FailedCall
  /** `problems` and `text` are set when the answer does not match the schema. */
  MODEL_BAD_RESPONSE: FailedCall & { problems?: string[]; text?: string }
  MODEL_UNREACHABLE: FailedCall

  JOB_NOT_FOUND: None
  JOB_CANCELLED: { jobId?: string }
  /** `lastError` is the `cause` too. */
  JOB_DEAD: { jobId?: string; lastError?: { code: string; message: string } }
  JOB_LEASE_LOST: { jobId?: string }
  /** `url` is without its login. */
  JOB_CHECKOUT_FAILED: {
    jobId?: string
    kind?: 'missing_ref' | 'unauthorized' | 'unreachable' | 'timeout' | 'failed'
    url?: string
  }
  FLEET_FULL: None
  FLEET_STORAGE: None
  FLEET_UNREACHABLE: { servers?: string[] }
  FLEET_UNAUTHORIZED: None
  FLEET_SERVER_TOO_OLD: { version?: string }
  FLEET_SERVER_MISSING: None
  FLEET_CLOSED: None
}

/** Both lists have the same names, or this does not compile. */
type Same<A extends B, B extends C, C = A> = A
export type Code = Same<keyof ErrorFacts, ErrorCode, keyof ErrorFacts>
