//! Recorded runs of all CLIs yield exactly the events and the verdict that are stored beside them in fixtures/streams.
//!
//! `SHEEPDOG_BLESS=1 cargo test --test agents replay` rewrites the expectations: read the diff.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use agents::harness::verdict::Ending;
use agents::harness::{AgentEvent, Provider, Recording, Replay, Transcript, replay};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

struct Recorded {
    provider: Provider,
    name: String,
    stdout: String,
    stderr: String,
    ending: Ending,
    expected: PathBuf,
}

impl Recorded {
    fn replay(&self) -> Replay {
        self.replay_of(&self.stdout, &self.stderr, self.ending.clone())
    }

    fn replay_of(&self, stdout: &str, stderr: &str, ending: Ending) -> Replay {
        replay(self.provider, &Recording { stdout: stdout.as_bytes(), stderr, ending })
    }
}

fn recorded() -> Vec<Recorded> {
    let mut all = Vec::new();
    for provider in Provider::ALL {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .join("fixtures/streams")
            .join(provider.as_str());
        let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in
            paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        {
            let end: Value =
                ground::json::read_own(fs::read(path.with_extension("end.json")).unwrap()).unwrap();
            let ending = match (end["exitCode"].as_i64(), end["signal"].as_str()) {
                (Some(code), _) => Ending::Exited(code as i32),
                (None, Some(signal)) => Ending::Signalled(signal.to_owned()),
                (None, None) => Ending::Unknown,
            };
            all.push(Recorded {
                provider,
                name: format!("{}/{}", provider.as_str(), path.file_stem().unwrap().to_string_lossy()),
                stdout: fs::read_to_string(&path).unwrap(),
                stderr: end["stderr"].as_str().unwrap_or_default().to_owned(),
                ending,
                expected: path.with_extension("expected.json"),
            });
        }
    }
    all
}

fn shown(replay: &Replay) -> Value {
    let fault = replay.fault.as_ref().map(|fault| {
        json!({ "code": fault.code.as_str(), "kind": fault.kind.map(|kind| kind.as_str()), "message": fault.message })
    });
    json!({ "ok": replay.fault.is_none(), "error": fault, "result": replay.result, "events": replay.events })
}

fn is_noise(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Noise { .. })
}

#[test]
fn every_recording_yields_its_events_and_its_verdict() {
    let recorded = recorded();
    assert!(recorded.len() >= Provider::ALL.len() * 13, "only {} recordings", recorded.len());
    for one in recorded {
        let shown = shown(&one.replay());
        if std::env::var_os("SHEEPDOG_BLESS").is_some() {
            fs::write(&one.expected, format!("{shown:#}\n")).unwrap();
        }
        let expected: Value = ground::json::read_own(fs::read(&one.expected).unwrap()).unwrap();
        assert_eq!(shown, expected, "{}", one.name);
    }
}

#[test]
fn any_split_into_chunks_yields_the_same_events() {
    for one in recorded() {
        let whole = one.replay().events;
        for size in [1, 7, 64, 4096] {
            let mut transcript = Transcript::new(one.provider, true, None);
            for chunk in one.stdout.as_bytes().chunks(size) {
                transcript.feed(chunk);
            }
            transcript.finish();
            assert_eq!(transcript.take_events(), whole, "{} in chunks of {size}", one.name);
        }
    }
}

#[test]
fn a_recording_that_is_cut_is_a_success_only_after_its_good_end_of_turn() {
    for one in recorded().into_iter().filter(|one| one.replay().fault.is_none()) {
        let lines: Vec<&str> = one.stdout.lines().collect();
        for kept in 0..lines.len() {
            let cut = one.replay_of(&lines[..kept].join("\n"), "", Ending::Exited(0));
            let is_ended = cut.events.iter().any(|event| matches!(event, AgentEvent::End { ok: true }));
            assert_eq!(cut.fault.is_none(), is_ended, "{} cut after {kept} lines", one.name);
            if let Some(fault) = cut.fault {
                assert!(["AGENT_TRUNCATED", "AGENT_FAILED"].contains(&fault.code.as_str()), "{}", one.name);
            }
        }
    }
}

#[test]
fn a_last_line_that_is_cut_is_kept_as_noise() {
    for one in recorded().into_iter().filter(|one| !one.stdout.is_empty()) {
        let last = one.stdout.lines().last().unwrap();
        let half = (0..=last.len() / 2).rev().find(|at| last.is_char_boundary(*at)).unwrap();
        let stdout = one.stdout.trim_end().strip_suffix(last).unwrap().to_owned() + &last[..half];
        let cut = one.replay_of(&stdout, "", Ending::Exited(0));
        let noise: Vec<_> = cut.events.into_iter().filter(is_noise).collect();
        assert_eq!(noise, [AgentEvent::Noise { line: last[..half].to_owned() }], "{}", one.name);
    }
}

#[test]
fn garbage_between_the_lines_is_noise_and_changes_nothing_else() {
    const GARBAGE: [&str; 8] =
        ["123", "null", "[[[[", "not json", "{\"no\":\"type\"}", "{\"type\":", "\"text\"", "{\"type\":5}"];
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    for one in recorded() {
        let mut stdout = String::new();
        for (index, line) in one.stdout.lines().enumerate() {
            stdout += &format!("{}\r\n{line}\n\n", GARBAGE[index % GARBAGE.len()]);
        }
        // Deep enough to overflow any stack. One recording per provider is enough, to save time.
        let deep = if one.name.ends_with("plain") { deep.as_str() } else { "[[1]]" };
        stdout += &format!("{{\"type\":{deep}}}\n{deep}\n");
        let noisy = one.replay_of(&stdout, &one.stderr, one.ending.clone());
        let plain = one.replay();
        let (noise, quiet): (Vec<_>, Vec<_>) = noisy.events.into_iter().partition(is_noise);
        assert_eq!(noise.len(), one.stdout.lines().count() + 2, "{}", one.name);
        assert_eq!(quiet, plain.events, "{}", one.name);
        assert_eq!(noisy.fault, plain.fault, "{}", one.name);
    }
}

#[test]
fn events_that_nobody_wants_are_not_built_and_the_result_is_the_same() {
    for one in recorded() {
        let mut transcript = Transcript::new(one.provider, false, None);
        transcript.feed(one.stdout.as_bytes());
        transcript.finish();
        assert!(transcript.take_events().is_empty());
        let result = one.replay().result;
        assert_eq!(transcript.digest().final_text(), result.text, "{}", one.name);
        assert_eq!(transcript.digest().tool_calls(), result.tool_calls, "{}", one.name);
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
