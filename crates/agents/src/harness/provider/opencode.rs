//! PURE: opencode, `opencode run --format json`.
//!
//! Its end of turn is `done`. Older versions lack it: there a `step_finish` with reason `stop` is the last step. Tools are
//! reported when they are done. A model that answers with rubbish makes it loop for ever, one empty step after the other.

use super::message::text_of;
use super::other::PLAIN;
use super::protocol::Protocol;
use super::{Descriptor, Images, Reader};
use crate::harness::event::{AgentErrorKind, Usage};
use crate::harness::evidence::digest::Digest;
use crate::harness::evidence::failure::{Failure, Words};
use crate::harness::evidence::reset::Reset;
use crate::harness::launch::{Launch, Wanted};
use crate::harness::level::{Level, MakeMode, Mode, allowable_in_sandbox};
use crate::harness::mcp_server::{McpServer, object};
use crate::harness::spending::{Accounting, CachedInput};
use ground::error::Error;
use ground::json::object::put;
use ground::json::{self, Json, Line};
use serde_json::{Map, Value, json};

pub(super) const DESCRIPTOR: Descriptor = Descriptor {
    title: "opencode",
    program: "opencode",
    install: "npm install -g opencode-ai",
    launch,
    hold,
    modes: MODES,
    switches: &["OPENCODE_PERMISSION"],
    reads: &["OPENCODE_CONFIG_CONTENT"],
    state: &[
        "$XDG_DATA_HOME/opencode|~/.local/share/opencode",
        "$XDG_STATE_HOME/opencode|~/.local/state/opencode",
        "$XDG_CACHE_HOME/opencode|~/.cache/opencode",
        // It fails where this is missing.
        "$XDG_CONFIG_HOME/opencode/|~/.config/opencode/",
    ],
    reader: |_| Box::new(Opencode::default()),
    images: Some(Images::ByPath),
    takes_servers: true,
    accounting: Accounting::TokensAndMoney(CachedInput::Beside),
    account: &[
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_DIR",
        "OPENCODE_CONFIG_CONTENT",
        "OPENCODE_AUTH_CONTENT",
        "OPENCODE_API_KEY",
    ],
    hosts: &["models.dev", "opencode.ai", "api.anthropic.com", "api.openai.com"],
    words: &WORDS,
    protocol: Protocol {
        args: &["acp"],
        ..Protocol::plain("opencode-ai@1.18.33", Accounting::Tokens(CachedInput::Beside))
    },
    ..PLAIN
};

pub(super) const WORDS: Words = Words {
    unknown_session: &["session not found"],
    refused: &["rule which prevents you", "unavailable tool"],
    ..Words::NONE
};

/// A conversation that does not fit after so many compactions never will.
const MAX_CONTINUED: u32 = 5;

#[derive(Default)]
struct Opencode {
    /// Whether the current step produced anything.
    is_fruitful: bool,
    /// How often the CLI has told itself to continue since it last did any work.
    continued: u32,
}

impl Reader for Opencode {
    fn line(&mut self, line: Line, digest: &mut Digest) -> bool {
        let [kind, session, part, error] = line.fields(["type", "sessionID", "part", "error"]);
        if !kind.is_text() {
            return false;
        }
        if let Some(session) = session.text() {
            digest.session(&session);
        }
        match kind.word() {
            b"step_start" => {
                digest.reopen();
                self.is_fruitful = false;
            }
            // Its own words to the model: after it compacted the conversation the turn goes on.
            b"text" if part.field("synthetic").flag() == Some(true) => self.goes_on(digest),
            b"text" => {
                let [text, message] = part.fields(["text", "messageID"]);
                let text = text.text().unwrap_or_default();
                self.is_fruitful |= !text.is_empty();
                digest.text(message.text().as_deref(), &text);
            }
            b"reasoning" => {
                self.is_fruitful = true;
                digest.reasoning(&part.field("text").text().unwrap_or_default(), false);
            }
            b"tool_use" => {
                self.is_fruitful = true;
                self.continued = 0;
                tool_use(part, digest);
            }
            b"step_finish" => self.step_finish(part, digest),
            b"error" => failed(error, digest),
            b"done" => done(line, digest),
            _ => {}
        }
        true
    }
}

/// An error ends the turn, unless the CLI goes on all the same.
fn failed(error: Json, digest: &mut Digest) {
    let [name, data, message] = error.fields(["name", "data", "message"]);
    let [words, status, headers] = data.fields(["message", "statusCode", "responseHeaders"]);
    if let Some(reset) = reset_in(headers) {
        digest.trouble.reset = Some(reset);
    }
    let words = [words, message, name, error].into_iter().find_map(Json::text);
    let mut failure = WORDS.failure(status.whole(), words.unwrap_or("unknown error".into()));
    if failure.kind == AgentErrorKind::Unknown {
        failure.kind = match name.word() {
            b"ProviderAuthError" => AgentErrorKind::Auth,
            b"ContextOverflowError" | b"MessageOutputLengthError" => AgentErrorKind::ContextLength,
            b"ProviderModelNotFoundError" => AgentErrorKind::InvalidRequest,
            _ => AgentErrorKind::Unknown,
        };
    }
    digest.end(false, Some(failure));
}

/// When its service takes requests again, by the headers of its answer.
fn reset_in(headers: Json) -> Option<Reset> {
    const NAMES: [&str; 4] =
        ["retry-after-ms", "retry-after", "anthropic-ratelimit-unified-reset", "x-codex-primary-reset-at"];
    NAMES
        .into_iter()
        .zip(headers.fields(NAMES))
        .find_map(|(name, value)| Reset::parse(&format!("{name}: {}", value.text()?)))
}

/// The session has nothing more to do. How the turn went was told before, save where its last step ended for a reason that
/// says nothing.
fn done(line: Line, digest: &mut Digest) {
    let [rejected] = line.fields(["rejected"]);
    for permission in rejected.items().filter_map(Json::text).take(10) {
        digest.warning(&format!("{permission} was denied permission"));
    }
    if digest.end.terminal.is_none() && !digest.final_text().is_empty() {
        digest.end(true, None);
    }
}

impl Opencode {
    fn goes_on(&mut self, digest: &mut Digest) {
        digest.reopen();
        self.continued += 1;
        if self.continued >= MAX_CONTINUED {
            digest.error(Failure::new(
                AgentErrorKind::ContextLength,
                format!("the conversation was compacted {MAX_CONTINUED} times without progress"),
            ));
            digest.trouble.is_stuck = true;
        }
    }

    fn step_finish(&mut self, part: Json, digest: &mut Digest) {
        let [reason, tokens, cost] = part.fields(["reason", "tokens", "cost"]);
        if let Some(usage) = Usage::told(tokens, CachedInput::Beside) {
            digest.usage(Usage { cost_usd: cost.amount(), ..usage });
        }
        let is_fruitful = std::mem::take(&mut self.is_fruitful);
        match reason.word() {
            b"stop" | b"length" => {
                if reason.is("length") {
                    digest.warning("the answer was cut at the model's limit of output tokens");
                }
                digest.model_answered();
                digest.end(true, None);
            }
            b"content-filter" | b"error" => {
                let words =
                    format!("the model stopped with the reason {}", reason.text().unwrap_or_default());
                digest.end(false, Some(Failure::new(AgentErrorKind::Unknown, words)));
            }
            b"tool-calls" => {
                digest.model_answered();
                digest.reopen();
            }
            _ => {
                digest.reopen();
                if !is_fruitful {
                    digest.idle.steps += 1;
                }
            }
        }
    }
}

fn tool_use(part: Json, digest: &mut Digest) {
    let [tool, id, state] = part.fields(["tool", "callID", "state"]);
    let [status, input, output, error, metadata] =
        state.fields(["status", "input", "output", "error", "metadata"]);
    let id = id.text().unwrap_or_default();
    digest.tool_start(&id, &tool.text().unwrap_or_default(), || input.build());
    if matches!(status.word(), b"pending" | b"running") {
        return;
    }
    let exit_code = metadata.field("exit").whole();
    let is_error = status.is("error") || exit_code.is_some_and(|code| code != 0);
    digest.tool_end(&id, exit_code, is_error, || text_of(output).or_else(|| text_of(error)));
}

/// Below "auto" by an agent of the session's own, as in `hold`: rules that its user has for the agents `build` and `plan` would
/// come after all that can be said of them here.
const MODES: [Option<Mode>; 4] = {
    const fn made(
        id: &'static str,
        set: &'static [(&'static str, &'static str)],
        made: Option<MakeMode>,
    ) -> Option<Mode> {
        Some(Mode { set, made, ..Mode::plain(id) })
    }
    const ASKING: &[(&str, &str)] =
        &[("OPENCODE_PERMISSION", r#"{"edit":"ask","bash":"ask","webfetch":"ask"}"#)];
    [
        made(
            "plan",
            &[("OPENCODE_PERMISSION", r#"{"edit":"deny","bash":"ask","webfetch":"ask"}"#)],
            Some(reading),
        ),
        made("build", ASKING, Some(asking)),
        made("build", ASKING, Some(asking)),
        made(
            "build",
            &[("OPENCODE_PERMISSION", r#"{"edit":"allow","bash":"allow","webfetch":"allow"}"#)],
            None,
        ),
    ]
};

fn reading(variable: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<(&'static str, String), Error> {
    let rules = json!({ "edit": "deny", "bash": "ask", "webfetch": "ask", "external_directory": "ask" });
    with_agent(Level::Plan, variable(CONTENT).as_deref(), name, &rules).map(|content| (CONTENT, content))
}

fn asking(variable: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<(&'static str, String), Error> {
    let rules = json!({ "edit": "ask", "bash": "ask", "webfetch": "ask", "external_directory": "ask" });
    with_agent(Level::Ask, variable(CONTENT).as_deref(), name, &rules).map(|content| (CONTENT, content))
}

const CONTENT: &str = "OPENCODE_CONFIG_CONTENT";

/// Holds the turn by an agent of our own, in the configuration that the CLI reads last; the user's part of it is kept. The
/// agent's rules come after all others, and the last rule counts. Its name is that of the run's folder, so no earlier
/// configuration can have rules for it.
fn hold(wanted: &Wanted, launch: &mut Launch) -> Result<(), Error> {
    allowable_in_sandbox(&wanted.allow, wanted.is_sandboxed)?;
    if wanted.permission == Level::Auto {
        // Without a terminal opencode refuses an action that it would have to ask about.
        launch.set("OPENCODE_PERMISSION", r#"{"*":"allow"}"#);
        return Ok(());
    }
    let mut rules = json!({ "*": "deny" });
    if wanted.permission != Level::Plan {
        // Before all other rules, because the last one counts and a server may have any name. Nobody could be asked about its tools,
        // which the caller has chosen.
        for server in &wanted.mcp_servers {
            put(&mut rules, &format!("{}_*", server.name()), "allow");
        }
    }
    for tool in ["read", "list", "glob", "grep", "todowrite"] {
        put(&mut rules, tool, "allow");
    }
    if wanted.permission != Level::Plan {
        put(&mut rules, "edit", "allow");
        put(&mut rules, "external_directory", "deny");
        let mut commands = json!({ "*": "deny" });
        for glob in &wanted.allow {
            put(&mut commands, glob, "allow");
        }
        // Deny redirection, because opencode does not check the target of the output otherwise.
        put(&mut commands, "*>*", "deny");
        put(&mut rules, "bash", commands);
    }
    let agent = wanted.folder.file_name().map_or("sheepdog".into(), |name| name.to_string_lossy());
    let content = with_agent(wanted.permission, wanted.variable(CONTENT), &agent, &rules)?;
    launch.args(["--agent", &agent]);
    launch.hold(CONTENT, &content);
    Ok(())
}

/// The configuration that is given, with an agent that has these rules.
fn with_agent(level: Level, given: Option<&str>, name: &str, rules: &Value) -> Result<String, Error> {
    let agent = json!({ "mode": "primary", "permission": rules });
    let what = format!("the rules of {:?}", level.as_str());
    with_entries(given, &what, "agent", [(name.to_owned(), agent)])
}

/// The servers in the configuration that the CLI reads last. Environment variables can be read by the user alone, as files of the
/// run can.
fn give_servers(wanted: &Wanted, launch: &mut Launch) -> Result<(), Error> {
    if wanted.mcp_servers.is_empty() {
        return Ok(());
    }
    let held = launch.held.iter().find(|(name, _)| name == CONTENT).map(|(_, text)| text.as_str());
    let given = held.or_else(|| wanted.variable(CONTENT));
    let ours = |server: &McpServer| server.map_texts(|text| text.replace('{', &BRACE.to_string()));
    let servers = wanted.mcp_servers.iter().map(|server| (server.name().to_owned(), entry_of(&ours(server))));
    let content = with_entries(given, "MCP servers", "mcp", servers)?;
    launch.hold(CONTENT, &content);
    Ok(())
}

fn entry_of(server: &McpServer) -> Value {
    match server {
        McpServer::Http { url, headers, .. } => {
            json!({ "type": "remote", "url": url, "headers": object(headers), "enabled": true })
        }
        McpServer::Program { command, args, env, .. } => {
            let command: Vec<&String> = std::iter::once(command).chain(args).collect();
            json!({ "type": "local", "command": command, "environment": object(env), "enabled": true })
        }
    }
}

/// The configuration that is given, with these entries in one of its tables.
fn with_entries(
    given: Option<&str>,
    what: &str,
    table: &str,
    entries: impl IntoIterator<Item = (String, Value)>,
) -> Result<String, Error> {
    let mut content: Option<Map<String, Value>> = json::read(given.unwrap_or("{}")).ok();
    let table =
        content.as_mut().and_then(|all| all.entry(table).or_insert_with(|| json!({})).as_object_mut());
    if let Some(table) = table {
        table.extend(entries);
        return Ok(json!(content).to_string().replace(BRACE, "\\u007b"));
    }
    let problem = format!("expected a configuration in JSON without comments: {what} are added to it");
    Err(Error::invalid_option(&format!("env[{CONTENT:?}]"), problem))
}

/// In place of a brace in our own values. The CLI replaces `{env:NAME}` and `{file:PATH}` in the text before it reads it as JSON, so
/// ours are written by their number.
const BRACE: char = '\u{fdd0}';

/// `opencode run --format json ...`. The prompt comes by stdin: of an argument with a space in it, it makes a quotation, with
/// every quote inside escaped.
fn launch(wanted: &Wanted) -> Result<Launch, Error> {
    let mut launch = Launch::new(wanted);
    launch.args(["run", "--format", "json"]);
    launch.option("--model", wanted.model.as_deref());
    launch.option("--session", wanted.resume.as_deref());
    hold(wanted, &mut launch)?;
    give_servers(wanted, &mut launch)?;
    launch.cannot("systemPrompt", wanted.system_prompt.is_some());
    launch.cannot_limit(wanted, &["cliTools", "maxTurns"]);
    launch.args(wanted.images.iter().map(|image| format!("--file={}", image.path)));
    launch.extra_args();
    launch.prompt_by_stdin();
    launch.set("OPENCODE_DISABLE_AUTOUPDATE", "1");
    Ok(launch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(permission: Level, given: &str) -> Value {
        let web = McpServer::Http {
            name: "web".into(),
            url: "http://127.0.0.1:1".into(),
            headers: vec![("X".into(), "y".into())],
        };
        let files = McpServer::Program {
            name: "external".into(),
            command: "serve".into(),
            args: vec!["{env:HOME}".into()],
            env: vec![("TOKEN".into(), "secret{file:/x}".into())],
        };
        let wanted = Wanted {
            permission,
            mcp_servers: vec![web, files],
            variables: vec![(CONTENT, given.to_owned())],
            folder: "/own/run-7".into(),
            ..Wanted::default()
        };
        let launch = launch(&wanted).unwrap();
        assert!(!launch.args.join(" ").contains("secret"), "{:?}", launch.args);
        let (_, content) = launch.held.iter().rfind(|(name, _)| name == CONTENT).unwrap();
        assert!(!content.contains("{env:") && !content.contains("{file:"), "{content}");
        ground::json::read(content).unwrap()
    }

    #[test]
    fn servers_are_added_to_the_configuration_of_the_user() {
        for level in [Level::Plan, Level::Edit, Level::Auto] {
            let content = configured(level, r#"{"model":"m","mcp":{"own":{}}}"#);
            assert_eq!(content["model"], "m");
            assert_eq!(content["agent"]["run-7"].is_object(), level != Level::Auto);
            assert_eq!(
                content["mcp"],
                json!({
                    "own": {},
                    "web": { "type": "remote", "url": "http://127.0.0.1:1", "headers": { "X": "y" }, "enabled": true },
                    "external": { "type": "local", "command": ["serve", "{env:HOME}"], "environment": { "TOKEN": "secret{file:/x}" }, "enabled": true },
                })
            );
        }
    }

    #[test]
    fn tools_of_servers_are_allowed_at_edit_and_loosen_no_other_rule() {
        let rules = configured(Level::Edit, "{}")["agent"]["run-7"]["permission"].to_string();
        let allowed = r#"{"*":"deny","web_*":"allow","external_*":"allow","read":"#;
        assert!(rules.starts_with(allowed), "{rules}");
        assert!(rules.contains(r#""external_directory":"deny""#), "the last rule counts: {rules}");
        let rules = configured(Level::Plan, "{}")["agent"]["run-7"]["permission"].to_string();
        assert!(rules.starts_with(r#"{"*":"deny","read":"#), "{rules}");
    }
}
