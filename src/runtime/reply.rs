//! PURE wire words of the runtime: what it says, as JSON that always fits a frame.

use super::frame_budget::{MAX_FRAME_BYTES, STREAM_TEXT_BYTES, escaped_len, head_and_tail, pieces};
use crate::process::Stream;
use crate::watch::Stamp;
use serde_json::{Map, Value, json};

/// What stands around a message in its frame: `seq`, `request_id`, braces.
const ENVELOPE_BYTES: usize = 512;
/// Longest error text, as JSON.
const ERROR_BYTES: usize = 64 << 10;
/// Most metadata of an error or a result, as JSON.
const METADATA_BYTES: usize = 256 << 10;
/// Most of a command that is repeated with each piece of its output. No shell takes a longer one anyway.
const COMMAND_BYTES: usize = 256 << 10;
/// Commands whose results are told one by one.
const MAX_RESULT_ITEMS: usize = 4000;

/// A message without its envelope: a JSON object, serialised. Only this file makes them, so all of them fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply(String);

/// How one command ended. `stdout` is redacted already.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandResult {
    pub command: String,
    /// -1 for a signal, as the protocol has it.
    pub exit_code: i32,
    pub stdout: String,
    /// `stdout` is head and tail only.
    pub truncated: bool,
}

/// What an agent brought home.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentData {
    Text(String),
    Structured(Value),
}

/// How an upload went, told to clients that care.
#[derive(Clone, Debug, PartialEq)]
pub struct UploadFate {
    pub upload_id: String,
    pub filename: String,
    pub filepath: String,
    pub outcome: Result<Uploaded, String>,
    /// For example: the file was still open for writing.
    pub warning: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uploaded {
    /// Of the content that was sent. Not told.
    pub stamp: Stamp,
    pub bytes: u64,
    pub sha256: String,
    pub attempts: u32,
}

/// A file that did not get home, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Undelivered {
    pub path: String,
    pub reason: String,
}

impl Reply {
    /// The frame: the message with its place in the stream and its request.
    pub fn into_frame(self, request_id: Option<&str>, seq: u64) -> String {
        let mut frame = self.0;
        frame.pop();
        if let Some(id) = request_id {
            frame.push_str(",\"request_id\":");
            frame.push_str(&Value::from(id).to_string());
        }
        frame.push_str(&format!(",\"seq\":{seq}}}"));
        frame
    }

    /// The frame of a message that belongs to the socket and not to the stream.
    pub fn into_bare_frame(self) -> String {
        self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a client says: it fits because people write it.
    pub fn of_client(message: &Value) -> Reply {
        Reply(message.to_string())
    }

    pub fn hello(
        capabilities: &[&str],
        session_id: &str,
        resumed: bool,
        received: u64,
        grace_ms: u64,
    ) -> Reply {
        Reply(
            json!({"message_type": "hello_message", "version": 1, "capabilities": capabilities, "session_id": session_id,
                   "resumed": resumed, "received": received, "grace_ms": grace_ms})
            .to_string(),
        )
    }

    pub fn acknowledge(received: u64) -> Reply {
        Reply(format!("{{\"message_type\":\"ack_message\",\"ack\":{received}}}"))
    }

    pub fn heartbeat(elapsed_ms: u64) -> Reply {
        Reply(
            json!({"message_type": "heartbeat_message", "phase": "request_in_flight", "elapsed_ms": elapsed_ms})
                .to_string(),
        )
    }

    /// Output of a command, in as many messages as it takes.
    pub fn command_output<'text>(
        stream: Stream,
        command: &str,
        text: &'text str,
    ) -> impl Iterator<Item = Reply> + use<'text> {
        let (command, _) = head_and_tail(command, COMMAND_BYTES);
        let stream = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        // All but the text is the same in each of them: written once.
        let tail = format!(",\"command\":{}}}", Value::from(command));
        pieces(text, STREAM_TEXT_BYTES).map(move |piece| {
            let mut body = String::with_capacity(piece.len() + piece.len() / 8 + tail.len() + 96);
            body.push_str("{\"message_type\":\"command_output_message\",\"stream\":\"");
            body.push_str(stream);
            body.push_str("\",\"text\":");
            push_json_string(&mut body, piece);
            body.push_str(&tail);
            Reply(body)
        })
    }

    /// What the agent said, in as many messages as it takes.
    pub fn assistant(text_blocks: &[String]) -> Vec<Reply> {
        let budget = MAX_FRAME_BYTES / 2;
        let mut replies = Vec::new();
        let mut blocks: Vec<&str> = Vec::new();
        let mut used = 0;
        for block in text_blocks {
            let parts: Vec<&str> = if block.is_empty() { vec![""] } else { pieces(block, budget).collect() };
            for part in parts {
                let length = escaped_len(part) + 3;
                if used + length > budget && !blocks.is_empty() {
                    replies.push(Reply(
                        json!({"message_type": "assistant_message", "text_blocks": blocks}).to_string(),
                    ));
                    blocks.clear();
                    used = 0;
                }
                blocks.push(part);
                used += length;
            }
        }
        replies.push(Reply(json!({"message_type": "assistant_message", "text_blocks": blocks}).to_string()));
        replies
    }

    pub fn error(error: &str, metadata: Map<String, Value>) -> Reply {
        let (error, _) = head_and_tail(error, ERROR_BYTES);
        Reply(
            json!({"message_type": "error_message", "error": error, "metadata": fitting(metadata)})
                .to_string(),
        )
    }

    /// The agent's answer. A text that fits no frame keeps head and tail; a structure can't be cut, so it is refused.
    pub fn result(data: &AgentData, metadata: Map<String, Value>) -> Reply {
        let metadata = fitting(metadata);
        let room = MAX_FRAME_BYTES - ENVELOPE_BYTES - METADATA_BYTES;
        match data {
            AgentData::Text(text) => {
                let (text, truncated) = head_and_tail(text, room);
                let mut body = json!({"message_type": "result_message", "metadata": metadata, "data": {"type": "text", "text": text}});
                if truncated {
                    body["truncated"] = true.into();
                }
                Reply(body.to_string())
            }
            AgentData::Structured(value) => {
                let length = value.to_string().len();
                if length > room {
                    let mut facts = Map::new();
                    facts.insert("bytes".to_owned(), length.into());
                    return Reply::error(
                        "the structured output is longer than a frame can carry: write it to a file in an artifacts directory",
                        facts,
                    );
                }
                Reply(
                    json!({"message_type": "result_message", "metadata": metadata,
                           "data": {"type": "structured_output", "structured_output": value}})
                    .to_string(),
                )
            }
        }
    }

    pub fn command_results(results: &[CommandResult]) -> Reply {
        let left_out = results.len().saturating_sub(MAX_RESULT_ITEMS);
        let (head, tail) = if left_out == 0 {
            (results, &results[..0])
        } else {
            (&results[..MAX_RESULT_ITEMS / 2], &results[results.len() - MAX_RESULT_ITEMS / 2..])
        };
        let shown = head.len() + tail.len();
        let room = MAX_FRAME_BYTES - ENVELOPE_BYTES;
        let frame_of = |share: usize| -> Value {
            let items: Vec<Value> = head.iter().chain(tail).map(|result| result.as_json(share)).collect();
            let mut body = json!({"message_type": "command_execution_result_message", "results": items});
            if left_out > 0 {
                body["truncated"] = true.into();
                body["results_left_out"] = left_out.into();
            }
            body
        };
        // Most results fit whole. If not, each gets an equal share, of which the fixed words of an item take some.
        let whole: usize = results
            .iter()
            .map(|result| escaped_len(&result.stdout) + escaped_len(&result.command) + 80)
            .sum();
        let share = if whole <= room { usize::MAX } else { (room / shown.max(1)).saturating_sub(80) };
        Reply(frame_of(share).to_string())
    }

    pub fn upload_request(
        upload_id: &str,
        filename: &str,
        filepath: &str,
        bytes: u64,
        warning: Option<&str>,
    ) -> Reply {
        let mut body = json!({"message_type": "artifact_upload_request_message", "filename": filename, "filepath": filepath,
                              "upload_id": upload_id, "bytes": bytes});
        if let Some(warning) = warning {
            body["warning"] = warning.into();
        }
        Reply(body.to_string())
    }

    pub fn upload_fate(fate: &UploadFate) -> Reply {
        let mut body = json!({"message_type": "artifact_upload_result_message", "upload_id": fate.upload_id,
                              "filename": fate.filename, "filepath": fate.filepath});
        match &fate.outcome {
            Ok(uploaded) => {
                body["status"] = "uploaded".into();
                body["bytes"] = uploaded.bytes.into();
                body["sha256"] = uploaded.sha256.as_str().into();
                body["attempts"] = uploaded.attempts.into();
            }
            Err(reason) => {
                body["status"] = "failed".into();
                body["error"] = head_and_tail(reason, 4096).0.into();
            }
        }
        if let Some(warning) = &fate.warning {
            body["warning"] = warning.as_str().into();
        }
        Reply(body.to_string())
    }

    pub fn end_session_confirm(uploaded: u64, undelivered: &[Undelivered]) -> Reply {
        let mut room = MAX_FRAME_BYTES - ENVELOPE_BYTES;
        let named: Vec<Value> = undelivered
            .iter()
            .map_while(|file| {
                let item = json!({"path": head_and_tail(&file.path, 8192).0, "reason": head_and_tail(&file.reason, 1024).0});
                room = room.checked_sub(item.to_string().len() + 1)?;
                Some(item)
            })
            .collect();
        Reply(
            json!({"message_type": "end_session_confirm_message", "uploaded": uploaded, "undelivered": named,
                   "undelivered_count": undelivered.len()})
            .to_string(),
        )
    }
}

impl CommandResult {
    fn as_json(&self, share: usize) -> Value {
        let command_share = if share == usize::MAX { usize::MAX } else { share / 4 };
        let (command, command_cut) = head_and_tail(&self.command, command_share);
        let stdout_share = if share == usize::MAX { usize::MAX } else { share - share / 4 };
        let (stdout, stdout_cut) = head_and_tail(&self.stdout, stdout_share);
        let mut item = json!({"command": command, "exit_code": self.exit_code});
        if !stdout.is_empty() {
            item["stdout"] = stdout.into();
        }
        if self.truncated || stdout_cut || command_cut {
            item["truncated"] = true.into();
        }
        item
    }
}

fn fitting(metadata: Map<String, Value>) -> Value {
    let metadata = Value::Object(metadata);
    if metadata.to_string().len() <= METADATA_BYTES {
        return metadata;
    }
    json!({"truncated": true})
}

/// Appends the text as JSON writes it, without a copy in between: this is where a command's output goes through.
fn push_json_string(into: &mut String, text: &str) {
    into.push('"');
    let mut kept = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            8 => "\\b",
            12 => "\\f",
            0..0x20 => "",
            _ => continue,
        };
        // A byte below 0x80 is a character of its own: the border is one of characters.
        into.push_str(&text[kept..at]);
        kept = at + 1;
        if short.is_empty() {
            into.push_str(&format!("\\u{byte:04x}"));
        } else {
            into.push_str(short);
        }
    }
    into.push_str(&text[kept..]);
    into.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reply: Reply) -> Value {
        let frame = reply.into_frame(Some("request \"1\""), 7);
        assert!(frame.len() <= MAX_FRAME_BYTES, "{} bytes", frame.len());
        serde_json::from_str(&frame).unwrap()
    }

    #[test]
    fn text_is_written_as_serde_writes_it() {
        let all: String = (0..0x250).filter_map(char::from_u32).chain("é漢🐑\n".chars()).collect();
        let mut written = String::new();
        push_json_string(&mut written, &all);
        assert_eq!(written, serde_json::to_string(&all).unwrap());
    }

    #[test]
    fn rule_16_every_frame_names_its_place_and_its_request() {
        let frame = read(Reply::heartbeat(15_000));
        assert_eq!(frame["seq"], 7);
        assert_eq!(frame["request_id"], "request \"1\"");
        assert_eq!(frame["elapsed_ms"], 15_000);
    }

    #[test]
    fn rule_3_every_message_fits_a_frame_however_large_its_parts() {
        let huge = "\u{1}\"é".repeat(250_000);
        let output: String = Reply::command_output(Stream::Stdout, &huge, &huge)
            .map(|reply| read(reply)["text"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(output, huge, "streaming has no cap");
        let said: String = Reply::assistant(&[huge.clone(), String::new(), huge.clone()])
            .into_iter()
            .flat_map(|reply| read(reply)["text_blocks"].as_array().unwrap().clone())
            .map(|block| block.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(said.len(), 2 * huge.len());
        let mut metadata = Map::new();
        metadata.insert("much".into(), huge.clone().into());
        assert_eq!(read(Reply::error(&huge, metadata.clone()))["metadata"]["truncated"], true);
        assert_eq!(read(Reply::result(&AgentData::Text(huge.clone()), metadata))["truncated"], true);
        assert_eq!(
            read(Reply::result(&AgentData::Structured(huge.clone().into()), Map::new()))["message_type"],
            "error_message"
        );
        let undelivered = vec![Undelivered { path: huge.clone(), reason: huge.clone() }; 200];
        assert_eq!(read(Reply::end_session_confirm(1, &undelivered))["undelivered_count"], 200);
    }

    #[test]
    fn rule_3_captured_output_keeps_head_and_tail_and_says_so() {
        let long = CommandResult {
            command: "c".into(),
            stdout: format!("first{}last", "x".repeat(1_500_000)),
            ..Default::default()
        };
        let frame = read(Reply::command_results(&[long.clone(), CommandResult::default()]));
        let stdout = frame["results"][0]["stdout"].as_str().unwrap();
        assert!(stdout.starts_with("first") && stdout.ends_with("last") && stdout.len() > 300_000);
        assert_eq!(frame["results"][0]["truncated"], true);
        assert_eq!(frame["results"][1].get("truncated"), None);
        assert_eq!(frame["results"][1].get("stdout"), None, "absent when empty");
        read(Reply::command_results(&vec![long; 5]));
        let wordy =
            CommandResult { command: "\u{1}".repeat(5000), stdout: "y".repeat(5000), ..Default::default() };
        assert_eq!(read(Reply::command_results(&vec![wordy; 10_000]))["results_left_out"], 6000);
    }
}
