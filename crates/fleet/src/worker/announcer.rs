//! Announces a worker and its running jobs, for `fleet status`.

use super::attempts::Attempts;
use super::options::WorkerOptions;
use crate::engine::{Key, Shared};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Shortest time between two announcements of the running jobs.
const MIN_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Announcer {
    engine: Shared,
    presence: Key,
    /// The facts that stay the same.
    facts: Value,
    /// The time of the next announcement.
    pub due: Instant,
    /// The jobs of the last announcement.
    told: Vec<String>,
}

impl Announcer {
    pub(super) fn new(engine: Shared, name: &str, instance: &str, options: &WorkerOptions) -> Announcer {
        let facts = json!({
            "name": name,
            "instance": instance,
            "pid": std::process::id(),
            "queues": options.queues,
            "concurrency": options.concurrency,
            "handlers": options.host.handlers(),
            "agents": options.host.runs_agents(),
        });
        let presence = Key::Worker(instance.to_owned());
        Announcer { engine, presence, facts, due: Instant::now(), told: Vec::new() }
    }

    /// Changes of the running jobs are announced soon, but not one by one: each announcement is a write to the server's disk.
    pub(super) fn on_jobs(&mut self, attempts: &Attempts) {
        if !attempts.are(&self.told) {
            self.due = self.due.min(Instant::now() + (self.engine.lease() / 10).max(MIN_PAUSE));
        }
    }

    /// Announces without a wait, and again after a while.
    pub(super) fn announce(&mut self, attempts: &Attempts, paused: &BTreeSet<String>, is_closing: bool) {
        self.due = Instant::now() + self.engine.lease() / 3;
        ground::task::spawn(self.announced(attempts, paused, is_closing));
        self.told = attempts.ids();
    }

    pub(super) fn announced(
        &self,
        attempts: &Attempts,
        paused: &BTreeSet<String>,
        is_closing: bool,
    ) -> impl Future<Output = ()> + use<> {
        let mut facts = self.facts.clone();
        for (name, fact) in [
            ("paused", json!(paused)),
            ("running", json!(attempts.ids().into_iter().collect::<BTreeSet<_>>())),
            ("runningOf", json!(attempts.count_by_queue())),
            ("closing", json!(is_closing)),
        ] {
            ground::json::object::put(&mut facts, name, fact);
        }
        let (engine, presence) = (self.engine.clone(), self.presence.clone());
        async move {
            // Without it the worker is missing in the status alone.
            let _ = engine.announce(&presence, Bytes::from(facts.to_string()), engine.lease()).await;
        }
    }

    pub(super) async fn forget(&self) {
        self.engine.forget(&self.presence).await;
    }
}
