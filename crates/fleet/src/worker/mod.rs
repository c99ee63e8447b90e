//! A worker: pulls jobs, holds each by its lease, runs it and commits the result.
//!
//! [`Worker`] is the handle; the `owner` task pulls and counts slots. Each job is an `attempt`: one task that claims, runs and
//! commits, with a `keeper` beside it that renews the lease and watches the record. The [`JobHost`] decides what an attempt
//! runs: a turn of an agent ([`run_turn`]), or code of the host's own. Closing drains: no new job is pulled, running jobs have
//! `drain_timeout` to end, then they are stopped and given to other workers.

mod announcer;
mod artifacts;
mod attempt;
mod attempts;
mod book;
mod claim;
mod gate;
mod instructions;
mod job_run;
mod keeper;
mod log_writer;
mod lot;
mod options;
mod order;
mod outcome;
mod owner;
mod parking;
mod pulling;
mod session;
mod spread;
mod turn;

pub(crate) use gate::Gate;
pub use job_run::{JobFuture, JobHost, JobRun, StopCause, StopSignal};
pub use options::WorkerOptions;
pub use turn::run_turn;

use super::engine::Shared;
use ground::error::Error;
use ground::mpsc;
use ground::os::{blocking, machine_name};
use std::sync::Arc;
use tokio::sync::watch;

/// A worker under way. Cloneable; dropping the last handle is an abrupt end: what runs is stopped and given to others.
#[derive(Clone)]
pub struct Worker {
    name: Arc<str>,
    orders: mpsc::Sender<order::Order>,
    closed: watch::Receiver<bool>,
}

impl Worker {
    pub(crate) async fn start(engine: Shared, options: WorkerOptions, gate: Gate) -> Result<Worker, Error> {
        for queue in &options.queues {
            super::name::check_name("queues", queue)?;
        }
        let name: Arc<str> = match &options.name {
            Some(name) => name.as_str().into(),
            None => made_up_name().await.into(),
        };
        super::name::check_name("name", &name)?;
        let (orders, received) = mpsc::channel(4);
        let (closing, closed) = watch::channel(false);
        let orders_of_owner = (orders.downgrade(), received);
        let owner = owner::Owner::new(engine, name.clone(), options, gate, orders_of_owner).await?;
        ground::task::spawn(async move {
            owner.run().await;
            closing.send_replace(true);
        });
        Ok(Worker { name, orders, closed })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Drains, then ends; resolves when nothing of it runs any more. Again is the same.
    pub async fn close(&self) {
        let _ = self.orders.send(order::Order::Close).await;
        self.closed().await;
    }

    /// Stops what runs and gives it to others; resolves when nothing runs any more.
    pub async fn stop(&self) {
        let _ = self.orders.send(order::Order::Stop).await;
        self.closed().await;
    }

    pub async fn closed(&self) {
        let mut closed = self.closed.clone();
        let _ = closed.wait_for(|closed| *closed).await;
    }

    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }
}

async fn made_up_name() -> String {
    let host = blocking(machine_name).await.ok().flatten();
    let host = host
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "worker".to_owned());
    format!("{host}-{}-{}", std::process::id(), ground::random::name::<4>())
}
