// Made from crates/ground/src/error/table.json by `npm run errors`: the fields of each code's error.
import type { AgentEvent } from './harness/event'
import type { AgentErrorKind, TurnResult } from './harness/result'
import type { RunResult } from './process/result'

/** No field beside the code and the message. */
type None = unknown

/** Facts that several errors share. */
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
  /** Reason of the failure, where the agent reported one. */
  kind?: AgentErrorKind
  /** Exit status of a session's process that ended. */
  exitCode?: number | null
  /** Signal that ended a session's process. */
  signal?: string | null
}

/** Facts that several errors share. */
interface FailedResume {
  sessionId?: string
  /** State of the session's log. */
  log?: 'absent' | 'empty' | 'no-turns' | 'turns' | 'unreadable' | 'unknown'
  /** First damaged line of the log, counted from 1. */
  line?: number
  rpcCode?: number
}

/** Facts that several errors share. */
interface FailedCall {
  /** Number of requests. */
  attempts: number
  /** Reason of the last failure. */
  kind: AgentErrorKind | 'timeout' | 'aborted'
  status?: number
  retryAfterMs?: number
}

/** Fields of each error, by its code. */
export interface ErrorFacts {
  /** An option has the wrong type or value; the message begins with its path (`retry.attempts: ...`). */
  INVALID_OPTION: {
    /** Reason of the system, where the value can't be used on this machine. */
    errno?: number
  }
  /** The native addon, or a library in it, failed; what was started is killed. */
  ADDON_FAULT: {
    /** Message of the library that failed. */
    fault: string
  }
  /** `import` failed: the addon for this platform is not installed. */
  ADDON_MISSING: None
  /** The program, or the interpreter in its first line, does not exist. */
  PROCESS_NOT_FOUND: {
    command: string
    /** Command that installs the program, where one is known. */
    install?: string
  }
  /** The program is a folder or may not be executed. */
  PROCESS_NOT_EXECUTABLE: { command: string }
  /** The working directory does not exist or is no folder. */
  PROCESS_CWD_MISSING: { cwd: string }
  /** One argument, or all of them with the environment, are longer than the system allows. */
  PROCESS_ARGUMENT_TOO_LONG: { bytes: number; maxBytes?: number }
  /** The system could not start the program for another reason. */
  PROCESS_SPAWN_FAILED: { command?: string; cwd?: string; errno?: number; syscall?: string }
  /** The program failed, and `reject` is set: its exit status is not 0, or a signal ended it. */
  PROCESS_FAILED: { exitCode?: number; signal?: string; result: RunResult }
  /** No output was read and no input accepted for `idleTimeoutMs`. The tree was killed. */
  PROCESS_IDLE: {
    idleTimeoutMs: number
    /** The output so far; absent when the limit was negative, because nothing was started. */
    result: RunResult
  }
  /** The program ran longer than `timeoutMs`. */
  PROCESS_TIMED_OUT: { timeoutMs: number; result?: RunResult }
  /** The signal was aborted. */
  PROCESS_ABORTED: { result?: RunResult }
  /** `kill()` was called, or the JavaScript thread ended. */
  PROCESS_KILLED: { result?: RunResult }
  /** The source of the input failed. The tree was killed. */
  PROCESS_INPUT_FAILED: {
    /** The file that could not be read, where the source is a file. */
    file?: string
    errno?: number
    result?: RunResult
  }
  /** `saveOutput()` could not open or write its file, or came after a part of the output was dropped. The run goes on. */
  PROCESS_OUTPUT_FAILED: { file?: string; errno?: number }
  /** A reader of the output came after a part of it was dropped, because more than `maxOutputBytes` was printed. The run goes on. */
  PROCESS_OUTPUT_DROPPED: {
    stream: 'stdout' | 'stderr'
    /** Number of bytes of that stream that were dropped before the reader came. */
    droppedBytes: number
  }
  /** An iterator met a line longer than `maxLineBytes`. */
  PROCESS_LINE_TOO_LONG: { maxLineBytes?: number; stream: 'stdout' | 'stderr'; result?: RunResult }
  /** Something was written to stdin after its end. */
  PROCESS_STDIN_CLOSED: None
  /** The guard process was killed. The tree is gone, and its exit status is unknown. */
  PROCESS_LOST: { result?: RunResult }
  /** The terminal did not show in time what `expect()` waits for. The program goes on. */
  PROCESS_EXPECT_TIMED_OUT: {
    pattern: string
    timeoutMs: number
    /** End of what the terminal showed since the last match, without control sequences. */
    screen: string
  }
  /** The program ended before its terminal showed what `expect()` waits for. */
  PROCESS_EXPECT_ENDED: {
    pattern: string
    /** End of what the terminal showed since the last match, without control sequences. */
    screen: string
  }
  /** A supervised program failed again after `restart.maxRestarts` restarts in a row. */
  PROCESS_RESTARTS_EXHAUSTED: {
    /** Number of restarts in a row. */
    restarts: number
    /** Result of the last run, where the program ran. */
    result?: RunResult
  }
  /** The output of the program is already being read. */
  PROCESS_ITERATED: None
  /** This machine cannot enforce `containment`, `memoryMaxBytes` or `maxProcesses`. */
  CONTAINMENT_UNAVAILABLE: { containment?: string; errno?: number; syscall?: string }
  /** The kernel cannot enforce the sandbox. Nothing was started. */
  SANDBOX_UNAVAILABLE: { errno?: number; syscall?: string }
  /** The agent reported that the turn failed. */
  AGENT_FAILED: Partial<FailedTurn> & {
    /** Reason of the failure. */
    kind: AgentErrorKind
  }
  /** `maxTokens`, `maxCostUsd` or a shared `Budget` was crossed, and the tree was killed; or nothing was left. */
  AGENT_BUDGET: Partial<FailedTurn> & {
    /** The option with the limit. */
    cap: 'maxTokens' | 'maxCostUsd'
    /** True when the limit belongs to a `Budget`. */
    shared: boolean
    usedTokens: number
    usedCostUsd: number
    maxTokens?: number
    maxCostUsd?: number
  }
  /** The agent exited with 0 and never reported the end of its turn. */
  AGENT_TRUNCATED: FailedTurn
  /** A signal ended the agent, or an exit status that nothing explains. */
  AGENT_CRASHED: Partial<FailedTurn>
  /** The answer does not match the schema, after one more question. */
  AGENT_SCHEMA_MISMATCH: FailedTurn & {
    /** Parts of the answer that do not match. */
    problems: string[]
  }
  /** The agent was silent beyond `startTimeoutMs`, `idleTimeoutMs` or `toolIdleTimeoutMs`. */
  AGENT_IDLE: Partial<FailedTurn> & {
    idleTimeoutMs?: number
    startTimeoutMs?: number
    toolIdleTimeoutMs?: number
    /** The request that a session's agent did not answer. */
    method?: string
  }
  /** An attempt took longer than `timeoutMs`. */
  AGENT_TIMED_OUT: FailedTurn & { timeoutMs?: number }
  /** The signal was aborted, or `abort()` or `cancel()` was called. */
  AGENT_ABORTED: Partial<FailedTurn>
  /** The agent's program is not installed. */
  AGENT_NOT_FOUND: Partial<FailedTurn> & {
    command: string
    /** Command that installs the agent's program; empty where it is unknown. */
    install: string
  }
  /** The checkout of an agent could not be made, or what the agent left could not be read. */
  WORKTREE_FAILED: Partial<FailedTurn> & {
    /** The step that failed. */
    step:
      'repository' | 'base' | 'checkout' | 'include' | 'setup' | 'changes' | 'verify' | 'apply' | 'discard'
  }
  /** The changes do not fit the working tree, which was left as it is. */
  CHANGES_CONFLICT: {
    /** Files in which the changes and the working tree disagree. */
    files: string[]
  }
  /** Agents that start agents are too deep: the fourth is not started. */
  AGENT_DEPTH: {
    /** Depth that the agent would have; the first agent has 1. */
    depth: number
    maxDepth: number
  }
  /** The agent printed output without end and made no progress. */
  AGENT_NO_PROGRESS: FailedTurn
  /** The session to resume is unknown, or the agent began another one. */
  AGENT_RESUME_FAILED: Partial<FailedTurn> & { rpcCode?: number }
  /** The events of the turn are already being read. */
  TURN_ITERATED: None
  /** The session was shut down or disconnected, or its client stopped. */
  SESSION_CLOSED: None
  /** The turn took longer than `timeoutMs`. The work goes on. */
  SESSION_TIMED_OUT: {
    timeoutMs: number
    tasks?: unknown
    /** The last event of the session. */
    lastEvent?: unknown
  }
  /** The session sent no event for `idleTimeoutMs`. The work goes on. */
  SESSION_IDLE: {
    idleTimeoutMs: number
    tasks?: unknown
    /** The last event of the session. */
    lastEvent?: unknown
  }
  /** The session reported an error. */
  SESSION_ERROR: {
    errorType: string
    statusCode?: number
    /** The last event of the session. */
    lastEvent?: unknown
  }
  /** The turn or the wait was aborted. */
  SESSION_ABORTED: {
    /** The last event of the session. */
    lastEvent?: unknown
  }
  /** A session with this id already has a history. */
  SESSION_EXISTS: { sessionId: string }
  /** The session to resume is unknown. */
  RESUME_NOT_FOUND: FailedResume
  /** The session's log is damaged. */
  RESUME_CORRUPT: FailedResume
  /** Another process has the session open, or left its lock behind. */
  RESUME_IN_USE: FailedResume & {
    /** Process that has the session open, where its lock can be read. */
    pid?: number
    /** True when that process is gone: `resumeSession(id, config, { takeOver: 'stale' })` takes the session over. */
    stale?: boolean
  }
  /** The custom agent of the session does not exist. */
  RESUME_AGENT_MISSING: FailedResume
  /** The network, the sign-in or a timeout prevented the resume. */
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
  CONNECTION_TIMED_OUT: { timeoutMs?: number; method?: string; host?: string; port?: number }
  /** The runtime speaks another version of the protocol. */
  PROTOCOL_MISMATCH: { protocolVersion: unknown }
  /** The runtime answered a request with an error. */
  RPC_ERROR: { rpcCode?: number; method?: string; data?: unknown }
  /** The runtime reported a failure. */
  RUNTIME_FAILED: { metadata: Record<string, unknown> }
  /** The request or the connection took longer than its limit. */
  RUNTIME_TIMED_OUT: { timeoutMs?: number }
  /** The runtime sent nothing for `idleTimeoutMs`. */
  RUNTIME_IDLE: { idleTimeoutMs?: number }
  /** The signal was aborted. */
  RUNTIME_ABORTED: None
  /** `connect` got no answer from a runtime at this address. */
  RUNTIME_UNREACHABLE: {
    /** The address, without user, password and query. */
    url: string
    status?: number
    closeCode?: number
    closeReason?: string
    /** True when nothing listens at the address. */
    refused?: boolean
  }
  /** The connection to the runtime is closed. */
  RUNTIME_CLOSED: { closeCode?: number; closeReason?: string }
  /** A token is missing or wrong; the message says which. */
  RUNTIME_UNAUTHORIZED: { status?: number }
  /** A request is running already. A client sends one at a time. */
  RUNTIME_BUSY: None
  /** Another program listens on this port. */
  RUNTIME_PORT_IN_USE: { port: number }
  /** The other side sent something that the protocol does not allow. */
  RUNTIME_PROTOCOL: None
  /** An attempt took longer than `timeoutMs`, or was silent for `idleTimeoutMs`. */
  MODEL_TIMED_OUT: FailedCall
  /** The signal was aborted. */
  MODEL_ABORTED: FailedCall
  /** The model server refused the request. */
  MODEL_FAILED: FailedCall
  /** The answer does not have the shape of the API, or does not match the schema. */
  MODEL_BAD_RESPONSE: FailedCall & {
    /** Parts of the answer that do not match the schema. */
    problems?: string[]
    /** The answer that does not match it. */
    text?: string
  }
  /** No connection to the model server. */
  MODEL_UNREACHABLE: FailedCall
  /** There is no job with this id. */
  JOB_NOT_FOUND: None
  /** The job was cancelled. */
  JOB_CANCELLED: { jobId?: string }
  /** The job lost a worker in each of its attempts. */
  JOB_DEAD: {
    jobId?: string
    /** Error of the last attempt; the `cause` too. */
    lastError?: { code: string; message: string }
  }
  /** Another worker has the job now. */
  JOB_LEASE_LOST: { jobId?: string }
  /** A worker could not check out the job's repository. */
  JOB_CHECKOUT_FAILED: {
    jobId?: string
    kind?: 'missing_ref' | 'unauthorized' | 'unreachable' | 'timeout' | 'failed'
    /** Address of the repository, without its login. */
    url?: string
  }
  /** The job's handler threw an error without a code of its own. */
  JOB_FAILED: {
    jobId?: string
    /** Name of the error's class, if it has one of its own. */
    errorName?: string
  }
  /** The limit of the fleet's store is reached. */
  FLEET_FULL: { stream?: string }
  /** The fleet's store failed. */
  FLEET_STORAGE: { stream?: string; tooLong?: boolean }
  /** No server of the fleet answers. */
  FLEET_UNREACHABLE: { servers?: string[] }
  /** The server refuses this client. */
  FLEET_UNAUTHORIZED: None
  /** The server is older than 2.12. */
  FLEET_SERVER_TOO_OLD: { version?: string }
  /** There is no nats-server on this machine. */
  FLEET_SERVER_MISSING: None
  /** The connection to the fleet was closed. */
  FLEET_CLOSED: None
}

export type Code = keyof ErrorFacts
