//! PURE: the end of a turn, and work that continues after it: the agent's own, which the answer waits for, and upkeep of the CLI.

use super::failure::Failure;

/// At a time; what is beyond is not waited for.
const MAX_RUNNING: usize = 4096;

/// The end of turn that the agent itself reported.
#[derive(Clone, Debug, PartialEq)]
pub struct Terminal {
    pub ok: bool,
    pub failure: Option<Failure>,
}

#[derive(Debug, Default)]
pub struct TurnEnd {
    pub terminal: Option<Terminal>,
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

impl TurnEnd {
    pub(super) fn comes(&mut self, terminal: Terminal) {
        self.will_wake = false;
        self.terminal = Some(terminal);
    }

    /// The agent goes on, so that its end counts no longer. Returns what failed in that.
    pub(super) fn reopen(&mut self) -> Option<Failure> {
        self.will_wake = false;
        self.terminal.take()?.failure
    }

    pub(super) fn begins(&mut self, id: &str, what: &str, is_work: bool) {
        if self.running.len() < MAX_RUNNING && !self.running.iter().any(|known| known.id == id) {
            self.running.push(Running { id: id.to_owned(), what: what.to_owned(), is_work });
        }
    }

    /// `will_wake`: the agent, which had ended its turn, is told of it.
    pub(super) fn ends(&mut self, id: &str, will_wake: bool) {
        let before = self.running.len();
        self.running.retain(|known| known.id != id);
        self.will_wake |= will_wake && self.terminal.is_some() && self.running.len() < before;
    }

    /// The agent's work that runs.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.running.iter().filter(|running| running.is_work).map(|running| &*running.what)
    }

    /// Whether the turn has ended, and its work too.
    pub(crate) fn is_answered(&self) -> bool {
        self.terminal.is_some() && !self.will_wake && self.names().next().is_none()
    }

    /// Whether the turn has ended and nothing more is to come behind that. A turn that failed waits for nobody's work, but the CLI
    /// itself may be about to take its failure back.
    pub fn is_settled(&self) -> bool {
        let is_waited_for = |running: &Running, ok: bool| ok || !running.is_work;
        self.terminal.as_ref().is_some_and(|Terminal { ok, .. }| {
            !self.will_wake && !self.running.iter().any(|running| is_waited_for(running, *ok))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(ok: bool) -> TurnEnd {
        let mut end = TurnEnd::default();
        end.comes(Terminal { ok, failure: None });
        end
    }

    #[test]
    fn a_good_end_waits_for_all_and_a_bad_one_for_what_may_take_it_back() {
        for (is_work, over_good, over_bad) in [(true, false, true), (false, false, false)] {
            for (ok, over) in [(true, over_good), (false, over_bad)] {
                let mut end = ended(ok);
                end.begins("1", "a build", is_work);
                assert_eq!(end.is_settled(), over, "{is_work} {ok}");
                assert_eq!(end.names().count(), usize::from(is_work));
            }
        }
    }

    #[test]
    fn an_agent_that_is_told_is_waited_for_until_it_is_seen() {
        let mut end = ended(true);
        end.begins("1", "a build", true);
        end.ends("2", true);
        assert!(!end.will_wake, "nobody is told of what was not known");
        end.ends("1", true);
        assert!(!end.is_answered() && !end.is_settled());
        assert_eq!(end.reopen(), None);
        assert!(!end.is_answered() && !end.is_settled());
        end.comes(Terminal { ok: true, failure: None });
        assert!(end.is_answered() && end.is_settled());
    }
}
