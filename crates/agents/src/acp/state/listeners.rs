//! The listeners of a session: its record, those that its users added, and those of the prompt under way.

use crate::acp::state::session_state::Turns;
use crate::harness::AgentEvent;
use crate::harness::turn::audience::Audience;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A listener that takes no event for this long is treated as gone.
const SILENT: Duration = Duration::from_secs(60);

pub(crate) struct Listeners {
    /// The recorder is always the first one; callers added the others.
    pub(crate) all: Vec<Audience>,
    /// Start of the time in which one of the listeners has no room.
    held_since: Option<Instant>,
    /// Events that are sent when the batch is done: to the prompt under way, and (`for_all`) to the session's listeners.
    pub(crate) for_turn: Vec<AgentEvent>,
    for_all: Vec<AgentEvent>,
}

impl Listeners {
    pub(crate) fn new(recorder: Audience) -> Listeners {
        Listeners { all: vec![recorder], held_since: None, for_turn: Vec::new(), for_all: Vec::new() }
    }

    pub(crate) fn recorder(&mut self) -> Option<&mut Audience> {
        self.all.first_mut()
    }

    /// Sends the event to the session's listeners only.
    pub(crate) fn tell_all(&mut self, event: &AgentEvent) {
        if self.all.iter().any(Audience::wants_events) {
            self.for_all.push(event.clone());
        }
    }

    /// Sends the event to the record only.
    pub(crate) fn tell_record(&mut self, event: AgentEvent) {
        if let Some(recorder) = self.recorder() {
            recorder.tell(vec![event]);
        }
    }

    /// Sends the events of the batch.
    pub(crate) fn flush(&mut self, turns: &mut Turns) {
        let for_turn = std::mem::take(&mut self.for_turn);
        if let Some(active) = &mut turns.active {
            let is_cut = active.end.stop.is_some() && active.prompt.audience.is_full();
            active.prompt.tell(match is_cut {
                true => for_turn.into_iter().filter(AgentEvent::is_boundary).collect(),
                false => for_turn,
            });
        }
        let for_all = std::mem::take(&mut self.for_all);
        if for_all.is_empty() {
            return;
        }
        self.all.retain(|audience| !audience.is_gone());
        let is_stopping = turns.is_stopping();
        for audience in &mut self.all {
            if is_stopping && audience.is_full() {
                audience.tell(for_all.iter().filter(|event| event.is_boundary()).cloned().collect());
            } else {
                audience.tell(for_all.clone());
            }
        }
    }

    /// Leaves each listener that took nothing for [`SILENT`], so that the agent no longer waits for it.
    pub(crate) fn leave_silent(&mut self, now: Instant) {
        let mut is_full = false;
        for audience in &mut self.all {
            is_full |= audience.is_full();
        }
        if !is_full {
            self.held_since = None;
        } else if now.saturating_duration_since(*self.held_since.get_or_insert(now)) >= SILENT {
            self.held_since = None;
            for audience in &mut self.all {
                if audience.is_full() {
                    let message = format!(
                        "events() was not read for {} s, so it ends here: the agent would have to wait for it",
                        SILENT.as_secs()
                    );
                    audience.tell(vec![AgentEvent::Warning { message }]);
                    audience.end();
                    audience.leave();
                }
            }
        }
    }

    /// When [`Listeners::leave_silent`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.held_since.and_then(|since| since.checked_add(SILENT))
    }

    pub(crate) fn is_full(&mut self, turns: &mut Turns) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.poll_room(turns, &mut context).is_pending()
    }

    fn poll_room(&mut self, turns: &mut Turns, context: &mut Context<'_>) -> Poll<()> {
        let mut room = Poll::Ready(());
        if let Some(active) = &mut turns.active
            && active.prompt.audience.poll_room(context).is_pending()
        {
            room = Poll::Pending;
        }
        for audience in &mut self.all {
            if audience.poll_room(context).is_pending() {
                room = Poll::Pending;
            }
        }
        room
    }

    /// The next word of the handles of prompts, see [`Turns::poll_word`]; or none, when all listeners have the room that is waited for.
    pub(crate) async fn word(&mut self, turns: &mut Turns, waits_for_room: bool) -> Option<usize> {
        poll_fn(|context| match turns.poll_word(context) {
            Poll::Pending if waits_for_room => self.poll_room(turns, context).map(|()| None),
            word => word,
        })
        .await
    }
}
