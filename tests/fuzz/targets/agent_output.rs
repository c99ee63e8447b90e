//! What agents print, and what their runtimes tell.

use super::input::Input;
use agents::harness::verdict::Ending;
use agents::harness::{AgentEvent, Provider, Recording, Transcript, replay};
use copilot::resume::{Fallback, LogState, ResumeEvidence, ResumeVerdict, classify_resume_error};
use copilot::session_event::parse_session_event;
use wires::jsonrpc::{Message, parse};

/// Any bytes in any pieces give the same events, and never a success without its end.
pub(super) fn provider_lines(bytes: &[u8]) {
    let mut input = Input(bytes);
    let provider = Provider::ALL[input.below(Provider::ALL.len())];
    let exit = [None, Some(0), Some(1)][input.below(3)];
    let (whole, pieces) = input.pieces();
    let events = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut transcript = Transcript::new(provider, true, None);
        pieces.for_each(|piece| transcript.feed(piece));
        transcript.finish();
        transcript.digest.take_events()
    };
    assert_eq!(events(&mut std::iter::once(whole)), events(&mut { pieces }));
    let ending = exit.map_or(Ending::Unknown, Ending::Exited);
    let replay = replay(provider, &Recording { stdout: whole, stderr: "", ending });
    let ends: Vec<_> = replay.events.iter().filter(|event| matches!(event, AgentEvent::End { .. })).collect();
    assert!(ends.len() <= 1);
    if replay.fault.is_none() {
        assert!(matches!(ends[..], [AgentEvent::End { ok: true }]), "a success without its end");
    }
}

/// Whatever a failed resume says, a known history is never replaced.
pub(super) fn resume(bytes: &[u8]) {
    use LogState::{Absent, Empty, NoTurns, Turns, Unknown, Unreadable};
    let mut input = Input(bytes);
    let log = [Absent, Empty, NoTurns, Turns, Unreadable, Unknown][input.below(6)];
    let evidence = ResumeEvidence {
        log,
        known_turns: input.below(3) as u64,
        fallback: [Fallback::Evidence, Fallback::Never][input.below(2)],
        agent: [None, Some(true), Some(false)][input.below(3)],
        ..Default::default()
    };
    let code = [Some(-32603), None, Some(1)][input.below(3)];
    let message = String::from_utf8_lossy(input.0);
    let judgement = classify_resume_error(code, &message, &evidence);
    let is_known = evidence.known_turns > 0 || matches!(log, Turns | Unreadable);
    let may_be_lost = is_known || evidence.fallback == Fallback::Never || code != Some(-32603);
    assert!(!(judgement.verdict == ResumeVerdict::Recreate && may_be_lost), "{judgement:?}");
    assert!(!judgement.reason.is_empty());
}

/// An event that is read without parsing what is around it is one for the parser too.
pub(super) fn session_event(bytes: &[u8]) {
    let Some(head) = parse_session_event(bytes) else { return };
    assert!(ground::json::read_own::<serde::de::IgnoredAny>(head.event).is_ok());
    let _ = head.turn_event();
    let parsed = parse(bytes);
    let is_event = matches!(&parsed, Some(Message::Notification { method, .. }) if method == "session.event");
    assert!(is_event, "{parsed:?}");
}
