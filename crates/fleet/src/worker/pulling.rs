//! How a worker gets jobs: while slots are free it asks all lanes for messages that are there now (a probe). It then waits on each
//! empty lane for a message, and does not probe that lane meanwhile. A probe is never cut off: its messages would be idle for a
//! whole lease.

use crate::engine::{Delivery, Lane, RetryFor, Shared, classes};
use crate::name::MAX_PRIORITY;
use ground::error::Error;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// Duration of one wait on a lane.
const WAIT: Duration = Duration::from_secs(20);
/// Pause after a failed pull, when the server is away.
const PAUSE: Duration = Duration::from_millis(250);

/// The result of a pull from the lanes.
pub(super) enum Pulled {
    Probe {
        found: Vec<Delivery>,
        empty: Vec<usize>,
    },
    Wait {
        lane: usize,
        delivery: Option<Box<Delivery>>,
    },
    /// The lane gave no answer. `is_probe`: it was asked in a probe.
    Trouble {
        lane: usize,
        is_probe: bool,
    },
    /// A lane whose consumer was made anew, if that worked.
    Renewed {
        index: usize,
        lane: Option<Arc<dyn Lane>>,
    },
    /// The pull was abandoned.
    Abandoned,
}

pub(super) struct Pulling {
    queues: Vec<String>,
    /// Class by class, in each all queues.
    lanes: Arc<Vec<Arc<dyn Lane>>>,
    waits: Vec<Option<AbortHandle>>,
    /// Lanes that had nothing when they were opened, or gave no answer: their next question is a wait.
    has_to_wait: Vec<bool>,
    is_probing: bool,
    /// Whether the lanes may have something that no wait will bring.
    is_probe_due: bool,
    tasks: JoinSet<Pulled>,
    pub paused_until: Option<Instant>,
}

impl Pulling {
    pub(super) async fn open(engine: &Shared, queues: &[String]) -> Result<Pulling, Error> {
        // All at once: a slow link costs one round trip, not one for each lane.
        let asked = classes()
            .flat_map(|class| queues.iter().map(move |queue| engine.lane(queue, class, RetryFor::WORK)));
        let lanes = futures_util::future::try_join_all(asked).await?;
        let has_to_wait = lanes.iter().map(|lane| lane.is_known_empty()).collect();
        Ok(Pulling {
            queues: queues.to_vec(),
            waits: vec![const { None }; lanes.len()],
            lanes: Arc::new(lanes),
            has_to_wait,
            is_probing: false,
            is_probe_due: true,
            tasks: JoinSet::new(),
            paused_until: None,
        })
    }

    /// Resolves with the result of a pull; `None` when none is under way.
    pub(super) async fn next(&mut self) -> Option<Pulled> {
        Some(self.tasks.join_next().await?.unwrap_or(Pulled::Abandoned))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The lanes may have something that no wait will bring.
    pub(super) fn probe_again(&mut self) {
        self.is_probe_due = true;
    }

    /// Takes the waits back: the server gives nothing to those who are gone. A job that is given out at this very moment comes
    /// back with its lease.
    pub(super) fn abandon_waits(&mut self) {
        for wait in self.waits.iter_mut().filter_map(Option::take) {
            wait.abort();
        }
    }

    /// As many jobs as there is room for are asked for, from queues that are not paused. `above`: from higher classes than this
    /// one alone, because a job of it waits in the worker.
    pub(super) fn pull(&mut self, room: usize, paused: &BTreeSet<String>, above: Option<u8>) {
        if self.is_probing || self.paused_until.is_some() || room == 0 {
            return;
        }
        let is_asked = |lane: &usize| self.waits[*lane].is_none() && !paused.contains(self.queue_of(*lane));
        let asked = (0..self.lanes_above(above)).filter(is_asked);
        let (waited, asked): (Vec<usize>, Vec<usize>) = asked.partition(|lane| self.has_to_wait[*lane]);
        for lane in waited {
            self.has_to_wait[lane] = false;
            self.wait(lane);
        }
        if self.is_probe_due && !asked.is_empty() {
            self.is_probing = true;
            self.is_probe_due = above.is_some();
            self.tasks.spawn(probe(self.lanes.clone(), asked, room));
            return;
        }
        // Lanes of lower classes were not asked.
        self.is_probe_due &= above.is_some();
        for lane in asked {
            self.wait(lane);
        }
    }

    /// Whether all lanes of higher classes than this one have nothing, so that a job of it may start.
    pub(super) fn is_first(&self, class: u8, paused: &BTreeSet<String>) -> bool {
        let is_empty = |lane: usize| self.waits[lane].is_some() || paused.contains(self.queue_of(lane));
        !self.is_probing && (0..self.lanes_above(Some(class))).all(is_empty)
    }

    /// Number of lanes of higher classes; they are the first ones.
    fn lanes_above(&self, class: Option<u8>) -> usize {
        class.map_or(self.lanes.len(), |class| {
            usize::from(MAX_PRIORITY.saturating_sub(class)) * self.queues.len()
        })
    }

    /// The deliveries of a pull. `goes_on`: more is wanted, and the engine can be reached.
    pub(super) fn on_pulled(
        &mut self,
        pulled: Pulled,
        goes_on: bool,
        paused: &BTreeSet<String>,
    ) -> Vec<Delivery> {
        match pulled {
            Pulled::Probe { found, empty } => {
                self.is_probing = false;
                // Not asked again before a wait says that there is something, so that a long lane's probes are one question each.
                for lane in empty {
                    if goes_on && !paused.contains(self.queue_of(lane)) {
                        self.wait(lane);
                    }
                }
                // A probe that found messages is repeated, because there may be more.
                self.is_probe_due |= !found.is_empty();
                found
            }
            Pulled::Wait { lane, delivery } => {
                self.waits[lane] = None;
                self.is_probe_due |= delivery.is_some();
                delivery.map(|delivery| *delivery).into_iter().collect()
            }
            Pulled::Trouble { lane, is_probe } => {
                if is_probe {
                    self.is_probing = false;
                } else {
                    self.waits[lane] = None;
                }
                self.is_probe_due = true;
                // A probe asks no lane behind one that fails, so this one alone would keep the worker from all others.
                self.has_to_wait[lane] = true;
                self.paused_until = Some(Instant::now() + PAUSE);
                if goes_on {
                    self.renew(lane);
                }
                Vec::new()
            }
            Pulled::Abandoned => Vec::new(),
            Pulled::Renewed { index, lane } => {
                if let Some(lane) = lane {
                    Arc::make_mut(&mut self.lanes)[index] = lane;
                }
                Vec::new()
            }
        }
    }

    fn queue_of(&self, lane: usize) -> &str {
        &self.queues[lane % self.queues.len()]
    }

    /// Has the server tell when there is something in the lane.
    fn wait(&mut self, lane: usize) {
        if self.waits[lane].is_some() {
            return;
        }
        let lanes = self.lanes.clone();
        let wait = self.tasks.spawn(async move {
            match lanes[lane].pull_one(WAIT).await {
                Ok(delivery) => Pulled::Wait { lane, delivery: delivery.map(Box::new) },
                Err(_) => Pulled::Trouble { lane, is_probe: false },
            }
        });
        self.waits[lane] = Some(wait);
    }

    /// Makes the lane's consumer anew.
    fn renew(&mut self, index: usize) {
        let lane = self.lanes[index].clone();
        self.tasks.spawn(async move { Pulled::Renewed { index, lane: lane.anew().await.ok() } });
    }
}

/// Asks these lanes one after the other, until one has jobs. Lanes behind it are asked after these jobs were started: on a slow
/// link each question takes its time.
async fn probe(lanes: Arc<Vec<Arc<dyn Lane>>>, asked: Vec<usize>, room: usize) -> Pulled {
    let mut empty = Vec::new();
    for lane in asked {
        match lanes[lane].pull(room).await {
            Ok(found) if found.is_empty() => empty.push(lane),
            Ok(found) => {
                // It had less than it was asked for.
                if found.len() < room {
                    empty.push(lane);
                }
                return Pulled::Probe { found, empty };
            }
            Err(_) => return Pulled::Trouble { lane, is_probe: true },
        }
    }
    Pulled::Probe { found: Vec::new(), empty }
}
