//! For any messages about a prompt, the turn ends for the reason that was reported last, and no tool stays open
//! that was reported to have ended.

use agents::acp::turn::tool_book::ToolBook;
use agents::acp::turn::turn_state::{Ending, TurnState, Version};
use agents::acp::wire::update::{AgentFault, SessionState, StopReason, ToolStatus, Update};
use serde_json::Value;
use std::collections::HashSet;
use std::time::{Duration, Instant};

const SETTLE: Duration = Duration::from_millis(500);
/// Between two lines.
const STEP: Duration = Duration::from_millis(100);

/// The first byte chooses the version and whether the turn waits for what goes on behind; then a line each: an update, the answer to the
/// prompt (`{"result": ...}`), or its error (`{"error": ...}`).
pub(super) fn transcript(bytes: &[u8]) {
    let Some((choice, lines)) = bytes.split_first() else { return };
    let version = if choice & 1 == 0 { Version::One } else { Version::Two };
    let mut turn = TurnState::new(version, choice & 2 == 0, SETTLE);
    let mut book = ToolBook::default();
    let mut now = Instant::now();
    // By the rule of the table in `turn_state`, kept apart from it.
    let mut is_in = version == Version::One;
    let mut last_is_good = None;
    let mut open: HashSet<String> = HashSet::new();
    let mut ended: HashSet<String> = HashSet::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let Ok(told) = ground::json::read::<Value>(line) else { continue };
        now += STEP;
        let answer = told.get("result");
        if let Some(error) = told.get("error").filter(|_| answer.is_none()) {
            turn.on_answer(Err(AgentFault::read(error)));
            (is_in, last_is_good) = (true, Some(false));
        } else if let Some(answer) = answer {
            turn.on_answer(Ok(answer));
            is_in = true;
            match answer["stopReason"].as_str() {
                Some(reason) => last_is_good = Some(reason == "end_turn"),
                None if version == Version::One => last_is_good = Some(false),
                None => {}
            }
        } else {
            match Update::read(&told) {
                Update::State(state) => {
                    turn.on_state(&state);
                    if let (SessionState::Idle { end }, true) = (&state.state, is_in) {
                        match end {
                            Some(end) => last_is_good = Some(end.reason == StopReason::EndTurn),
                            None => last_is_good = last_is_good.or(Some(false)),
                        }
                    }
                }
                Update::Tool(tool) => {
                    match tool.status.map(ToolStatus::is_end) {
                        Some(true) => {
                            open.remove(&tool.id);
                            ended.insert(tool.id.clone());
                        }
                        // A late word on a call that has ended begins no other.
                        None if ended.contains(&tool.id) => {}
                        Some(false) | None => {
                            ended.remove(&tool.id);
                            open.insert(tool.id.clone());
                        }
                    }
                    book.on_update(tool);
                    turn.on_activity();
                }
                Update::Terminal { id, data, whole, exit_code } => {
                    book.on_terminal(&id, data.as_deref(), whole, exit_code);
                }
                Update::Prompt { .. } => {
                    turn.on_repeated();
                    is_in = true;
                }
                Update::Text { .. } | Update::Thought { .. } => turn.on_activity(),
                _ => {}
            }
        }
        assert_eq!(book.has_open(), !open.is_empty(), "{open:?}");
        let due = turn.due(now, book.has_open()).cloned();
        assert!(due.is_none() || last_is_good.is_some(), "over, and nobody said so");
        if due == Some(Ending::Said(StopReason::EndTurn)) {
            assert_eq!(last_is_good, Some(true), "a success that was not the last word");
        }
        if last_is_good == Some(false) {
            assert!(due.is_some(), "a failure is held back");
            assert_ne!(due, Some(Ending::Said(StopReason::EndTurn)));
        }
    }
    book.close_all();
    assert!(!book.has_open());
}
