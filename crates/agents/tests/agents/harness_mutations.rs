//! Recorded runs with lines dropped, repeated, moved and cut, and with fields of other types. A turn is a success only if it has
//! a complete successful end and no work follows it. Every other turn has a reason.
//!
//! This file defines a complete successful end, and work after it, a second time, line by line and strictly. So the readers are
//! checked against a definition that is independent of theirs.

use crate::recordings::{Recorded, recordings};
use agents::harness::verdict::Ending;
use agents::harness::{Provider, Recording, replay};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// All recordings.
static RECORDINGS: LazyLock<Vec<(Provider, Vec<Value>)>> = LazyLock::new(|| {
    let read = |one: Recorded| {
        let lines = one.stdout.lines().filter_map(|line| ground::json::read_own(line).ok()).collect();
        (one.provider, lines)
    };
    recordings().into_iter().map(read).filter(|(_, lines): &(_, Vec<_>)| !lines.is_empty()).collect()
});

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn is_good_end(provider: Provider, line: &Value) -> bool {
    let kind = &line["type"];
    match provider {
        Provider::ClaudeCode | Provider::Qwen => {
            kind == "result"
                && line["subtype"] == "success"
                && line["is_error"] == false
                && line["parent_tool_use_id"].is_null()
        }
        Provider::Codex => kind == "turn.completed",
        Provider::Gemini => kind == "result" && line["status"] == "success",
        Provider::Opencode => {
            kind == "step_finish" && matches!(line["part"]["reason"].as_str(), Some("stop" | "length"))
        }
        Provider::Copilot => kind == "result" && line["exitCode"] == 0,
        Provider::Pi => kind == "agent_end",
        Provider::Kimi => kind == "session.resume_hint" && is_text(&line["session_id"]),
        // It prints no stream that is recorded.
        Provider::Other(_) => false,
    }
}

/// Whether the line shows beyond doubt that the agent works.
fn is_work(provider: Provider, line: &Value) -> bool {
    let kind = line["type"].as_str().unwrap_or_default();
    let says = |content: &Value| {
        content.as_array().is_some_and(|parts| {
            parts.iter().any(|part| {
                part["type"] == "text"
                    && part["text"]
                        .as_str()
                        .is_some_and(|text| !text.is_empty() && !text.contains("[API Error"))
            })
        })
    };
    match provider {
        Provider::ClaudeCode | Provider::Qwen => match kind {
            "system" => line["subtype"] == "init",
            "assistant" => {
                line["parent_tool_use_id"].is_null()
                    && line["error"].is_null()
                    && line["message"]["model"] != "<synthetic>"
                    && says(&line["message"]["content"])
            }
            _ => false,
        },
        Provider::Codex => {
            kind == "turn.started"
                || (kind == "item.completed"
                    && line["item"]["type"] == "agent_message"
                    && is_text(&line["item"]["text"]))
        }
        Provider::Gemini => {
            kind == "init" || (kind == "message" && line["role"] == "assistant" && is_text(&line["content"]))
        }
        Provider::Opencode => kind == "step_start" || (kind == "text" && is_text(&line["part"]["text"])),
        Provider::Copilot => {
            kind == "assistant.message"
                && is_text(&line["data"]["content"])
                && line["agentId"].is_null()
                && line["data"]["parentToolCallId"].is_null()
        }
        Provider::Pi => {
            kind == "agent_start"
                || (kind == "message_end"
                    && line["message"]["role"] == "assistant"
                    && says(&line["message"]["content"]))
        }
        Provider::Kimi => line["role"] == "assistant" && is_text(&line["content"]),
        Provider::Other(_) => false,
    }
}

#[derive(Clone, Debug)]
enum Mutation {
    Drop(Index),
    Repeat(Index, Index),
    Move(Index, Index),
    Cut(Index),
    Retype(Index, Index, Value),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let odd = proptest::sample::select(vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!("x"),
        json!(""),
        json!([]),
        json!({}),
    ]);
    prop_oneof![
        any::<Index>().prop_map(Mutation::Drop),
        (any::<Index>(), any::<Index>()).prop_map(|(line, to)| Mutation::Repeat(line, to)),
        (any::<Index>(), any::<Index>()).prop_map(|(line, to)| Mutation::Move(line, to)),
        any::<Index>().prop_map(Mutation::Cut),
        (any::<Index>(), any::<Index>(), odd)
            .prop_map(|(line, field, value)| Mutation::Retype(line, field, value)),
    ]
}

fn mutate(lines: &mut Vec<Value>, mutation: Mutation) {
    if lines.is_empty() {
        return;
    }
    match mutation {
        Mutation::Drop(line) => {
            lines.remove(line.index(lines.len()));
        }
        Mutation::Repeat(line, to) => {
            let line = line.get(lines).clone();
            lines.insert(to.index(lines.len() + 1), line);
        }
        Mutation::Move(line, to) => {
            let line = lines.remove(line.index(lines.len()));
            lines.insert(to.index(lines.len() + 1), line);
        }
        Mutation::Cut(line) => lines.truncate(line.index(lines.len())),
        Mutation::Retype(line, field, value) => {
            // The fields at the top and one level below, which the readers use.
            let line = line.get_mut(lines);
            let mut places = Vec::new();
            for (name, inner) in line.as_object().into_iter().flatten() {
                places.push(format!("/{name}"));
                places.extend(
                    inner.as_object().into_iter().flatten().map(|(below, _)| format!("/{name}/{below}")),
                );
            }
            if !places.is_empty()
                && let Some(place) = line.pointer_mut(field.get::<String>(&places))
            {
                *place = value;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_success_without_a_whole_good_end_that_nothing_follows(
        which in any::<Index>(),
        mutations in proptest::collection::vec(mutation(), 0..6),
        ending in prop_oneof![
            4 => Just(Ending::Exited(0)),
            1 => (1i32..256).prop_map(Ending::Exited),
            1 => Just(Ending::Unknown),
            1 => Just(Ending::Signalled("SIGTERM".to_owned())),
        ],
    ) {
        let (provider, lines) = which.get(&RECORDINGS);
        let provider = *provider;
        let mut lines = lines.clone();
        mutations.into_iter().for_each(|mutation| mutate(&mut lines, mutation));
        let stdout = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let replay = replay(provider, &Recording { stdout: stdout.as_bytes(), stderr: "", ending });
        match &replay.fault {
            None => {
                let end = lines.iter().rposition(|line| is_good_end(provider, line));
                prop_assert!(end.is_some(), "a success without a good end:\n{stdout}");
                let after = lines[end.unwrap_or(0)..].iter().find(|line| is_work(provider, line));
                prop_assert!(after.is_none(), "a success though it went on: {after:?}\n{stdout}");
            }
            Some(fault) => prop_assert!(!fault.error.message().is_empty(), "no reason"),
        }
    }
}
