//! The traffic of an agent's sandbox, as its turn or session follows it: refused targets, and metered tokens.

use crate::harness::event::Usage;
use crate::harness::evidence::metered::usage_of;
use process::{Metered, NewRefusals, Refused, Traffic};
use tokio::sync::watch;

/// News of the traffic.
#[derive(Debug, PartialEq)]
pub(crate) enum TrafficNews {
    /// Targets that were refused for the first time.
    Refused(Vec<Refused>),
    /// The sum of the tokens changed.
    Metered(Usage),
}

pub(crate) struct TurnTraffic {
    pub(crate) run: Traffic,
    pub(crate) refusals: NewRefusals,
    metered: watch::Receiver<Metered>,
}

impl TurnTraffic {
    pub(crate) fn of(traffic: &Traffic) -> TurnTraffic {
        TurnTraffic { run: traffic.clone(), refusals: traffic.refusals.watch(), metered: traffic.metered() }
    }

    /// Waits for the next news.
    pub(crate) async fn news(&mut self) -> TrafficNews {
        tokio::select! {
            () = self.refusals.wait() => TrafficNews::Refused(self.refusals.take()),
            // The sender lives as long as this.
            _ = self.metered.changed() => TrafficNews::Metered(usage_of(&self.metered.borrow_and_update())),
        }
    }

    /// All metered tokens.
    pub(crate) fn metered(&self) -> Metered {
        self.metered.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use process::RefusedKind;

    #[tokio::test]
    async fn news_come_once_and_the_latest_sum_counts() {
        let traffic = Traffic::default();
        let mut turn = TurnTraffic::of(&traffic);
        for tokens in [1, 5] {
            traffic.meter(Metered { input_tokens: tokens, requests: 1, ..Metered::default() });
        }
        let usage = Usage { input_tokens: 5, ..Usage::default() };
        assert_eq!(turn.news().await, TrafficNews::Metered(usage));
        traffic.refusals.add(RefusedKind::Host, "a.example:443".into(), None);
        let TrafficNews::Refused(refused) = turn.news().await else { panic!("a refusal") };
        assert_eq!(refused.len(), 1);
        assert!(turn.refusals.take().is_empty());
        assert_eq!((turn.refusals.all().len(), turn.metered().requests), (1, 1));
        let cut = traffic.watch_cut();
        turn.run.cut();
        assert!(*cut.borrow());
    }
}
