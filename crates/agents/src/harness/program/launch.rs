//! PURE: the request to start a CLI for one turn, and the launch that a provider makes of it.

use crate::harness::level::Level;
use crate::harness::mcp_server::McpServer;
use process::Sandbox;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// One attempt of a turn, as the provider is asked for it.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub prompt: String,
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    pub tools: Option<Vec<String>>,
    pub max_turns: Option<u64>,
    pub max_budget_usd: Option<f64>,
    pub permission: Level,
    /// Globs of commands that "edit" may run, checked.
    pub allow: Vec<String>,
    /// Whether the kernel restricts the folders that the CLI may write.
    pub is_sandboxed: bool,
    /// The working directory, with links resolved.
    pub cwd: PathBuf,
    /// Values from the run's environment of the variables that the provider reads.
    pub variables: Vec<(&'static str, String)>,
    /// For CLIs that take a schema by a flag: the schema, and a file that holds it.
    pub schema: Option<Value>,
    pub schema_file: Option<String>,
    /// The session to go on with.
    pub resume: Option<String>,
    /// An id for a new session, for the CLI that tells its own only at the end.
    pub session_id: Option<String>,
    /// Absolute paths of images that belong to the prompt.
    pub images: Vec<String>,
    pub mcp_servers: Vec<McpServer>,
    pub extra_args: Vec<String>,
    /// A folder of the run's own.
    pub folder: PathBuf,
}

impl Wanted {
    /// Longest prompt that goes by argument. The system takes 128 KiB of one argument; the flag before it counts too.
    pub const MAX_ARGUMENT_BYTES: usize = 100_000;

    pub fn is_long(&self) -> bool {
        self.prompt.len() > Self::MAX_ARGUMENT_BYTES
    }
}

/// Arguments, environment, stdin and files of a start.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    pub args: Vec<String>,
    /// Written and closed; without it stdin is null.
    pub stdin: Option<String>,
    /// Environment variables that are set unless the caller sets or removes the same name.
    pub set: Vec<(String, String)>,
    /// Environment variables that override the caller's, because they hold the permission level.
    pub held: Vec<(String, String)>,
    /// Written before the start.
    pub files: Vec<(PathBuf, String)>,
    /// Removed unless the caller sets the same name.
    pub removed: Vec<&'static str>,
    /// Beginnings of names of files that run later, outside, and that are put back after the run: the CLI's own sandbox would not let
    /// them be written, and ours can't forbid it. The caller's own `protect` comes first.
    pub restored: &'static [&'static str],
    /// The sandbox that the kernel enforces on the CLI.
    pub sandbox: Option<Sandbox>,
    pub warnings: Vec<String>,
    /// The id that a new session was given.
    pub session: Option<String>,
    prompt: String,
    extra_args: Vec<String>,
    folder: PathBuf,
}

/// Environment variables that agents set for what they start, and the host for its children. An agent that inherits them
/// refuses to start, joins a session that is not its own, or writes to a pipe of the host.
const NESTING: &[&str] = &[
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_AGENT_SDK_VERSION",
    "CODEX_THREAD_ID",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
    "GEMINI_CLI",
    "QWEN_CODE",
    "OPENCODE",
    "OPENCODE_PID",
    "OPENCODE_PROCESS_ROLE",
    "OPENCODE_RUN_ID",
    "OPENCODE_SERVER_PASSWORD",
    "COPILOT_CLI",
    "COPILOT_AGENT_SESSION_ID",
    "PI_CODING_AGENT",
    "NODE_CHANNEL_FD",
    "NODE_CHANNEL_SERIALIZATION_MODE",
    "NODE_UNIQUE_ID",
];

impl Launch {
    pub fn new(wanted: &Wanted) -> Self {
        Launch {
            removed: NESTING.to_vec(),
            prompt: wanted.prompt.clone(),
            extra_args: wanted.extra_args.clone(),
            folder: wanted.folder.clone(),
            ..Launch::default()
        }
    }

    pub fn args<Text: AsRef<str>>(&mut self, args: impl IntoIterator<Item = Text>) {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
    }

    /// The caller's own arguments: behind the provider's, before the prompt.
    pub fn extra_args(&mut self) {
        let extra = std::mem::take(&mut self.extra_args);
        self.args.extend(extra);
    }

    pub fn prompt_by_stdin(&mut self) {
        self.stdin = Some(std::mem::take(&mut self.prompt));
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.set.push((name.to_owned(), value.to_owned()));
    }

    /// See [`Launch::held`].
    pub fn hold(&mut self, name: &str, value: &str) {
        self.held.push((name.to_owned(), value.to_owned()));
    }

    /// The caller's arguments, then the prompt by `--prompt=`, or by stdin if it is long.
    pub fn prompt_by_flag(&mut self) {
        self.extra_args();
        if self.prompt.len() > Wanted::MAX_ARGUMENT_BYTES {
            return self.prompt_by_stdin();
        }
        let prompt = std::mem::take(&mut self.prompt);
        self.args.push(format!("--prompt={prompt}"));
    }

    /// The prompt behind `--`; by stdin if it is long, and then these arguments in its place.
    pub fn prompt_last(&mut self, for_stdin: &[&str]) {
        if self.prompt.len() > Wanted::MAX_ARGUMENT_BYTES {
            self.args(for_stdin);
            return self.prompt_by_stdin();
        }
        let prompt = std::mem::take(&mut self.prompt);
        self.args.extend(["--".to_owned(), prompt]);
    }

    /// A file in the run's own folder; its path.
    pub fn file(&mut self, name: &str, text: &str) -> String {
        let path = self.folder.join(name);
        self.files.push((path.clone(), text.to_owned()));
        path_text(&path)
    }

    /// [`Launch::cannot`] for those of `tools`, `maxTurns` and `maxBudgetUsd` that are named.
    pub fn cannot_limit(&mut self, wanted: &Wanted, names: &[&str]) {
        let given = [
            ("tools", wanted.tools.is_some()),
            ("maxTurns", wanted.max_turns.is_some()),
            ("maxBudgetUsd", wanted.max_budget_usd.is_some()),
        ];
        for (option, is_given) in given.into_iter().filter(|(option, _)| names.contains(option)) {
            self.cannot(option, is_given);
        }
    }

    /// Warns of an option that was given though this CLI has nothing for it.
    pub fn cannot(&mut self, option: &str, is_given: bool) {
        if is_given {
            self.warnings.push(format!("{option}: this CLI does not support this option; it was ignored"));
        }
    }
}

pub fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::provider::Provider;

    fn wanted(prompt: &str) -> Wanted {
        Wanted { prompt: prompt.into(), permission: Level::Auto, folder: "/own".into(), ..Wanted::default() }
    }

    #[test]
    fn a_prompt_that_looks_like_a_flag_is_never_taken_for_one() {
        for provider in Provider::ALL {
            let launch = (provider.descriptor().launch)(&wanted("--help me")).unwrap();
            let at = launch.args.iter().position(|arg| arg == "--help me");
            let is_safe = match at {
                Some(at) => launch.args[at - 1] == "--",
                None => {
                    launch.stdin.as_deref() == Some("--help me")
                        || launch.args.contains(&"--prompt=--help me".to_owned())
                }
            };
            assert!(is_safe, "{}: {:?}", provider.as_str(), launch.args);
        }
    }

    #[test]
    fn a_long_prompt_goes_by_stdin_or_is_refused() {
        let prompt = "x".repeat(200_000);
        for provider in Provider::ALL {
            let launch = (provider.descriptor().launch)(&wanted(&prompt));
            if let Err(error) = launch {
                assert!(error.message().starts_with("prompt: "), "{}", error.message());
                continue;
            }
            let launch = launch.unwrap();
            assert_eq!(launch.stdin.as_deref(), Some(&*prompt), "{}", provider.as_str());
            assert!(launch.args.iter().all(|arg| arg.len() < 131_072));
        }
    }

    #[test]
    fn what_a_cli_cannot_do_is_said() {
        let wanted = Wanted {
            tools: Some(vec!["read".into()]),
            max_turns: Some(3),
            max_budget_usd: Some(1.0),
            system_prompt: Some("Be brief.".into()),
            model: Some("m".into()),
            ..wanted("hi")
        };
        for provider in Provider::ALL {
            let launch = (provider.descriptor().launch)(&wanted).unwrap();
            let all = format!("{:?} {:?} {:?}", launch.args, launch.set, launch.files);
            for (option, sign) in
                [("tools", "read"), ("maxTurns", "3\""), ("systemPrompt", "Be brief."), ("model", "\"m\"")]
            {
                let is_warned = launch.warnings.iter().any(|warning| warning.starts_with(option));
                assert!(all.contains(sign) || is_warned, "{} {option}: {all}", provider.as_str());
            }
        }
    }

    #[test]
    fn tools_that_only_read_leave_none_of_those_that_write() {
        let tools = |permission, tools: &[&str]| {
            let tools = Some(tools.iter().map(|tool| (*tool).to_owned()).collect());
            let wanted = Wanted { permission, tools, is_sandboxed: true, ..wanted("hi") };
            (Provider::Pi.descriptor().launch)(&wanted).unwrap().args.join(" ")
        };
        assert!(tools(Level::Plan, &["bash", "grep"]).contains("--tools grep"));
        assert!(tools(Level::Plan, &["bash"]).contains("--no-tools"), "an empty list might mean all");
        assert!(tools(Level::Edit, &["bash", "write"]).contains("--tools write"));
    }

    #[test]
    fn variables_of_an_agent_around_it_are_removed() {
        for provider in Provider::ALL {
            assert!((provider.descriptor().launch)(&wanted("hi")).unwrap().removed.contains(&"CLAUDECODE"));
        }
    }
}
