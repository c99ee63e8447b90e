//! Removes the messages of finished jobs from a lane, many by one request. The acknowledgement of a message only changes the
//! state of the lane's consumer, which the server writes a few times a second. A removal is a synchronized write, so all
//! messages that were acknowledged before the first one that is still open are removed together.
//!
//! A message that is acknowledged and not removed yet is harmless: its job's record says that the job is over.

use super::connection::{Nats, REQUEST_TIMEOUT};
use super::store::away;
use crate::engine::value::RetryFor;
use ground::error::{Error, ErrorCode};
use ground::lock::lock;
use serde::Deserialize;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Shortest time between two removals from a lane.
const EVERY: Duration = Duration::from_millis(50);
/// A message behind an open one is removed by itself after this time, for example while a long job runs.
const ALONE_AFTER: Duration = Duration::from_secs(1);
/// Time after which a message is left to others: it goes with the next removal from the lane, or at the next start of a worker.
const OTHERS_AFTER: Duration = Duration::from_secs(60);

/// An acknowledged message that may still be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Acknowledged {
    sequence: u64,
    subject: String,
    at: Instant,
}

#[derive(Default)]
struct Left {
    messages: Vec<Acknowledged>,
    /// A task removes them.
    is_removing: bool,
}

/// The acknowledged messages of a lane.
pub(super) struct Finished {
    engine: Nats,
    /// Name of the lane's consumer.
    consumer: String,
    /// Subject filter of the lane.
    filter: String,
    left: Mutex<Left>,
}

impl Finished {
    /// `floor`: what the lane's consumer says; all messages up to it are acknowledged. A worker that was killed may have left
    /// them.
    pub(super) fn new(engine: Nats, consumer: String, filter: String, floor: u64) -> Arc<Finished> {
        let finished = Arc::new(Finished { engine, consumer, filter, left: Mutex::default() });
        if floor > 0 {
            let finished = finished.clone();
            tokio::spawn(async move { finished.remove_up_to(floor).await });
        }
        finished
    }

    /// The message of this sequence was acknowledged.
    pub(super) fn add(self: &Arc<Self>, sequence: u64, subject: String) {
        if sequence == 0 {
            // The server did not say which one it is.
            return;
        }
        let mut left = lock(&self.left);
        left.messages.push(Acknowledged { sequence, subject, at: Instant::now() });
        if !std::mem::replace(&mut left.is_removing, true) {
            tokio::spawn(remove(self.clone()));
        }
    }

    /// False: nothing is left to remove.
    async fn remove_once(&self) -> bool {
        let mut messages = std::mem::take(&mut lock(&self.left).messages);
        messages.retain(|message| message.at.elapsed() < OTHERS_AFTER);
        let floor = self.floor().await.unwrap_or(0);
        let kept = self.remove_known(messages, floor).await;
        let mut left = lock(&self.left);
        match kept {
            Ok(kept) => left.messages.extend(kept),
            // This user may not remove messages: another one has to.
            Err(_) => left.messages.clear(),
        }
        left.is_removing = !left.messages.is_empty();
        left.is_removing
    }

    /// Returns the messages that are still stored. Fails when this user may not remove any.
    async fn remove_known(
        &self,
        messages: Vec<Acknowledged>,
        floor: u64,
    ) -> Result<Vec<Acknowledged>, Error> {
        let (below, above): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| message.sequence <= floor);
        let mut kept = Vec::new();
        if !below.is_empty() && may_be_again(self.remove_up_to(floor).await)? {
            kept.extend(below);
        }
        let now = Instant::now();
        for message in above {
            let is_late = now.duration_since(message.at) >= ALONE_AFTER;
            if !is_late || may_be_again(self.purge(&message.subject, message.sequence).await)? {
                kept.push(message);
            }
        }
        Ok(kept)
    }

    async fn remove_up_to(&self, floor: u64) -> Result<(), Error> {
        self.purge(&self.filter, floor).await
    }

    async fn purge(&self, filter: &str, up_to: u64) -> Result<(), Error> {
        let stream = self.engine.names().jobs_stream();
        self.engine.purge(&stream, filter, Some(up_to + 1), RetryFor(REQUEST_TIMEOUT)).await.map(drop)
    }

    /// Sequence up to which all messages of the lane are acknowledged.
    async fn floor(&self) -> Result<u64, Error> {
        let stream = self.engine.names().jobs_stream();
        let api = format!("CONSUMER.INFO.{stream}.{}", self.consumer);
        let found = self
            .engine
            .ask(RetryFor(REQUEST_TIMEOUT), || async {
                let found: Result<Answer, _> = self.engine.0.context.request(api.clone(), &json!({})).await;
                found.map_err(|error| self.engine.unanswered(&self.engine.api(&api), &error))
            })
            .await?;
        let floor = found.ack_floor.map(|floor| floor.stream_seq);
        floor.ok_or_else(|| away("its answer has no floor"))
    }
}

#[derive(Deserialize)]
struct Answer {
    ack_floor: Option<Floor>,
}

#[derive(Deserialize)]
struct Floor {
    stream_seq: u64,
}

/// Whether it has to be removed again. Fails when this user may not.
fn may_be_again(removed: Result<(), Error>) -> Result<bool, Error> {
    match removed {
        Ok(()) => Ok(false),
        Err(error) if error.code() == ErrorCode::FleetUnauthorized => Err(error),
        Err(_) => Ok(true),
    }
}

async fn remove(finished: Arc<Finished>) {
    while finished.remove_once().await {
        tokio::time::sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::subject::Names;
    use super::super::test_server::{PATIENCE, TestEngine, TestServer};
    use crate::engine::{Delivery, RetryFor, Wanted};
    use crate::test_host::submit;
    use async_nats::jetstream::consumer::PullConsumer;
    use futures_util::StreamExt;
    use serde_json::json;
    use std::time::Duration;

    /// Jobs that wait in one lane, in the hands of a worker.
    async fn pulled(engine: &TestEngine, count: usize) -> Vec<Delivery> {
        for n in 0..count {
            submit(engine, json!({ "id": format!("job-{n}"), "handler": "h", "priority": 4 })).await.unwrap();
        }
        let lane = engine.lane("default", 4, RetryFor::ASKED).await.unwrap();
        let found = lane.pull(count).await.unwrap();
        assert_eq!(found.len(), count);
        found
    }

    async fn until_left(engine: &TestEngine, ids: &[&str]) {
        let left = async {
            loop {
                let (jobs, _) = engine.jobs_from(&Wanted::default(), 0, 100).await.unwrap();
                let left: Vec<&str> = jobs.iter().map(|waiting| waiting.spec.id.as_str()).collect();
                if left == ids {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, left).await.expect("the others are removed");
    }

    #[tokio::test]
    async fn finished_jobs_leave_their_lane_also_behind_an_open_one() {
        let Some(server) = TestServer::start().await else { return };
        let engine = server.engine().await;
        let jobs = pulled(&engine, 5).await;
        for job in &jobs[..2] {
            assert!(job.finish().await);
        }
        until_left(&engine, &["job-2", "job-3", "job-4"]).await;
        assert!(jobs[3].finish().await);
        until_left(&engine, &["job-2", "job-4"]).await;
        // Those that are open come back: nothing else is held.
        for at in [2, 4] {
            jobs[at].give_back(Duration::ZERO).await;
        }
        let lane = engine.lane("default", 4, RetryFor::ASKED).await.unwrap();
        let mut again = Vec::new();
        while again.len() < 2 {
            again.extend(lane.pull_one(PATIENCE).await.unwrap());
        }
        let ids: Vec<&str> = again.iter().map(|job| job.spec.id.as_str()).collect();
        assert_eq!(ids, ["job-2", "job-4"]);
        for job in &again {
            assert!(job.finish().await);
        }
        until_left(&engine, &[]).await;
    }

    #[tokio::test]
    async fn what_a_killed_worker_left_is_removed_by_the_next_one() {
        let Some(server) = TestServer::start().await else { return };
        let engine = server.engine().await;
        for n in 0..2 {
            submit(&engine, json!({ "id": format!("job-{n}"), "handler": "h", "priority": 4 }))
                .await
                .unwrap();
        }
        drop(engine.lane("default", 4, RetryFor::ASKED).await.unwrap());
        // As far as a worker gets that is killed right then.
        let (name, stream) = (Names::consumer("default", 4), engine.names().jobs_stream());
        let consumer: PullConsumer =
            engine.nats.0.context.get_consumer_from_stream(&name, &stream).await.unwrap();
        let mut messages = consumer.fetch().max_messages(2).messages().await.unwrap();
        while let Some(message) = messages.next().await {
            message.unwrap().double_ack().await.unwrap();
        }
        assert_eq!(engine.jobs_from(&Wanted::default(), 0, 100).await.unwrap().0.len(), 2);
        let _lane = engine.lane("default", 4, RetryFor::ASKED).await.unwrap();
        until_left(&engine, &[]).await;
    }

    #[tokio::test]
    async fn a_fleet_of_an_earlier_version_goes_on_as_it_was_made() {
        let Some(server) = TestServer::start().await else { return };
        server.age().await;
        let engine = server.engine().await;
        for job in pulled(&engine, 3).await {
            assert!(job.finish().await);
        }
        assert!(engine.jobs_from(&Wanted::default(), 0, 100).await.unwrap().0.is_empty());
    }
}
