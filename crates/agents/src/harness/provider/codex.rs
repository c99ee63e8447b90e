//! PURE: Codex CLI, `codex exec --json`.
//!
//! `error` lines are transient while they say "Reconnecting..."; an item of type `error` is a warning. Messages come whole. The
//! usage of `turn.completed` accumulates over all turns of a thread.

use super::message::text_of;
use super::other::PLAIN;
use super::protocol::Protocol;
use super::{Descriptor, Images, OwnState, Project, Reader, SessionFiles, codex_servers};
use crate::harness::event::{AgentErrorKind, Usage};
use crate::harness::evidence::digest::Digest;
use crate::harness::evidence::failure::Words;
use crate::harness::launch::package::{Program, npm_platform, package, siblings};
use crate::harness::launch::{Image, Launch, Wanted};
use crate::harness::level::{Level, Mode, unallowable};
use crate::harness::provider::session_log::SessionLog;
use crate::harness::spending::{Accounting, CachedInput};
use crate::model::taken_schema::Taker;
use ground::error::Error;
use ground::json::{Json, Line};
use ground::os::{is_executable, program_files};
use serde_json::{Value, json};
use std::path::Path;

pub(super) const DESCRIPTOR: Descriptor = Descriptor {
    title: "Codex CLI",
    program: "codex",
    install: "npm install -g @openai/codex",
    launch,
    hold,
    modes: [
        Mode::named("read-only"),
        Mode::named("workspace-write"),
        Mode::named("workspace-write"),
        Mode::named("agent-full-access"),
    ],
    // Its adapter knows none for our sandbox, where its own fails, that leaves its commands no network.
    modes_in_sandbox: Some([None, None, None, Mode::named("agent-full-access")]),
    reads: &["RUST_LOG"],
    own_state: Some(OwnState {
        variable: "CODEX_HOME",
        below: "",
        root: "$CODEX_HOME|~/.codex",
        written: &["sessions/", "thread-writer-locks/", "auth.json"],
        anew: &[
            "state_*",
            "logs_*",
            "goals_*",
            "memories_*",
            "queue_*",
            "thread_history_*",
            "tmp",
            ".tmp",
            "log",
            "cache",
            "shell_snapshots",
            "installation_id",
            "models_cache.json",
            "version.json",
            "history.jsonl",
        ],
    }),
    reader: |before| Box::new(Codex::new(before)),
    behind_launcher: Some(behind_launcher),
    takes_schema: |schema| Taker::Strict.takes(schema),
    images: Some(Images::ByPath),
    takes_servers: true,
    accounting: Accounting::Tokens(CachedInput::Within),
    account: &[
        "CODEX_HOME",
        "CODEX_API_KEY",
        "OPENAI_ORGANIZATION",
        "OPENAI_PROJECT",
        "AZURE_OPENAI_API_KEY",
    ],
    session_log: Some(&LOG),
    hosts: &["api.openai.com", "chatgpt.com", "auth.openai.com"],
    base_urls: &["OPENAI_BASE_URL"],
    session_files: Some(&FILES),
    words: &WORDS,
    protocol: Protocol {
        program: Some("codex-acp"),
        tells_usage: true,
        ..Protocol::plain("@agentclientprotocol/codex-acp@2.6.0", Accounting::Tokens(CachedInput::Beside))
    },
    ..PLAIN
};

const FILES: SessionFiles = SessionFiles {
    root: "$CODEX_HOME|~/.codex",
    patterns: &["sessions/*/*/*/rollout-*{session}.jsonl"],
    project: Project::None,
    own: None,
};

/// Its `total_token_usage` is what `turn.completed` tells.
const LOG: SessionLog = SessionLog {
    place: "$CODEX_HOME/sessions|~/.codex/sessions",
    sign: "token_count",
    count: |line, usage| {
        let [payload] = line.fields(["payload"]);
        let total = payload.field("info").field("total_token_usage");
        if let Some(total) = Usage::told(total, CachedInput::Within) {
            *usage = total;
        }
    },
};

pub(super) const WORDS: Words = Words {
    kinds: &[
        (
            AgentErrorKind::Quota,
            &["hit your usage limit", "usage limit has been reached", "usage_limit_reached"],
        ),
        (AgentErrorKind::ContextLength, &["max_output_tokens"]),
        // Codex uses this phrase for any failure of its service.
        (AgentErrorKind::Overloaded, &["experiencing high demand"]),
    ],
    unknown_session: &["no rollout found for thread", "thread/resume failed"],
    refused: &["patch rejected", "rejected by user approval settings"],
    refused_aside: &["codex_sandboxing::violation: ", "codex_core::tools::router: error="],
    ..Words::NONE
};

/// Longest value of a setting that is passed as an argument. The system allows 128 KiB for one argument with its name and its
/// end.
const MAX_VALUE_BYTES: usize = 131_000;

struct Codex {
    before: Usage,
    counted: Option<Usage>,
}

impl Codex {
    fn new(before: Option<Usage>) -> Self {
        Codex { before: before.unwrap_or_default(), counted: None }
    }
}

impl Reader for Codex {
    fn line(&mut self, line: Line, digest: &mut Digest) -> bool {
        const NAMES: [&str; 7] = ["type", "item", "thread_id", "session_id", "usage", "message", "error"];
        let [kind, item, thread, session, usage, message, error] = line.fields(NAMES);
        match kind.word() {
            // The second is what it was called before threads had names.
            b"thread.started" | b"session.created" => {
                digest.session(&thread.text().or(session.text()).unwrap_or_default())
            }
            b"turn.started" => digest.reopen(),
            b"item.started" => item_started(item, digest),
            b"item.updated" => digest.progress(),
            b"item.completed" => item_completed(item, digest),
            b"turn.completed" => {
                if let Some(total) = Usage::told(usage, CachedInput::Within) {
                    self.counted = Some(total);
                    digest.usage_total(total.since(self.before));
                }
                digest.end(true, None);
            }
            b"turn.failed" => {
                let words =
                    error.field("message").text().or(error.text()).unwrap_or("the turn failed".into());
                digest.end(false, Some(WORDS.failure(None, words)));
            }
            b"error" => {
                let failure = WORDS.failure(None, message.text().unwrap_or("unknown error".into()));
                let words = failure.message.to_ascii_lowercase();
                if words.starts_with("reconnecting") || words.contains("retrying") {
                    digest.retry(failure);
                } else {
                    digest.error(failure);
                }
            }
            _ => return kind.is_text(),
        }
        true
    }

    fn counted(&self) -> Option<Usage> {
        self.counted
    }
}

fn item_started(item: Json, digest: &mut Digest) {
    let [kind, id] = item.fields(["type", "id"]);
    let kind = kind_of(item, kind);
    if is_tool(kind.word()) {
        digest.model_speaks();
        digest.tool_start(&id.text().unwrap_or_default(), &tool_name(item, kind), || tool_input(item, kind));
    }
}

fn item_completed(item: Json, digest: &mut Digest) {
    const NAMES: [&str; 9] =
        ["type", "id", "text", "message", "status", "exit_code", "aggregated_output", "result", "error"];
    let [kind, id, text, message, status, exit_code, output, result, error] = item.fields(NAMES);
    let kind = kind_of(item, kind);
    match kind.word() {
        // A plan is the answer of a turn that was to bring one.
        b"agent_message" | b"assistant_message" | b"plan" => {
            digest.model_speaks();
            digest.text(None, &text.text().unwrap_or_default());
        }
        b"reasoning" => {
            digest.model_speaks();
            digest.reasoning(&text.text().unwrap_or_default(), false);
        }
        b"error" => digest.warning(&message.text().unwrap_or_default()),
        word if is_tool(word) => {
            let id = id.text().unwrap_or_default();
            // Some kinds of tools are told only when they are done.
            digest.model_speaks();
            digest.tool_start(&id, &tool_name(item, kind), || tool_input(item, kind));
            let exit_code = exit_code.whole();
            let is_error =
                matches!(status.word(), b"failed" | b"declined") || exit_code.is_some_and(|code| code != 0);
            digest.tool_end(&id, exit_code, is_error, || {
                let failed = || error.field("message").text().or(error.text()).map(|text| text.into_owned());
                let answered = || text_of(result.field("content")).or_else(|| text_of(result));
                let raw = || result.is_present().then(|| result.raw().into_owned());
                text_of(output).or_else(answered).or_else(raw).or_else(failed)
            });
        }
        _ => digest.progress(),
    }
}

/// The item's type. Older versions put it into the field `item_type`.
fn kind_of<'a>(item: Json<'a>, kind: Json<'a>) -> Json<'a> {
    if kind.is_text() { kind } else { item.field("item_type") }
}

fn is_tool(kind: &[u8]) -> bool {
    matches!(
        kind,
        b"command_execution" | b"file_change" | b"mcp_tool_call" | b"web_search" | b"collab_tool_call"
    )
}

fn tool_name(item: Json, kind: Json) -> String {
    let [server, tool] = item.fields(["server", "tool"]);
    match (server.text(), tool.text()) {
        (Some(server), Some(tool)) => format!("{server}.{tool}"),
        (None, Some(tool)) => tool.into_owned(),
        _ => kind.text().unwrap_or_default().into_owned(),
    }
}

fn tool_input(item: Json, kind: Json) -> Value {
    // Without those that are absent.
    let given = |names: &[&str]| -> Value {
        let fields = names.iter().map(|name| (*name, item.field(name)));
        fields
            .filter(|(_, value)| value.is_present())
            .map(|(name, value)| (name.to_owned(), value.build()))
            .collect()
    };
    match kind.word() {
        b"command_execution" => json!({ "command": item.field("command").build() }),
        b"file_change" => json!({ "changes": item.field("changes").build() }),
        b"web_search" => given(&["query", "action"]),
        b"collab_tool_call" => given(&["prompt", "receiver_thread_ids"]),
        _ => item.field("arguments").build(),
    }
}

/// Holds the turn by the CLI's own sandbox for commands; the user's settings and rules that would loosen it are ignored. Its file
/// sandbox can't be nested in another one, so in our sandbox ours restricts the files. Its network filter can be nested, so its
/// commands have no network, even if our sandbox grants it to the CLI itself. Files in the working directory that its sandbox
/// leaves read-only are restored after the turn.
fn hold(wanted: &Wanted, launch: &mut Launch) -> Result<(), Error> {
    unallowable(
        &wanted.allow,
        "codex runs any command, within its own sandbox, and cannot be limited to some commands: leave `allow` out, or use another provider",
    )?;
    if wanted.permission == Level::Auto {
        launch.args(["--dangerously-bypass-approvals-and-sandbox"]);
        return Ok(());
    }
    // `exec resume` has no --sandbox: the settings work for both.
    let settings: &[&str] = match wanted.permission {
        _ if wanted.is_sandboxed => &[
            "default_permissions=\"sheepdog\"",
            "permissions.sheepdog.filesystem={\":root\"=\"write\"}",
            "permissions.sheepdog.network={enabled=false}",
        ],
        Level::Plan => &["sandbox_mode=\"read-only\""],
        _ => &[
            "sandbox_mode=\"workspace-write\"",
            "sandbox_workspace_write.writable_roots=[]",
            "sandbox_workspace_write.exclude_slash_tmp=true",
            "sandbox_workspace_write.network_access=false",
        ],
    };
    for setting in ["approval_policy=\"never\""].iter().chain(settings) {
        launch.args(["-c", setting]);
    }
    launch.args(["--ignore-rules"]);
    if wanted.is_sandboxed && wanted.permission == Level::Edit {
        launch.restored = &[".git/", ".codex"];
    }
    // A command that its sandbox stops at once is told on stderr alone. Its commands see this too: the user's own counts.
    if wanted.variables.is_empty() {
        launch.set("RUST_LOG", "error,codex_sandboxing::violation=warn");
    }
    Ok(())
}

/// `codex exec [resume] --json ... -- PROMPT`; a long prompt comes by stdin as `-`.
fn launch(wanted: &Wanted) -> Result<Launch, Error> {
    let mut launch = Launch::new(wanted);
    launch.args(["exec"]);
    if wanted.resume.is_some() {
        launch.args(["resume"]);
    }
    launch.args(["--json", "--skip-git-repo-check"]);
    hold(wanted, &mut launch)?;
    // With analytics on and no net, it lingers for 5 s after its answer.
    for setting in ["analytics.enabled=false", "feedback.enabled=false", "check_for_update_on_startup=false"]
    {
        launch.args(["-c", setting]);
    }
    launch.option("--model", wanted.model.as_deref());
    if let Some(system_prompt) = &wanted.system_prompt {
        let value = toml_string(system_prompt).ok_or_else(|| {
            let problem =
                format!("is longer than {MAX_VALUE_BYTES} bytes once its quotes and controls are escaped");
            Error::invalid_option("systemPrompt", problem)
        })?;
        launch.args(["-c", &format!("developer_instructions={value}")]);
    }
    launch.option("--output-schema", wanted.schema_file.as_deref());
    for Image { path: image, .. } in &wanted.images {
        if image.contains(',') {
            let problem = format!("codex cannot take a path with a comma: {image}");
            return Err(Error::invalid_option("images", problem));
        }
        launch.args([&format!("--image={image}")]);
    }
    codex_servers::add(&wanted.mcp_servers, &mut launch)?;
    launch.cannot_limit(wanted, &["cliTools", "maxTurns"]);
    launch.extra_args();
    if let Some(session) = &wanted.resume {
        launch.args([session]);
    }
    launch.prompt_last(&["-"]);
    Ok(launch)
}

/// A TOML basic string: JSON's escapes are a subset of TOML's, save for the delete character. Where they make it longer than an
/// argument may be, a literal string, which has none; `None` when that can't hold it.
fn toml_string(text: &str) -> Option<String> {
    let basic = Value::from(text).to_string().replace('\u{7f}', "\\u007f");
    if basic.len() <= MAX_VALUE_BYTES {
        return Some(basic);
    }
    let is_literal = |character: char| !character.is_control() || matches!(character, '\n' | '\t');
    let fits = text.chars().all(is_literal) && !text.contains("'''") && !text.ends_with('\'');
    (fits && text.len() <= MAX_VALUE_BYTES).then(|| format!("'''\n{text}'''"))
}

fn behind_launcher(file: &Path) -> Option<Program> {
    let root = package(file, "@openai", "codex")?;
    let (system, machine) = npm_platform();
    let triple = match (system, machine) {
        ("darwin", "arm64") => "aarch64-apple-darwin",
        ("darwin", _) => "x86_64-apple-darwin",
        ("win32", "arm64") => "aarch64-pc-windows-msvc",
        ("win32", _) => "x86_64-pc-windows-msvc",
        (_, "arm64") => "aarch64-unknown-linux-musl",
        _ => "x86_64-unknown-linux-musl",
    };
    let mut roots = siblings(root, "@openai", &format!("codex-{system}-{machine}"));
    roots.push(root.to_owned());
    for root in roots {
        let vendor = root.join("vendor").join(triple);
        let file = ["bin/codex", "codex/codex"]
            .into_iter()
            .flat_map(|file| program_files(vendor.join(file)))
            .find(|file| is_executable(file));
        if let Some(file) = file {
            let tools = ["codex-path", "path"]
                .map(|folder| vendor.join(folder))
                .into_iter()
                .find(|folder| folder.is_dir());
            return Some(Program {
                command: file.to_string_lossy().into_owned(),
                environment: vec![("CODEX_MANAGED_BY_NPM".into(), "1".into())],
                path_before: tools.map(|folder| folder.to_string_lossy().into_owned()),
                ..Program::default()
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_of_quotes_is_no_longer_than_it_is() {
        assert_eq!(toml_string("a\"b\u{7f}").as_deref(), Some("\"a\\\"b\\u007f\""));
        let quotes = "\"".repeat(99_000);
        assert_eq!(toml_string(&quotes), Some(format!("'''\n{quotes}'''")));
        for text in
            [format!("{quotes}'''"), format!("{quotes}'"), format!("{quotes}\u{1}"), "\n".repeat(131_001)]
        {
            assert_eq!(toml_string(&text), None);
        }
    }

    #[test]
    fn is_given_only_a_schema_that_its_service_takes() {
        let open = json!({"type":"object","properties":{"a":{"type":"integer"}}});
        let closed = json!({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false});
        assert!(!Taker::Strict.takes(&open));
        assert!(Taker::Strict.takes(&closed));
        assert!(!Taker::Strict.takes(&json!({"type":"array","items":open})));
        assert!(
            !Taker::Strict.takes(&json!({"type":"array","items":{"type":"string"}})),
            "the root is no object"
        );
        let mut mixed = closed.clone();
        mixed["properties"]["a"] = json!({"oneOf":[{"type":"integer"},{"type":"null"}]});
        assert!(!Taker::Strict.takes(&mixed));
    }
}
