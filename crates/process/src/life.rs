//! The life of a run, from its request to its published end.

use super::on_record;
use super::order::Order;
use super::protected::Protected;
use super::publisher::Publisher;
use super::replay::replay;
use super::report::Report;
use super::runner::Runner;
use super::spec::{Outcome, ProcessSpec};
use super::start::{Admission, Begun, Opened, start};
use super::stdin::Chunk;
use futures_util::FutureExt;
use ground::mpsc::{Receiver, UnboundedReceiver};
use ground::os::{MemoryUser, blocking};
pub(crate) use ground::trace::{RUN, debug};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// Runs the spec to its end and publishes what happens.
pub(super) async fn run(
    number: u64,
    mut spec: ProcessSpec,
    admission: Admission,
    written: Option<Receiver<Chunk>>,
    publisher: Publisher,
    mut orders: UnboundedReceiver<Order>,
) {
    let _uses_memory = MemoryUser::new();
    let mut early = Vec::new();
    let mut opened = Opened::default();
    // `_held` keeps the run's slot until the run has ended.
    let (begun, _held) = start(&mut spec, admission, &mut orders, &mut early, &mut opened).await;
    let launched = match begun {
        Begun::Launched(launched) => *launched,
        Begun::Not(error) => {
            debug!(target: RUN, id = number, code = error.code().as_str(), "was not started");
            publisher.set_started(Err(error.clone()));
            let mut outcome = Outcome { result: None, error: Some(error) };
            on_record::close(opened.record, &mut outcome).await;
            return finish(&publisher, orders, early, outcome).await;
        }
        Begun::Unknown(reason) => {
            debug!(target: RUN, id = number, ?reason, "was stopped while it was started");
            let mut outcome = Report::of_nobody(&mut spec, reason).outcome().await;
            publisher.set_started(outcome.error.clone().map_or(Ok(0), Err));
            on_record::close(opened.record, &mut outcome).await;
            return finish(&publisher, orders, early, outcome).await;
        }
    };
    publisher.set_started(Ok(launched.pid));
    let containment = launched.level;
    debug!(target: RUN, id = number, pid = launched.pid, ps = opened.tree_id(), ?containment, "runs");
    let protected = opened.protected.take();
    let mut runner = Runner::new(number, spec, written, launched, opened);
    let watched = AssertUnwindSafe(async {
        for order in early {
            runner.on_order(Some(order));
        }
        runner.run(&mut orders).await
    });
    let mut outcome = match watched.catch_unwind().await {
        Ok(outcome) => outcome,
        Err(_) => runner.after_panic().await,
    };
    let (record, echo) = runner.leave();
    let duration_ms = outcome.result.as_ref().map(|result| result.duration_ms);
    let error = outcome.error.as_ref().map_or("none", |error| error.code().as_str());
    debug!(target: RUN, id = number, error, duration_ms, "ended");
    if let Some(protected) = protected {
        report_changes(protected, &mut outcome).await;
    }
    on_record::close(record, &mut outcome).await;
    if let Some(echo) = echo {
        echo.finish(outcome.was_stopped()).await;
    }
    finish(&publisher, orders, Vec::new(), outcome).await;
}

/// Adds to the outcome what the tree changed in protected files, after they are restored.
async fn report_changes(protected: Protected, outcome: &mut Outcome) {
    let changes = blocking(move || protected.after()).await.unwrap_or_default();
    if let Some(report) = outcome.result.as_mut().and_then(|result| result.sandbox.as_mut()) {
        (report.changed, report.restored) = (changes.changed, changes.restored);
    }
}

/// Publishes the outcome, then serves the reader that came too late for the live output.
async fn finish(
    publisher: &Publisher,
    mut orders: UnboundedReceiver<Order>,
    mut early: Vec<Order>,
    outcome: Outcome,
) {
    let outcome = Arc::new(outcome);
    // In this order: who finds the queue closed finds the outcome.
    publisher.set_outcome(outcome.clone());
    orders.close();
    // Until no sender is in the middle of sending one: `try_recv` would miss that.
    while let Some(order) = orders.recv().await {
        early.push(order);
    }
    for order in early {
        if let Order::Subscribe(mut sink) = order {
            replay(&outcome, sink.as_mut());
        }
    }
}
