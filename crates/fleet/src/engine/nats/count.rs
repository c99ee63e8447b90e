//! Counts the jobs of each queue, and reads the oldest ones. The queues of a short stream are found by its subjects. Those of a
//! long one would be megabytes, so its queues are found by samples, and the server counts the messages of each; the sum tells
//! whether a queue was missed.

use super::batch::{EVERYTHING, LISTED, Most};
use super::connection::Nats;
use super::store::Asked;
use super::subject::Names;
use crate::engine::value::{Queued, RetryFor};
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use ground::error::Error;
use std::collections::{BTreeMap, BTreeSet};

/// Messages up to which all subjects are read.
const SHORT: u64 = 5000;
const SAMPLES: u64 = 16;
const ONE: Most = Most { messages: 1, bytes: 1 << 20 };

impl Nats {
    pub(super) async fn counted(
        &self,
        known: &BTreeSet<String>,
        oldest: usize,
    ) -> Result<BTreeMap<String, Queued>, Error> {
        let stream = self.names().jobs_stream();
        let (before, ends) = self.extent(&stream).await?;
        if before > SHORT {
            let mut names = self.sampled(&stream, ends).await?;
            names.extend(known.iter().cloned());
            let queues = self.each_queue(&stream, names, oldest).await?;
            let (after, _) = self.extent(&stream).await?;
            // Jobs come and go meanwhile.
            if queues.values().map(|queued| queued.count).sum::<u64>() >= before.min(after) {
                return Ok(queues);
            }
        }
        let names = self.all_queues(&stream).await?;
        self.each_queue(&stream, names, oldest).await
    }

    /// Number of messages in the stream, and the first and last sequence.
    async fn extent(&self, stream: &str) -> Result<(u64, (u64, u64)), Error> {
        let found = self.stream(stream, RetryFor::ASKED).await?;
        let state = &found.cached_info().state;
        Ok((state.messages, (state.first_sequence, state.last_sequence)))
    }

    /// Names of queues, by messages at equal distances.
    async fn sampled(&self, stream: &str, (first, last): (u64, u64)) -> Result<BTreeSet<String>, Error> {
        let samples = (0..SAMPLES).map(|sample| {
            let from = first + last.saturating_sub(first) * sample / SAMPLES;
            self.ask(RetryFor::ASKED, move || self.read_on(stream, EVERYTHING, from, ONE))
        });
        let found = try_join_all(samples).await?;
        let jobs = found.iter().flat_map(|page| &page.messages).filter_map(|one| Names::job_of(&one.subject));
        Ok(jobs.map(|(queue, _, _)| queue).collect())
    }

    /// One question for each queue has both its number of jobs and the first of them.
    async fn each_queue(
        &self,
        stream: &str,
        names: BTreeSet<String>,
        oldest: usize,
    ) -> Result<BTreeMap<String, Queued>, Error> {
        let most = Most { messages: oldest.max(1), ..LISTED };
        let asked = names.into_iter().map(async |name| {
            let filter = self.names().queue(&name);
            let page = self.ask(RetryFor::ASKED, || self.read_on(stream, &filter, 1, most)).await?;
            let count = page.messages.len() as u64 + page.left;
            Ok::<_, Error>((name, Queued { count, oldest: self.waiting_in(&page).await }))
        });
        let queues = try_join_all(asked).await?;
        Ok(queues.into_iter().filter(|(_, queued)| queued.count > 0).collect())
    }

    async fn all_queues(&self, stream: &str) -> Result<BTreeSet<String>, Error> {
        self.ask(RetryFor::ASKED, || async {
            let stream = self.0.context.get_stream_no_info(stream).await.map_err(Asked::away)?;
            let subjects = stream.info_with_subjects(self.names().all_jobs()).await;
            let mut subjects = subjects.map_err(Asked::away)?;
            let mut names = BTreeSet::new();
            while let Some(next) = subjects.next().await {
                let (subject, _) = next.map_err(Asked::away)?;
                names.extend(Names::job_of(&subject).map(|(queue, _, _)| queue));
            }
            Ok(names)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_server::TestServer;
    use crate::spec::JobSpec;
    use std::collections::BTreeSet;

    #[tokio::test]
    async fn a_long_queue_is_counted_as_a_short_one_is() {
        let Some(server) = TestServer::start().await else { return };
        let engine = server.engine().await;
        let spec = |queue: &str, n: usize| {
            Ok(JobSpec {
                id: format!("{queue}-{n}"),
                queue: queue.to_owned(),
                handler: Some("h".into()),
                ..JobSpec::new()
            })
        };
        // The short one is missed by the samples.
        let specs = (0..6000).map(|n| spec("long", n)).chain((0..2).map(|n| spec("short", n)));
        let specs = specs.chain((0..500).map(|n| spec("other", n)));
        engine.submit_many(specs.collect()).await;
        let expected = [("long", 6000, 50), ("other", 500, 50), ("short", 2, 2)];
        let none = BTreeSet::new();
        let known = BTreeSet::from(["short".to_owned(), "empty".to_owned()]);
        for known in [none, known] {
            let queues = engine.queues(&known, 50).await.unwrap();
            let found = queues.iter();
            let found = found.map(|(name, queued)| (name.as_str(), queued.count, queued.oldest.len()));
            assert_eq!(found.collect::<Vec<_>>(), expected);
            assert_eq!(queues["other"].oldest[49].spec.id, "other-49");
        }
    }
}
