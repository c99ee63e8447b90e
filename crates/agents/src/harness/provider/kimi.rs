//! PURE: Kimi Code, `kimi --output-format stream-json --prompt=PROMPT`.
//!
//! It prints the messages of a chat, each whole, a tool's call together with its result. Its hint how to resume is its end of
//! turn, and the only line with the session id. A failed turn has no line of its own; stderr gives the reason.

use super::message::text_of;
use super::other::PLAIN;
use super::protocol::Protocol;
use super::{Descriptor, OwnState, Reader};
use crate::harness::event::AgentErrorKind;
use crate::harness::evidence::digest::Digest;
use crate::harness::evidence::failure::{Failure, Words};
use crate::harness::launch::{Launch, Wanted};
use crate::harness::level::{Level, Mode, unallowable, unholdable};
use crate::harness::spending::Accounting;
use ground::error::Error;
use ground::json::{Json, Line};

pub(super) const DESCRIPTOR: Descriptor = Descriptor {
    title: "Kimi Code",
    program: "kimi",
    install: "npm install -g @moonshot-ai/kimi-code",
    launch,
    hold,
    // It asks without the path that it writes to: "edit" can't be told from more.
    modes: [Mode::named("plan"), None, Mode::named("default"), Mode::named("")],
    own_state: Some(OwnState {
        variable: "KIMI_CODE_HOME",
        below: "",
        root: "$KIMI_CODE_HOME|~/.kimi-code",
        written: &["sessions/", "credentials/", "session_index.jsonl"],
        anew: &["logs", "cache", "device_id"],
    }),
    reader: |_| Box::new(Kimi),
    account: &[
        "KIMI_CODE_HOME",
        "KIMI_API_KEY",
        "KIMI_MODEL_API_KEY",
        "KIMI_CODE_OAUTH_KEY",
        "MOONSHOT_API_KEY",
    ],
    hosts: &["api.kimi.com", "api.kimi.ai", "auth.kimi.com", "api.moonshot.ai", "api.moonshot.cn"],
    base_urls: &["KIMI_BASE_URL", "KIMI_MODEL_BASE_URL"],
    words: &WORDS,
    protocol: Protocol {
        args: &["acp"],
        node: Some((22, 19)),
        ..Protocol::plain("@moonshot-ai/kimi-code@2.1.0", Accounting::Nothing)
    },
    ..PLAIN
};

const WORDS: Words = Words {
    kinds: &[(AgentErrorKind::Auth, &["provider.auth_error", "auth.login_required"])],
    unknown_session: &["failed to run prompt: session \""],
    refused: &["plan mode is active"],
    ..Words::NONE
};

struct Kimi;

impl Reader for Kimi {
    fn line(&mut self, line: Line, digest: &mut Digest) -> bool {
        let [role, kind, content, calls, id] =
            line.fields(["role", "type", "content", "tool_calls", "tool_call_id"]);
        match role.word() {
            b"assistant" => {
                digest.reopen();
                digest.model_answered();
                digest.text(None, &text_of(content).unwrap_or_default());
                calls.items().for_each(|call| tool_call(call, digest));
            }
            b"tool" => {
                let output = text_of(content);
                let exit_code = output.as_deref().and_then(exit_code_in);
                digest.tool_end(&id.text().unwrap_or_default(), exit_code, exit_code.is_some(), || output);
            }
            b"meta" => match kind.word() {
                b"turn.step.retrying" => retrying(line, digest),
                b"session.resume_hint" => {
                    let [session] = line.fields(["session_id"]);
                    let session = session.text().unwrap_or_default();
                    digest.session(&session);
                    if !session.is_empty() {
                        digest.end(true, None);
                    }
                }
                _ => {}
            },
            _ => return role.is_text(),
        }
        true
    }
}

fn tool_call(call: Json, digest: &mut Digest) {
    let [id, function] = call.fields(["id", "function"]);
    let [name, arguments] = function.fields(["name", "arguments"]);
    digest.tool_start(&id.text().unwrap_or_default(), &name.text().unwrap_or_default(), || {
        // JSON in a string, as the model gave it.
        let text = arguments.text().unwrap_or_default();
        ground::json::read(&*text).unwrap_or_else(|_| text.into())
    });
}

fn retrying(line: Line, digest: &mut Digest) {
    let [attempt, most, message, status] =
        line.fields(["next_attempt", "max_attempts", "error_message", "status_code"]);
    let of = most.count().map(|most| format!(" of {most}")).unwrap_or_default();
    let cause = message.text().unwrap_or("the model call failed".into());
    digest.reopen();
    digest.retry(Failure {
        message: format!("attempt {}{of}: {cause}", attempt.count().unwrap_or(2)),
        ..WORDS.failure(status.whole(), &*cause)
    });
}

/// "Command failed with exit code: 3.": the last line of a shell tool that failed.
fn exit_code_in(output: &str) -> Option<i64> {
    let line = output.lines().next_back()?.strip_prefix("Command failed with exit code: ")?;
    line.trim_end_matches('.').parse().ok()
}

/// Given a prompt it runs every tool unasked. Only the kernel can keep its writes in its folder; its commands then run in there too.
fn hold(wanted: &Wanted, launch: &mut Launch) -> Result<(), Error> {
    unallowable(
        &wanted.allow,
        "kimi cannot be limited to some commands, because it runs all of them: leave `allow` out, or use another provider",
    )?;
    match wanted.permission {
        Level::Auto => {}
        Level::Plan | Level::Edit | Level::Ask if wanted.is_sandboxed => {
            launch.warnings.push(
                "permission: kimi never asks, so it also runs commands; only `sandbox` limits them"
                    .to_owned(),
            );
        }
        Level::Plan | Level::Edit | Level::Ask => {
            let why = "kimi runs every tool without asking. Pass `sandbox: \"workspace\"`, or `permission: \"auto\"`";
            return Err(unholdable(wanted.permission, why));
        }
    }
    Ok(())
}

/// `kimi --output-format stream-json ... --prompt=PROMPT`. It reads no prompt from stdin, and runs whatever the model wants.
fn launch(wanted: &Wanted) -> Result<Launch, Error> {
    if wanted.is_long() {
        let problem = format!(
            "is longer than {} bytes, which is the longest prompt for kimi",
            Wanted::MAX_ARGUMENT_BYTES
        );
        return Err(Error::invalid_option("prompt", problem));
    }
    let mut launch = Launch::new(wanted);
    launch.args(["--output-format", "stream-json"]);
    hold(wanted, &mut launch)?;
    launch.option("--model", wanted.model.as_deref());
    launch.option("--session", wanted.resume.as_deref());
    launch.cannot("systemPrompt", wanted.system_prompt.is_some());
    launch.cannot_limit(wanted, &["cliTools", "maxTurns"]);
    launch.prompt_by_flag();
    launch.set("KIMI_CODE_NO_AUTO_UPDATE", "1");
    Ok(launch)
}
