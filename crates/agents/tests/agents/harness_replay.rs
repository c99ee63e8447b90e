//! Recorded runs of all CLIs yield exactly the events and the verdict that are stored beside them.
//!
//! `SHEEPDOG_BLESS=1 cargo test --test agents replay` rewrites the expectations: read the diff.

use crate::recordings::{Recorded, bless, recordings};
use agents::harness::verdict::Ending;
use agents::harness::{AgentEvent, Provider, Recording, Replay, Transcript, replay};
use serde_json::{Value, json};

impl Recorded {
    fn replay(&self) -> Replay {
        self.replay_of(&self.stdout, &self.stderr, self.ending.clone())
    }

    fn replay_of(&self, stdout: &str, stderr: &str, ending: Ending) -> Replay {
        replay(self.provider, &Recording { stdout: stdout.as_bytes(), stderr, ending })
    }

    fn title(&self) -> String {
        format!("{}/{}", self.provider.as_str(), self.name)
    }
}

fn shown(replay: &Replay) -> Value {
    let fault = replay.fault.as_ref().map(|fault| {
        json!({ "code": fault.error.code().as_str(), "kind": fault.kind().map(|kind| kind.as_str()), "message": fault.error.message() })
    });
    json!({ "ok": replay.fault.is_none(), "error": fault, "result": replay.result, "events": replay.events })
}

fn is_noise(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Noise { .. })
}

#[test]
fn every_recording_yields_its_events_and_its_verdict() {
    let recorded = recordings();
    assert!(recorded.len() >= Provider::ALL.len() * 13, "only {} recordings", recorded.len());
    for one in recorded {
        let shown = shown(&one.replay());
        if std::env::var_os("SHEEPDOG_BLESS").is_some() {
            bless(&one, &shown);
            continue;
        }
        assert_eq!(shown, one.expected, "{}", one.title());
    }
}

#[test]
fn any_split_into_chunks_yields_the_same_events() {
    for one in recordings() {
        let whole = one.replay().events;
        for size in [1, 7, 64, 4096] {
            let mut transcript = Transcript::new(one.provider, true, None);
            for chunk in one.stdout.as_bytes().chunks(size) {
                transcript.feed(chunk);
            }
            transcript.finish();
            assert_eq!(transcript.digest.take_events(), whole, "{} in chunks of {size}", one.title());
        }
    }
}

#[test]
fn a_recording_that_is_cut_is_a_success_only_after_its_good_end_of_turn() {
    for one in recordings().into_iter().filter(|one| one.replay().fault.is_none()) {
        let lines: Vec<&str> = one.stdout.lines().collect();
        for kept in 0..lines.len() {
            let cut = one.replay_of(&lines[..kept].join("\n"), "", Ending::Exited(0));
            let is_ended = cut.events.iter().any(|event| matches!(event, AgentEvent::End { ok: true }));
            assert_eq!(cut.fault.is_none(), is_ended, "{} cut after {kept} lines", one.title());
            if let Some(fault) = cut.fault {
                assert!(
                    ["AGENT_TRUNCATED", "AGENT_FAILED"].contains(&fault.error.code().as_str()),
                    "{}",
                    one.title()
                );
            }
        }
    }
}

#[test]
fn a_last_line_that_is_cut_is_kept_as_noise() {
    for one in recordings().into_iter().filter(|one| !one.stdout.is_empty()) {
        let last = one.stdout.lines().last().unwrap();
        let half = (0..=last.len() / 2).rev().find(|at| last.is_char_boundary(*at)).unwrap();
        let stdout = one.stdout.trim_end().strip_suffix(last).unwrap().to_owned() + &last[..half];
        let cut = one.replay_of(&stdout, "", Ending::Exited(0));
        let noise: Vec<_> = cut.events.into_iter().filter(is_noise).collect();
        assert_eq!(noise, [AgentEvent::Noise { line: last[..half].to_owned() }], "{}", one.title());
    }
}

#[test]
fn garbage_between_the_lines_is_noise_and_changes_nothing_else() {
    const GARBAGE: [&str; 8] =
        ["123", "null", "[[[[", "not json", "{\"no\":\"type\"}", "{\"type\":", "\"text\"", "{\"type\":5}"];
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    for one in recordings() {
        let mut stdout = String::new();
        for (index, line) in one.stdout.lines().enumerate() {
            stdout += &format!("{}\r\n{line}\n\n", GARBAGE[index % GARBAGE.len()]);
        }
        // Deep enough to overflow any stack. One recording per provider is enough, to save time.
        let deep = if one.name == "plain" { deep.as_str() } else { "[[1]]" };
        stdout += &format!("{{\"type\":{deep}}}\n{deep}\n");
        let noisy = one.replay_of(&stdout, &one.stderr, one.ending.clone());
        let plain = one.replay();
        let (noise, other): (Vec<_>, Vec<_>) = noisy.events.into_iter().partition(is_noise);
        assert_eq!(noise.len(), one.stdout.lines().count() + 2, "{}", one.title());
        // A line that is a torn message is warned of beside.
        let is_torn = |event: &AgentEvent| matches!(event, AgentEvent::Warning { message } if message.ends_with("{\"type\":"));
        let (torn, quiet): (Vec<_>, Vec<_>) = other.into_iter().partition(is_torn);
        assert_eq!(torn.len(), one.stdout.lines().skip(5).step_by(GARBAGE.len()).count(), "{}", one.title());
        assert_eq!(quiet, plain.events, "{}", one.title());
        assert_eq!(noisy.fault, plain.fault, "{}", one.title());
    }
}

#[test]
fn events_that_nobody_wants_are_not_built_and_the_result_is_the_same() {
    for one in recordings() {
        let mut transcript = Transcript::new(one.provider, false, None);
        transcript.feed(one.stdout.as_bytes());
        transcript.finish();
        assert!(transcript.digest.take_events().is_empty());
        let result = one.replay().result;
        assert_eq!(transcript.digest.final_text(), result.text, "{}", one.title());
        assert_eq!(transcript.digest.steps.tool_calls, result.tool_calls, "{}", one.title());
    }
}

#[test]
fn a_line_of_thirty_megabytes_goes_through_whole() {
    let words = "x".repeat(30 << 20);
    let item = json!({"type":"item.completed","item":{"id":"1","type":"agent_message","text":words}});
    let stdout = format!("{item}\n{{\"type\":\"turn.completed\"}}\n");
    let recording = Recording { stdout: stdout.as_bytes(), stderr: "", ending: Ending::Exited(0) };
    let replay = replay(Provider::Codex, &recording);
    assert!(replay.fault.is_none());
    assert_eq!(replay.result.text, words);
}
