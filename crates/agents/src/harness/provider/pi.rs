//! PURE: pi, `pi --mode json`.
//!
//! Every delta repeats the whole message twice: only the delta is read. It exits with 0 whatever happened; `agent_end` comes
//! once per retry, and only the stop reason of the last message before it tells how the turn went. After it the conversation
//! may be compacted, which takes a model call in silence, and the turn goes on if that was to make room for it.

use super::message::text_of;
use super::other::PLAIN;
use super::protocol::{AgentLog, Logged, Protocol, aside, last_line_of, retry};
use super::{Descriptor, Images, OwnState, Project, Reader, SessionFiles, SessionPolicy};
use crate::harness::event::{AgentErrorKind, Usage};
use crate::harness::evidence::digest::Digest;
use crate::harness::evidence::failure::{Failure, Words};
use crate::harness::launch::{Launch, Wanted};
use crate::harness::level::{Level, unallowable, unholdable};
use crate::harness::provider::session_log;
use crate::harness::spending::{Accounting, CachedInput};
use ground::error::Error;
use ground::json::{Json, Line};

pub(super) const DESCRIPTOR: Descriptor = Descriptor {
    title: "pi",
    program: "pi",
    install: "npm install -g @earendil-works/pi-coding-agent",
    launch,
    hold,
    own_state: Some(OwnState {
        variable: "PI_CODING_AGENT_DIR",
        below: "",
        root: "$PI_CODING_AGENT_DIR|~/.pi/agent",
        written: &["sessions/", "auth.json"],
        anew: &["bin"],
    }),
    reader: |_| Box::new(Pi::default()),
    images: Some(Images::ByPath),
    session: SessionPolicy::ByPrefix,
    accounting: Accounting::TokensAndMoney(CachedInput::Beside),
    account: &["PI_CODING_AGENT_DIR"],
    hosts: &["api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"],
    session_files: Some(&FILES),
    words: &WORDS,
    protocol: Protocol {
        program: Some("pi-acp"),
        node: Some((22, 19)),
        asides: &[
            aside("pi v", "---"),
            retry("Retrying (attempt ", "s)..."),
            retry("Retrying...", ""),
            aside("Retry finished, resuming.", ""),
            aside("Context nearing limit, running automatic compaction...", ""),
            aside("Automatic compaction finished; ", "continue the session."),
        ],
        log: Some(&LOG),
        lacks_tools: true,
        ..Protocol::plain("pi-acp@0.0.34 @earendil-works/pi-coding-agent@0.87.1", Accounting::Nothing)
    },
    ..PLAIN
};

const LOG: AgentLog = AgentLog {
    place: "$PI_CODING_AGENT_DIR/sessions|~/.pi/agent/sessions",
    file: session_log::file_of,
    told: logged,
};

/// Pi ends a turn whose model failed like any other, with the text that came before, or with none. Its log has
/// `{"type":"message","message":{"role":"assistant","stopReason":"error","errorMessage":"401: ..."}}`, if nothing was said after it.
fn logged(log: &str) -> Option<Logged> {
    let last = last_line_of(log, |line| line["type"] == "message")?;
    let message = &last["message"];
    match message["stopReason"].as_str().filter(|_| message["role"] == "assistant")? {
        "error" => Some(Logged::failed(&message["errorMessage"])),
        "length" => Some(Logged::Cut),
        _ => None,
    }
}

const FILES: SessionFiles = SessionFiles {
    root: "$PI_CODING_AGENT_DIR|~/.pi/agent",
    patterns: &["sessions/{project}/*_{session}.jsonl"],
    project: Project::Named(project_of),
    // It works where the session says, not where it is started.
    own: Some("cwd"),
};

/// `--work-repo--` for /work/repo.
fn project_of(cwd: &str) -> String {
    format!("--{}--", cwd.trim_start_matches('/').replace(['/', ':'], "-"))
}

pub(super) const WORDS: Words = Words {
    // The first line of its stderr; the last ones are paths of its documentation.
    kinds: &[(AgentErrorKind::Auth, &["no api key found"])],
    unknown_session: &["no session found matching"],
    refused: &["tool bash not found", "tool write not found", "tool edit not found"],
    ..Words::NONE
};

const COMPACTION: &str = "compaction";

#[derive(Default)]
struct Pi {
    /// The end of the model's last message; `None` before the first one.
    last: Option<Ending>,
    is_thinking_told: bool,
    /// The agent has ended, and has not begun again.
    is_over: bool,
}

enum Ending {
    Answered,
    Failed(Failure),
}

impl Reader for Pi {
    fn line(&mut self, line: Line, digest: &mut Digest) -> bool {
        const NAMES: [&str; 4] = ["type", "assistantMessageEvent", "message", "id"];
        let [kind, update, message, id] = line.fields(NAMES);
        match kind.word() {
            b"message_update" => self.update(update, digest),
            b"session" => digest.session(&id.text().unwrap_or_default()),
            b"agent_start" => {
                digest.reopen();
                self.is_over = false;
            }
            b"message_start" if message.field("role").is("assistant") => {
                self.is_thinking_told = false;
                digest.message_begins();
            }
            b"message_end" if message.field("role").is("assistant") => self.message_end(message, digest),
            b"tool_execution_start" => {
                let [id, name, input] = line.fields(["toolCallId", "toolName", "args"]);
                digest.tool_start(&id.text().unwrap_or_default(), &name.text().unwrap_or_default(), || {
                    input.build()
                });
            }
            b"tool_execution_update" => digest.progress(),
            b"tool_execution_end" => {
                let [id, result, is_error] = line.fields(["toolCallId", "result", "isError"]);
                let is_error = is_error.flag() == Some(true);
                let content = result.field("content");
                let exit_code =
                    if is_error { text_of(content).as_deref().and_then(exit_code_in) } else { None };
                digest.tool_end(&id.text().unwrap_or_default(), exit_code, is_error, || text_of(content));
            }
            b"auto_retry_start" => {
                let [message, attempt, most] = line.fields(["errorMessage", "attempt", "maxAttempts"]);
                let of = most.count().map(|most| format!(" of {most}")).unwrap_or_default();
                let cause = message.text().unwrap_or("the model call failed".into());
                digest.reopen();
                digest.message_begins();
                self.last = None;
                digest.retry(Failure {
                    message: format!("retry {}{of}: {cause}", attempt.count().unwrap_or(1)),
                    ..WORDS.failure(None, &*cause)
                });
            }
            b"auto_retry_end" => {
                let [success, error] = line.fields(["success", "finalError"]);
                if success.flag() == Some(false) {
                    let words = error.text().unwrap_or("every retry failed".into());
                    digest.end(false, Some(WORDS.failure(None, words)));
                }
            }
            b"agent_end" => self.agent_end(line, digest),
            // Compaction makes room for the rest of the turn, or for the next one.
            b"compaction_start" => {
                digest.background_begins(COMPACTION, "the compaction of its conversation", false)
            }
            b"compaction_end" => self.compaction_end(line, digest),
            _ => return kind.is_text(),
        }
        true
    }
}

impl Pi {
    fn update(&mut self, update: Json, digest: &mut Digest) {
        let [kind, delta] = update.fields(["type", "delta"]);
        match kind.word() {
            b"text_delta" => digest.text_delta(&delta.text().unwrap_or_default()),
            b"thinking_delta" => {
                self.is_thinking_told = true;
                digest.reasoning(&delta.text().unwrap_or_default(), true);
            }
            _ => digest.progress(),
        }
    }

    fn message_end(&mut self, message: Json, digest: &mut Digest) {
        let [content, usage, model, stop, error] =
            message.fields(["content", "usage", "model", "stopReason", "errorMessage"]);
        digest.model(&model.text().unwrap_or_default());
        let used = usage_of(usage);
        if let Some(used) = used {
            digest.usage(used);
        }
        let mut text = String::new();
        let mut parts = 0;
        for part in content.items() {
            let [kind, words, thinking] = part.fields(["type", "text", "thinking"]);
            parts += 1;
            match kind.word() {
                b"text" => text.push_str(&words.text().unwrap_or_default()),
                b"thinking" if !self.is_thinking_told => {
                    digest.reasoning(&thinking.text().unwrap_or_default(), false)
                }
                _ => {}
            }
        }
        digest.text(None, &text);
        let is_silent = used.is_some_and(|used| used.input_tokens == 0 && used.output_tokens == 0);
        self.last = Some(match stop.word() {
            b"error" | b"aborted" => {
                let words = error.text().unwrap_or(
                    if stop.is("aborted") { "the turn was aborted" } else { "the model call failed" }.into(),
                );
                Ending::Failed(WORDS.failure(None, words))
            }
            // A body that is no model's answer ends like one, with nothing in it.
            _ if parts == 0 && is_silent => Ending::Failed(Failure::new(
                AgentErrorKind::Server,
                "the model answered with nothing: no text, no tool call, no tokens",
            )),
            _ => {
                digest.model_answered();
                if stop.is("length") {
                    digest.warning("the answer was cut at the model's limit of output tokens");
                }
                if is_silent && stop.is("stop") {
                    digest.warning("the model's stream ended without its usage: the answer may be cut");
                }
                Ending::Answered
            }
        });
    }

    /// After compaction the previous end of turn counts again, unless the turn continues.
    fn compaction_end(&mut self, line: Line, digest: &mut Digest) {
        let [will_retry, error] = line.fields(["willRetry", "errorMessage"]);
        if let Some(words) = error.text().filter(|words| !words.is_empty()) {
            digest.warning(&words);
        }
        digest.background_ends(COMPACTION, false);
        if will_retry.flag() == Some(true) {
            digest.reopen();
            self.last = None;
        }
    }

    fn agent_end(&mut self, line: Line, digest: &mut Digest) {
        self.is_over = true;
        if self.last.is_none() {
            let [messages] = line.fields(["messages"]);
            if let Some(message) =
                messages.items().filter(|message| message.field("role").is("assistant")).last()
            {
                self.message_end(message, digest);
            }
        }
        self.end(digest);
    }

    fn end(&self, digest: &mut Digest) {
        match &self.last {
            Some(Ending::Answered) => digest.end(true, None),
            Some(Ending::Failed(failure)) => digest.end(false, Some(failure.clone())),
            None => digest.end(
                false,
                Some(Failure::new(AgentErrorKind::Unknown, "the agent ended without a message of the model")),
            ),
        }
    }
}

fn usage_of(usage: Json) -> Option<Usage> {
    let cost_usd = usage.at("cost.total").amount();
    Some(Usage { cost_usd, ..Usage::told(usage, CachedInput::Beside)? })
}

/// "Command exited with code 3": the last line of a shell tool that failed.
fn exit_code_in(output: &str) -> Option<i64> {
    output.lines().next_back()?.strip_prefix("Command exited with code ")?.trim().parse().ok()
}

/// Holds the turn by its tools, because pi asks nobody: tools that only read, or tools without a shell, which write where the
/// kernel lets them.
fn hold(wanted: &Wanted, launch: &mut Launch) -> Result<(), Error> {
    const READING: &[&str] = &["read", "grep", "find", "ls"];
    const WRITING: &[&str] = &["read", "edit", "write", "grep", "find", "ls"];
    unallowable(
        &wanted.allow,
        "pi cannot be limited to some commands, because it runs all of them or none: leave `allow` out, or use another provider",
    )?;
    let offered = match wanted.permission {
        Level::Plan => READING,
        Level::Edit | Level::Ask if wanted.is_sandboxed => WRITING,
        Level::Edit | Level::Ask => {
            let why = "pi never asks, and writes wherever its user may. Pass `sandbox: \"workspace\"`, or `permission` \"plan\" or \"auto\"";
            return Err(unholdable(wanted.permission, why));
        }
        Level::Auto => {
            match &wanted.cli_tools {
                Some(tools) if tools.is_empty() => launch.args(["--no-tools"]),
                Some(tools) => launch.args(["--tools", &tools.join(",")]),
                None => {}
            }
            return Ok(());
        }
    };
    let is_wanted =
        |tool: &&str| wanted.cli_tools.as_ref().is_none_or(|tools| tools.iter().any(|name| name == tool));
    let tools: Vec<_> = offered.iter().copied().filter(is_wanted).collect();
    if tools.is_empty() {
        launch.args(["--no-tools"]);
    } else {
        launch.args(["--tools", &tools.join(",")]);
    }
    Ok(())
}

/// `pi --mode json ... PROMPT`. It knows no `--`, and takes a leading `@` for a file: such a prompt comes by stdin, as a
/// long one does.
fn launch(wanted: &Wanted) -> Result<Launch, Error> {
    let mut launch = Launch::new(wanted);
    launch.args(["--mode", "json"]);
    launch.option("--model", wanted.model.as_deref());
    launch.option("--session", wanted.resume.as_deref());
    if let Some(system_prompt) = &wanted.system_prompt {
        // It takes a text that is the path of a file for that file, so it gets the path of one.
        let file = launch.file("system.md", system_prompt);
        launch.args(["--append-system-prompt", &file]);
    }
    hold(wanted, &mut launch)?;
    launch.cannot_limit(wanted, &["maxTurns"]);
    launch.args(wanted.images.iter().map(|image| format!("@{}", image.path)));
    launch.extra_args();
    launch.prompt_is_no_command();
    if wanted.is_long() || wanted.prompt.starts_with(['-', '@']) {
        launch.args(["-p"]);
        launch.prompt_by_stdin();
    } else {
        launch.prompt_as_argument();
    }
    Ok(launch)
}
