//! The part of a run before its program runs: admission, resolution, launch, and the orders that arrive meanwhile.
//!
//! | when a stop comes | what is true |
//! |---|---|
//! | while it waits to be admitted | nothing was started, and nothing will be; the stop is reported at once |
//! | before the threshold | nothing was started, and nothing will be; the stop is reported at once |
//! | after the threshold | the program may run by now: the launch is awaited, cut short if it takes long, and reported |
//!
//! Resolution and launch are one piece of work on one thread, because each hand-over between threads costs two wake-ups. The
//! [`Threshold`] lies between the two.
//!
//! A start that hangs (on a dead network folder) holds nothing up: its turn is taken back after a moment, and the time limits and
//! orders of the handles are honoured at every step.

use super::command::resolve;
use super::launch::{Launched, NotLaunched, Preparation, Turn, launch, take_turn};
use super::on_record;
use super::order::{Order, WantedEnd};
use super::protected::Protected;
use super::roster::tree_id;
use super::spec::{ProcessSpec, StopReason};
use super::stop::stopped_before_start;
use super::threshold::Threshold;
use ground::error::Error;
use ground::mpsc::UnboundedReceiver;
use ground::os::{Awake, Host, sleep_until};
use ground::random;
use ground::record::Record;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;

/// A launch that was told to stop may finish by itself for so long: mostly it has in a millisecond.
const STOPPED_LAUNCH: Duration = Duration::from_millis(250);
/// After that it is cut short; the guards tell what became of it within this, or nobody can.
const CUT_SHORT_LAUNCH: Duration = Duration::from_secs(8);

/// A slot that a run waits for before its start, and holds until its tree is gone.
pub struct Admission(Pin<Box<dyn Future<Output = Held> + Send>>);

pub(super) type Held = Box<dyn Send>;

impl Admission {
    /// Waits for the future, and holds its value.
    pub fn after<T: Send + 'static>(place: impl Future<Output = T> + Send + 'static) -> Self {
        Admission(Box::pin(async move { Box::new(place.await) as Held }))
    }

    pub(super) fn free() -> Self {
        Self::after(std::future::ready(()))
    }
}

/// The result of a start.
pub(super) enum Begun {
    Launched(Box<Launched>),
    /// No byte of the program ran.
    Not(Error),
    /// The run was stopped while the system was starting the program. It is unknown whether the program ran.
    Unknown(StopReason),
}

/// Orders that arrive before the program runs. A stop ends the start; all others are kept in `early`.
struct EarlyOrders<'a> {
    orders: &'a mut UnboundedReceiver<Order>,
    early: &'a mut Vec<Order>,
    deadline: Option<Instant>,
}

impl EarlyOrders<'_> {
    async fn stop(&mut self) -> WantedEnd {
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(Order::Stop(stop)) => return stop,
                    Some(other) => self.early.push(other),
                    None => return WantedEnd::because(StopReason::Abandoned),
                },
                () = sleep_until(self.deadline) => return WantedEnd::because(StopReason::TimedOut),
            }
        }
    }

    /// The reason to stop, if a stop was ordered or the deadline has passed by now.
    fn stop_now(&mut self) -> Option<StopReason> {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Stop(stop) => return Some(stop.reason),
                other => self.early.push(other),
            }
        }
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline).then_some(StopReason::TimedOut)
    }
}

/// State that a run has before its program runs, and keeps even if the start fails.
#[derive(Default)]
pub(super) struct Opened {
    pub mark: String,
    pub record: Option<Record>,
    pub protected: Option<Protected>,
    /// Since before the program was started: a stop of this process during the start is no silence of the program.
    pub awake: Option<Awake>,
}

impl Opened {
    /// The name of the run's tree in `sheepdog ps`.
    pub(super) fn tree_id(&self) -> &str {
        tree_id(&self.mark)
    }
}

/// Starts the run. Orders that arrive before the program runs are kept in `early`.
/// The returned [`Held`] is the run's slot, to be held until its tree is gone.
pub(super) async fn start(
    spec: &mut ProcessSpec,
    admission: Admission,
    orders: &mut UnboundedReceiver<Order>,
    early: &mut Vec<Order>,
    opened: &mut Opened,
) -> (Begun, Option<Held>) {
    let mut early_orders = EarlyOrders { orders, early, deadline: None };
    if let Some(reason) = spec.passed() {
        return (Begun::Not(stopped_before_start(reason, spec)), None);
    }
    let held = tokio::select! {
        held = admission.0 => held,
        stop = early_orders.stop() => return (Begun::Not(stopped_before_start(stop.reason, spec)), None),
    };
    early_orders.deadline = spec.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    (begin(spec, early_orders, opened).await, Some(held))
}

async fn begin(spec: &mut ProcessSpec, mut early_orders: EarlyOrders<'_>, opened: &mut Opened) -> Begun {
    if let Some(reason) = early_orders.stop_now() {
        return Begun::Not(stopped_before_start(reason, spec));
    }
    let turn = tokio::select! {
        turn = take_turn() => turn,
        stop = early_orders.stop() => return Begun::Not(stopped_before_start(stop.reason, spec)),
    };
    let threshold = Arc::new(Threshold::new());
    let preparation = prepare(spec, threshold.clone());
    let begun = begin_prepared(spec, preparation, &threshold, turn, early_orders).await;
    *opened = threshold.take().unwrap_or_default();
    begun
}

/// The part of the start before the threshold. It runs on the thread that then asks the system for the program. The environment is
/// moved out of the spec: nothing after the start needs it.
fn prepare(spec: &mut ProcessSpec, threshold: Arc<Threshold<Opened>>) -> Preparation {
    let environment = std::mem::take(&mut spec.environment);
    let owned = ProcessSpec { environment, ..spec.clone() };
    Box::new(move || {
        let command = resolve(&owned, new_mark())?;
        let record = on_record::open(&owned, &command)?;
        let protected = Protected::before(&owned)?;
        let opened = Opened { mark: command.mark.clone(), record, protected, awake: Some(Awake::new()) };
        if threshold.cross(opened) {
            Ok(command)
        } else {
            // The stop has been reported by now; nobody reads this.
            Err(stopped_before_start(StopReason::Killed, &owned))
        }
    })
}

async fn begin_prepared(
    spec: &ProcessSpec,
    preparation: Preparation,
    threshold: &Threshold<Opened>,
    turn: Turn,
    mut early_orders: EarlyOrders<'_>,
) -> Begun {
    let cut_short = Notify::new();
    let mut launching = std::pin::pin!(launch(preparation, spec, &turn, &cut_short));
    let stop = tokio::select! {
        launched = &mut launching => return match launched {
            Ok(launched) => Begun::Launched(Box::new(launched)),
            Err(NotLaunched::Failed(error)) => Begun::Not(error),
            Err(NotLaunched::Unknown) => Begun::Unknown(StopReason::Lost),
        },
        stop = early_orders.stop() => stop,
    };
    if threshold.stop() {
        return Begun::Not(stopped_before_start(stop.reason, spec));
    }
    let launched = match timeout(STOPPED_LAUNCH, &mut launching).await {
        Ok(launched) => launched,
        Err(_) => {
            cut_short.notify_one();
            timeout(CUT_SHORT_LAUNCH, &mut launching).await.unwrap_or(Err(NotLaunched::Unknown))
        }
    };
    match launched {
        Ok(launched) => {
            early_orders.early.insert(0, Order::Stop(stop));
            Begun::Launched(Box::new(launched))
        }
        Err(NotLaunched::Failed(_)) => Begun::Not(stopped_before_start(stop.reason, spec)),
        Err(NotLaunched::Unknown) => Begun::Unknown(stop.reason),
    }
}

fn new_mark() -> String {
    // The mark names its host, so that any finder knows whose process it is.
    format!("{}-{}", random::name::<16>(), Host::own())
}
