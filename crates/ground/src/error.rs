//! Errors as values: one code for programs, one message for people, facts as fields.
//!
//! `binding/error.rs` turns an [`Error`] into a JavaScript `Error` with the same `code`, `message` and fields. A partial result
//! travels beside the error, never inside it (see `process::Outcome`).

use serde_json::{Map, Value};
use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The stable names of all errors. JavaScript sees the text of [`ErrorCode::as_str`] as `error.code`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode { $($(#[$doc])* $name,)* }

        impl ErrorCode {
            /// Every code, in the order of this file.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }
        }

        /// Passes the list to a macro. `binding/error.rs` generates the JavaScript enum from it.
        #[macro_export]
        macro_rules! each_code {
            ($make:ident) => { $make! { $($(#[$doc])* $name = $text,)* } };
        }
    };
}

codes! {
    /// An option has the wrong type or value; the message begins with the option's path.
    InvalidOption = "INVALID_OPTION",
    /// A fault of the addon itself, or of a library in it, ended the work; what was started is taken down. Fields: `fault`.
    AddonFault = "ADDON_FAULT",

    /// The program exited with another status than 0, or a signal ended it, with `reject`. Fields: `exitCode`, `signal`.
    ProcessFailed = "PROCESS_FAILED",
    /// The program is neither a file nor on PATH. Fields: `command`.
    ProcessNotFound = "PROCESS_NOT_FOUND",
    /// The working directory does not exist or is no directory. Fields: `cwd`.
    ProcessCwdMissing = "PROCESS_CWD_MISSING",
    /// The program is a directory or lacks execute permission. Fields: `command`.
    ProcessNotExecutable = "PROCESS_NOT_EXECUTABLE",
    /// One argument, or all of them with the environment, exceed what the system takes. Fields: `bytes`, `maxBytes`.
    ProcessArgumentTooLong = "PROCESS_ARGUMENT_TOO_LONG",
    /// No byte moved for `idleTimeoutMs`; the tree was killed. Fields: `idleTimeoutMs`.
    ProcessIdle = "PROCESS_IDLE",
    /// The wall clock ran out. Fields: `timeoutMs`.
    ProcessTimedOut = "PROCESS_TIMED_OUT",
    /// The caller's signal was aborted.
    ProcessAborted = "PROCESS_ABORTED",
    /// `kill()` was called.
    ProcessKilled = "PROCESS_KILLED",
    /// A line was longer than `maxLineBytes`. Fields: `maxLineBytes`, `stream`.
    ProcessLineTooLong = "PROCESS_LINE_TOO_LONG",
    /// The guard was killed: the tree is gone, the exit status unknown.
    ProcessLost = "PROCESS_LOST",
    /// The source of `input` failed; the tree was killed. Fields: `file`, `errno` where the source is a file.
    ProcessInputFailed = "PROCESS_INPUT_FAILED",
    /// The file that output was to be saved in can't be opened or written; the run goes on. Fields: `file`, `errno`.
    ProcessOutputFailed = "PROCESS_OUTPUT_FAILED",
    /// Something was written to a program's stdin after its end.
    ProcessStdinClosed = "PROCESS_STDIN_CLOSED",
    /// The system refused to start the program for another reason. Fields: `errno`, `syscall`.
    ProcessSpawnFailed = "PROCESS_SPAWN_FAILED",
    /// A terminal did not show in time what was expected. Fields: `pattern`, `timeoutMs`, `screen`.
    ProcessExpectTimedOut = "PROCESS_EXPECT_TIMED_OUT",
    /// The program ended before its terminal showed what was expected. Fields: `pattern`, `screen`.
    ProcessExpectEnded = "PROCESS_EXPECT_ENDED",
    /// The output is being iterated already: one iterator a process.
    ProcessIterated = "PROCESS_ITERATED",
    /// The asked-for containment can't be had on this machine. Fields: `containment`.
    ContainmentUnavailable = "CONTAINMENT_UNAVAILABLE",
    /// The asked-for sandbox can't be held on this machine; nothing was started.
    SandboxUnavailable = "SANDBOX_UNAVAILABLE",

    /// The agent said that the turn failed. Fields: `kind`.
    AgentFailed = "AGENT_FAILED",
    /// The agent exited with 0 but never said that its turn ended.
    AgentTruncated = "AGENT_TRUNCATED",
    /// The agent died of a signal or of an exit code that nothing explains.
    AgentCrashed = "AGENT_CRASHED",
    /// The answer does not fit the schema. Fields: `problems`.
    AgentSchemaMismatch = "AGENT_SCHEMA_MISMATCH",
    /// The agent was silent for too long.
    AgentIdle = "AGENT_IDLE",
    /// One attempt took too long.
    AgentTimedOut = "AGENT_TIMED_OUT",
    /// The caller aborted the turn.
    AgentAborted = "AGENT_ABORTED",
    /// The agent's program is not installed. Fields: `install`.
    AgentNotFound = "AGENT_NOT_FOUND",
    /// The agent prints without end and without progress.
    AgentNoProgress = "AGENT_NO_PROGRESS",
    /// The turn used more than it may, or nothing was left to begin with. Fields: `cap`, `shared`, `usedTokens`, `usedCostUsd`,
    /// `maxTokens`, `maxCostUsd`.
    AgentBudget = "AGENT_BUDGET",
    /// The session to resume is unknown, or the agent began another one.
    AgentResumeFailed = "AGENT_RESUME_FAILED",
    /// The turn's events are being iterated already: one iterator a turn.
    TurnIterated = "TURN_ITERATED",

    /// `sendAndWait` ran out of time; the work goes on.
    SessionTimedOut = "SESSION_TIMED_OUT",
    /// No event of the session for too long.
    SessionIdle = "SESSION_IDLE",
    /// The session reported an error. Fields: `errorType`, `statusCode`.
    SessionError = "SESSION_ERROR",
    /// The session was shut down, disconnected, or its client stopped.
    SessionClosed = "SESSION_CLOSED",
    /// A session with this id has a history already.
    SessionExists = "SESSION_EXISTS",
    /// The caller aborted the turn.
    SessionAborted = "SESSION_ABORTED",
    /// The session to resume is unknown.
    ResumeNotFound = "RESUME_NOT_FOUND",
    /// The session's log is damaged. Fields: `line`.
    ResumeCorrupt = "RESUME_CORRUPT",
    /// Another process has the session open.
    ResumeInUse = "RESUME_IN_USE",
    /// The session's custom agent is not there.
    ResumeAgentMissing = "RESUME_AGENT_MISSING",
    /// Worth another try: network, sign-in, or time trouble.
    ResumeTransient = "RESUME_TRANSIENT",
    /// The resume failed for another reason.
    ResumeFailed = "RESUME_FAILED",
    /// The peer is gone. Fields: `exitCode`, `signal`, `stderr`.
    ConnectionLost = "CONNECTION_LOST",
    /// The peer did not answer in time.
    ConnectionTimedOut = "CONNECTION_TIMED_OUT",
    /// The peer speaks another version of the protocol.
    ProtocolMismatch = "PROTOCOL_MISMATCH",
    /// The peer answered a request with an error. Fields: `rpcCode`, `method`.
    RpcError = "RPC_ERROR",

    /// The runtime answered with an error. Fields: `metadata`.
    RuntimeFailed = "RUNTIME_FAILED",
    /// The request took too long.
    RuntimeTimedOut = "RUNTIME_TIMED_OUT",
    /// The runtime was silent for too long.
    RuntimeIdle = "RUNTIME_IDLE",
    /// The caller aborted the request.
    RuntimeAborted = "RUNTIME_ABORTED",
    /// The connection to the runtime is closed.
    RuntimeClosed = "RUNTIME_CLOSED",
    /// The runtime refused the token or the origin.
    RuntimeUnauthorized = "RUNTIME_UNAUTHORIZED",
    /// A request is in flight already.
    RuntimeBusy = "RUNTIME_BUSY",
    /// Another program listens on the port. Fields: `port`.
    RuntimePortInUse = "RUNTIME_PORT_IN_USE",
    /// The peer broke the protocol.
    RuntimeProtocol = "RUNTIME_PROTOCOL",

    /// Every attempt of the model call timed out. Fields: `attempts`.
    ModelTimedOut = "MODEL_TIMED_OUT",
    /// The caller aborted the model call. Fields: `attempts`.
    ModelAborted = "MODEL_ABORTED",
    /// The model's server refused or failed. Fields: `attempts`, `kind`, `status`.
    ModelFailed = "MODEL_FAILED",
    /// The model's server answered with something that is no completion. Fields: `attempts`.
    ModelBadResponse = "MODEL_BAD_RESPONSE",
    /// The model's server can't be reached. Fields: `attempts`.
    ModelUnreachable = "MODEL_UNREACHABLE",

    /// The fleet has no such job.
    JobNotFound = "JOB_NOT_FOUND",
    /// The job was cancelled.
    JobCancelled = "JOB_CANCELLED",
    /// The job's workers were lost as often as it may be tried. Fields: `lastError`.
    JobDead = "JOB_DEAD",
    /// Another worker has the job by now.
    JobLeaseLost = "JOB_LEASE_LOST",
    /// The repository of a job could not be checked out. Fields: `kind`, `url`.
    JobCheckoutFailed = "JOB_CHECKOUT_FAILED",
    /// As many jobs wait as the fleet takes. Fields: `stream`.
    FleetFull = "FLEET_FULL",
    /// The server has no room, or its store can't be used. Fields: `stream`.
    FleetStorage = "FLEET_STORAGE",
    /// No server answers. Fields: `servers`.
    FleetUnreachable = "FLEET_UNREACHABLE",
    /// The server refused the token or the credentials.
    FleetUnauthorized = "FLEET_UNAUTHORIZED",
    /// The server is older than 2.12, or does not do what was asked of it. Fields: `version`.
    FleetServerTooOld = "FLEET_SERVER_TOO_OLD",
    /// There is no nats-server on this machine.
    FleetServerMissing = "FLEET_SERVER_MISSING",
    /// The fleet's handle was closed.
    FleetClosed = "FLEET_CLOSED",
}

/// An error: `code` for programs, `message` for people (it says what to do next), `facts` as the fields of the JS error.
#[derive(Clone, Debug)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    code: ErrorCode,
    message: String,
    facts: Map<String, Value>,
    cause: Option<Error>,
}

/// The result type of the Rust crates.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Error(Box::new(Parts { code, message: message.into(), facts: Map::new(), cause: None }))
    }

    /// `ADDON_FAULT` for a panic inside of this package that was caught. The message contains the panic's text.
    pub fn of_panic(panic: &(dyn std::any::Any + Send)) -> Self {
        let fault = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no words");
        let message = format!(
            "the work was ended by a fault inside of sheepdog ({fault}): if this machine has no threads or memory left, \
             free some and try again; else please report it"
        );
        Error::new(ErrorCode::AddonFault, message).with("fault", fault)
    }

    pub fn invalid_option(path: &str, problem: impl fmt::Display) -> Self {
        Error::new(ErrorCode::InvalidOption, format!("{path}: {problem}"))
    }

    /// Adds a field that the JS error carries.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0.facts.insert(field.to_owned(), value.into());
        self
    }

    /// Adds the error underneath, `error.cause` in JS.
    pub fn caused_by(mut self, cause: Error) -> Self {
        self.0.cause = Some(cause);
        self
    }

    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn facts(&self) -> &Map<String, Value> {
        &self.0.facts
    }

    pub fn cause(&self) -> Option<&Error> {
        self.0.cause.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.0.code.as_str(), self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_ref().map(|cause| cause as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_code_has_its_own_name_in_capitals() {
        let names: HashSet<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        for name in names {
            assert!(name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{name}");
        }
    }

    #[test]
    fn carries_facts_and_cause_beside_the_message() {
        let error = Error::new(ErrorCode::ConnectionLost, "the runtime exited")
            .with("exitCode", 1)
            .caused_by(Error::new(ErrorCode::ProcessKilled, "killed"));
        assert_eq!(error.facts()["exitCode"], 1);
        assert_eq!(error.cause().map(Error::code), Some(ErrorCode::ProcessKilled));
        assert_eq!(error.to_string(), "CONNECTION_LOST: the runtime exited");
    }

    #[test]
    fn an_invalid_option_begins_with_its_path() {
        let error = Error::invalid_option("idleTimeoutMs", "expected a number, got \"5s\"");
        assert_eq!(error.message(), "idleTimeoutMs: expected a number, got \"5s\"");
    }
}
