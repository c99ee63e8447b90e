//! PURE: Gemini CLI, `gemini --output-format stream-json`.
//!
//! The answer comes in deltas only. A failed tool has status `success` and no exit code. An exit code may be an HTTP status
//! modulo 256 (145 is 401). Retries are reported on stderr only.

use super::message::text_of;
use super::other::PLAIN;
use super::protocol::Protocol;
use super::{Descriptor, OwnState, Project, Reader, SessionFiles};
use crate::harness::event::{AgentErrorKind, Usage};
use crate::harness::evidence::digest::Digest;
use crate::harness::evidence::failure::{Words, kind_of};
use crate::harness::launch::package::{Program, package, whole_script};
use crate::harness::launch::{Launch, Wanted};
use crate::harness::level::{Level, Mode, allowable_in_sandbox};
use crate::harness::mcp_server::Replaced;
use crate::harness::spending::{Accounting, CachedInput};
use ground::error::Error;
use ground::json::Line;
use std::path::Path;

pub(super) const DESCRIPTOR: Descriptor = Descriptor {
    title: "Gemini CLI",
    program: "gemini",
    install: "npm install -g @google/gemini-cli",
    launch,
    hold,
    modes: [Mode::named("plan"), Mode::named("autoEdit"), Mode::named("default"), Mode::named("yolo")],
    own_state: Some(OwnState {
        variable: "GEMINI_CLI_HOME",
        below: ".gemini",
        root: "$GEMINI_CLI_HOME/.gemini|~/.gemini",
        written: &["tmp/", "history/", "oauth_creds.json", "google_accounts.json"],
        anew: &["installation_id", "state.json"],
    }),
    reader: |_| Box::new(Gemini),
    behind_launcher: Some(behind_launcher),
    accounting: Accounting::Tokens(CachedInput::Within),
    account: &[
        "GEMINI_CLI_HOME",
        "GOOGLE_CLOUD_ACCESS_TOKEN",
        "GOOGLE_GENAI_USE_GCA",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_VERTEX_BASE_URL",
        "GOOGLE_GEMINI_BASE_URL",
    ],
    hosts: &["generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com"],
    base_urls: &["GOOGLE_GEMINI_BASE_URL", "CODE_ASSIST_ENDPOINT"],
    session_files: Some(&FILES),
    exits_early: true,
    words: &WORDS,
    protocol: Protocol {
        args: &["--acp"],
        model_flag: Some("--model"),
        // It refuses its freer modes in a folder that was not trusted on a terminal before; and its launcher heeds no signal.
        set: &[("GEMINI_CLI_TRUST_WORKSPACE", "true"), ("GEMINI_CLI_NO_RELAUNCH", "true")],
        forgets_young: true,
        replaced: Replaced::Escapable,
        ..Protocol::plain("@google/gemini-cli@0.61.0", Accounting::Tokens(CachedInput::Within))
    },
    ..PLAIN
};

const FILES: SessionFiles = SessionFiles {
    root: "$GEMINI_CLI_HOME/.gemini|~/.gemini",
    patterns: &["tmp/{project}/chats/session-*{head}.jsonl"],
    project: Project::Marked { parent: "tmp", marker: ".project_root" },
    own: None,
};

pub(super) const WORDS: Words = Words {
    kinds: &[(
        AgentErrorKind::Quota,
        &["daily quota", "quota will reset", "exhausted your capacity", "quota limit"],
    )],
    unknown_session: &["error resuming session", "no previous sessions found", "invalid session identifier"],
    refused: &[
        "denied by policy",
        "access denied: plan path",
        "path not in workspace",
        "\"run_shell_command\" not found",
        "\"write_file\" not found",
        "\"replace\" not found",
        "\"exit_plan_mode\" not found",
    ],
    exit_code,
    ..Words::NONE
};

struct Gemini;

impl Reader for Gemini {
    fn line(&mut self, line: Line, digest: &mut Digest) -> bool {
        const NAMES: [&str; 4] = ["type", "role", "content", "delta"];
        let [kind, role, content, delta] = line.fields(NAMES);
        match kind.word() {
            b"message" if role.is("assistant") => {
                let text = content.text().unwrap_or_default();
                if text.is_empty() {
                    return true;
                }
                digest.model_speaks();
                if delta.flag() == Some(true) {
                    digest.text_delta(&text);
                } else {
                    digest.text(None, &text);
                }
            }
            b"init" => {
                digest.reopen();
                let [session, model] = line.fields(["session_id", "model"]);
                digest.session(&session.text().unwrap_or_default());
                digest.model(&model.text().unwrap_or_default());
            }
            b"tool_use" => {
                let [id, name, input] = line.fields(["tool_id", "tool_name", "parameters"]);
                digest.model_speaks();
                digest.tool_start(&id.text().unwrap_or_default(), &name.text().unwrap_or_default(), || {
                    input.build()
                });
            }
            b"tool_result" => {
                let [id, status, output, error] = line.fields(["tool_id", "status", "output", "error"]);
                let is_error = !status.is("success") && status.is_present();
                digest.tool_end(&id.text().unwrap_or_default(), None, is_error, || {
                    text_of(output).or_else(|| error.field("message").text().map(|text| text.into_owned()))
                });
            }
            b"error" => {
                let [severity, message] = line.fields(["severity", "message"]);
                let message = message.text().unwrap_or("unknown error".into());
                if severity.is("warning") {
                    digest.warning(&message);
                } else {
                    digest.error(WORDS.failure(None, message));
                }
            }
            b"result" => result(line, digest),
            _ => return kind.is_text(),
        }
        true
    }
}

/// The CLI's script is not a launcher. It is run in a way that keeps its output whole.
fn behind_launcher(file: &Path) -> Option<Program> {
    package(file, "@google", "gemini-cli")?;
    Some(whole_script(file))
}

fn exit_code(code: i32) -> Option<(AgentErrorKind, &'static str)> {
    match code {
        41 => {
            Some((AgentErrorKind::Auth, "it could not sign in: sign in once by `gemini`, or set a valid key"))
        }
        42 => Some((AgentErrorKind::InvalidRequest, "it refused its input")),
        44 => Some((AgentErrorKind::Permission, "its sandbox failed")),
        52 => Some((AgentErrorKind::InvalidRequest, "its settings are wrong")),
        53 => Some((AgentErrorKind::MaxTurns, "the limit of turns was reached")),
        55 => Some((AgentErrorKind::Permission, "the folder is not trusted")),
        // An HTTP status, of which the system kept the low eight bits.
        144..=185 | 244..=255 => {
            Some((kind_of(Some(i64::from(code) + 256), ""), "this is an HTTP status minus 256"))
        }
        _ => None,
    }
}

fn result(line: Line, digest: &mut Digest) {
    let [status, error, stats] = line.fields(["status", "error", "stats"]);
    if let Some(usage) = Usage::told(stats, CachedInput::Within) {
        digest.usage_total(usage);
    }
    if status.is("success") {
        digest.message_ends();
        digest.end(true, None);
        return;
    }
    let [name, message, code] = error.fields(["type", "message", "code"]);
    let words = message.text().or(error.text()).unwrap_or_else(|| {
        // An earlier failure gives the reason if the last line has none.
        digest
            .trouble
            .failure
            .as_ref()
            .map_or("the turn failed".into(), |failure| failure.message.clone().into())
    });
    let mut failure = WORDS.failure(code.whole(), words);
    if failure.kind == AgentErrorKind::Unknown {
        failure.kind = match name.word() {
            b"FatalAuthenticationError" => AgentErrorKind::Auth,
            b"FatalInputError" | b"FatalConfigError" => AgentErrorKind::InvalidRequest,
            b"FatalSandboxError" | b"FatalUntrustedWorkspaceError" => AgentErrorKind::Permission,
            _ => AgentErrorKind::Unknown,
        };
    }
    digest.end(false, Some(failure));
}

/// Holds the turn by the CLI's modes, and by a policy above all others. Without the policy the model leaves "plan" by a tool that
/// needs no approval, and the user's own policies count.
fn hold(wanted: &Wanted, launch: &mut Launch) -> Result<(), Error> {
    allowable_in_sandbox(&wanted.allow, wanted.is_sandboxed)?;
    let (mode, policy) = match wanted.permission {
        Level::Auto => {
            launch.args(["--approval-mode", "yolo"]);
            return Ok(());
        }
        Level::Plan => {
            ("plan", denied("\"run_shell_command\", \"write_file\", \"replace\", \"exit_plan_mode\""))
        }
        Level::Edit | Level::Ask => {
            let mut policy = denied("\"run_shell_command\"") + &kept_below(&wanted.cwd);
            wanted.allow.iter().for_each(|glob| policy.push_str(&allowed(glob)));
            ("auto_edit", policy)
        }
    };
    let file = launch.file("policy.toml", &policy);
    launch.args(["--approval-mode", mode, &format!("--admin-policy={file}")]);
    Ok(())
}

/// It keeps its files in its folder by itself, and in others that a configuration in there may name: these are taken back. Any
/// letter stands for one that might mean something to the expression; where the file really is, it looks at itself.
fn kept_below(cwd: &Path) -> String {
    let rule = |pattern: &str, decision: &str, priority: u32| {
        let tools = r#"["write_file", "replace"]"#;
        format!(
            "[[rule]]\ntoolName = {tools}\nargsPattern = '\"file_path\":\"{pattern}'\ndecision = \"{decision}\"\npriority = {priority}\n"
        )
    };
    let mut folder = String::new();
    for letter in cwd.to_string_lossy().chars() {
        let is_plain = letter.is_ascii_alphanumeric() || "/_-".contains(letter);
        if is_plain { folder.push(letter) } else { folder.push_str(&".".repeat(letter.len_utf16())) }
    }
    let within = if folder.is_empty() {
        String::new()
    } else {
        rule(&format!("{}/", folder.trim_end_matches('/')), "allow", 910)
    };
    rule("/", "deny", 900) + &within + &rule(r#"[^"]*\.\./"#, "deny", 920)
}

fn denied(tools: &str) -> String {
    format!("[[rule]]\ntoolName = [{tools}]\ndecision = \"deny\"\npriority = 900\n")
}

/// The command stands in JSON: its end is the quotation mark. A star takes nothing that ends a command or a text.
fn allowed(glob: &str) -> String {
    let mut pattern = String::new();
    for letter in glob.chars() {
        match letter {
            '*' => pattern.push_str(r#"[^"\\;&|`$<>()]*"#),
            '.' | '+' => pattern.extend(['\\', letter]),
            other => pattern.push(other),
        }
    }
    format!(
        "[[rule]]\ntoolName = \"run_shell_command\"\ncommandRegex = '{pattern}\"'\ndecision = \"allow\"\npriority = 950\n"
    )
}

/// The CLI puts texts of its own in place of these names in a system prompt, and has no way to write them as words.
fn check_names(system_prompt: &str) -> Result<(), Error> {
    let names = system_prompt.split("${").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    let is_replaced = |name: &&str| {
        matches!(*name, "AgentSkills" | "SubAgents" | "AvailableTools")
            || name.strip_suffix("_ToolName").is_some_and(|tool| !tool.is_empty())
    };
    match names.into_iter().find(is_replaced) {
        None => Ok(()),
        Some(name) => {
            let problem = format!("gemini puts a text of its own in place of \"${{{name}}}\": leave it out");
            Err(Error::invalid_option("systemPrompt", problem))
        }
    }
}

/// `gemini --output-format stream-json ... --prompt=PROMPT`; a long prompt comes by stdin.
fn launch(wanted: &Wanted) -> Result<Launch, Error> {
    let mut launch = Launch::new(wanted);
    launch.args(["--output-format", "stream-json", "--skip-trust"]);
    hold(wanted, &mut launch)?;
    if wanted.is_sandboxed {
        // In a sandbox there are no terminals to be had for its shell.
        launch.set("GEMINI_PTY_INFO", "child_process");
    }
    launch.option("--model", wanted.model.as_deref());
    launch.option("--resume", wanted.resume.as_deref());
    if let Some(system_prompt) = &wanted.system_prompt {
        check_names(system_prompt)?;
        // There is no flag: the file that this variable names replaces the built-in prompt.
        let file = launch.file("system.md", system_prompt);
        launch.set("GEMINI_SYSTEM_MD", &file);
    }
    launch.cannot_limit(wanted, &["cliTools", "maxTurns"]);
    launch.prompt_is_no_command();
    launch.prompt_names_files();
    launch.prompt_by_flag();
    // It starts itself once more, as a child that ignores SIGTERM, unless told not to.
    launch.set("GEMINI_CLI_NO_RELAUNCH", "true");
    launch.set("GEMINI_CLI_TRUST_WORKSPACE", "true");
    Ok(launch)
}
