//! PURE: Qwen Code, `qwen --output-format stream-json`: Claude's lines with differences of its own.
//!
//! A failed model call is reported as an assistant's text "[API Error: ...]" before the failing `result`. After a retry the
//! text of the first try may be in the answer once more.

use super::message::Messages;
use super::message_usage::Style;
use super::other::PLAIN;
use super::protocol::Protocol;
use super::schema_argument::fits_an_argument;
use super::{Descriptor, Images, OwnState, Project, SessionFiles, plain};
use crate::harness::event::{AgentErrorKind, Usage};
use crate::harness::evidence::failure::Words;
use crate::harness::launch::package::{Program, package, whole_script};
use crate::harness::launch::{Launch, Wanted};
use crate::harness::level::{Level, Mode, unallowable};
use crate::harness::mcp_server::Replaced;
use crate::harness::provider::session_log::SessionLog;
use crate::harness::spending::{Accounting, CachedInput};
use ground::error::Error;
use std::path::Path;

pub(super) const DESCRIPTOR: Descriptor = Descriptor {
    title: "Qwen Code",
    program: "qwen",
    install: "npm install -g @qwen-code/qwen-code",
    launch,
    hold,
    modes: [
        Mode::named("plan"),
        // Its "auto-edit" writes anywhere: here it asks, and what is below the folder is allowed.
        Mode::named("default"),
        Mode::named("default"),
        Mode::named("yolo"),
    ],
    own_state: Some(OwnState {
        variable: "QWEN_HOME",
        below: "",
        root: "$QWEN_HOME|~/.qwen",
        written: &["projects/", "oauth_creds.json"],
        anew: &["tmp", "debug", "installation_id", "todos", "file-history"],
    }),
    reader: |before| Box::new(Messages::new(Style::Qwen, &WORDS, before)),
    behind_launcher: Some(behind_launcher),
    takes_schema: fits_an_argument,
    images: Some(Images::ByMessage),
    takes_servers: true,
    accounting: Accounting::Tokens(CachedInput::Within),
    account: &[
        "QWEN_HOME",
        "DASHSCOPE_API_KEY",
        "BAILIAN_CODING_PLAN_API_KEY",
        "ANTHROPIC_BASE_URL",
        "GOOGLE_GENAI_USE_VERTEXAI",
    ],
    session_log: Some(&LOG),
    hosts: &[
        "dashscope.aliyuncs.com",
        "dashscope-intl.aliyuncs.com",
        "coding.dashscope.aliyuncs.com",
        "coding-intl.dashscope.aliyuncs.com",
        "chat.qwen.ai",
    ],
    base_urls: &["OPENAI_BASE_URL"],
    session_files: Some(&FILES),
    exits_early: true,
    words: &WORDS,
    protocol: Protocol {
        args: &["--acp"],
        model_flag: Some("--model"),
        // Else it prompts its model before it knows the tools that it was given.
        set: &[("QWEN_CODE_LEGACY_MCP_BLOCKING", "1")],
        ..Protocol::plain("@qwen-code/qwen-code@0.24.4", Accounting::Tokens(CachedInput::Within))
    },
    ..PLAIN
};

const FILES: SessionFiles = SessionFiles {
    root: "$QWEN_HOME|~/.qwen",
    patterns: &["projects/{project}/chats/{session}.jsonl"],
    project: Project::Named(plain),
    own: Some("cwd"),
};

/// Each call to the model; a session that is resumed begins with their sum.
const LOG: SessionLog = SessionLog {
    place: "$QWEN_HOME/projects|~/.qwen/projects",
    sign: "api_response",
    count: |line, usage| {
        let [payload] = line.fields(["systemPayload"]);
        let call = Usage::told(payload.field("uiEvent"), CachedInput::Within);
        *usage = usage.plus(call.unwrap_or_default());
    },
};

pub(super) const WORDS: Words = Words {
    kinds: &[
        (AgentErrorKind::ContextLength, &["context is too large"]),
        (AgentErrorKind::Quota, &["daily quota", "quota exceeded:"]),
        (AgentErrorKind::MaxTurns, &["error_max_turns", "max session turns", "maximum number of turns"]),
    ],
    unknown_session: &["no saved session found"],
    misshapen: &["structured_output", "structured output", "json-schema"],
    exit_code,
    ..Words::NONE
};

/// Its "auto-edit" writes anywhere, so it asks (which a run without a terminal refuses), and only writing below its folder is
/// allowed. Its rules for commands let a line feed, and behind it any command, through.
fn hold(wanted: &Wanted, launch: &mut Launch) -> Result<(), Error> {
    unallowable(
        &wanted.allow,
        "qwen cannot be limited to some commands: its rules let other commands through behind a line feed. Leave `allow` out, or use another provider",
    )?;
    match wanted.permission {
        Level::Plan => {
            launch.args(["--approval-mode", "plan", "--exclude-tools=run_shell_command,write_file,edit"])
        }
        Level::Edit | Level::Ask => launch.args([
            "--approval-mode",
            "default",
            "--allowed-tools=Edit(./**)",
            "--allowed-tools=WriteFile(./**)",
            "--exclude-tools=run_shell_command",
        ]),
        Level::Auto => launch.args(["--approval-mode", "yolo"]),
    }
    Ok(())
}

/// `qwen --output-format stream-json ...`; the prompt comes by stdin.
fn launch(wanted: &Wanted) -> Result<Launch, Error> {
    let mut launch = Launch::new(wanted);
    launch.args(["--output-format", "stream-json"]);
    hold(wanted, &mut launch)?;
    if wanted.is_sandboxed {
        // In a sandbox there are no terminals to be had for its shell.
        let file = launch.file("defaults.json", r#"{"tools":{"shell":{"enableInteractiveShell":false}}}"#);
        launch.set("QWEN_CODE_SYSTEM_DEFAULTS_PATH", &file);
    }
    launch.option("--model", wanted.model.as_deref());
    launch.option("--resume", wanted.resume.as_deref());
    launch.assign("--append-system-prompt", wanted.system_prompt.as_ref());
    launch.cannot("cliTools", wanted.cli_tools.as_ref().is_some_and(Vec::is_empty));
    if let Some(tools) = &wanted.cli_tools {
        for tool in tools {
            launch.args([&format!("--core-tools={tool}")]);
        }
    }
    launch.assign("--max-session-turns", wanted.max_turns);
    launch.assign("--json-schema", wanted.schema.as_ref());
    launch.servers_by_file(wanted, Replaced::Nothing, "--allowed-tools");
    launch.extra_args();
    launch.prompt_is_no_command();
    launch.prompt_names_files();
    if wanted.images.is_empty() {
        // The CLI's flag for a prompt is deprecated, and it takes none behind `--`.
        launch.prompt_by_stdin();
    } else {
        launch.prompt_as_message(&wanted.images);
    }
    // It starts itself once more for a larger heap; the child outlives a signal to the parent.
    launch.set("QWEN_CODE_NO_RELAUNCH", "true");
    launch.set("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1");
    Ok(launch)
}

fn behind_launcher(file: &Path) -> Option<Program> {
    let root = package(file, "@qwen-code", "qwen-code")?;
    let file = Some(root.join("cli.js")).filter(|file| file.is_file())?;
    Some(whole_script(&file))
}

fn exit_code(code: i32) -> Option<(AgentErrorKind, &'static str)> {
    match code {
        53 => Some((AgentErrorKind::MaxTurns, "the limit of turns was reached")),
        _ => None,
    }
}
