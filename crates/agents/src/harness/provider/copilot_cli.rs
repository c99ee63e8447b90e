//! PURE: GitHub Copilot CLI, `copilot --output-format json`.
//!
//! Only the last line has the session id, so new sessions are given one. Events with an `agentId` are a sub-agent's. A run that
//! was told to stop prints `abort` and then reports `exitCode` 0. Tokens are not reported.

use super::message::text_of;
use super::other::PLAIN;
use super::protocol::{AgentLog, Logged, Protocol, aside, last_line_of, retry};
use super::{Descriptor, Images, OwnState, Project, Reader, SessionFiles, SessionPolicy};
use crate::harness::event::{AgentErrorKind, Usage};
use crate::harness::evidence::digest::Digest;
use crate::harness::evidence::failure::{Failure, Words};
use crate::harness::launch::package::{Program, npm_platform, package, siblings};
use crate::harness::launch::{Launch, Wanted};
use crate::harness::level::allow::refuse;
use crate::harness::level::{Level, Mode, allowable_in_sandbox};
use crate::harness::mcp_server::{McpServer, Replaced};
use crate::harness::spending::{Accounting, CachedInput};
use ground::error::Error;
use ground::json::{Json, Line};
use ground::os::{is_executable, program_files};
use std::path::Path;

pub(super) const DESCRIPTOR: Descriptor = Descriptor {
    title: "GitHub Copilot CLI",
    program: "copilot",
    install: "npm install -g @github/copilot",
    launch,
    hold,
    modes: MODES,
    switches: &["COPILOT_ALLOW_ALL"],
    state: &["$XDG_CACHE_HOME/copilot|~/.cache/copilot"],
    own_state: Some(OwnState {
        variable: "COPILOT_HOME",
        below: "",
        root: "$COPILOT_HOME|~/.copilot",
        written: &["session-state/", "logs/"],
        anew: &["session-store.db*", "command-history-state.json", "restart"],
    }),
    reader: |_| Box::new(Copilot::default()),
    behind_launcher: Some(behind_launcher),
    images: Some(Images::ByPath),
    takes_servers: true,
    session: SessionPolicy::Chosen,
    accounting: Accounting::Nothing,
    account: &[
        "COPILOT_HOME",
        "COPILOT_GITHUB_TOKEN",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "COPILOT_PROVIDER_BASE_URL",
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_BEARER_TOKEN",
        "COPILOT_PROVIDER_TYPE",
        "GH_HOST",
        "GH_CONFIG_DIR",
    ],
    hosts: &["api.github.com", "github.com", "*.githubcopilot.com"],
    base_urls: &["COPILOT_PROVIDER_BASE_URL"],
    session_files: Some(&FILES),
    words: &WORDS,
    protocol: Protocol {
        args: &["--acp"],
        replaced: Replaced::Signs,
        model_flag: Some("--model"),
        tells_usage: true,
        error_prefix: Some("Error: "),
        asides: &[
            retry("Info: Request failed due to ", "Retrying..."),
            aside("Info: Operation cancelled by user", ""),
        ],
        log: Some(&LOG),
        counts_on: true,
        give_programs: Some(give_file),
        ..Protocol::plain("@github/copilot@1.0.102", Accounting::Tokens(CachedInput::Within))
    },
    ..PLAIN
};

const LOG: AgentLog = AgentLog {
    place: "$COPILOT_HOME/session-state|~/.copilot/session-state",
    file: |folder, session| {
        // The agent names the session: no name leads out of the folder.
        let is_name = Path::new(session).file_name().is_some_and(|name| name == session);
        is_name.then(|| folder.join(session).join("events.jsonl"))
    },
    told: logged,
};

/// Over the protocol, Copilot sends an error as if it were an answer, and its model could send such a text too. Its log has
/// `{"type":"session.error","data":{"errorType":"rate_limit","message":"429 ...","statusCode":429}}`, if nothing was said after it.
fn logged(log: &str) -> Option<Logged> {
    const SAID: [&str; 3] = ["user.message", "assistant.message", "session.error"];
    let last = last_line_of(log, |line| line["type"].as_str().is_some_and(|word| SAID.contains(&word)))?;
    (last["type"] == "session.error").then(|| Logged::failed(&last["data"]["message"]))
}

const FILES: SessionFiles = SessionFiles {
    root: "$COPILOT_HOME|~/.copilot",
    patterns: &["session-state/{session}/**"],
    project: Project::None,
    own: None,
};

pub(super) const WORDS: Words = Words {
    kinds: &[
        (AgentErrorKind::Quota, &["no quota", "premium request", "quota_exceeded"]),
        // In its own words, after it has tried to shorten the conversation.
        (AgentErrorKind::ContextLength, &["rejected the prompt as too long"]),
    ],
    unknown_session: &["no session, task, or name matched"],
    refused: &["permission to run this tool was denied", "command blocked"],
    ..Words::NONE
};

#[derive(Default)]
struct Copilot {
    is_aborted: bool,
    /// Failure of the last model call that failed.
    call: Option<Failure>,
    /// Failure that the last session error reported.
    session_error: Option<Failure>,
    is_reasoning_told: bool,
}

impl Reader for Copilot {
    fn line(&mut self, line: Line, digest: &mut Digest) -> bool {
        let [kind, data, agent] = line.fields(["type", "data", "agentId"]);
        if !kind.is_text() {
            return false;
        }
        // Older versions name the tool call that a sub-agent works for.
        let is_main = || !agent.is_present() && !data.field("parentToolCallId").is_present();
        match kind.word() {
            b"assistant.message_delta" if is_main() => {
                digest.text_delta(&data.field("deltaContent").text().unwrap_or_default())
            }
            b"assistant.message_start" if is_main() => {
                self.is_reasoning_told = false;
                digest.message_begins();
            }
            b"assistant.message" if is_main() => self.message(data, digest),
            b"assistant.reasoning_delta" if is_main() => {
                self.is_reasoning_told = true;
                digest.reasoning(&data.field("deltaContent").text().unwrap_or_default(), true);
            }
            b"assistant.reasoning" if is_main() => self.reasoning(data.field("content"), digest),
            b"assistant.tool_call_delta"
            | b"tool.execution_partial_result"
            | b"tool.execution_progress"
            | b"tool.shell_output" => {
                digest.progress();
            }
            b"tool.execution_start" => tool_start(data, digest),
            b"session.mcp_servers_loaded" => digest.tool_servers(data.field("servers")),
            b"tool.execution_complete" => tool_complete(data, digest),
            b"assistant.usage" => {
                digest.usage(Usage::told(data, CachedInput::Within).unwrap_or_default());
            }
            b"model.call_failure" => {
                let [status, message] = data.fields(["statusCode", "errorMessage"]);
                self.call = Some(
                    WORDS.failure(status.whole(), message.text().unwrap_or("the model call failed".into())),
                );
            }
            b"assistant.turn_retry" => self.retry(data, digest),
            b"session.start" => digest.session(&data.field("sessionId").text().unwrap_or_default()),
            b"session.warning" => digest.warning(&data.field("message").text().unwrap_or_default()),
            b"session.error" if is_main() => {
                let failure = session_error(data);
                digest.error(failure.clone());
                self.session_error = Some(failure);
            }
            b"session.compaction_complete" if data.field("success").flag() == Some(false) => {
                let reason = data.field("error").text().unwrap_or("no reason was given".into());
                digest.warning(&format!("the conversation could not be compacted: {reason}"));
            }
            b"abort" if is_main() => self.is_aborted = true,
            b"assistant.idle" if is_main() => self.is_aborted |= data.field("aborted").flag() == Some(true),
            b"result" => self.result(line, digest),
            _ => {}
        }
        true
    }
}

impl Copilot {
    fn retry(&mut self, data: Json, digest: &mut Digest) {
        digest.message_begins();
        let reason = data.field("reason").text().unwrap_or("the model call failed".into()).into_owned();
        digest.retry(match self.call.take() {
            None => WORDS.failure(None, reason),
            Some(call) => Failure { message: format!("{reason}: {}", call.message), ..call },
        });
    }

    fn message(&mut self, data: Json, digest: &mut Digest) {
        const NAMES: [&str; 6] =
            ["content", "model", "reasoningText", "chunkIndex", "chunkCount", "apiCallId"];
        let [content, model, reasoning, chunk, chunks, call] = data.fields(NAMES);
        self.session_error = None;
        self.call = None;
        digest.model(&model.text().unwrap_or_default());
        // One answer of the model may come as several messages, parted where it thought in between.
        let key = call.text().filter(|_| chunks.is_present());
        if chunk.count().unwrap_or(0) == 0 {
            digest.model_answered();
        }
        self.reasoning(reasoning, digest);
        digest.text(key.as_deref(), &content.text().unwrap_or_default());
    }

    fn reasoning(&mut self, content: Json, digest: &mut Digest) {
        if let (false, Some(text)) = (self.is_reasoning_told, content.text()) {
            self.is_reasoning_told = true;
            digest.reasoning(&text, false);
        }
    }

    fn result(&mut self, line: Line, digest: &mut Digest) {
        let [session, exit_code] = line.fields(["sessionId", "exitCode"]);
        digest.session(&session.text().unwrap_or_default());
        let exit_code = exit_code.whole();
        if self.is_aborted {
            return digest.end(false, Some(Failure::new(AgentErrorKind::Unknown, "the turn was aborted")));
        }
        // A complete result line has an exit code. A failure after the last answer outweighs a good one.
        let Some(exit_code) = exit_code else { return };
        if exit_code == 0 && self.session_error.is_none() {
            return digest.end(true, None);
        }
        let failure = self.session_error.take().or(self.call.take());
        let failure = failure.unwrap_or_else(|| {
            Failure::new(
                AgentErrorKind::Unknown,
                format!("the agent ended its turn with exit code {}", exit_code),
            )
        });
        digest.end(false, Some(failure));
    }
}

fn session_error(data: Json) -> Failure {
    let [kind, message, status] = data.fields(["errorType", "message", "statusCode"]);
    let mut failure = WORDS.failure(status.whole(), message.text().unwrap_or("the session failed".into()));
    if status.whole().is_none() {
        failure.kind = match kind.word() {
            b"authentication" => AgentErrorKind::Auth,
            b"quota" => AgentErrorKind::Quota,
            b"rate_limit" => AgentErrorKind::RateLimit,
            b"context_limit" => AgentErrorKind::ContextLength,
            _ => failure.kind,
        };
    }
    failure
}

fn tool_start(data: Json, digest: &mut Digest) {
    let [id, name, input] = data.fields(["toolCallId", "toolName", "arguments"]);
    digest.tool_start(&id.text().unwrap_or_default(), &name.text().unwrap_or_default(), || input.build());
}

fn tool_complete(data: Json, digest: &mut Digest) {
    let [id, success, shell, result, error] =
        data.fields(["toolCallId", "success", "shellExecution", "result", "error"]);
    let exit_code = shell.field("exitCode").whole();
    let is_error = success.flag() == Some(false) || exit_code.is_some_and(|code| code != 0);
    digest.tool_end(&id.text().unwrap_or_default(), exit_code, is_error, || {
        text_of(result.field("content")).or_else(|| text_of(error.field("message")))
    });
}

const MODES: [Option<Mode>; 4] = {
    const AGENT: &str = "https://agentclientprotocol.com/protocol/session-modes#agent";
    [
        Mode::named("https://agentclientprotocol.com/protocol/session-modes#plan"),
        Mode::named(AGENT),
        Mode::named(AGENT),
        Some(Mode { args: &["--allow-all-tools", "--allow-all-paths"], ..Mode::plain(AGENT) }),
    ]
};

/// The CLI refuses tools that are not allowed when it runs without a terminal. A denial outweighs any allowance. The CLI itself
/// keeps file access to its folder and the temporary one.
fn hold(wanted: &Wanted, launch: &mut Launch) -> Result<(), Error> {
    allowable_in_sandbox(&wanted.allow, wanted.is_sandboxed)?;
    match wanted.permission {
        Level::Plan => launch.args(["--deny-tool=write", "--deny-tool=shell"]),
        Level::Edit | Level::Ask if wanted.allow.is_empty() => {
            launch.args(["--allow-tool=write", "--deny-tool=shell"]);
        }
        Level::Edit | Level::Ask => {
            launch.args(["--allow-tool=write"]);
            for (index, glob) in wanted.allow.iter().enumerate() {
                launch.args([format!("--allow-tool=shell({}:*)", command_of(index, glob)?)]);
            }
        }
        Level::Auto => launch.args(["--allow-all-tools", "--allow-all-paths"]),
    }
    Ok(())
}

/// By a file, because values of servers may be secret and others can read arguments. At "edit" nobody could be asked about the tools
/// of the servers, which the caller has chosen. The flag that allows them also allows kinds of tools, by their names.
fn give_servers(wanted: &Wanted, launch: &mut Launch) -> Result<(), Error> {
    const KINDS: [&str; 6] = ["shell", "write", "read", "url", "memory", "custom-tool"];
    if wanted.mcp_servers.is_empty() {
        return Ok(());
    }
    for (index, server) in wanted.mcp_servers.iter().enumerate() {
        if KINDS.iter().any(|kind| server.name().eq_ignore_ascii_case(kind)) {
            let problem =
                format!("copilot has tools of this name itself, choose another: {:?}", server.name());
            return Err(Error::invalid_option(&format!("mcpServers[{index}].name"), problem));
        }
    }
    give_file(&wanted.mcp_servers, launch);
    if matches!(wanted.permission, Level::Edit | Level::Ask) {
        for server in &wanted.mcp_servers {
            launch.args([format!("--allow-tool={}", server.name())]);
        }
    }
    Ok(())
}

fn give_file(servers: &[McpServer], launch: &mut Launch) {
    let file = launch.servers_file(servers, Replaced::Signs);
    launch.args([format!("--additional-mcp-config=@{file}")]);
}

/// It knows a command with whatever follows, and nothing else.
fn command_of(index: usize, glob: &str) -> Result<&str, Error> {
    let command = glob.strip_suffix(" *").filter(|command| !command.contains(['*', ':', '@']));
    command.ok_or_else(|| {
        let problem = format!(
            "copilot can only allow a command with any arguments: write {:?} if you mean that",
            format!("{} *", glob.trim_end_matches(['*', ' ']))
        );
        refuse(index, problem)
    })
}

/// `copilot --output-format json ... --prompt=PROMPT`; a long prompt comes by stdin.
fn launch(wanted: &Wanted) -> Result<Launch, Error> {
    let mut launch = Launch::new(wanted);
    launch.args(["--output-format", "json", "--no-auto-update", "--no-ask-user", "--no-color"]);
    hold(wanted, &mut launch)?;
    launch.option("--model", wanted.model.as_deref());
    launch.cannot("cliTools", wanted.cli_tools.as_ref().is_some_and(Vec::is_empty));
    let tools = wanted.cli_tools.as_ref().filter(|tools| !tools.is_empty());
    launch.assign("--available-tools", tools.map(|tools| tools.join(",")));
    match (&wanted.resume, &wanted.session_id) {
        (Some(session), _) => launch.args([&format!("--resume={session}")]),
        (None, Some(session)) => launch.args(["--session-id", session]),
        (None, None) => {}
    }
    launch.cannot("systemPrompt", wanted.system_prompt.is_some());
    launch.cannot_limit(wanted, &["maxTurns"]);
    give_servers(wanted, &mut launch)?;
    launch.args(wanted.images.iter().map(|image| format!("--attachment={}", image.path)));
    launch.prompt_by_flag();
    launch.set("COPILOT_AUTO_UPDATE", "false");
    Ok(launch)
}

fn behind_launcher(file: &Path) -> Option<Program> {
    let root = package(file, "@github", "copilot")?;
    let (system, machine) = npm_platform();
    let names = [format!("copilot-{system}-{machine}"), format!("copilot-{system}musl-{machine}")];
    let file = names
        .iter()
        .flat_map(|name| siblings(root, "@github", name))
        .flat_map(|root| program_files(root.join("copilot")))
        .find(|file| is_executable(file))?;
    Some(Program { command: file.to_string_lossy().into_owned(), ..Program::default() })
}
