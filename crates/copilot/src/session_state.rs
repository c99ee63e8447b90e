//! The state of a session, and the messages that wait to be sent.

use super::runtime_wait::RuntimeWaits;
use super::turn_handle::TurnHandle;
use super::turn_state::Turns;
use ground::error::Error;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use wires::jsonrpc::{Client, Completion};

#[derive(Default)]
pub(crate) struct SessionState {
    /// The types of events so far: one string for all events of a type.
    pub(crate) kinds: HashSet<Arc<str>>,
    pub(crate) turns: Turns,
    /// Turns whose end the runtime itself reports.
    pub(crate) runtime_waits: RuntimeWaits,
    pub(crate) waiting: Vec<Arc<TurnHandle>>,
    pub(crate) outgoing: Outgoing,
    pub(crate) last_event: LastEvent,
    pub(crate) closed: Option<Error>,
    /// A message was sent, by any client, since the last idle.
    pub(crate) active: bool,
    pub(crate) was_busy: bool,
}

/// Messages to the runtime, which are sent one after the other.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(crate) queue: VecDeque<Send>,
    /// A send waits until it is known that the runtime took it: its reply, or while it is unknown whether the runtime has
    /// `session.sendAndWait`, the first `user.message`.
    pub(crate) is_sending: bool,
    /// Number of messages that the server accepted.
    pub(crate) sent: u64,
    /// The client for the sends that wait until it is known whether the runtime has `session.sendAndWait`.
    pub(crate) held_by: Option<Client>,
}

/// The last event of the session; empty before the first one.
#[derive(Default)]
pub(crate) struct LastEvent {
    pub(crate) kind: String,
    /// Time since `began`.
    pub(crate) at: Duration,
}

impl SessionState {
    const MAX_KINDS: usize = 1024;

    pub(crate) fn intern(&mut self, kind: &str) -> Arc<str> {
        if let Some(known) = self.kinds.get(kind) {
            return Arc::clone(known);
        }
        let new: Arc<str> = kind.into();
        if self.kinds.len() < Self::MAX_KINDS {
            self.kinds.insert(Arc::clone(&new));
        }
        new
    }

    /// Reports the end of turns that are over. The tasks of the other turns check their clocks again.
    pub(crate) fn tell_ends(&mut self, now: Duration) {
        let SessionState { waiting, turns, runtime_waits, .. } = self;
        waiting.retain(|turn| {
            let id = turn.lock().id;
            let end = match turn.outlasts_turn {
                true => None,
                false => match id {
                    Some(id) => turns.take_end(id, now),
                    None => runtime_waits.take_end(turn, now),
                },
            };
            match end {
                None => turn.wake(),
                Some(end) => {
                    turn.tell(end);
                    return false;
                }
            }
            true
        });
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.active
            || self.outgoing.is_sending
            || !self.turns.is_empty()
            || !self.runtime_waits.is_empty()
            || !self.outgoing.queue.is_empty()
    }
}

/// A message that waits to be sent.
pub(crate) struct Send {
    pub(crate) params: String,
    pub(crate) turn: Option<Arc<TurnHandle>>,
    pub(crate) complete: Completion,
}
