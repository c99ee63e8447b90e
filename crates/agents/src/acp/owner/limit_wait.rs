//! A turn at a usage limit: it waits for the end of the limit and then continues in its session. While it waits it sends
//! nothing to the agent, and its time limits start again with the next message. Limits that other turns of the account met
//! delay it too.

use crate::acp::owner::Owner;
use crate::acp::state::active::Active;
use crate::harness::limit::usage_limit::{UsageLimit, waiting};
use crate::harness::turn::next::Wait;
use ground::trace::{SESSION, debug};
use std::time::{Instant, SystemTime};

impl Owner {
    /// The turn under way rests until the end of the limit that it has met.
    pub(super) fn wait_out(&mut self, wait: Wait, limit: UsageLimit) {
        let Some(active) = &mut self.turns.active else { return };
        let until = limit.after(wait.least);
        active.meet_limit(wait, until);
        self.tell_rest(until, true);
    }

    /// Others have met a limit of the account: the turn under way rests until it ends.
    pub(super) fn is_held_back(&mut self) -> bool {
        let Some(until) = self.spending.account.held_until() else { return false };
        let Some(active) = &mut self.turns.active else { return false };
        active.rest(until);
        self.tell_rest(until, false);
        true
    }

    fn tell_rest(&mut self, until: SystemTime, is_met: bool) {
        debug!(target: SESSION, id = self.session.number, is_met, "decided: the turn rests until a usage limit ends");
        self.tell(waiting(self.session.request.agent.provider, is_met, until));
    }

    /// The clock that a resting turn waits for may show its time.
    pub(super) fn on_rested(&mut self, now: Instant) {
        let rest = self.turns.active.as_ref().and_then(|active| active.resting);
        if rest.is_some_and(|rest| rest.left(SystemTime::now(), now).is_none()) {
            self.ask_again(now);
        }
    }

    /// The turn under way sends what it is to send now.
    pub(super) fn ask_again(&mut self, now: Instant) {
        let tag = self.link.next_tag();
        let Some(mut active) = self.turns.active.take() else { return };
        active.ask_again(tag, now, self.session.version, &self.session.request);
        self.turns.active = Some(active);
        self.send_prompt();
    }
}

impl Active {
    /// When a resting turn looks at the clock again.
    pub(super) fn looks_again(&self, now: Instant) -> Option<Instant> {
        let left = self.resting.and_then(|rest| rest.left(SystemTime::now(), now)).unwrap_or_default();
        now.checked_add(left)
    }
}
