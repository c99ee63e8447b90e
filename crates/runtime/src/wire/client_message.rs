//! PURE: the messages of a client. A field that is `null` counts as absent.

use super::capability::Capabilities;
use super::json::null_as_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

messages! {
    /// One message of a client.
    enum ClientMessage {
        "hello_message" => Hello(Hello),
        "invocation_message" => Invocation(Box<Invocation>),
        "command_execution_message" => CommandExecution(Box<CommandExecution>),
        "artifact_upload_response_message" => UploadResponse(UploadResponse),
        "artifact_upload_decline_message" => UploadDecline(UploadDecline),
        "cancel_message" => Cancel,
        "end_session_message" => EndSession,
        "ack_message" => Acknowledge(Acknowledge),
    }
}

/// The first message of a client that knows the extensions of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    #[serde(default, deserialize_with = "null_as_default")]
    pub version: u64,
    #[serde(default, deserialize_with = "null_as_default")]
    pub capabilities: Capabilities,
    /// Id of the session. It is also the secret by which a later socket claims the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The last frame that was read before the socket broke.
    #[serde(default, deserialize_with = "null_as_default")]
    pub received: u64,
}

/// The sender has read all frames up to this one. Both ends send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledge {
    pub ack: u64,
}

/// A shell command as a client gives it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CommandSpec {
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// A file to be downloaded before anything runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Downloadable {
    pub download_url: String,
    pub working_dir: String,
}

/// The directories in which artifacts are looked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArtifactDirs {
    /// As the client wrote them.
    pub dirs: Vec<String>,
    /// Ignore rules that take precedence over any `.artifactignore`.
    pub ignore: Option<String>,
}

/// A message that asks for work, with the fields that all such messages have. They are written out in each struct, because serde's
/// `flatten` would store unknown fields.
macro_rules! request {
    ($(#[$doc:meta])* $name:ident, downloads: $downloads:literal, $($own:tt)*) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub request_id: Option<String>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub source_id: Option<String>,
            #[serde(rename = "secrets_to_redact", default, deserialize_with = "null_as_default")]
            pub secrets: Vec<String>,
            $($own)*
            /// The old name of a single directory.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub artifacts_dir: Option<String>,
            #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
            pub artifacts_dirs: Vec<String>,
            #[serde(rename = "artifacts_ignore_content", default, skip_serializing_if = "Option::is_none")]
            pub artifacts_ignore: Option<String>,
            #[serde(rename = $downloads, default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
            pub downloads: Vec<Downloadable>,
        }

        impl $name {
            /// Takes the directories out of the message.
            pub fn take_artifacts(&mut self) -> ArtifactDirs {
                let dirs = self.artifacts_dir.take().into_iter().chain(self.artifacts_dirs.drain(..)).collect();
                ArtifactDirs { dirs, ignore: self.artifacts_ignore.take() }
            }

            /// The first problem, in the order of the fields.
            fn problem(&self) -> Option<String> {
                bad_id(self.request_id.as_deref())
                    .or_else(|| self.own_problem())
                    .or_else(|| bad_directories(self.artifacts_dir.iter().chain(&self.artifacts_dirs)))
            }
        }
    };
}

request! {
    /// A prompt.
    Invocation, downloads: "pre_agent_downloadables",
    pub system_prompt: String,
    pub user_prompt: String,
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_env: Option<BTreeMap<String, String>>,
    /// The text of a JSON object. It is parsed only when the request runs.
    #[serde(rename = "output_format_json_schema_str", default, skip_serializing_if = "Option::is_none")]
    pub output_format: Option<String>,
    #[serde(
        rename = "pre_agent_invocation_commands",
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub pre_commands: Vec<CommandSpec>,
    #[serde(
        rename = "post_agent_invocation_commands",
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub post_commands: Vec<CommandSpec>,
}

request! {
    /// Commands to run, one after the other until one fails.
    CommandExecution, downloads: "pre_execution_downloadables",
    pub commands: Vec<CommandSpec>,
}

/// The URL for a file that the runtime asked to upload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UploadResponse {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_id: Option<String>,
    pub filename: String,
    pub filepath: String,
    pub presigned_url: String,
    pub content_type: String,
}

/// The client can't or won't take a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UploadDecline {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_id: Option<String>,
    pub filepath: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub reason: String,
}

/// Most directories that one request may have watched.
const MAX_DIRECTORIES: usize = 1000;
/// Longest id that a peer may give a request or a session.
pub(super) const MAX_ID_BYTES: usize = 128;

impl ClientMessage {
    /// Describes a problem other than the message's form, worded for the client.
    pub(crate) fn problem(&self) -> Option<String> {
        match self {
            ClientMessage::Hello(hello) => {
                let fits = |id: &String| (16..=MAX_ID_BYTES).contains(&id.len());
                let is_wrong = hello.session_id.as_ref().is_some_and(|id| !fits(id));
                is_wrong.then(|| "session_id: expected 16 to 128 bytes".to_owned())
            }
            ClientMessage::Invocation(invocation) => invocation.problem(),
            ClientMessage::CommandExecution(execution) => execution.problem(),
            _ => None,
        }
    }
}

impl Invocation {
    fn own_problem(&self) -> Option<String> {
        let environment = || {
            let mut variables = self.agent_env.iter().flatten();
            variables
                .find_map(|(name, value)| bad_variable(name, value))
                .map(|problem| format!("agent_env: {problem}"))
        };
        bad_commands("pre_agent_invocation_commands", &self.pre_commands)
            .or_else(|| bad_commands("post_agent_invocation_commands", &self.post_commands))
            .or_else(environment)
    }
}

impl CommandExecution {
    fn own_problem(&self) -> Option<String> {
        bad_commands("commands", &self.commands)
    }
}

fn bad_id(id: Option<&str>) -> Option<String> {
    let is_wrong = id.is_some_and(|id| id.is_empty() || id.len() > MAX_ID_BYTES);
    is_wrong.then(|| "request_id: expected 1 to 128 bytes".to_owned())
}

fn bad_directories<'a>(directories: impl Iterator<Item = &'a String> + Clone) -> Option<String> {
    let is_wrong = |directory: &String| directory.is_empty() || directory.contains('\0');
    if directories.clone().any(is_wrong) {
        return Some("artifacts_dirs: expected paths, got an empty one or one with NUL".to_owned());
    }
    let count = directories.count();
    (count > MAX_DIRECTORIES)
        .then(|| format!("artifacts_dirs: expected at most {MAX_DIRECTORIES}, got {count}"))
}

fn bad_commands(name: &str, commands: &[CommandSpec]) -> Option<String> {
    commands
        .iter()
        .enumerate()
        .find_map(|(index, command)| command.problem().map(|problem| format!("{name}[{index}].{problem}")))
}

impl CommandSpec {
    fn problem(&self) -> Option<String> {
        if self.command.is_empty() {
            return Some("command: expected a command, got an empty string".to_owned());
        }
        if self.command.contains('\0') || self.cwd.as_ref().is_some_and(|cwd| cwd.contains('\0')) {
            return Some("command: contains a NUL character".to_owned());
        }
        let bad = self.env.iter().find_map(|(name, value)| bad_variable(name, value));
        bad.map(|problem| format!("env: {problem}"))
    }
}

fn bad_variable(name: &str, value: &str) -> Option<String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Some("a name is empty or has a character that no variable's name can have".to_owned());
    }
    value.contains('\0').then(|| format!("the value of {name} contains a NUL character"))
}

#[cfg(test)]
mod tests {
    use super::super::frame::{ClientFrame, Malformed, parse_client_frame};
    use super::*;
    use serde_json::{Value, json};

    fn parse(value: Value) -> Result<Option<ClientFrame>, Malformed> {
        parse_client_frame(&value.to_string())
    }

    #[test]
    fn rule_1_null_is_absence_and_missing_secrets_are_none() {
        let frame = parse(json!({
            "message_type": "invocation_message", "source_id": null, "system_prompt": "s", "user_prompt": "u", "model": "m",
            "agent_env": null, "output_format_json_schema_str": null, "artifacts_dir": null, "artifacts_dirs": null,
            "artifacts_ignore_content": null, "pre_agent_invocation_commands": null,
            "post_agent_invocation_commands": [{"command": "true", "cwd": null, "env": null}],
            "pre_agent_downloadables": null, "request_id": null, "seq": null, "ack": null, "extra": {"kept": "out"}
        }));
        let frame = frame.unwrap().unwrap();
        let ClientMessage::Invocation(mut invocation) = frame.message else { panic!("{frame:?}") };
        assert_eq!(invocation.secrets, Vec::<String>::new());
        assert_eq!(invocation.take_artifacts(), ArtifactDirs::default());
        assert_eq!(
            invocation.post_commands,
            [CommandSpec { command: "true".into(), ..CommandSpec::default() }]
        );
        assert_eq!(frame.seq, None);
    }

    #[test]
    fn rule_1_every_wrong_field_is_refused_by_name() {
        for (wrong, named) in [
            (json!({"message_type": "command_execution_message"}), "commands"),
            (json!({"message_type": "command_execution_message", "commands": "rm"}), "expected a sequence"),
            (
                json!({"message_type": "command_execution_message", "commands": [{"command": ""}]}),
                "commands[0].command",
            ),
            (
                json!({"message_type": "command_execution_message", "commands": [{"command": "a\u{0}b"}]}),
                "NUL",
            ),
            (
                json!({"message_type": "command_execution_message", "commands": [{"command": "a", "env": {"A=B": ""}}]}),
                "env",
            ),
            (
                json!({"message_type": "command_execution_message", "commands": [], "secrets_to_redact": [1]}),
                "expected a string",
            ),
            (
                json!({"message_type": "command_execution_message", "commands": [], "artifacts_dirs": [""]}),
                "artifacts_dirs",
            ),
            (
                json!({"message_type": "command_execution_message", "commands": [], "artifacts_dirs": vec!["a"; 1001]}),
                "at most 1000",
            ),
            (
                json!({"message_type": "command_execution_message", "commands": [], "request_id": ""}),
                "request_id",
            ),
            (json!({"message_type": "invocation_message", "user_prompt": "", "model": ""}), "system_prompt"),
            (json!({"message_type": "artifact_upload_response_message", "filename": "a"}), "filepath"),
            (json!({"message_type": "hello_message", "session_id": "short"}), "session_id"),
            (json!({"message_type": "ack_message"}), "ack"),
            (json!(null), "got null"),
        ] {
            let problem = parse(wrong.clone()).expect_err(&wrong.to_string()).problem;
            assert!(problem.contains(named), "{wrong}: {problem}");
        }
        assert!(parse_client_frame("{nonsense").unwrap_err().problem.contains("not valid JSON"));
        let twice = parse_client_frame(r#"{"message_type":"x","seq":1,"seq":2}"#).unwrap_err().problem;
        assert!(twice.starts_with("the frame is malformed: duplicate field"), "{twice}");
    }

    #[test]
    fn rule_1_what_asks_for_nothing_is_passed_over() {
        for silent in [json!([]), json!(42), json!("text"), json!(true)] {
            assert_eq!(parse(silent), Ok(None));
        }
        for unknown in [json!({}), json!({"message_type": 7}), json!({"message_type": "from_the_future"})] {
            assert_eq!(parse(unknown).unwrap().unwrap().message, ClientMessage::Unknown);
        }
    }

    #[test]
    fn the_deprecated_single_directory_comes_first() {
        let frame = parse(
            json!({"message_type": "command_execution_message", "commands": [], "artifacts_dir": "old", "artifacts_dirs": ["new"]}),
        );
        let ClientMessage::CommandExecution(mut execution) = frame.unwrap().unwrap().message else {
            panic!()
        };
        assert_eq!(execution.take_artifacts().dirs, ["old", "new"]);
    }

    #[test]
    fn what_our_client_writes_is_what_our_runtime_reads() {
        let message = ClientMessage::Invocation(Box::new(Invocation {
            request_id: Some("1".into()),
            user_prompt: "u".into(),
            secrets: vec!["s".into()],
            agent_env: Some(BTreeMap::from([("A".into(), "b".into())])),
            artifacts_dirs: vec!["out".into()],
            pre_commands: vec![CommandSpec { command: "true".into(), ..CommandSpec::default() }],
            ..Invocation::default()
        }));
        let written = serde_json::to_string(&message).unwrap();
        assert_eq!(parse_client_frame(&written).unwrap().unwrap().message, message);
        // Others expect the list, also when it is empty.
        let bare = serde_json::to_value(ClientMessage::CommandExecution(Box::default())).unwrap();
        assert_eq!(bare["secrets_to_redact"], json!([]));
        assert_eq!(
            serde_json::to_value(ClientMessage::Cancel).unwrap(),
            json!({"message_type": "cancel_message"})
        );
    }
}
