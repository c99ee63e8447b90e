//! Cases of the seven CLIs' formats that the recordings do not contain: one line or a few, and their meaning.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

mod claude_code;
mod codex;
mod copilot_cli;
mod gemini;
mod opencode;
mod pi;
mod reports;
mod tokens;
mod words;

use agents::harness::verdict::Ending;
use agents::harness::{Provider, Recording, Replay, Transcript, replay};
use serde_json::{Value, json};

fn read(provider: Provider, lines: &[Value]) -> Replay {
    let stdout: String = lines.iter().map(|line| format!("{line}\n")).collect();
    replay(provider, &Recording { stdout: stdout.as_bytes(), stderr: "", ending: Ending::Exited(0) })
}

fn events(replay: &Replay, kind: &str) -> Vec<Value> {
    let all = serde_json::to_value(&replay.events).unwrap();
    let all = all.as_array().unwrap().iter();
    all.filter(|event| event["type"] == kind).cloned().collect()
}
