//! One open turn and what is known of it, PURE; [`super::turn_state`] says what happens to it when.

use super::reported_error::ReportedError;
use super::session_event::{Background, TurnEvent};
use ground::error::{Error, ErrorCode};
use std::collections::VecDeque;
use std::time::Duration;

/// No sign of life for so long after an error: the turn is over.
pub const QUIET: Duration = Duration::from_secs(2);

/// Names a turn within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnId(pub(super) u64);

/// How a turn ended: with its answer (the whole event as JSON text), if there was one.
pub type TurnEnd = Result<Option<String>, Error>;

#[derive(Debug)]
pub(crate) enum Phase {
    Sending { early: VecDeque<TurnEvent> },
    Queued,
    Running,
}

#[derive(Debug)]
pub(crate) struct TrackedTurn {
    pub id: TurnId,
    pub message_id: Option<String>,
    /// Sent into a running turn: it has no messages of its own origin.
    pub steering: bool,
    pub phase: Phase,
    /// Nothing else that was sent is being worked on: what is reported before its `user.message` can only be about it.
    pub is_alone: bool,
    /// Reported before its `user.message`, as when nobody is signed in; and when it is failed for that, once there was an idle.
    pub early_error: Option<(ReportedError, Option<Duration>)>,
    /// It was queued when the session's work was aborted, which empties the queue.
    pub was_dropped: bool,
    pub answer: Option<String>,
    pub error: Option<(ReportedError, Duration)>,
    /// Over at this time, unless the agent goes on.
    pub provisional_end: Option<Duration>,
    pub aborted: bool,
    pub autopilot_ended: bool,
    /// The main agent has done something since the turn began.
    pub has_worked: bool,
    /// Ids of messages that others sent meanwhile.
    pub foreign: Vec<String>,
    pub background: Background,
    pub end: Option<TurnEnd>,
}

impl TrackedTurn {
    pub(crate) fn new(id: TurnId, steering: bool, is_alone: bool) -> Self {
        TrackedTurn {
            id,
            steering,
            is_alone,
            phase: Phase::Sending { early: VecDeque::new() },
            message_id: None,
            early_error: None,
            was_dropped: false,
            answer: None,
            error: None,
            provisional_end: None,
            aborted: false,
            autopilot_ended: false,
            has_worked: false,
            foreign: Vec::new(),
            background: Background::default(),
            end: None,
        }
    }

    /// Its own `user.message` is there: what was reported before was not about it.
    pub(crate) fn begin(&mut self) {
        if matches!(self.phase, Phase::Queued) {
            self.phase = Phase::Running;
            self.early_error = None;
            self.provisional_end = None;
            self.aborted = false;
        }
    }

    /// The session came to rest before the turn's own `user.message`, which may still come.
    pub(crate) fn on_early_idle(&mut self, now: Duration) {
        if let Some((_, end @ None)) = &mut self.early_error {
            *end = Some(now + QUIET);
        }
        if self.was_dropped {
            self.aborted = true;
            self.provisional_end = Some(now + QUIET);
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.end.is_none()
    }

    pub(crate) fn end(&mut self, end: TurnEnd) {
        // The first end counts.
        self.end.get_or_insert(end);
    }

    pub(crate) fn on_work(&mut self) {
        self.has_worked = true;
        self.error = None;
        if !self.aborted {
            self.provisional_end = None;
        }
    }

    pub(crate) fn finish(&mut self) {
        let end = match self.aborted {
            true => Err(Error::new(ErrorCode::SessionAborted, "The turn was aborted")),
            false => Ok(self.answer.take()),
        };
        self.end(end);
    }

    /// Ends with the error that was reported, if there is one.
    pub(crate) fn fail(&mut self) -> bool {
        let early = self.early_error.take().map(|(reported, _)| reported);
        let Some(reported) = self.error.take().map(|(reported, _)| reported).or(early) else { return false };
        self.end(Err(reported.into_error()));
        true
    }
}

/// Whether an event that comes before the reply may matter once the turn knows its message.
pub(crate) fn is_kept(event: &TurnEvent, early: &VecDeque<TurnEvent>) -> bool {
    match event {
        TurnEvent::Other | TurnEvent::Closed { .. } => false,
        // One sign of life says as much as many.
        TurnEvent::Work | TurnEvent::Opened { .. } => {
            !matches!(early.back(), Some(TurnEvent::Work | TurnEvent::Opened { .. }))
        }
        _ => true,
    }
}
