//! Announces a worker and its running jobs, for `fleet status`.

use super::attempts::Attempts;
use super::options::WorkerOptions;
use crate::engine::{Key, Shared};
use crate::presence::Presence;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Shortest time between two announcements of the running jobs.
const MIN_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Announcer {
    engine: Shared,
    key: Key,
    /// As it was announced last.
    presence: Presence,
    /// The time of the next announcement.
    pub due: Instant,
}

impl Announcer {
    pub(super) fn new(engine: Shared, name: &str, instance: &str, options: &WorkerOptions) -> Announcer {
        let presence = Presence {
            name: name.to_owned(),
            instance: instance.to_owned(),
            pid: std::process::id(),
            queues: options.queues.clone(),
            concurrency: options.concurrency,
            handlers: options.host.handlers(),
            ..Presence::default()
        };
        Announcer { engine, key: Key::Worker(instance.to_owned()), presence, due: Instant::now() }
    }

    /// Changes of the running jobs are announced soon, but not one by one: each announcement is a write to the server's disk.
    pub(super) fn on_jobs(&mut self, attempts: &Attempts) {
        if !attempts.are(&self.presence.running) {
            self.due = self.due.min(Instant::now() + (self.engine.lease() / 10).max(MIN_PAUSE));
        }
    }

    /// Announces without a wait, and again after a while.
    pub(super) fn announce(&mut self, attempts: &Attempts, paused: &BTreeSet<String>, is_closing: bool) {
        self.due = Instant::now() + self.engine.lease() / 3;
        self.presence.paused.clone_from(paused);
        (self.presence.running, self.presence.running_of) = (attempts.ids(), attempts.count_by_queue());
        self.presence.closing = is_closing;
        ground::task::spawn(self.announced());
    }

    pub(super) fn announced(&self) -> impl Future<Output = ()> + use<> {
        let (engine, key, text) = (self.engine.clone(), self.key.clone(), json!(self.presence).to_string());
        async move {
            // Without it the worker is missing in the status alone.
            let _ = engine.announce(&key, text.into(), engine.lease()).await;
        }
    }

    pub(super) async fn forget(&self) {
        self.engine.forget(&self.key).await;
    }
}
