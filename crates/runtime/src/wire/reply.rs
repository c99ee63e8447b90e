//! PURE: builds the messages of a runtime so that they always fit a frame.

use super::capability::Capabilities;
use super::client_message::Acknowledge;
use super::fitting::{MAX_FRAME_BYTES, STREAM_TEXT_BYTES, escaped_len, head_and_tail, pieces};
use super::frame::Body;
use super::json::JsonText;
use super::runtime_message::{
    AgentResult, Assistant, CommandResult, CommandResults, Confirm, Heartbeat, OutputStream, ResultData,
    RuntimeError, RuntimeHello, RuntimeMessage, Undelivered, UploadRequest, UploadResult,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Room for the envelope of a message in its frame: `seq`, `request_id`, braces.
const ENVELOPE_BYTES: usize = 512;
/// Longest error text, as JSON.
const ERROR_BYTES: usize = 64 << 10;
/// Most metadata of an error or a result, as JSON.
const METADATA_BYTES: usize = 256 << 10;
/// Longest part of a command that is repeated with each piece of its output. No shell accepts a longer command anyway.
const COMMAND_BYTES: usize = 256 << 10;
/// Most commands whose results are reported individually.
const MAX_RESULT_ITEMS: usize = 4000;
/// Most bytes kept of a request's results while it runs.
const MAX_KEPT_BYTES: usize = 16 << 20;
/// Longest reason for a failed upload, as JSON.
const REASON_BYTES: usize = 4096;

pub fn hello(session_id: &str, resumed: bool, received: u64, grace_ms: u64) -> Body {
    Body::of(&RuntimeMessage::Hello(RuntimeHello {
        version: 1,
        capabilities: Capabilities::OURS,
        session_id: session_id.to_owned(),
        resumed,
        received,
        grace_ms,
    }))
}

pub fn acknowledge(ack: u64) -> Body {
    Body::of(&RuntimeMessage::Acknowledge(Acknowledge { ack }))
}

pub fn heartbeat(elapsed_ms: u64) -> Body {
    Body::of(&RuntimeMessage::Heartbeat(Heartbeat { phase: "request_in_flight".to_owned(), elapsed_ms }))
}

/// The output of a command, in as many messages as needed. Nothing of it is copied before it is written as JSON, because this
/// message may carry gigabytes.
pub fn command_output<'text>(
    stream: OutputStream,
    command: &str,
    text: &'text str,
) -> impl Iterator<Item = Body> + use<'text> {
    #[derive(Serialize)]
    struct Piece<'a> {
        message_type: &'static str,
        stream: OutputStream,
        text: &'a str,
        command: &'a str,
    }
    let (command, _) = head_and_tail(command, COMMAND_BYTES);
    let message_type = "command_output_message";
    pieces(text, STREAM_TEXT_BYTES)
        .map(move |text| Body::of(&Piece { message_type, stream, text, command: &command }))
}

/// The agent's text, in as many messages as needed.
pub fn assistant(text_blocks: &[String]) -> Vec<Body> {
    let budget = MAX_FRAME_BYTES / 2;
    let mut replies = Vec::new();
    let mut blocks: Vec<String> = Vec::new();
    let say = |text_blocks| Body::of(&RuntimeMessage::Assistant(Assistant { text_blocks }));
    let mut used = 0;
    for block in text_blocks {
        let parts: Vec<&str> = if block.is_empty() { vec![""] } else { pieces(block, budget).collect() };
        for part in parts {
            let length = escaped_len(part) + 3;
            if used + length > budget && !blocks.is_empty() {
                replies.push(say(std::mem::take(&mut blocks)));
                used = 0;
            }
            blocks.push(part.to_owned());
            used += length;
        }
    }
    replies.push(say(blocks));
    replies
}

pub fn error(error: &str, metadata: Map<String, Value>) -> Body {
    let (error, _) = head_and_tail(error, ERROR_BYTES);
    Body::of(&RuntimeMessage::Error(RuntimeError { error, metadata: fitting(metadata) }))
}

/// The agent's answer. Text that does not fit a frame is cut to its head and tail. A structure can't be cut, so it is refused.
pub fn result(data: ResultData, metadata: Map<String, Value>) -> Body {
    let metadata = fitting(metadata);
    let room = MAX_FRAME_BYTES - ENVELOPE_BYTES - METADATA_BYTES;
    let (data, truncated) = match data {
        ResultData::Text { text } => {
            let (text, truncated) = head_and_tail(&text, room);
            (ResultData::Text { text }, truncated)
        }
        ResultData::StructuredOutput { structured_output } if structured_output.text().len() > room => {
            let mut facts = Map::new();
            facts.insert("bytes".to_owned(), structured_output.text().len().into());
            let problem = "the structured output is longer than a frame can carry: write it to a file in an artifacts directory";
            return error(problem, facts);
        }
        structured => (structured, false),
    };
    Body::of(&RuntimeMessage::Result(AgentResult { metadata, data, truncated: truncated.then_some(true) }))
}

pub fn command_results(results: &[CommandResult]) -> Body {
    let left_out = results.len().saturating_sub(MAX_RESULT_ITEMS);
    let (head, tail) = if left_out == 0 {
        (results, &results[..0])
    } else {
        (&results[..MAX_RESULT_ITEMS / 2], &results[results.len() - MAX_RESULT_ITEMS / 2..])
    };
    let shown = head.len() + tail.len();
    let room = MAX_FRAME_BYTES - ENVELOPE_BYTES;
    // Most results fit whole. Otherwise each gets an equal share, part of which the fixed fields of an item take.
    let whole: usize =
        results.iter().map(|result| escaped_len(&result.stdout) + escaped_len(&result.command) + 80).sum();
    let share = if whole <= room { usize::MAX } else { (room / shown.max(1)).saturating_sub(80) };
    Body::of(&RuntimeMessage::CommandResults(CommandResults {
        results: head.iter().chain(tail).map(|result| cut(result, share)).collect(),
        truncated: (left_out > 0).then_some(true),
        results_left_out: (left_out > 0).then_some(left_out),
    }))
}

pub fn upload_request(request: UploadRequest) -> Body {
    Body::of(&RuntimeMessage::UploadRequest(request))
}

pub fn upload_result(mut result: UploadResult) -> Body {
    result.error = result.error.map(|error| head_and_tail(&error, REASON_BYTES).0);
    Body::of(&RuntimeMessage::UploadResult(result))
}

pub fn end_session_confirm(uploaded: u64, undelivered: &[Undelivered]) -> Body {
    let mut room = MAX_FRAME_BYTES - ENVELOPE_BYTES;
    let named = undelivered.iter().map_while(|file| {
        let named = Undelivered {
            path: head_and_tail(&file.path, 8192).0,
            reason: head_and_tail(&file.reason, 1024).0,
        };
        room = room.checked_sub(json!(named).to_string().len() + 1)?;
        Some(named)
    });
    Body::of(&RuntimeMessage::Confirm(Confirm {
        uploaded,
        undelivered: named.collect(),
        undelivered_count: undelivered.len(),
    }))
}

/// Shortens results that do not fit one frame together. Their frame would lose this text anyway; shortening them early saves
/// memory.
pub fn bound(results: &mut [CommandResult]) {
    let kept: usize = results.iter().map(|result| result.command.len() + result.stdout.len()).sum();
    if kept <= MAX_KEPT_BYTES {
        return;
    }
    let shown = results.len().min(MAX_RESULT_ITEMS);
    let share = ((MAX_FRAME_BYTES - ENVELOPE_BYTES) / shown).saturating_sub(80);
    for result in results {
        *result = cut(result, share);
    }
}

fn cut(result: &CommandResult, share: usize) -> CommandResult {
    let (command_share, stdout_share) =
        if share == usize::MAX { (share, share) } else { (share / 4, share - share / 4) };
    let (command, command_cut) = head_and_tail(&result.command, command_share);
    let (stdout, stdout_cut) = head_and_tail(&result.stdout, stdout_share);
    let truncated = result.truncated || stdout_cut || command_cut;
    CommandResult { command, exit_code: result.exit_code, signal: result.signal.clone(), stdout, truncated }
}

fn fitting(metadata: Map<String, Value>) -> JsonText {
    let text = JsonText::of(&metadata);
    if text.text().len() <= METADATA_BYTES { text } else { JsonText::of(&json!({"truncated": true})) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reply: Body) -> Value {
        let frame = reply.into_frame(Some("request \"1\""), 7);
        assert!(frame.len() <= MAX_FRAME_BYTES, "{} bytes", frame.len());
        ground::json::read(&frame).unwrap()
    }

    #[test]
    fn text_is_written_as_serde_writes_it() {
        let all: String = (0..0x250).filter_map(char::from_u32).chain("é漢🐑\n".chars()).collect();
        let mut written = command_output(OutputStream::Stdout, "c", &all);
        assert!(written.next().unwrap().0.contains(&serde_json::to_string(&all).unwrap()));
    }

    #[test]
    fn rule_3_every_message_fits_a_frame_however_large_its_parts() {
        let huge = "\u{1}\"é".repeat(250_000);
        let output: String = command_output(OutputStream::Stdout, &huge, &huge)
            .map(|reply| read(reply)["text"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(output, huge, "streaming has no cap");
        let said: String = assistant(&[huge.clone(), String::new(), huge.clone()])
            .into_iter()
            .flat_map(|reply| read(reply)["text_blocks"].as_array().unwrap().clone())
            .map(|block| block.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(said.len(), 2 * huge.len());
        let mut metadata = Map::new();
        metadata.insert("much".into(), huge.clone().into());
        assert_eq!(read(error(&huge, metadata.clone()))["metadata"]["truncated"], true);
        assert_eq!(read(result(ResultData::Text { text: huge.clone() }, metadata))["truncated"], true);
        assert_eq!(
            read(result(ResultData::StructuredOutput { structured_output: JsonText::of(&huge) }, Map::new()))
                ["message_type"],
            "error_message"
        );
        let undelivered = vec![Undelivered { path: huge.clone(), reason: huge.clone() }; 20];
        assert_eq!(read(end_session_confirm(1, &undelivered))["undelivered_count"], 20);
    }

    #[test]
    fn rule_14_results_of_many_commands_do_not_fill_the_memory() {
        let mut results = Vec::new();
        for number in 0..40 {
            let (command, stdout) = (number.to_string(), format!("{number} {}", "x".repeat(900_000)));
            results.push(CommandResult { command, stdout, ..CommandResult::default() });
            bound(&mut results);
            assert!(
                results.iter().map(|result| result.stdout.len()).sum::<usize>() <= MAX_KEPT_BYTES + 1_000_000
            );
        }
        let frame = read(command_results(&results));
        assert_eq!(frame["results"].as_array().unwrap().len(), 40);
        assert!(frame["results"][7]["stdout"].as_str().unwrap().starts_with("7 x"));
    }

    #[test]
    fn rule_3_captured_output_keeps_head_and_tail_and_says_so() {
        let long = CommandResult {
            command: "c".into(),
            stdout: format!("first{}last", "x".repeat(1_500_000)),
            ..Default::default()
        };
        let frame = read(command_results(&[long.clone(), CommandResult::default()]));
        let stdout = frame["results"][0]["stdout"].as_str().unwrap();
        assert!(stdout.starts_with("first") && stdout.ends_with("last") && stdout.len() > 300_000);
        assert_eq!(frame["results"][0]["truncated"], true);
        assert_eq!(frame["results"][1].get("truncated"), None);
        assert_eq!(frame["results"][1].get("stdout"), None, "absent when empty");
        read(command_results(&vec![long; 5]));
        let wordy =
            CommandResult { command: "\u{1}".repeat(500), stdout: "y".repeat(500), ..Default::default() };
        assert_eq!(read(command_results(&vec![wordy; 10_000]))["results_left_out"], 6000);
    }
}
