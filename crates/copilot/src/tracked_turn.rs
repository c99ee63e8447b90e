//! One open turn and its state, PURE; [`super::turn_state`] decides about it.

use super::reported_error::ReportedError;
use super::session_event::{Background, TurnEvent};
use ground::error::{Error, ErrorCode};
use std::collections::VecDeque;
use std::time::Duration;

/// A turn is over when nothing happens for this long after an error.
pub const QUIET: Duration = Duration::from_secs(2);

/// Identifies a turn within its session.
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
    pub message: TurnMessage,
    pub phase: Phase,
    pub signs: EndSigns,
    pub answer: Option<String>,
    pub background: Background,
    pub end: Option<TurnEnd>,
}

/// The message that began the turn, among others.
#[derive(Debug)]
pub(crate) struct TurnMessage {
    pub id: Option<String>,
    /// The message was sent into a running turn, so no message has it as its origin.
    pub steering: bool,
    /// No other sent message is being worked on. An error before the turn's own `user.message` can then only concern this turn.
    pub is_alone: bool,
    /// Ids of messages that other clients sent meanwhile.
    pub foreign: Vec<String>,
}

/// Reports that decide how the turn ends, and when.
#[derive(Debug, Default)]
pub(crate) struct EndSigns {
    /// An error reported before the turn's `user.message`, as when the user is not signed in; and after an idle, the time when
    /// the turn fails for it.
    pub early_error: Option<(ReportedError, Option<Duration>)>,
    pub error: Option<(ReportedError, Duration)>,
    /// It was queued when the session's work was aborted, which empties the queue.
    pub was_dropped: bool,
    pub aborted: bool,
    pub autopilot_ended: bool,
    /// The main agent has done something since the turn began.
    pub has_worked: bool,
    /// The turn ends at this time, unless the agent continues.
    pub provisional_end: Option<Duration>,
}

impl TrackedTurn {
    pub(crate) fn new(id: TurnId, steering: bool, is_alone: bool) -> Self {
        TrackedTurn {
            id,
            message: TurnMessage { id: None, steering, is_alone, foreign: Vec::new() },
            phase: Phase::Sending { early: VecDeque::new() },
            signs: EndSigns::default(),
            answer: None,
            background: Background::default(),
            end: None,
        }
    }

    /// The turn's own `user.message` came: errors before it did not concern this turn.
    pub(crate) fn begin(&mut self) {
        if matches!(self.phase, Phase::Queued) {
            self.phase = Phase::Running;
            self.signs.early_error = None;
            self.signs.provisional_end = None;
            self.signs.aborted = false;
        }
    }

    /// The session came to rest before the turn's own `user.message`, which may still come.
    pub(crate) fn on_early_idle(&mut self, now: Duration) {
        if let Some((_, end @ None)) = &mut self.signs.early_error {
            *end = Some(now + QUIET);
        }
        if self.signs.was_dropped {
            self.signs.aborted = true;
            self.signs.provisional_end = Some(now + QUIET);
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
        self.signs.has_worked = true;
        self.signs.error = None;
        if !self.signs.aborted {
            self.signs.provisional_end = None;
        }
    }

    pub(crate) fn finish(&mut self) {
        let end = match self.signs.aborted {
            true => Err(Error::new(ErrorCode::SessionAborted, "The turn was aborted")),
            false => Ok(self.answer.take()),
        };
        self.end(end);
    }

    /// Ends with the error that was reported, if there is one.
    pub(crate) fn fail(&mut self) -> bool {
        let early = self.signs.early_error.take().map(|(reported, _)| reported);
        let Some(reported) = self.signs.error.take().map(|(reported, _)| reported).or(early) else {
            return false;
        };
        self.end(Err(reported.into_error()));
        true
    }
}

/// Whether an event that comes before the reply may matter once the turn knows its message.
pub(crate) fn is_kept(event: &TurnEvent, early: &VecDeque<TurnEvent>) -> bool {
    match event {
        TurnEvent::Other | TurnEvent::Closed { .. } => false,
        // One such event has the same effect as many.
        TurnEvent::Work | TurnEvent::Opened { .. } => {
            !matches!(early.back(), Some(TurnEvent::Work | TurnEvent::Opened { .. }))
        }
        _ => true,
    }
}
