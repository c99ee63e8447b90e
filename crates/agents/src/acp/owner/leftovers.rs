//! Finds the processes that a cancelled turn left running: those that were born in it and are alive. An agent that obeyed the
//! cancel is not killed, and some agents leave their tools alive then.

use crate::acp::owner::Owner;
use crate::acp::state::search::{CancelledTurn, Search};
use crate::harness::AgentEvent;
use process::{Moment, end_newcomers};
use serde_json::{Value, json};

impl Owner {
    /// A cancelled turn ended. Records its time window so that processes of the next turn are not counted as its leftovers.
    pub(super) fn on_cancelled(&mut self, number: u32, begun: Moment) {
        self.leftovers.cancelled = Some(CancelledTurn { number, since: begun, until: Moment::now() });
        self.search_strays();
    }

    /// Searches for processes that the last cancelled turn left, and then answers the callers that wait.
    pub(super) fn search_strays(&mut self) {
        let Some(turn) = self.leftovers.cancelled else { return self.tell_cancelled() };
        let mut waiters = Vec::new();
        let mut is_kill = false;
        for waiter in self.leftovers.waiters.drain(..) {
            is_kill |= waiter.kills_strays;
            waiters.push(waiter.reply);
        }
        let process = self.link.connection.process.clone();
        let found = self.leftovers.sender.clone();
        let left = self.leftovers.left.clone();
        ground::task::spawn(async move {
            let mut newcomers = process.newcomers(turn.since, turn.until).await;
            newcomers.retain(|one| !left.is_of_another(turn.number, one.identity));
            if is_kill {
                end_newcomers(&newcomers).await;
                newcomers.clear();
            }
            // Sending fails when the session is over; dropping the search answers the callers.
            let _ = found.send(Search { turn: turn.number, strays: newcomers, waiters });
        });
    }

    pub(super) fn on_strays(&mut self, search: &Search) {
        search.strays.iter().for_each(|stray| self.leftovers.left.keep(search.turn, stray.identity));
        if !search.strays.is_empty() {
            let told = search.strays.iter().map(
                |stray| json!({ "type": "process", "pid": stray.identity.pid, "command": stray.command }),
            );
            let items: Vec<Value> = self.work.background.iter().cloned().chain(told).collect();
            self.listeners.tell_all(&AgentEvent::Background { items });
        }
    }

    pub(super) fn tell_cancelled(&mut self) {
        for waiter in self.leftovers.waiters.drain(..) {
            let _ = waiter.reply.send(Ok(()));
        }
    }
}
