//! PURE: the messages of a runtime.

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

/// Whether a message with this tag ends a request. Such a message ends it even when it can't be read.
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
    /// The session was known, and the client continues it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub resumed: bool,
    /// Number of the client's last frame that was read.
    #[serde(default, deserialize_with = "null_as_default")]
    pub received: u64,
    /// How long the client may stay away, in milliseconds.
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

/// The stream that a piece of a command's output comes from.
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

/// A file to be delivered. The client is asked for an upload URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadRequest {
    /// The last part of the path.
    pub filename: String,
    /// The client's name of the directory, joined with the path below it.
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
    /// Whether the name is a valid file name and contains no path to another directory.
    pub fn names_a_file(&self) -> bool {
        !matches!(self.filename.as_str(), "" | "." | "..")
            && !self.filename.contains(|letter| letter == '\0' || std::path::is_separator(letter))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UploadStatus {
    Uploaded,
    Failed,
}

/// The outcome of an upload, for clients that announced [`super::capability::Capability::ArtifactUploadResult`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadResult {
    pub upload_id: String,
    pub filename: String,
    pub filepath: String,
    pub status: UploadStatus,
    /// Length of the content that was sent, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// SHA-256 of the content that was sent, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub attempts: u32,
    /// The reason of the failure.
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
    /// Only head and tail of the text are here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// The answer of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", try_from = "AnyData")]
pub enum ResultData {
    Text { text: String },
    StructuredOutput { structured_output: JsonText },
}

/// The answer before its type is known. A structure stays unparsed, so that its text does not change.
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

/// The results of the commands that ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResults {
    pub results: Vec<CommandResult>,
    /// Some results are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_left_out: Option<usize>,
}

/// The result of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResult {
    pub command: String,
    /// Exit code; -1 when a signal ended the command. The protocol defines it so.
    pub exit_code: i32,
    /// The name of the signal that ended it. This field is an extension of the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Absent when empty.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    /// Only head and tail of `stdout` are here.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "is_false")]
    pub truncated: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The reason why a request has no result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeError {
    #[serde(default, deserialize_with = "null_as_default")]
    pub error: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub metadata: JsonText,
}

impl RuntimeError {
    /// Whether the error refuses the request with this id. A refused request never began, so its id is not in the envelope.
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

/// A file that was not delivered, and the reason.
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
            // A name of one part, where the system says so.
            ("a\\b", cfg!(not(windows))),
            ("a\0", false),
        ] {
            let request = UploadRequest { filename: name.into(), ..UploadRequest::default() };
            assert_eq!(request.names_a_file(), is_file, "{name:?}");
        }
    }
}
