//! PURE: the request to start a CLI for one turn, and the launch that a provider makes of it.

pub mod package;

use crate::harness::level::Level;
use crate::harness::mcp_server::{DOLLAR, McpServer, Replaced, configuration};
use process::Sandbox;
use serde_json::{Value, json};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// An image that belongs to a prompt.
#[derive(Clone, Debug)]
pub struct Image {
    /// The absolute path.
    pub path: String,
    /// The content, for CLIs that take images within the prompt.
    pub content: Option<ImageContent>,
}

#[derive(Clone, Debug)]
pub struct ImageContent {
    pub media_type: &'static str,
    pub base64: String,
}

/// The media type of an image, by its first bytes. `None` for formats that models do not accept.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The media types of images that models accept.
pub(crate) const MEDIA_TYPES: [&str; 5] = ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"];
/// Longest image within a prompt.
pub(crate) const MAX_IMAGE_BYTES: u64 = 20 << 20;

/// The media type of an image that may go into a prompt, or what is wrong with it, as the end of a sentence.
pub(crate) fn checked_image(bytes: &[u8]) -> Result<&'static str, String> {
    if bytes.len() as u64 > MAX_IMAGE_BYTES {
        return Err("is larger than 20 MiB".to_owned());
    }
    media_type(bytes).ok_or_else(|| "is not a PNG, JPEG, GIF or WebP image".to_owned())
}

/// One attempt of a turn, as the provider is asked for it.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub prompt: String,
    pub model: Option<String>,
    pub system_prompt: Option<String>,
    pub cli_tools: Option<Vec<String>>,
    pub max_turns: Option<u64>,
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
    /// Images that belong to the prompt.
    pub images: Vec<Image>,
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

    /// A variable of those that the provider reads.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
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
pub(crate) const NESTING: &[&str] = &[
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
            prompt: wanted.prompt.clone(),
            extra_args: wanted.extra_args.clone(),
            folder: wanted.folder.clone(),
            ..Launch::default()
        }
    }

    pub fn args<Text: AsRef<str>>(&mut self, args: impl IntoIterator<Item = Text>) {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
    }

    /// A flag and its value, if there is a value.
    pub fn option(&mut self, flag: &str, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            self.args([flag, value.as_ref()]);
        }
    }

    /// A flag and its value in one argument, if there is a value.
    pub fn assign(&mut self, flag: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.args([format!("{flag}={value}")]);
        }
    }

    /// The caller's own arguments: behind the provider's, before the prompt.
    pub fn extra_args(&mut self) {
        let extra = std::mem::take(&mut self.extra_args);
        self.args.extend(extra);
    }

    /// A blank before a prompt that the CLI would take for one of its own commands, or for one that a file of the working directory
    /// defines. Such a command can run programs.
    pub fn prompt_is_no_command(&mut self) {
        if self.prompt.starts_with('/') {
            self.prompt.insert(0, ' ');
        }
    }

    /// Warns of files that a prompt names, for a CLI that adds their content and can't be told not to.
    pub fn prompt_names_files(&mut self) {
        let mut behind = self.prompt.split('@').skip(1);
        if behind.any(|rest| rest.starts_with(|next: char| !next.is_whitespace())) {
            let words = "prompt: this CLI adds the content of files that a prompt names behind \"@\"; write \"\\@\" to keep it from that";
            self.warnings.push(words.to_owned());
        }
    }

    pub fn prompt_by_stdin(&mut self) {
        self.stdin = Some(std::mem::take(&mut self.prompt));
    }

    /// Sends the prompt and its images by stdin, as one message in the JSON format of Claude Code.
    pub fn prompt_as_message(&mut self, images: &[Image]) {
        let text = std::mem::take(&mut self.prompt);
        // Claude Code looks for names of files in the last part only, if that is a text.
        let (start, end) = text.split_at(if images.is_empty() { plain_end(&text) } else { text.len() });
        let texts = [start, end].into_iter().filter(|part| !part.is_empty());
        let mut content: Vec<Value> = texts.map(|part| json!({ "type": "text", "text": part })).collect();
        content.extend(images.iter().filter_map(|image| image.content.as_ref()).map(|image| {
            let source = json!({ "type": "base64", "media_type": image.media_type, "data": image.base64 });
            json!({ "type": "image", "source": source })
        }));
        let message = json!({ "role": "user", "content": content });
        let line =
            json!({ "type": "user", "session_id": "", "parent_tool_use_id": null, "message": message });
        self.args(["--input-format", "stream-json"]);
        self.stdin = Some(format!("{line}\n"));
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.set.push((name.to_owned(), value.to_owned()));
    }

    /// See [`Launch::held`].
    pub fn hold(&mut self, name: &str, value: &str) {
        self.held.push((name.to_owned(), value.to_owned()));
    }

    pub fn prompt_as_argument(&mut self) {
        self.args.push(std::mem::take(&mut self.prompt));
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

    /// The file of these servers of tools. Their values may be secret, and others can read arguments.
    pub(crate) fn servers_file(&mut self, servers: &[McpServer], replaced: Replaced) -> String {
        if replaced.needs_dollar() {
            self.hold(DOLLAR.0, DOLLAR.1);
        }
        let servers: Vec<_> = servers.iter().map(|server| server.written_for(replaced)).collect();
        self.file("mcp-servers.json", &configuration(&servers))
    }

    /// Gives the servers of tools. At "edit" and "ask" nothing would ask about their tools, which the caller has chosen: the flag
    /// `allow` lets them run.
    pub(crate) fn servers_by_file(&mut self, wanted: &Wanted, replaced: Replaced, allow: &str) {
        let servers = &wanted.mcp_servers;
        if servers.is_empty() {
            return;
        }
        let file = self.servers_file(servers, replaced);
        self.args([format!("--mcp-config={file}")]);
        if matches!(wanted.permission, Level::Edit | Level::Ask) {
            self.args(servers.iter().map(|server| format!("{allow}=mcp__{}", server.name())));
        }
    }

    /// [`Launch::cannot`] for those of `tools` and `maxTurns` that are named.
    pub fn cannot_limit(&mut self, wanted: &Wanted, names: &[&str]) {
        let given = [("cliTools", wanted.cli_tools.is_some()), ("maxTurns", wanted.max_turns.is_some())];
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

/// Start of the end of a prompt that names no file: behind the word of the last "@", or within that word where nothing follows.
fn plain_end(prompt: &str) -> usize {
    let Some(at) = prompt.rfind('@') else { return prompt.len() };
    let word = prompt[at..].find(char::is_whitespace).map(|length| at + length);
    match word.filter(|end| !prompt[*end..].trim().is_empty()) {
        Some(end) => end,
        // A part of blanks alone would be refused.
        None => {
            let last = prompt.trim_end().char_indices().next_back().map_or(0, |(last, _)| last);
            if last > at { last } else { prompt.len() }
        }
    }
}

pub fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
