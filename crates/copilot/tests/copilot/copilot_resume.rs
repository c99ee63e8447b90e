//! The classification of a failed resume: each text that real versions produced, each state of the log, and random input.

use copilot::resume::{Fallback, LogState, ResumeEvidence, ResumeVerdict, classify_resume_error};
use proptest::prelude::*;

const CODE: Option<i64> = Some(-32603);

fn verdict(message: &str, log: LogState) -> ResumeVerdict {
    classify_resume_error(CODE, message, &ResumeEvidence { log, ..Default::default() }).verdict
}

fn full(text: &str) -> String {
    format!("Request session.resume failed with message: {text}")
}

const NOT_FOUND: &[&str] = &[
    "Session not found: 0b0f0a0e-0000-4000-8000-000000000000",
    "Failed to load session events: Session not found: timeout-network-corrupt",
    "returned no events",
    "something nobody has ever seen",
];

const DAMAGED: &[(&str, Option<u64>)] = &[
    (
        "Session file is corrupted (line 3: SyntaxError: Unexpected token 'n', \"network timeout\" is not valid JSON)",
        Some(3),
    ),
    (
        "session resume failed: Failed to read JSONL from /home/auth/x/events.jsonl: Invalid event at line 8: expected value",
        Some(8),
    ),
    ("Session file is corrupted or incompatible", None),
    ("session resume failed: First event must be session.start or session.resume", None),
    (
        "Failed to read JSONL from /x: Invalid event at line 2: invalid session event envelope: `id` must be a UUID string",
        Some(2),
    ),
    ("Session file is corrupted (line 2: id: Required)", Some(2)),
    ("session resume failed: Session file is corrupted (line 3: Unknown event type: \"x.y\")", Some(3)),
    (
        "Failed to read JSONL from /x: Invalid event at line 4: expected value. Event: network timeout 401 unauthorized",
        Some(4),
    ),
    ("corruption detected in history", None),
    ("the log is malformed", None),
    ("schema validation failed", None),
    ("could not parse the event stream", None),
    ("failed to deserialize event", None),
];

const TRANSIENT: &[&str] = &[
    "connect ECONNREFUSED 127.0.0.1:443",
    "fetch failed",
    "network error",
    "Request timed out",
    "operation timeout",
    "401 Unauthorized",
    "Not authenticated: run /login",
    "authentication required",
    "EACCES: permission denied, open '/x/events.jsonl'",
    "Permission denied",
    "socket hang up",
    "503 Service Unavailable",
];

#[test]
fn an_error_without_the_code_of_its_own_says_nothing() {
    for code in [None, Some(-32601), Some(-32000), Some(0)] {
        let judgement = classify_resume_error(
            code,
            &full(DAMAGED[0].0),
            &ResumeEvidence { log: LogState::Absent, ..Default::default() },
        );
        assert_eq!(judgement.verdict, ResumeVerdict::Failed, "{code:?}");
    }
}

#[test]
fn trouble_of_the_moment_is_never_taken_for_an_empty_session() {
    for text in TRANSIENT {
        for log in [
            LogState::Absent,
            LogState::Empty,
            LogState::NoTurns,
            LogState::Turns,
            LogState::Unreadable,
            LogState::Unknown,
        ] {
            assert_eq!(verdict(&full(text), log), ResumeVerdict::Transient, "{text} {log:?}");
        }
    }
}

#[test]
fn a_session_in_use_and_a_missing_directory_have_their_own_verdicts() {
    let in_use = full("Session abc is currently in use by another process");
    assert_eq!(verdict(&in_use, LogState::Turns), ResumeVerdict::InUse);
    let missing = full("session resume failed: Directory does not exist or cannot be accessed: /gone");
    assert_eq!(verdict(&missing, LogState::Absent), ResumeVerdict::Failed);
    let refused = full("Rejected session.resume request with invalid sessionId: ../x");
    assert_eq!(verdict(&refused, LogState::Unknown), ResumeVerdict::Failed);
}

#[test]
fn a_missing_agent_is_left_out_once() {
    let text = full("session construction failed: Custom agent 'nope' not found");
    let with = |agent, fallback| {
        let evidence = ResumeEvidence { log: LogState::Turns, agent, fallback, ..Default::default() };
        classify_resume_error(CODE, &text, &evidence).verdict
    };
    assert_eq!(with(None, Fallback::Evidence), ResumeVerdict::WithoutAgent);
    assert_eq!(with(Some(true), Fallback::UnlessCorrupt), ResumeVerdict::WithoutAgent);
    assert_eq!(with(Some(false), Fallback::Evidence), ResumeVerdict::Failed);
    assert_eq!(with(Some(true), Fallback::Never), ResumeVerdict::Failed);
}

#[test]
fn a_log_with_turns_is_never_recreated_over() {
    for text in NOT_FOUND {
        assert_eq!(verdict(&full(text), LogState::Turns), ResumeVerdict::NotFound, "{text}");
        assert_eq!(verdict(&full(text), LogState::Unreadable), ResumeVerdict::Corrupt, "{text}");
        let known = ResumeEvidence { known_turns: 1, ..Default::default() };
        assert_eq!(
            classify_resume_error(CODE, &full(text), &known).verdict,
            ResumeVerdict::NotFound,
            "{text}"
        );
    }
    for (text, line) in DAMAGED {
        let judgement = classify_resume_error(
            CODE,
            &full(text),
            &ResumeEvidence { log: LogState::Turns, ..Default::default() },
        );
        assert_eq!((judgement.verdict, judgement.line), (ResumeVerdict::Corrupt, *line), "{text}");
    }
    let bad_line = ResumeEvidence { log: LogState::Turns, bad_line: Some(9), ..Default::default() };
    let judgement = classify_resume_error(CODE, &full(NOT_FOUND[0]), &bad_line);
    assert_eq!((judgement.verdict, judgement.line), (ResumeVerdict::Corrupt, Some(9)));
}

#[test]
fn a_session_that_was_never_used_always_opens() {
    let damaged = DAMAGED.iter().map(|(text, _)| text);
    for text in NOT_FOUND.iter().chain(damaged) {
        assert_eq!(verdict(&full(text), LogState::Absent), ResumeVerdict::Recreate, "{text}");
        assert_eq!(verdict(&full(text), LogState::Empty), ResumeVerdict::Recreate, "{text}");
    }
}

#[test]
fn a_session_that_was_started_over_opens_unless_the_text_says_damage() {
    for text in NOT_FOUND {
        assert_eq!(verdict(&full(text), LogState::NoTurns), ResumeVerdict::Recreate, "{text}");
    }
    for (text, _) in DAMAGED {
        assert_eq!(verdict(&full(text), LogState::NoTurns), ResumeVerdict::Corrupt, "{text}");
        assert_eq!(verdict(&full(text), LogState::Unknown), ResumeVerdict::Corrupt, "{text}");
    }
}

#[test]
fn without_evidence_the_fallback_decides() {
    for text in NOT_FOUND {
        for (fallback, expected) in [
            (Fallback::Evidence, ResumeVerdict::Recreate),
            (Fallback::UnlessCorrupt, ResumeVerdict::Recreate),
            (Fallback::Never, ResumeVerdict::NotFound),
        ] {
            let evidence = ResumeEvidence { fallback, ..Default::default() };
            assert_eq!(
                classify_resume_error(CODE, &full(text), &evidence).verdict,
                expected,
                "{text} {fallback:?}"
            );
        }
    }
    let never = ResumeEvidence { log: LogState::Absent, fallback: Fallback::Never, ..Default::default() };
    assert_eq!(classify_resume_error(CODE, &full(NOT_FOUND[0]), &never).verdict, ResumeVerdict::NotFound);
}

#[test]
fn unless_corrupt_goes_by_the_text_alone() {
    let evidence = ResumeEvidence {
        log: LogState::Turns,
        known_turns: 3,
        fallback: Fallback::UnlessCorrupt,
        ..Default::default()
    };
    assert_eq!(classify_resume_error(CODE, &full(NOT_FOUND[0]), &evidence).verdict, ResumeVerdict::Recreate);
    assert_eq!(classify_resume_error(CODE, &full(DAMAGED[0].0), &evidence).verdict, ResumeVerdict::Corrupt);
}

fn any_log() -> impl Strategy<Value = LogState> {
    prop_oneof![
        Just(LogState::Absent),
        Just(LogState::Empty),
        Just(LogState::NoTurns),
        Just(LogState::Turns),
        Just(LogState::Unreadable),
        Just(LogState::Unknown)
    ]
}

proptest! {
    #[test]
    fn whatever_is_said_a_known_history_is_never_replaced(message in ".{0,200}", code in any::<Option<i64>>(), log in any_log(), known in 0u64..3, never: bool) {
        let fallback = if never { Fallback::Never } else { Fallback::Evidence };
        let evidence = ResumeEvidence { log, known_turns: known, fallback, ..Default::default() };
        for code in [code, CODE] {
            let judgement = classify_resume_error(code, &message, &evidence);
            let holds = known > 0 || matches!(log, LogState::Turns | LogState::Unreadable);
            prop_assert!(!(judgement.verdict == ResumeVerdict::Recreate && (holds || never || code != CODE)), "{judgement:?}");
            prop_assert!(!judgement.reason.is_empty());
        }
    }

    #[test]
    fn words_around_a_corruption_do_not_hide_it(before in "[a-z ]{0,30}", after in "[a-z ]{0,30}", word in "corrupt(ed|ion|s|ing)?") {
        let message = format!("{before} {word} {after}");
        prop_assert_ne!(verdict(&message, LogState::Unknown), ResumeVerdict::Recreate);
    }
}
