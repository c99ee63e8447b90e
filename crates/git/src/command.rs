//! Runs git without prompts, without hooks, and without programs that a repository names.
//!
//! The environment of the host never points git at another repository: all `GIT_*` variables that could are removed. The
//! user's configuration applies unless the call is made [`Call::bare`]; then no configuration applies but this module's.

use bytes::Bytes;
use ground::error::ErrorCode;
use process::{Containment, Encoding, Input, ProcessSpec, Stream, spawn};
use std::path::Path;
use std::time::Duration;

/// Time limit of a whole command; a silent one ends far earlier.
const TIMEOUT: Duration = Duration::from_secs(3600);
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
const KILL_GRACE: Duration = Duration::from_millis(500);
/// Longest output that is read. What is longer is an error, never a part of an answer.
const MAX_OUTPUT_BYTES: usize = 256 << 20;

/// Environment variables that switch all prompts off, and make messages English.
const UNASKED: [(&str, &str); 6] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("GCM_INTERACTIVE", "never"),
    ("GIT_ALLOW_PROTOCOL", "https:http:ssh:git:file"),
    ("LC_ALL", "C"),
];
/// Settings of every command, which override any configuration.
const SETTINGS: [(&str, &str); 7] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.splitIndex", "false"),
    ("core.quotePath", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
];
/// Variables of a call that no configuration applies to, and that fetches nothing.
const BARE: [(&str, &str); 6] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
];
/// Would point git at another repository, change what it makes of one, or write down what it is told.
pub const REMOVED: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_QUARANTINE_PATH",
    "GIT_NAMESPACE",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_ATTR_SOURCE",
    "GIT_DEFAULT_HASH",
    "GIT_DEFAULT_REF_FORMAT",
    "GIT_TEMPLATE_DIR",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_DATE",
    "GIT_PREFIX",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_EXTERNAL_DIFF",
    "GIT_DIFF_OPTS",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_TRACE",
    "GIT_TRACE2_ENV_VARS",
    "GIT_TRACE_CURL",
    "GIT_TRACE_PACKET",
];

/// The reason why a command gave no output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallFault {
    /// git is not installed on this machine.
    NoGit(String),
    Idle(Duration),
    /// git's own words. The exit code of a command that ran to its end.
    Said {
        code: Option<i32>,
        stdout: Vec<u8>,
        stderr: String,
    },
    /// It could not be run, or its output was too long.
    Other(String),
}

impl CallFault {
    /// The last lines of git's own report, for a message.
    pub(crate) fn words(&self) -> String {
        match self {
            CallFault::NoGit(told) | CallFault::Other(told) => told.clone(),
            CallFault::Idle(length) => format!("git was silent for {} s", length.as_secs()),
            CallFault::Said { code, stderr, .. } => {
                let told = reported(stderr);
                if told.is_empty() { format!("git ended with status {}", code.unwrap_or(-1)) } else { told }
            }
        }
    }
}

/// One git command.
pub(crate) struct Call {
    spec: ProcessSpec,
    variables: Vec<(String, Option<String>)>,
    settings: Vec<(String, String)>,
}

impl Call {
    pub(crate) fn new<'a>(args: impl IntoIterator<Item = &'a str>) -> Call {
        let mut spec = ProcessSpec::new("git", args);
        spec.idle_timeout = Some(IDLE_TIMEOUT);
        spec.timeout = Some(TIMEOUT);
        spec.kill_grace = KILL_GRACE;
        spec.max_output_bytes = MAX_OUTPUT_BYTES;
        spec.encoding = Encoding::Bytes;
        let removed = REMOVED.iter().map(|name| ((*name).to_owned(), None));
        let variables = removed.chain(UNASKED.iter().map(owned)).collect();
        Call { spec, variables, settings: SETTINGS.map(|(name, value)| (name.into(), value.into())).into() }
    }

    /// No configuration of the user or the system applies.
    pub(crate) fn bare(mut self) -> Call {
        self.variables.extend(BARE.iter().map(owned));
        self
    }

    pub(crate) fn at(mut self, folder: &Path) -> Call {
        self.spec.cwd = Some(folder.to_owned());
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: impl Into<String>) -> Call {
        self.variables.push((name.to_owned(), Some(value.into())));
        self
    }

    pub(crate) fn path(self, name: &str, value: &Path) -> Call {
        let value = value.to_string_lossy().into_owned();
        self.variable(name, value)
    }

    pub(crate) fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Call {
        self.settings.push((name.into(), value.into()));
        self
    }

    pub(crate) fn input(mut self, bytes: Vec<u8>) -> Call {
        self.spec.input = Input::Bytes(Bytes::from(bytes));
        self
    }

    pub(crate) fn input_file(mut self, path: &Path) -> Call {
        self.spec.input = Input::File(path.to_owned());
        self
    }

    /// It ends by itself when this host is killed: git leaves its locks in the user's repository when it is killed.
    pub(crate) fn outlives_host(mut self) -> Call {
        self.spec.containment = Containment::Group;
        self
    }

    pub(crate) fn idle_timeout(mut self, length: Duration) -> Call {
        self.spec.idle_timeout = Some(length);
        self
    }

    /// Runs it and returns its output.
    pub(crate) async fn run(self) -> Result<Vec<u8>, CallFault> {
        let Call { mut spec, mut variables, settings } = self;
        variables.push(("GIT_CONFIG_COUNT".to_owned(), Some(settings.len().to_string())));
        for (index, (name, value)) in settings.into_iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{index}"), Some(name)));
            variables.push((format!("GIT_CONFIG_VALUE_{index}"), Some(value)));
        }
        spec.environment.changes = variables;
        let idle_timeout = spec.idle_timeout.unwrap_or_default();
        let outcome = spawn(spec).outcome().await;
        if let Some(error) = &outcome.error {
            return Err(match error.code() {
                ErrorCode::ProcessIdle => CallFault::Idle(idle_timeout),
                ErrorCode::ProcessNotFound => CallFault::NoGit(error.message().to_owned()),
                _ => CallFault::Other(error.message().to_owned()),
            });
        }
        let Some(result) = &outcome.result else {
            return Err(CallFault::Other("nothing was started".to_owned()));
        };
        let stdout = result.bytes_of(Stream::Stdout).to_vec();
        if !result.is_ok() {
            let stderr = String::from_utf8_lossy(result.bytes_of(Stream::Stderr)).into_owned();
            return Err(CallFault::Said { code: result.exit_code, stdout, stderr });
        }
        if result.dropped[0] > 0 {
            return Err(CallFault::Other(format!("git printed more than {MAX_OUTPUT_BYTES} bytes")));
        }
        Ok(stdout)
    }

    /// The same for output that is text of one line.
    pub(crate) async fn line(self) -> Result<String, CallFault> {
        let bytes = self.run().await?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned())
    }
}

fn owned((name, value): &(&str, &str)) -> (String, Option<String>) {
    ((*name).to_owned(), Some((*value).to_owned()))
}

/// The lines that say what went wrong; a shell says which program of a filter or hook is missing. Progress is rewritten in its line.
pub(crate) fn reported(stderr: &str) -> String {
    const MAX_TOLD_BYTES: usize = 1000;
    let is_report = |line: &&str| {
        line.ends_with("not found")
            || ["fatal:", "error:", "remote:"].iter().any(|word| line.starts_with(word))
    };
    let lines = stderr.lines().map(|line| line.rsplit('\r').next().unwrap_or(line).trim());
    let lines: Vec<&str> = lines.filter(is_report).collect();
    let mut told = if lines.is_empty() { stderr.trim().to_owned() } else { lines.join("; ") };
    told.truncate(told.floor_char_boundary(MAX_TOLD_BYTES));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_told_with_what_failed_without_it() {
        for missing in
            ["git-lfs filter-process: 1: git-lfs: not found", "sh: line 1: git-lfs: command not found"]
        {
            let stderr =
                format!("Updating files: 1%\r{missing}\nfatal: the remote end hung up unexpectedly\n");
            assert_eq!(reported(&stderr), format!("{missing}; fatal: the remote end hung up unexpectedly"));
        }
    }
}
