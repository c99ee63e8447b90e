//! Made from table.json by `npm run errors`.

codes! {
    /// An option has the wrong type or value; the message begins with its path (`retry.attempts: ...`).
    InvalidOption = "INVALID_OPTION" ["errno"],
    /// The native addon, or a library in it, failed; what was started is killed.
    AddonFault = "ADDON_FAULT" ["fault"],
    /// The program, or the interpreter in its first line, does not exist.
    ProcessNotFound = "PROCESS_NOT_FOUND" ["command", "install"],
    /// The program is a folder or may not be executed.
    ProcessNotExecutable = "PROCESS_NOT_EXECUTABLE" ["command"],
    /// The working directory does not exist or is no folder.
    ProcessCwdMissing = "PROCESS_CWD_MISSING" ["cwd"],
    /// One argument, or all of them with the environment, are longer than the system allows.
    ProcessArgumentTooLong = "PROCESS_ARGUMENT_TOO_LONG" ["bytes", "maxBytes"],
    /// The system could not start the program for another reason.
    ProcessSpawnFailed = "PROCESS_SPAWN_FAILED" ["command", "cwd", "errno", "syscall"],
    /// The program failed, and `reject` is set: its exit status is not 0, or a signal ended it.
    ProcessFailed = "PROCESS_FAILED" ["exitCode", "signal", "result"],
    /// No output was read and no input accepted for `idleTimeoutMs`. The tree was killed.
    ProcessIdle = "PROCESS_IDLE" ["idleTimeoutMs", "result"],
    /// The program ran longer than `timeoutMs`.
    ProcessTimedOut = "PROCESS_TIMED_OUT" ["timeoutMs", "result"],
    /// The signal was aborted.
    ProcessAborted = "PROCESS_ABORTED" ["result"],
    /// `kill()` was called, or the JavaScript thread ended.
    ProcessKilled = "PROCESS_KILLED" ["result"],
    /// The source of the input failed. The tree was killed.
    ProcessInputFailed = "PROCESS_INPUT_FAILED" ["file", "errno", "result"],
    /// `saveOutput()` could not open or write its file, or came after a part of the output was dropped. The run goes on.
    ProcessOutputFailed = "PROCESS_OUTPUT_FAILED" ["file", "errno"],
    /// An iterator met a line longer than `maxLineBytes`.
    ProcessLineTooLong = "PROCESS_LINE_TOO_LONG" ["maxLineBytes", "stream", "result"],
    /// Something was written to stdin after its end.
    ProcessStdinClosed = "PROCESS_STDIN_CLOSED" [],
    /// The guard process was killed. The tree is gone, and its exit status is unknown.
    ProcessLost = "PROCESS_LOST" ["result"],
    /// The terminal did not show in time what `expect()` waits for. The program goes on.
    ProcessExpectTimedOut = "PROCESS_EXPECT_TIMED_OUT" ["pattern", "timeoutMs", "screen"],
    /// The program ended before its terminal showed what `expect()` waits for.
    ProcessExpectEnded = "PROCESS_EXPECT_ENDED" ["pattern", "screen"],
    /// The output of the program is already being read.
    ProcessIterated = "PROCESS_ITERATED" [],
    /// This machine cannot enforce `containment`, `memoryMaxBytes` or `maxProcesses`.
    ContainmentUnavailable = "CONTAINMENT_UNAVAILABLE" ["containment", "errno", "syscall"],
    /// The kernel cannot enforce the sandbox. Nothing was started.
    SandboxUnavailable = "SANDBOX_UNAVAILABLE" ["errno", "syscall"],
    /// The agent reported that the turn failed.
    AgentFailed = "AGENT_FAILED" ["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal", "kind"],
    /// `maxTokens`, `maxCostUsd` or a shared `Budget` was crossed, and the tree was killed; or nothing was left.
    AgentBudget = "AGENT_BUDGET" ["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal", "cap", "shared", "usedTokens", "usedCostUsd", "maxTokens", "maxCostUsd"],
    /// The agent exited with 0 and never reported the end of its turn.
    AgentTruncated = "AGENT_TRUNCATED" ["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal"],
    /// A signal ended the agent, or an exit status that nothing explains.
    AgentCrashed = "AGENT_CRASHED" ["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal"],
    /// The answer does not match the schema, after one more question.
    AgentSchemaMismatch = "AGENT_SCHEMA_MISMATCH" ["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal", "problems"],
    /// The agent was silent beyond `startTimeoutMs`, `idleTimeoutMs` or `toolIdleTimeoutMs`.
    AgentIdle = "AGENT_IDLE" ["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal", "idleTimeoutMs", "startTimeoutMs", "toolIdleTimeoutMs", "method"],
    /// An attempt took longer than `timeoutMs`.
    AgentTimedOut = "AGENT_TIMED_OUT" ["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal", "timeoutMs"],
    /// The signal was aborted, or `abort()` or `cancel()` was called.
    AgentAborted = "AGENT_ABORTED" ["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal"],
    /// The agent's program is not installed.
    AgentNotFound = "AGENT_NOT_FOUND" ["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal", "command", "install"],
    /// The checkout of an agent could not be made, or what the agent left could not be read.
    WorktreeFailed = "WORKTREE_FAILED" ["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal", "step"],
    /// The changes do not fit the working tree, which was left as it is.
    ChangesConflict = "CHANGES_CONFLICT" ["files"],
    /// Agents that start agents are too deep: the fourth is not started.
    AgentDepth = "AGENT_DEPTH" ["depth", "maxDepth"],
    /// The agent printed output without end and made no progress.
    AgentNoProgress = "AGENT_NO_PROGRESS" ["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal"],
    /// The session to resume is unknown, or the agent began another one.
    AgentResumeFailed = "AGENT_RESUME_FAILED" ["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal", "rpcCode"],
    /// The events of the turn are already being read.
    TurnIterated = "TURN_ITERATED" [],
    /// The session was shut down or disconnected, or its client stopped.
    SessionClosed = "SESSION_CLOSED" [],
    /// The turn took longer than `timeoutMs`. The work goes on.
    SessionTimedOut = "SESSION_TIMED_OUT" ["timeoutMs", "tasks", "lastEvent"],
    /// The session sent no event for `idleTimeoutMs`. The work goes on.
    SessionIdle = "SESSION_IDLE" ["idleTimeoutMs", "tasks", "lastEvent"],
    /// The session reported an error.
    SessionError = "SESSION_ERROR" ["errorType", "statusCode", "lastEvent"],
    /// The turn or the wait was aborted.
    SessionAborted = "SESSION_ABORTED" ["lastEvent"],
    /// A session with this id already has a history.
    SessionExists = "SESSION_EXISTS" ["sessionId"],
    /// The session to resume is unknown.
    ResumeNotFound = "RESUME_NOT_FOUND" ["sessionId", "log", "line", "rpcCode"],
    /// The session's log is damaged.
    ResumeCorrupt = "RESUME_CORRUPT" ["sessionId", "log", "line", "rpcCode"],
    /// Another process has the session open, or left its lock behind.
    ResumeInUse = "RESUME_IN_USE" ["sessionId", "log", "line", "rpcCode", "pid", "stale"],
    /// The custom agent of the session does not exist.
    ResumeAgentMissing = "RESUME_AGENT_MISSING" ["sessionId", "log", "line", "rpcCode"],
    /// The network, the sign-in or a timeout prevented the resume.
    ResumeTransient = "RESUME_TRANSIENT" ["sessionId", "log", "line", "rpcCode"],
    /// The session could not be resumed for another reason.
    ResumeFailed = "RESUME_FAILED" ["sessionId", "log", "line", "rpcCode"],
    /// The runtime is gone.
    ConnectionLost = "CONNECTION_LOST" ["exitCode", "signal", "stderr", "host", "port"],
    /// The runtime did not answer in time.
    ConnectionTimedOut = "CONNECTION_TIMED_OUT" ["timeoutMs", "method", "host", "port"],
    /// The runtime speaks another version of the protocol.
    ProtocolMismatch = "PROTOCOL_MISMATCH" ["protocolVersion"],
    /// The runtime answered a request with an error.
    RpcError = "RPC_ERROR" ["rpcCode", "method", "data"],
    /// The runtime reported a failure.
    RuntimeFailed = "RUNTIME_FAILED" ["metadata"],
    /// The request or the connection took longer than its limit.
    RuntimeTimedOut = "RUNTIME_TIMED_OUT" ["timeoutMs"],
    /// The runtime sent nothing for `idleTimeoutMs`.
    RuntimeIdle = "RUNTIME_IDLE" ["idleTimeoutMs"],
    /// The signal was aborted.
    RuntimeAborted = "RUNTIME_ABORTED" [],
    /// `connect` got no answer from a runtime at this address.
    RuntimeUnreachable = "RUNTIME_UNREACHABLE" ["url", "status", "closeCode", "closeReason", "refused"],
    /// The connection to the runtime is closed.
    RuntimeClosed = "RUNTIME_CLOSED" ["closeCode", "closeReason"],
    /// A token is missing or wrong; the message says which.
    RuntimeUnauthorized = "RUNTIME_UNAUTHORIZED" ["status"],
    /// A request is running already. A client sends one at a time.
    RuntimeBusy = "RUNTIME_BUSY" [],
    /// Another program listens on this port.
    RuntimePortInUse = "RUNTIME_PORT_IN_USE" ["port"],
    /// The other side sent something that the protocol does not allow.
    RuntimeProtocol = "RUNTIME_PROTOCOL" [],
    /// An attempt took longer than `timeoutMs`, or was silent for `idleTimeoutMs`.
    ModelTimedOut = "MODEL_TIMED_OUT" ["attempts", "kind", "status", "retryAfterMs"],
    /// The signal was aborted.
    ModelAborted = "MODEL_ABORTED" ["attempts", "kind", "status", "retryAfterMs"],
    /// The model server refused the request.
    ModelFailed = "MODEL_FAILED" ["attempts", "kind", "status", "retryAfterMs"],
    /// The answer does not have the shape of the API, or does not match the schema.
    ModelBadResponse = "MODEL_BAD_RESPONSE" ["attempts", "kind", "status", "retryAfterMs", "problems", "text"],
    /// No connection to the model server.
    ModelUnreachable = "MODEL_UNREACHABLE" ["attempts", "kind", "status", "retryAfterMs"],
    /// There is no job with this id.
    JobNotFound = "JOB_NOT_FOUND" [],
    /// The job was cancelled.
    JobCancelled = "JOB_CANCELLED" ["jobId"],
    /// The job lost a worker in each of its attempts.
    JobDead = "JOB_DEAD" ["jobId", "lastError"],
    /// Another worker has the job now.
    JobLeaseLost = "JOB_LEASE_LOST" ["jobId"],
    /// A worker could not check out the job's repository.
    JobCheckoutFailed = "JOB_CHECKOUT_FAILED" ["jobId", "kind", "url"],
    /// The job's handler threw an error without a code of its own.
    JobFailed = "JOB_FAILED" ["jobId", "errorName"],
    /// The limit of the fleet's store is reached.
    FleetFull = "FLEET_FULL" ["stream"],
    /// The fleet's store failed.
    FleetStorage = "FLEET_STORAGE" ["stream", "tooLong"],
    /// No server of the fleet answers.
    FleetUnreachable = "FLEET_UNREACHABLE" ["servers"],
    /// The server refuses this client.
    FleetUnauthorized = "FLEET_UNAUTHORIZED" [],
    /// The server is older than 2.12.
    FleetServerTooOld = "FLEET_SERVER_TOO_OLD" ["version"],
    /// There is no nats-server on this machine.
    FleetServerMissing = "FLEET_SERVER_MISSING" [],
    /// The connection to the fleet was closed.
    FleetClosed = "FLEET_CLOSED" [],
}

/// Fields that an error with any code may have.
pub(super) const OF_ANY: &[&str] =
    &["result", "events", "stderr", "resetAt", "retryAfterMs", "kind", "exitCode", "signal"];
