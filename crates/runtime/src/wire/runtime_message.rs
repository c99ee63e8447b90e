//! PURE: what a runtime says.

use super::capability::Capabilities;
use super::client_message::Acknowledge;
use super::json::{JsonText, null_as_default};
use serde::{Deserialize, Serialize};

messages! {
    /// One message of a runtime.
    enum RuntimeMessage {
        "hello_message" => Hello(RuntimeHello),
        "ack_message" => Acknowledge(Acknowledge),
        "heartbeat_message" => Heartbeat(Heartbeat),
        "assistant_message" => Assistant(Assistant),
        "command_output_message" => CommandOutput(CommandOutput),
        "artifact_upload_request_message" => UploadRequest(UploadRequest),
        "artifact_upload_result_message" => UploadResult(UploadResult),
        "result_message" => Result(AgentResult),
        "command_execution_result_message" => CommandResults(CommandResults),
        "error_message" => Error(RuntimeError),
        "end_session_confirm_message" => Confirm(Confirm),
    }
}

/// Whether a message of this tag ends a request: then it is an end also when it can't be read.
pub(super) fn ends_a_request(tag: &str) -> bool {
    matches!(tag, "result_message" | "command_execution_result_message" | "error_message")
}

/// The answer to a hello; it comes before everything else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeHello {
    #[serde(default, deserialize_with = "null_as_default")]
    pub version: u64,
    #[serde(default, deserialize_with = "null_as_default")]
    pub capabilities: Capabilities,
    #[serde(default, deserialize_with = "null_as_default")]
    pub session_id: String,
    /// The session was known; the client goes on with it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub resumed: bool,
    /// The last frame of the client that was read.
    #[serde(default, deserialize_with = "null_as_default")]
    pub received: u64,
    /// How long the client may stay away.
    #[serde(default, deserialize_with = "null_as_default")]
    pub grace_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    #[serde(default, deserialize_with = "null_as_default")]
    pub phase: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub elapsed_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assistant {
    #[serde(deserialize_with = "null_as_default")]
    pub text_blocks: Vec<String>,
}

/// Which of a command's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    Stdout,
    Stderr,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    pub stream: OutputStream,
    pub text: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub command: String,
}

/// A file that should get home: the client is asked for a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadRequest {
    /// The last part of the path.
    pub filename: String,
    /// The client's directory, joined with the part below.
    pub filepath: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// For example: the file was still open for writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl UploadRequest {
    /// Whether the name is one that a file can have, and no way to another directory.
    pub fn names_a_file(&self) -> bool {
        !matches!(self.filename.as_str(), "" | "." | "..") && !self.filename.contains(['/', '\\', '\0'])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UploadStatus {
    Uploaded,
    Failed,
}

/// How an upload went, told to clients that announced [`super::capability::Capability::ArtifactUploadResult`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadResult {
    pub upload_id: String,
    pub filename: String,
    pub filepath: String,
    pub status: UploadStatus,
    /// Of what was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Of what was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub attempts: u32,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// An agent's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentResult {
    #[serde(default, deserialize_with = "null_as_default")]
    pub metadata: JsonText,
    pub data: ResultData,
    /// The text is head and tail only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// What an agent brought home.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", try_from = "AnyData")]
pub enum ResultData {
    Text { text: String },
    StructuredOutput { structured_output: JsonText },
}

/// Read before it is known which of the two it is, so that a structure's text stays what it is.
#[derive(Deserialize)]
struct AnyData {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    structured_output: Option<JsonText>,
}

impl TryFrom<AnyData> for ResultData {
    type Error = String;

    fn try_from(any: AnyData) -> Result<ResultData, String> {
        match (any.kind.as_str(), any.text, any.structured_output) {
            ("text", Some(text), _) => Ok(ResultData::Text { text }),
            ("structured_output", _, Some(structured_output)) => {
                Ok(ResultData::StructuredOutput { structured_output })
            }
            ("text" | "structured_output", ..) => Err(format!("data.{}: is missing", any.kind)),
            _ => Err("data.type: expected \"text\" or \"structured_output\"".to_owned()),
        }
    }
}

/// How commands ended: as many as ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResults {
    pub results: Vec<CommandResult>,
    /// Some of them are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_left_out: Option<usize>,
}

/// How one command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResult {
    pub command: String,
    /// -1 for a signal, as the protocol has it.
    pub exit_code: i32,
    /// The name of the signal that ended it. Beyond the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Absent when empty.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    /// `stdout` is head and tail only.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_false")]
    pub truncated: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Why a request has no result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeError {
    #[serde(default, deserialize_with = "null_as_default")]
    pub error: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub metadata: JsonText,
}

impl RuntimeError {
    /// Whether it refuses the request of this id: a refused request is none that could be named in the usual place.
    pub fn refuses(&self, request_id: &str) -> bool {
        #[derive(Deserialize)]
        struct Refusal {
            request_id: String,
        }
        self.metadata.read::<Refusal>().is_ok_and(|refusal| refusal.request_id == request_id)
    }
}

/// The session is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirm {
    #[serde(default, deserialize_with = "null_as_default")]
    pub uploaded: u64,
    #[serde(default, deserialize_with = "null_as_default")]
    pub undelivered: Vec<Undelivered>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub undelivered_count: usize,
}

/// A file that did not get home, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undelivered {
    pub path: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::super::frame::parse_runtime_frame;
    use super::*;

    fn message(text: &str) -> RuntimeMessage {
        parse_runtime_frame(text).unwrap().message
    }

    #[test]
    fn rule_1_what_a_runtime_says_wrongly_is_passed_over() {
        for nonsense in ["", "[]", "5", "null", "{broken"] {
            assert_eq!(parse_runtime_frame(nonsense), None);
        }
        for other in [
            r#"{}"#,
            r#"{"message_type":5}"#,
            r#"{"message_type":"new"}"#,
            r#"{"message_type":"ack_message"}"#,
            r#"{"message_type":"assistant_message","text_blocks":["a",5]}"#,
            r#"{"message_type":"command_output_message","stream":"env","text":"x","command":"c"}"#,
        ] {
            assert_eq!(message(other), RuntimeMessage::Unknown, "{other}");
        }
    }

    #[test]
    fn a_terminal_that_can_not_be_read_is_an_end_all_the_same_and_says_why() {
        for (wrong, named) in [
            (r#"{"message_type":"command_execution_result_message","results":[null]}"#, "null"),
            (
                r#"{"message_type":"command_execution_result_message","results":[{"command":"c","exit_code":"zero"}]}"#,
                "zero",
            ),
            (r#"{"message_type":"command_execution_result_message"}"#, "results"),
            (
                r#"{"message_type":"result_message","metadata":{},"data":{"type":"text","text":5}}"#,
                "integer `5`",
            ),
            (r#"{"message_type":"result_message","metadata":{},"data":{"type":"text"}}"#, "data.text"),
            (
                r#"{"message_type":"result_message","data":{"type":"structured_output","structured_output":null}}"#,
                "structured_output",
            ),
            (r#"{"message_type":"result_message","data":{"type":"else"}}"#, "data.type"),
            (r#"{"message_type":"error_message","error":5}"#, "integer `5`"),
        ] {
            let problem = parse_runtime_frame(wrong).unwrap().problem.unwrap();
            assert!(problem.contains(named), "{wrong}: {problem}");
        }
    }

    #[test]
    fn what_javascript_writes_is_carried() {
        let deep = format!("{}1e999{}", "[".repeat(5000), "]".repeat(5000));
        let text = format!(
            r#"{{"message_type":"result_message","metadata":{{"a":"\ud83d"}},"data":{{"type":"structured_output","structured_output":{deep}}}}}"#
        );
        let RuntimeMessage::Result(result) = message(&text) else { panic!() };
        assert_eq!(result.metadata.text(), r#"{"a":"\ud83d"}"#);
        assert_eq!(
            result.data,
            ResultData::StructuredOutput { structured_output: super::super::json::read(&deep).unwrap() }
        );
        let RuntimeMessage::Error(error) = message(r#"{"message_type":"error_message","error":"x\ud83d"}"#)
        else {
            panic!()
        };
        assert_eq!((error.error.as_str(), error.metadata.text()), ("x\u{fffd}", "{}"));
    }

    #[test]
    fn a_file_s_name_leads_nowhere() {
        for (name, is_file) in [
            ("a.txt", true),
            ("..a", true),
            ("", false),
            ("..", false),
            ("../../evil", false),
            ("a\\b", false),
            ("a\0", false),
        ] {
            let request = UploadRequest { filename: name.into(), ..UploadRequest::default() };
            assert_eq!(request.names_a_file(), is_file, "{name:?}");
        }
    }
}
