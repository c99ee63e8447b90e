//! Follows the settings that concern a worker: queues that are paused, and whether it is to drain. Settings are read again after
//! each change, and when the engine was away.

use super::order::Order;
use crate::engine::{CLOSED, Changes, Group, Key, RetryFor, Shared, away};
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use ground::error::Error;
use ground::mpsc;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Everything is read again by itself this often: a watch keeps nothing.
const REREAD_EVERY: Duration = Duration::from_secs(60);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Instructions {
    pub engine: Shared,
    pub worker: Arc<str>,
    /// This worker among all that ever had its name.
    pub instance: Arc<str>,
    pub queues: Vec<String>,
    pub paused: watch::Sender<BTreeSet<String>>,
    pub orders: mpsc::WeakSender<Order>,
}

/// The paused ones of these queues.
pub(super) async fn read_paused(engine: &Shared, queues: &[String]) -> Result<BTreeSet<String>, Error> {
    let asked = queues.iter().map(async |queue| {
        let found = engine.present(&Key::Pause(queue.clone()), RetryFor::WORK).await?;
        Ok::<_, Error>(found.map(|_| queue.clone()))
    });
    Ok(try_join_all(asked).await?.into_iter().flatten().collect())
}

impl Instructions {
    /// Runs until it is dropped, or the worker is gone.
    pub(super) async fn follow(self) {
        while !self.paused.is_closed() {
            let _ = self.follow_once().await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn follow_once(&self) -> Result<(), Error> {
        let mut pauses = self.engine.changes(&Group::Pauses).await?;
        let mut drains = self.engine.changes(&Group::Drains).await?;
        let mut connections = self.engine.connections();
        connections.mark_unchanged();
        let mut is_first = true;
        while !self.paused.is_closed() {
            if !is_first {
                self.hear(&mut pauses, &mut drains, &mut connections).await?;
            }
            is_first = false;
            let paused = read_paused(&self.engine, &self.queues).await?;
            self.paused.send_if_modified(|known| {
                let is_news = *known != paused;
                *known = paused;
                is_news
            });
            let drain = self.engine.present(&Key::Drain(self.worker.to_string()), RetryFor::ASKED).await?;
            if drain.is_some_and(|drain| {
                drain.payload.split(|&byte| byte == b' ').any(|instance| instance == self.instance.as_bytes())
            }) {
                let Some(orders) = self.orders.upgrade() else { return Ok(()) };
                let _ = orders.send(Order::Close).await;
            }
        }
        Ok(())
    }

    /// Resolves when something is to be read again.
    async fn hear(
        &self,
        pauses: &mut Changes,
        drains: &mut Changes,
        connections: &mut watch::Receiver<u64>,
    ) -> Result<(), Error> {
        let late = tokio::time::Instant::now() + REREAD_EVERY;
        loop {
            tokio::select! {
                told = pauses.next() => {
                    let (queue, _) = told.ok_or_else(|| away(CLOSED))?;
                    if self.queues.iter().any(|own| own == queue.name()) {
                        return Ok(());
                    }
                }
                told = drains.next() => {
                    let (worker, _) = told.ok_or_else(|| away(CLOSED))?;
                    if worker.name() == &*self.worker {
                        return Ok(());
                    }
                }
                _ = connections.changed() => return Ok(()),
                () = self.paused.closed() => return Ok(()),
                () = tokio::time::sleep_until(late) => return Ok(()),
            }
        }
    }
}
