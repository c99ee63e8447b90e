//! PURE wire words of the client: what arrives as JSON and what it means. `null` is absence, whatever the field.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// One frame of a client, understood.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientMessage {
    Hello(Hello),
    Invocation(Box<Invocation>),
    CommandExecution(Box<CommandExecution>),
    UploadResponse(UploadResponse),
    UploadDecline(UploadDecline),
    Cancel,
    EndSession,
    /// The sender has read all our frames up to this one.
    Acknowledge(u64),
    /// A type that nobody here knows: newer clients may send them.
    Unknown,
}

/// A frame with what stands around its message.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientFrame {
    pub message: ClientMessage,
    /// Position in the client's stream; clients that know of no resume send none.
    pub seq: Option<u64>,
    /// Our frames that the client has read.
    pub ack: Option<u64>,
    /// Of the frame.
    pub bytes: usize,
}

/// Why a frame is refused, in words for the peer: no path and no stack of this side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub problem: String,
    pub request_id: Option<String>,
    /// The frame tried to be a request: its sender waits for an answer.
    pub seq: Option<u64>,
}

/// The first message of a client that knows the extensions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Hello {
    #[serde(default, deserialize_with = "null_as_default")]
    pub version: u64,
    #[serde(default, deserialize_with = "null_as_default")]
    pub capabilities: Vec<String>,
    /// Names the session, and is the secret by which a later socket claims it.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The last frame that was read before the socket broke.
    #[serde(default, deserialize_with = "null_as_default")]
    pub received: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Command {
    pub command: String,
    #[serde(default)]
    pub cwd: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub env: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Downloadable {
    pub download_url: String,
    pub working_dir: String,
}

/// Where artifacts are looked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArtifactDirs {
    /// As the client wrote them.
    pub dirs: Vec<String>,
    /// Rules that stand above any `.artifactignore`.
    pub ignore: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Invocation {
    pub request_id: Option<String>,
    pub source_id: Option<String>,
    pub system_prompt: String,
    pub user_prompt: String,
    pub model: String,
    pub secrets: Vec<String>,
    pub agent_env: Option<BTreeMap<String, String>>,
    /// The text of a JSON object, parsed only when its turn comes.
    pub output_format: Option<String>,
    pub artifacts: ArtifactDirs,
    pub pre_commands: Vec<Command>,
    pub post_commands: Vec<Command>,
    pub downloads: Vec<Downloadable>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandExecution {
    pub request_id: Option<String>,
    pub source_id: Option<String>,
    pub secrets: Vec<String>,
    pub commands: Vec<Command>,
    pub artifacts: ArtifactDirs,
    pub downloads: Vec<Downloadable>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct UploadResponse {
    #[serde(default)]
    pub upload_id: Option<String>,
    pub filename: String,
    pub filepath: String,
    pub presigned_url: String,
    pub content_type: String,
}

/// The client can't or won't take a file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct UploadDecline {
    #[serde(default)]
    pub upload_id: Option<String>,
    pub filepath: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub reason: String,
}

/// Both kinds of request, as they stand on the wire.
#[derive(Deserialize)]
struct WireRequest {
    #[serde(default)]
    request_id: Option<String>,
    #[serde(default)]
    source_id: Option<String>,
    #[serde(default)]
    system_prompt: Option<String>,
    #[serde(default)]
    user_prompt: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    commands: Option<Vec<Command>>,
    #[serde(default, deserialize_with = "null_as_default")]
    secrets_to_redact: Vec<String>,
    #[serde(default)]
    agent_env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    output_format_json_schema_str: Option<String>,
    #[serde(default)]
    artifacts_dir: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    artifacts_dirs: Vec<String>,
    #[serde(default)]
    artifacts_ignore_content: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pre_agent_invocation_commands: Vec<Command>,
    #[serde(default, deserialize_with = "null_as_default")]
    post_agent_invocation_commands: Vec<Command>,
    #[serde(default, deserialize_with = "null_as_default")]
    pre_agent_downloadables: Vec<Downloadable>,
    #[serde(default, deserialize_with = "null_as_default")]
    pre_execution_downloadables: Vec<Downloadable>,
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// Longest id that a peer may give a request or a session.
const MAX_ID_BYTES: usize = 128;

/// A client's frame. `Ok(None)`: JSON, but nothing that asks for anything; it is passed over in silence, as ever.
pub fn parse_client_frame(text: &str) -> Result<Option<ClientFrame>, Malformed> {
    let refused = |problem: String| Malformed { problem, request_id: None, seq: None };
    let value: Value =
        serde_json::from_str(text).map_err(|error| refused(format!("the frame is no JSON: {error}")))?;
    let object = match &value {
        Value::Object(object) => object,
        Value::Null => return Err(refused("expected a JSON object, got null".to_owned())),
        _ => return Ok(None),
    };
    let seq = object.get("seq").and_then(Value::as_u64);
    let ack = object.get("ack").and_then(Value::as_u64);
    let request_id = object.get("request_id").and_then(Value::as_str).map(str::to_owned);
    let kind = object.get("message_type").and_then(Value::as_str).unwrap_or_default().to_owned();
    match parse_message(&kind, value) {
        Ok(message) => Ok(Some(ClientFrame { message, seq, ack, bytes: text.len() })),
        Err(problem) => Err(Malformed { problem: format!("{kind}: {problem}"), request_id, seq }),
    }
}

fn parse_message(kind: &str, value: Value) -> Result<ClientMessage, String> {
    fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }
    Ok(match kind {
        "invocation_message" => {
            ClientMessage::Invocation(Box::new(read::<WireRequest>(value)?.into_invocation()?))
        }
        "command_execution_message" => {
            ClientMessage::CommandExecution(Box::new(read::<WireRequest>(value)?.into_execution()?))
        }
        "artifact_upload_response_message" => ClientMessage::UploadResponse(read(value)?),
        "artifact_upload_decline_message" => ClientMessage::UploadDecline(read(value)?),
        "cancel_message" => ClientMessage::Cancel,
        "end_session_message" => ClientMessage::EndSession,
        "hello_message" => {
            let hello: Hello = read(value)?;
            if hello.session_id.as_ref().is_some_and(|id| id.len() < 16 || id.len() > MAX_ID_BYTES) {
                return Err("session_id: expected 16 to 128 bytes".to_owned());
            }
            ClientMessage::Hello(hello)
        }
        "ack_message" => match value.get("ack").and_then(Value::as_u64) {
            Some(ack) => ClientMessage::Acknowledge(ack),
            None => return Err("ack: expected a whole number".to_owned()),
        },
        _ => ClientMessage::Unknown,
    })
}

impl WireRequest {
    fn artifacts(&mut self) -> ArtifactDirs {
        let dirs: Vec<String> =
            self.artifacts_dir.take().into_iter().chain(self.artifacts_dirs.drain(..)).collect();
        ArtifactDirs { dirs, ignore: self.artifacts_ignore_content.take() }
    }

    fn check(&self) -> Result<(), String> {
        if self.request_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MAX_ID_BYTES) {
            return Err("request_id: expected 1 to 128 bytes".to_owned());
        }
        let lists = [
            ("commands", self.commands.as_deref().unwrap_or_default()),
            ("pre_agent_invocation_commands", &self.pre_agent_invocation_commands),
            ("post_agent_invocation_commands", &self.post_agent_invocation_commands),
        ];
        for (name, commands) in lists {
            for (index, command) in commands.iter().enumerate() {
                command.check().map_err(|problem| format!("{name}[{index}].{problem}"))?;
            }
        }
        if let Some(name) =
            self.agent_env.iter().flatten().find_map(|(name, value)| bad_variable(name, value))
        {
            return Err(format!("agent_env: {name}"));
        }
        if self
            .artifacts_dir
            .iter()
            .chain(&self.artifacts_dirs)
            .any(|dir| dir.is_empty() || dir.contains('\0'))
        {
            return Err("artifacts_dirs: expected paths, got an empty one or one with NUL".to_owned());
        }
        Ok(())
    }

    fn into_invocation(mut self) -> Result<Invocation, String> {
        self.check()?;
        let needed =
            |name: &str, value: Option<String>| value.ok_or_else(|| format!("{name}: expected a string"));
        Ok(Invocation {
            artifacts: self.artifacts(),
            request_id: self.request_id,
            source_id: self.source_id,
            system_prompt: needed("system_prompt", self.system_prompt)?,
            user_prompt: needed("user_prompt", self.user_prompt)?,
            model: needed("model", self.model)?,
            secrets: self.secrets_to_redact,
            agent_env: self.agent_env,
            output_format: self.output_format_json_schema_str,
            pre_commands: self.pre_agent_invocation_commands,
            post_commands: self.post_agent_invocation_commands,
            downloads: self.pre_agent_downloadables,
        })
    }

    fn into_execution(mut self) -> Result<CommandExecution, String> {
        self.check()?;
        Ok(CommandExecution {
            artifacts: self.artifacts(),
            request_id: self.request_id,
            source_id: self.source_id,
            secrets: self.secrets_to_redact,
            commands: self.commands.ok_or_else(|| "commands: expected an array".to_owned())?,
            downloads: self.pre_execution_downloadables,
        })
    }
}

impl Command {
    fn check(&self) -> Result<(), String> {
        if self.command.is_empty() {
            return Err("command: expected a command, got an empty string".to_owned());
        }
        if self.command.contains('\0') || self.cwd.as_ref().is_some_and(|cwd| cwd.contains('\0')) {
            return Err("command: contains a NUL character".to_owned());
        }
        match self.env.iter().find_map(|(name, value)| bad_variable(name, value)) {
            Some(problem) => Err(format!("env: {problem}")),
            None => Ok(()),
        }
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
    use super::*;
    use serde_json::json;

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
        let ClientMessage::Invocation(invocation) = frame.message else { panic!("{frame:?}") };
        assert_eq!(invocation.secrets, Vec::<String>::new());
        assert_eq!(invocation.artifacts, ArtifactDirs::default());
        assert_eq!(invocation.post_commands, [Command { command: "true".into(), ..Command::default() }]);
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
        assert!(parse_client_frame("{nonsense").unwrap_err().problem.contains("no JSON"));
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
        let ClientMessage::CommandExecution(execution) = frame.unwrap().unwrap().message else { panic!() };
        assert_eq!(execution.artifacts.dirs, ["old", "new"]);
    }
}
