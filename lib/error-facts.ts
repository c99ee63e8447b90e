// Fields of each code's error: types alone. The codes themselves are the core's list (crates/ground/src/error.rs); a code
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
  /** An option has a wrong type or value. The message begins with its path. */
  INVALID_OPTION: None
  /** Something in the addon failed. `fault`: message of the library that failed. */
  ADDON_FAULT: { fault: string }

  /** The program failed: its exit status is not 0, or a signal ended it. Only with the option `reject`. */
  PROCESS_FAILED: { exitCode?: number; signal?: string; result: RunResult }
  /**
   * There is no such program, or no interpreter for its first line. `install`: command that installs
   * it, where one is known.
   */
  PROCESS_NOT_FOUND: { command: string; install?: string }
  /** The working directory does not exist or is no folder. */
  PROCESS_CWD_MISSING: { cwd: string }
  /** The program is a folder or may not be executed. */
  PROCESS_NOT_EXECUTABLE: { command: string }
  /** The arguments are larger than the system allows. Pass long texts by `input`. */
  PROCESS_ARGUMENT_TOO_LONG: { bytes: number; maxBytes?: number }
  /**
   * No output was read and no input accepted for `idleTimeoutMs`. `result` is absent when the limit was
   * negative: then nothing was started.
   */
  PROCESS_IDLE: { idleTimeoutMs: number; result: RunResult }
  /** The program ran longer than `timeoutMs`. */
  PROCESS_TIMED_OUT: { timeoutMs: number } & Stopped
  /** The signal was aborted. `cause` is its reason. */
  PROCESS_ABORTED: Stopped
  /** `kill()` was called, or the JavaScript thread ended. */
  PROCESS_KILLED: Stopped
  /** An iterator met a line longer than `maxLineBytes`. */
  PROCESS_LINE_TOO_LONG: { maxLineBytes?: number; stream: 'stdout' | 'stderr' } & Stopped
  /** The guard process was killed. The tree is gone, and its exit status is unknown. */
  PROCESS_LOST: Stopped
  /** The source of the input failed; its error is the `cause`. */
  PROCESS_INPUT_FAILED: { file?: string; errno?: number } & Stopped
  /** `saveOutput()` could not open or write its file, or came too late. The program goes on. */
  PROCESS_OUTPUT_FAILED: { file?: string; errno?: number }
  /** Something was written to stdin after its end. */
  PROCESS_STDIN_CLOSED: None
  /** The system could not start the program for another reason. */
  PROCESS_SPAWN_FAILED: { command?: string; cwd?: string } & SystemFault
  /**
   * The terminal did not show in time what `expect()` waits for. `screen`: the end of what it showed since the last match,
   * without control sequences. The program goes on.
   */
  PROCESS_EXPECT_TIMED_OUT: { pattern: string; timeoutMs: number; screen: string }
  /** The program ended before its terminal showed what `expect()` waits for. */
  PROCESS_EXPECT_ENDED: { pattern: string; screen: string }
  /** The output of the program is already being read. */
  PROCESS_ITERATED: None
  /** This machine cannot enforce `containment`, `memoryMaxBytes` or `maxProcesses`. */
  CONTAINMENT_UNAVAILABLE: { containment?: string } & SystemFault
  /** The kernel cannot enforce the sandbox. Nothing was started. */
  SANDBOX_UNAVAILABLE: SystemFault

  /** The agent reported that the turn failed. `kind` is the reason. */
  AGENT_FAILED: FailedTurn & { kind: AgentErrorKind }
  /** The agent exited with 0 and never reported the end of its turn. */
  AGENT_TRUNCATED: FailedTurn
  /** A signal ended the agent, or an exit status that nothing explains. */
  AGENT_CRASHED: FailedTurn
  /** The answer does not match the schema. `problems` say why. */
  AGENT_SCHEMA_MISMATCH: FailedTurn & { problems: string[] }
  /** The agent was silent for too long. The message names the clock. */
  AGENT_IDLE: FailedTurn
  /** An attempt took longer than `timeoutMs`. */
  AGENT_TIMED_OUT: FailedTurn
  /** The signal was aborted, or `abort()` or `cancel()` was called. `cause` is the signal's reason. */
  AGENT_ABORTED: Partial<FailedTurn>
  /** The agent's program is not installed. `install` is the command for that. */
  AGENT_NOT_FOUND: Partial<FailedTurn> & { command: string; install: string }
  /** The agent printed output without end and made no progress. */
  AGENT_NO_PROGRESS: FailedTurn
  /**
   * A limit on tokens or money was crossed, or nothing was left of it. `cap`: the option with the
   * limit. `shared`: true when it belongs to a `Budget`.
   */
  AGENT_BUDGET: Partial<FailedTurn> & {
    cap: 'maxTokens' | 'maxCostUsd'
    shared: boolean
    usedTokens: number
    usedCostUsd: number
    maxTokens?: number
    maxCostUsd?: number
  }
  /** The session to resume is unknown, or the agent began another one. */
  AGENT_RESUME_FAILED: Partial<FailedTurn>
  /** The events of the turn are already being read. */
  TURN_ITERATED: None

  /** The turn took longer than `timeoutMs`. The work goes on. */
  SESSION_TIMED_OUT: FailedWait & { timeoutMs: number; tasks?: unknown }
  /** The session had no event for `idleTimeoutMs`. The work goes on. */
  SESSION_IDLE: FailedWait & { idleTimeoutMs: number; tasks?: unknown }
  /** The session reported an error. */
  SESSION_ERROR: FailedWait & { errorType: string; statusCode?: number }
  /** The session or its client was closed. */
  SESSION_CLOSED: None
  /** The session with this id has a history. Resume it, or use another id. */
  SESSION_EXISTS: { sessionId: string }
  /** The turn or the wait was aborted. */
  SESSION_ABORTED: FailedWait
  /** The session to resume is unknown. */
  RESUME_NOT_FOUND: FailedResume
  /** The log of the session is damaged. `salvageSession` keeps the valid part. */
  RESUME_CORRUPT: FailedResume
  /** Another process has the session open. */
  RESUME_IN_USE: FailedResume & {
    /** Process that has the session open, where its lock can be read. */
    pid?: number
    /**
     * True when that process is gone: `resumeSession(id, config, { takeOver: 'stale' })` takes the
     * session over.
     */
    stale?: boolean
  }
  /** The custom agent of the session does not exist. */
  RESUME_AGENT_MISSING: FailedResume
  /** The network, the sign-in or the time was the reason. Try again. */
  RESUME_TRANSIENT: FailedResume
  /** The session could not be resumed for another reason. */
  RESUME_FAILED: FailedResume
  /** The runtime is gone. */
  CONNECTION_LOST: {
    exitCode?: number | null
    signal?: string | null
    stderr?: string
    host?: string
    port?: number
  }
  /** The runtime did not answer in time. */
  CONNECTION_TIMED_OUT: FailedRequest & { method?: string; host?: string; port?: number }
  /** The runtime speaks another version of the protocol. */
  PROTOCOL_MISMATCH: { protocolVersion: unknown }
  /** The runtime answered a request with an error. */
  RPC_ERROR: { rpcCode?: number; method?: string; data?: unknown }

  /** The runtime reported a failure. */
  RUNTIME_FAILED: { metadata: Record<string, unknown> }
  /** The request or the connection took longer than its limit. */
  RUNTIME_TIMED_OUT: FailedRequest
  /** The runtime sent nothing for `idleTimeoutMs`. */
  RUNTIME_IDLE: { idleTimeoutMs?: number }
  /** The signal was aborted. `cause` is its reason. */
  RUNTIME_ABORTED: None
  /** The connection to the runtime is closed. */
  RUNTIME_CLOSED: { status?: number; closeCode?: number; closeReason?: string }
  /** A token is missing or wrong. */
  RUNTIME_UNAUTHORIZED: { status?: number }
  /** A request is running already. A client sends one at a time. */
  RUNTIME_BUSY: None
  /** Another program listens on this port. */
  RUNTIME_PORT_IN_USE: { port: number }
  /** The other side sent something that the protocol does not allow. */
  RUNTIME_PROTOCOL: None

  /** An attempt took longer than `timeoutMs`, or was silent for `idleTimeoutMs`. */
  MODEL_TIMED_OUT: FailedCall
  /** The signal was aborted. `cause` is its reason. */
  MODEL_ABORTED: FailedCall
  /** The model server refused the request. `kind` is the reason. */
  MODEL_FAILED: FailedCall
  /**
   * The answer does not have the shape of the API, or does not match the schema. `problems` and `text`
   * are set in the second case.
   */
  MODEL_BAD_RESPONSE: FailedCall & { problems?: string[]; text?: string }
  /** No connection to the model server. */
  MODEL_UNREACHABLE: FailedCall

  /** There is no job with this id. */
  JOB_NOT_FOUND: None
  /** The job was cancelled. */
  JOB_CANCELLED: { jobId?: string }
  /** The workers of the job were lost as often as it has attempts. `lastError` is the `cause` too. */
  JOB_DEAD: { jobId?: string; lastError?: { code: string; message: string } }
  /** Another worker has the job now. */
  JOB_LEASE_LOST: { jobId?: string }
  /** The repository of the job could not be checked out. `url` is without its login. */
  JOB_CHECKOUT_FAILED: {
    jobId?: string
    kind?: 'missing_ref' | 'unauthorized' | 'unreachable' | 'timeout' | 'failed'
    url?: string
  }
  /** The limit of the fleet's store is reached. */
  FLEET_FULL: { stream?: string }
  /** The fleet's store failed. */
  FLEET_STORAGE: { stream?: string }
  /** No server of the fleet answers. */
  FLEET_UNREACHABLE: { servers?: string[] }
  /** The server refuses this client. */
  FLEET_UNAUTHORIZED: None
  /** The server is older than 2.12. */
  FLEET_SERVER_TOO_OLD: { version?: string }
  /** There is no nats-server on this machine. The message says how to get one. */
  FLEET_SERVER_MISSING: None
  /** The connection to the fleet was closed. */
  FLEET_CLOSED: None
}

/** Both lists have the same names, or this does not compile. */
type Same<A extends B, B extends C, C = A> = A
export type Code = Same<keyof ErrorFacts, ErrorCode, keyof ErrorFacts>
