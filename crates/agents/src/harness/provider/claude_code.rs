//! PURE: Claude Code, `claude -p --output-format stream-json`.
//!
//! A failed model call ends in a `result` whose subtype is `success` with `is_error: true`. The CLI's own retries take minutes,
//! and are reported as `system`/`api_retry`. It refuses to start nested in itself, and as root without permissions unless told
//! that it is in a sandbox.

use super::message::Messages;
use super::message_usage::Style;
use super::other::PLAIN;
use super::protocol::Protocol;
use super::schema_argument::{claude_takes, without_dialect};
use super::{Descriptor, Images, Project, SessionFiles, plain};
use crate::harness::event::AgentErrorKind;
use crate::harness::evidence::failure::Words;
use crate::harness::launch::{Launch, Wanted};
use crate::harness::level::allow::refuse;
use crate::harness::level::{Level, Mode, allowable_in_sandbox};
use crate::harness::mcp_server::Replaced;
use crate::harness::spending::{Accounting, CachedInput};
use ground::error::Error;

pub(super) const DESCRIPTOR: Descriptor = Descriptor {
    title: "Claude Code",
    program: "claude",
    install: "npm install -g @anthropic-ai/claude-code",
    launch,
    hold,
    modes: [
        Some(Mode { meta: READING, ..Mode::plain("plan") }),
        // Its "acceptEdits" also runs what it takes for harmless in its folder.
        ASKING,
        ASKING,
        Some(Mode { set: &[("IS_SANDBOX", "1")], ..Mode::plain("bypassPermissions") }),
    ],
    switches: &["CLAUDE_CODE_SANDBOXED", "CLAUDE_CODE_EVEN_MORE_DANGEROUSLY_SKIP_PERMISSIONS"],
    // Its folder holds settings, hooks and servers too: what it has to write in there is named.
    state: &[
        "$CLAUDE_CONFIG_DIR/projects|~/.claude/projects",
        "$CLAUDE_CONFIG_DIR/sessions|~/.claude/sessions",
        "$CLAUDE_CONFIG_DIR/session-env|~/.claude/session-env",
        "$CLAUDE_CONFIG_DIR/shell-snapshots|~/.claude/shell-snapshots",
        "$CLAUDE_CONFIG_DIR/file-history|~/.claude/file-history",
        "$CLAUDE_CONFIG_DIR/todos|~/.claude/todos",
        "$CLAUDE_CONFIG_DIR/tasks|~/.claude/tasks",
        "$CLAUDE_CONFIG_DIR/plans|~/.claude/plans",
        "$CLAUDE_CONFIG_DIR/debug|~/.claude/debug",
        "$CLAUDE_CONFIG_DIR/.credentials.json|~/.claude/.credentials.json",
        "$XDG_CACHE_HOME/claude-cli-nodejs|~/.cache/claude-cli-nodejs",
    ],
    reader: |before| Box::new(Messages::new(Style::Claude, &WORDS, before)),
    takes_schema: claude_takes,
    images: Some(Images::ByMessage),
    takes_servers: true,
    accounting: Accounting::TokensAndMoney(CachedInput::Beside),
    account: &[
        "CLAUDE_CONFIG_DIR",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "ANTHROPIC_CUSTOM_HEADERS",
        "ANTHROPIC_BEDROCK_BASE_URL",
        "ANTHROPIC_VERTEX_BASE_URL",
        "ANTHROPIC_VERTEX_PROJECT_ID",
        "ANTHROPIC_FOUNDRY_BASE_URL",
        "ANTHROPIC_FOUNDRY_RESOURCE",
        "ANTHROPIC_FOUNDRY_API_KEY",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CODE_USE_FOUNDRY",
    ],
    hosts: &["api.anthropic.com", "platform.claude.com"],
    base_urls: &["ANTHROPIC_BASE_URL"],
    session_files: Some(&FILES),
    words: &WORDS,
    protocol: Protocol {
        program: Some("claude-agent-acp"),
        replaced: Replaced::Braces,
        ..Protocol::plain(
            "@agentclientprotocol/claude-agent-acp@0.100.0",
            Accounting::TokensAndMoney(CachedInput::Beside),
        )
    },
    ..PLAIN
};

const FILES: SessionFiles = SessionFiles {
    root: "$CLAUDE_CONFIG_DIR|~/.claude",
    patterns: &["projects/{project}/{session}.jsonl", "projects/{project}/{session}/**"],
    project: Project::Named(plain),
    own: None,
};

pub(super) const WORDS: Words = Words {
    kinds: &[
        (
            AgentErrorKind::Quota,
            &["hit your", "usage limit reached", "out of extra usage", "error_max_budget_usd"],
        ),
        (AgentErrorKind::MaxTurns, &["error_max_turns", "maximum number of turns"]),
        (AgentErrorKind::ContextLength, &["output token maximum"]),
        (
            AgentErrorKind::Permission,
            &["blocked by hook", "violate our usage policy", "model refused", "stop_reason: refusal"],
        ),
    ],
    unknown_session: &["no conversation found with session id", "no session, task, or name matched"],
    misshapen: &["structured_output", "structured output"],
    refused: &["is disabled for this session"],
    ..Words::NONE
};

/// The same for a session, as its adapter takes them.
const READING: &str = r#"{"claudeCode":{"options":{"allowDangerouslySkipPermissions":false,"disallowedTools":["Bash","PowerShell","Monitor","Workflow","Write","Edit","NotebookEdit","EnterWorktree"],"settings":{"useAutoModeDuringPlan":false}}}}"#;
/// The mode without permissions is not even offered: root could not start with it.
const ASKING: Option<Mode> = Some(Mode {
    meta: r#"{"claudeCode":{"options":{"allowDangerouslySkipPermissions":false}}}"#,
    ..Mode::plain("default")
});
const NO_COMMANDS: &str = "--disallowedTools=Bash,PowerShell,Monitor,Workflow";
const NO_WRITING: &str =
    "--disallowedTools=Bash,PowerShell,Monitor,Workflow,Write,Edit,NotebookEdit,EnterWorktree";
/// Else a model of its service decides at "plan" which commands only read.
const NO_CLASSIFIER: &str = r#"--settings={"useAutoModeDuringPlan":false}"#;

/// At "plan" all tools that write or run something are taken away. At "edit" without commands those that run something are: as it accepts edits it would also run what writes in the folder. With
/// some, all that is not allowed is refused, reading aside; a rule holds for each part of a command.
fn hold(wanted: &Wanted, launch: &mut Launch) -> Result<(), Error> {
    allowable_in_sandbox(&wanted.allow, wanted.is_sandboxed)?;
    match wanted.permission {
        Level::Plan => launch.args(["--permission-mode", "plan", NO_WRITING, NO_CLASSIFIER]),
        Level::Edit | Level::Ask if wanted.allow.is_empty() => {
            launch.args(["--permission-mode", "acceptEdits", NO_COMMANDS]);
        }
        Level::Edit | Level::Ask => {
            launch.args(["--permission-mode", "dontAsk", "--allowedTools=Edit(./**)"]);
            for (index, glob) in wanted.allow.iter().enumerate() {
                if glob.contains(":*") {
                    return Err(refuse(
                        index,
                        "claude-code reads \":*\" as any ending: name each command, or write \" *\" instead",
                    ));
                }
                launch.args([format!("--allowedTools=Bash({glob})")]);
            }
        }
        Level::Auto => {
            launch.args(["--dangerously-skip-permissions"]);
            launch.set("IS_SANDBOX", "1");
        }
    }
    Ok(())
}

/// `claude -p ... -- PROMPT`; a prompt that is long, has images or could be read as more than words comes by stdin.
fn launch(wanted: &Wanted) -> Result<Launch, Error> {
    let mut launch = Launch::new(wanted);
    launch.args(["-p", "--output-format", "stream-json", "--verbose"]);
    hold(wanted, &mut launch)?;
    launch.option("--model", wanted.model.as_deref());
    launch.assign("--append-system-prompt", wanted.system_prompt.as_ref());
    launch.assign("--tools", wanted.cli_tools.as_ref().map(|tools| tools.join(",")));
    launch.option("--max-turns", wanted.max_turns.map(|turns| turns.to_string()));
    launch.option("--json-schema", wanted.schema.as_ref().map(without_dialect));
    launch.option("--resume", wanted.resume.as_deref());
    launch.servers_by_file(wanted, Replaced::Braces, "--allowedTools");
    launch.extra_args();
    launch.prompt_is_no_command();
    // In a message it can be kept from looking for names of files.
    if wanted.images.is_empty() && !wanted.prompt.contains('@') {
        launch.prompt_last(&[]);
    } else {
        launch.prompt_as_message(&wanted.images);
    }
    launch.set("DISABLE_AUTOUPDATER", "1");
    Ok(launch)
}
