//! PURE: work that continues after an agent's end of turn: its own work, which the answer waits for, and upkeep of the CLI.

/// At a time; what is beyond is not waited for.
const MAX_RUNNING: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct BackgroundWork {
    running: Vec<Running>,
    /// Something has ended, and the agent is about to be told.
    will_wake: bool,
}

#[derive(Debug)]
struct Running {
    id: String,
    what: String,
    /// The answer waits for it; not so for what the CLI does for itself.
    is_work: bool,
}

impl BackgroundWork {
    pub(super) fn begins(&mut self, id: &str, what: &str, is_work: bool) {
        if self.running.len() < MAX_RUNNING && !self.running.iter().any(|known| known.id == id) {
            self.running.push(Running { id: id.to_owned(), what: what.to_owned(), is_work });
        }
    }

    /// `will_wake`: the agent, which had ended its turn, is told of it.
    pub(super) fn ends(&mut self, id: &str, will_wake: bool) {
        let before = self.running.len();
        self.running.retain(|known| known.id != id);
        self.will_wake |= will_wake && self.running.len() < before;
    }

    /// The agent goes on, or ends: it is waited for no longer.
    pub(super) fn agent_is_seen(&mut self) {
        self.will_wake = false;
    }

    /// The agent's work that runs.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.running.iter().filter(|running| running.is_work).map(|running| &*running.what)
    }

    pub(super) fn is_work_over(&self) -> bool {
        !self.will_wake && self.names().next().is_none()
    }

    /// Whether nothing more is to come behind an end that was `good`. A turn that failed waits for nobody's work, but the CLI
    /// itself may be about to take its failure back.
    pub(super) fn is_over(&self, good: bool) -> bool {
        !self.will_wake && !self.running.iter().any(|running| good || !running.is_work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_end_waits_for_all_and_a_bad_one_for_what_may_take_it_back() {
        for (is_work, over_good, over_bad) in [(true, false, true), (false, false, false)] {
            let mut behind = BackgroundWork::default();
            behind.begins("1", "a build", is_work);
            assert_eq!((behind.is_over(true), behind.is_over(false)), (over_good, over_bad), "{is_work}");
            assert_eq!(behind.names().count(), usize::from(is_work));
        }
    }

    #[test]
    fn an_agent_that_is_told_is_waited_for_until_it_is_seen() {
        let mut behind = BackgroundWork::default();
        behind.begins("1", "a build", true);
        behind.ends("2", true);
        assert!(!behind.will_wake, "nobody is told of what was not known");
        behind.ends("1", true);
        assert!(!behind.is_work_over() && !behind.is_over(true));
        behind.agent_is_seen();
        assert!(behind.is_work_over() && behind.is_over(true));
    }
}
