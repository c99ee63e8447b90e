//! The request and the result of a run, with all default values.

use super::echo::Echo;
use super::sandbox::report::SandboxReport;
use super::sandbox::{Network, Sandbox, contained_folders};
use super::stream::Stream;
use super::traffic::Traffic;
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use ground::named;
use ground::os::{HostFolder, TerminalSize, is_same_variable};
use ground::record::{RecordFacts, RecordSpec};
use ground::redaction::Secret;
use serde::Serialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program to run. `ProcessSpec::new` has the defaults that API users get.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    pub command: String,
    pub args: Vec<String>,
    /// The working directory, relative to `folder`; that folder itself when `None`.
    pub cwd: Option<PathBuf>,
    /// The host's working folder at the time of the call.
    pub folder: HostFolder,
    pub environment: Environment,
    pub input: Input,
    pub stdio: Stdio,
    /// The form of the output in the result.
    pub encoding: Encoding,
    /// Leave out the last line end of each stream in what the result shows.
    pub trim: bool,
    /// Also write the output to the host's own descriptors.
    pub echo: Option<Echo>,
    /// An exit status other than 0, or a signal, is an error.
    pub reject: bool,
    /// Look for programs in `node_modules/.bin` of this folder (relative to `cwd`) and of those above it, before PATH.
    pub prefer_local: Option<PathBuf>,
    /// Kill the tree after this long without a byte read from stdout or stderr, or accepted by stdin. `None` switches it off;
    /// zero ends the run before anything is started.
    pub idle_timeout: Option<Duration>,
    /// Longest wall-clock time. `None` switches it off; zero ends the run before anything is started.
    pub timeout: Option<Duration>,
    /// Time between SIGTERM to the group and SIGKILL to the tree, on timeout, abort and kill.
    pub kill_grace: Duration,
    /// Time after the exit in which pipes that other processes hold open are still read.
    pub drain: Duration,
    /// Bytes of each stream that are kept, at its head and its tail.
    pub max_output_bytes: usize,
    /// Longest line that an iterator is given.
    pub max_line_bytes: usize,
    pub strays: Strays,
    pub containment: Containment,
    /// Needs a writable cgroup.
    pub memory_max_bytes: Option<u64>,
    /// Needs a writable cgroup.
    pub max_processes: Option<u64>,
    /// The sandbox, which the kernel enforces on the whole tree.
    pub sandbox: Option<Sandbox>,
    /// The folder of a record, which keeps the output and the end of the run.
    pub record: Option<RecordSpec>,
    /// Display name, in a record and in the list of trees.
    pub name: Option<String>,
    /// Size of stdout's pipe, for programs that exit before it is drained; the system's default when `None`. The system limits
    /// the bytes in all pipes of a user.
    pub stdout_pipe_bytes: Option<usize>,
    /// The traffic of a sandbox, while the run lasts.
    pub traffic: Traffic,
}

impl ProcessSpec {
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
    pub const TIMEOUT: Duration = Duration::from_millis(1_800_000);
    pub const KILL_GRACE: Duration = Duration::from_millis(2000);
    pub const DRAIN: Duration = Duration::from_millis(250);
    pub const MAX_OUTPUT_BYTES: usize = 16 << 20;
    pub const MAX_LINE_BYTES: usize = 64 << 20;

    pub fn new(command: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        ProcessSpec {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            cwd: None,
            folder: HostFolder::default(),
            environment: Environment::default(),
            input: Input::Null,
            stdio: Stdio::Piped,
            encoding: Encoding::Text,
            trim: false,
            echo: None,
            reject: false,
            prefer_local: None,
            idle_timeout: Some(Self::IDLE_TIMEOUT),
            timeout: Some(Self::TIMEOUT),
            kill_grace: Self::KILL_GRACE,
            drain: Self::DRAIN,
            max_output_bytes: Self::MAX_OUTPUT_BYTES,
            max_line_bytes: Self::MAX_LINE_BYTES,
            strays: Strays::Kill,
            containment: Containment::Auto,
            memory_max_bytes: None,
            max_processes: None,
            sandbox: None,
            record: None,
            name: None,
            stdout_pipe_bytes: None,
            traffic: Traffic::default(),
        }
    }

    /// Folders that the program, or a program in a sandbox before it, can write. What this process opens below them could have been
    /// replaced (`os::HeldFolder`).
    pub(crate) fn contained(&self) -> Vec<PathBuf> {
        contained_folders(self.named_cwd().as_deref(), self.sandbox.as_ref())
    }

    /// The name of the working directory, where it has one: for what is named (sandboxes, records, search paths).
    pub(crate) fn named_cwd(&self) -> Option<PathBuf> {
        match &self.cwd {
            Some(cwd) => Some(self.folder.named(cwd)),
            None => self.folder.name().ok(),
        }
    }

    /// A path by which this process reaches what is relative to the working directory. No name of the host's folder is part of it.
    pub(crate) fn reach(&self, path: &Path) -> PathBuf {
        match &self.cwd {
            Some(cwd) => self.folder.reach(&cwd.join(path)),
            None => self.folder.reach(path),
        }
    }

    /// Secrets of the sandbox, which its program never sees.
    pub(super) fn secrets(&self) -> Vec<Secret> {
        match self.sandbox.as_ref().map(|sandbox| &sandbox.network) {
            Some(Network::Hosts(hosts)) => hosts.egress().secrets().into_iter().map(Secret::new).collect(),
            _ => Vec::new(),
        }
    }

    /// The clock that has run out before the start.
    pub(super) fn passed(&self) -> Option<StopReason> {
        if self.timeout == Some(Duration::ZERO) {
            return Some(StopReason::TimedOut);
        }
        (self.idle_timeout == Some(Duration::ZERO)).then_some(StopReason::Idle)
    }
}

/// The source of the program's stdin.
#[derive(Clone, Debug)]
pub enum Input {
    /// Immediate end of file.
    Null,
    /// These bytes, then end of file. A program may leave some unread.
    Bytes(Bytes),
    /// A pipe that the owner of the handle writes to (`Process::take_stdin`).
    Pipe,
    /// A file, opened before the start; relative to the program's working directory.
    File(PathBuf),
    /// The host's own stdin.
    Inherit,
}

/// The wiring of the program's three standard descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// stdin is set by `Input`; stdout and stderr are read.
    Piped,
    /// The host's own three descriptors: nothing is read or kept, and there is no idle timeout.
    Inherit,
    /// A terminal of the program's own. Its screen output is read as stdout; the input is typed.
    Terminal(TerminalSize),
}

/// The form of the kept output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Invalid UTF-8 is replaced.
    Text,
    /// Unchanged bytes: [`RunResult::raw`].
    Bytes,
}

/// The program's environment: a base, then changes over it.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub base: EnvironmentBase,
    /// In order; `None` removes the name.
    pub changes: Vec<(String, Option<String>)>,
}

#[derive(Clone, Debug, Default)]
pub enum EnvironmentBase {
    /// The host's environment at the time of the call.
    #[default]
    Inherit,
    /// Nothing.
    Empty,
    /// Exactly these variables: a worker thread's own copy of the environment.
    Variables(Vec<(OsString, OsString)>),
}

impl EnvironmentBase {
    pub fn variable(&self, name: &str) -> Option<String> {
        match self {
            EnvironmentBase::Inherit => std::env::var(name).ok(),
            EnvironmentBase::Empty => None,
            EnvironmentBase::Variables(variables) => {
                let found = variables.iter().find(|(known, _)| is_same_variable(known, name));
                found.map(|(_, value)| value.to_string_lossy().into_owned())
            }
        }
    }

    /// The host's environment as it is now, or of it only these names. Read where nothing can change it meanwhile: on the
    /// main JavaScript thread.
    pub fn snapshot(names: Option<&[String]>) -> Self {
        let wanted =
            |name: &OsString| names.is_none_or(|names| names.iter().any(|wanted| name == wanted.as_str()));
        EnvironmentBase::Variables(std::env::vars_os().filter(|(name, _)| wanted(name)).collect())
    }

    /// The same without all but these names; everything when there are none.
    pub fn only(&self, names: Option<&[String]>) -> Self {
        match (self, names) {
            (EnvironmentBase::Variables(variables), Some(names)) => {
                let is_wanted = |name: &OsString| names.iter().any(|wanted| name == wanted.as_str());
                let variables = variables.iter().filter(|(name, _)| is_wanted(name));
                EnvironmentBase::Variables(variables.cloned().collect())
            }
            (EnvironmentBase::Inherit, Some(_)) => Self::snapshot(names),
            (whole, _) => whole.clone(),
        }
    }
}

/// The treatment of descendants that outlive the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strays {
    Kill,
    Keep,
}

named! {
    /// The requested means that hold the tree together.
    pub enum Containment {
        /// The strongest that needs no privilege.
        Auto = "auto",
        /// Process group and marks only.
        Group = "group",
        /// A PID namespace, or `CONTAINMENT_UNAVAILABLE`.
        Strict = "strict",
    }
}

named! {
    /// The containment that was in force for the tree.
    pub enum ContainmentLevel {
        Guard = "guard",
        GuardCgroup = "guard+cgroup",
        PidNamespace = "pidns",
        Group = "group",
        /// A Job Object, on Windows.
        Job = "job",
    }
}

/// The reason why a run ended. The first reason wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The program ended by itself.
    Exited,
    Idle,
    TimedOut,
    Aborted,
    Killed,
    LineTooLong(Stream),
    /// The source of the input failed.
    InputFailed,
    /// The guard was killed.
    Lost,
    /// The JavaScript environment that started the run is being torn down.
    HostClosing,
    /// The last handle is gone, or its holder has given the run up.
    Abandoned,
}

/// The end of a run, of any kind.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Output and measurements; `None` when nothing was started.
    pub result: Option<RunResult>,
    /// Set unless the program ran and ended by itself. With [`ProcessSpec::reject`] also where its exit status is not 0.
    pub error: Option<Error>,
}

impl Outcome {
    /// The error for an outcome with neither a result nor an error. That can't happen, but a caller need not panic over it.
    pub fn nothing_started() -> Error {
        Error::new(ErrorCode::ProcessSpawnFailed, "nothing was started")
    }

    /// Whether something other than the program ended it.
    pub(super) fn was_stopped(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.code() != ErrorCode::ProcessFailed)
    }
}

/// Facts of a run. Durations are milliseconds since the spawn, by a monotonic clock.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    pub command: String,
    pub args: Vec<String>,
    pub pid: u32,
    pub exit_code: Option<i32>,
    /// For example "SIGTERM".
    pub signal: Option<String>,
    /// Empty with [`Encoding::Bytes`], as `stderr`.
    pub stdout: String,
    pub stderr: String,
    /// stdout and stderr as they came, where the texts are something else: with [`Encoding::Bytes`], and where UTF-8 is invalid.
    #[serde(skip)]
    pub raw: [Option<Vec<u8>>; 2],
    /// Whether the last line end is left out of what is shown.
    #[serde(skip)]
    pub trims: bool,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    /// Number of bytes of stdout and stderr that were dropped when they came.
    #[serde(skip)]
    pub dropped: [u64; 2],
    /// Whether bytes were left out of `stdout` or `stderr`.
    pub truncated: bool,
    /// Time from the start to the exit.
    pub duration_ms: f64,
    pub first_output_ms: Option<f64>,
    pub last_output_ms: Option<f64>,
    /// Somebody else held stdout or stderr open past the drain.
    pub pipes_held_open: bool,
    pub strays_killed: u32,
    /// Descendants that could not be killed: they run as another user.
    pub strays_left: u32,
    pub containment: ContainmentLevel,
    pub usage: ProcessUsage,
    /// The run's record, if the run was asked to keep one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordFacts>,
    /// The sandbox, if the run had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxReport>,
}

impl RunResult {
    /// Whether the program exited with status 0.
    pub fn is_ok(&self) -> bool {
        self.exit_code == Some(0)
    }

    /// The kept output of a stream as the user asked for it.
    pub fn shown_text(&self, stream: Stream) -> &str {
        let text = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        if self.trims { &text[..trimmed(text.as_bytes()).len()] } else { text }
    }

    /// The same as unchanged bytes.
    pub fn shown_bytes(&self, stream: Stream) -> &[u8] {
        let bytes = self.bytes_of(stream);
        if self.trims { trimmed(bytes) } else { bytes }
    }

    /// The kept output of a stream, as unchanged bytes.
    pub fn bytes_of(&self, stream: Stream) -> &[u8] {
        let [stdout, stderr] = &self.raw;
        let (raw, text) = match stream {
            Stream::Stdout => (stdout, &self.stdout),
            Stream::Stderr => (stderr, &self.stderr),
        };
        raw.as_deref().unwrap_or(text.as_bytes())
    }
}

/// A text without its last line end, which is two bytes long on a terminal.
fn trimmed(text: &[u8]) -> &[u8] {
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    if line.len() < text.len() { line.strip_suffix(b"\r").unwrap_or(line) } else { text }
}

/// Resources used by the command and the descendants it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessUsage {
    pub user_ms: f64,
    pub system_ms: f64,
    pub max_rss_bytes: u64,
}
