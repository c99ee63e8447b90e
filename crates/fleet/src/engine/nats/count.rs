//! Counts the jobs of each queue. A short stream is counted by its subjects. Those of a long one would be megabytes, so its queues
//! are found by samples, and the server counts the messages of each; the sum tells whether a queue was missed.

use super::batch::Most;
use super::connection::Nats;
use super::store::Asked;
use super::subject::Names;
use crate::engine::value::RetryFor;
use futures_util::StreamExt;
use ground::error::Error;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Messages up to which all subjects are read.
const SHORT: u64 = 5000;
const SAMPLES: u64 = 16;
const ONE: Most = Most { messages: 1, bytes: 1 << 20 };

impl Nats {
    pub(super) async fn counted(&self) -> Result<BTreeMap<String, u64>, Error> {
        let stream = self.names().jobs_stream();
        let (before, ends) = self.extent(&stream).await?;
        if before > SHORT {
            let counts = self.sampled(&stream, ends).await?;
            let (after, _) = self.extent(&stream).await?;
            // Jobs come and go meanwhile.
            if counts.values().sum::<u64>() >= before.min(after) {
                return Ok(counts);
            }
        }
        self.all_subjects(&stream).await
    }

    /// Number of messages in the stream, and the first and last sequence.
    async fn extent(&self, stream: &str) -> Result<(u64, (u64, u64)), Error> {
        self.ask(RetryFor::ASKED, || async {
            let found = self.0.context.get_stream(stream).await;
            let found = found.map_err(|error| Asked::Away(error.to_string()))?;
            let state = &found.cached_info().state;
            Ok((state.messages, (state.first_sequence, state.last_sequence)))
        })
        .await
    }

    async fn sampled(&self, stream: &str, (first, last): (u64, u64)) -> Result<BTreeMap<String, u64>, Error> {
        let mut counts = BTreeMap::new();
        for sample in 0..SAMPLES {
            let from = first + last.saturating_sub(first) * sample / SAMPLES;
            let filter = self.names().all_jobs();
            let found = self.ask(RetryFor::ASKED, || self.read_on(stream, &filter, from, ONE)).await?;
            let Some((queue, _, _)) = found.messages.first().and_then(|one| Names::job_of(&one.subject))
            else {
                continue;
            };
            if let Entry::Vacant(count) = counts.entry(queue) {
                let filter = self.names().queue(count.key());
                let found = self.ask(RetryFor::ASKED, || self.read_on(stream, &filter, 1, ONE)).await?;
                count.insert(found.messages.len() as u64 + found.left);
            }
        }
        Ok(counts)
    }

    async fn all_subjects(&self, stream: &str) -> Result<BTreeMap<String, u64>, Error> {
        self.ask(RetryFor::ASKED, || async {
            let away = |error: String| Asked::Away(error);
            let stream = self.0.context.get_stream_no_info(stream).await;
            let stream = stream.map_err(|error| away(error.to_string()))?;
            let subjects = stream.info_with_subjects(self.names().all_jobs()).await;
            let mut subjects = subjects.map_err(|error| away(error.to_string()))?;
            let mut counts = BTreeMap::new();
            while let Some(next) = subjects.next().await {
                let (subject, _) = next.map_err(|error| away(error.to_string()))?;
                if let Some((queue, _, _)) = Names::job_of(&subject) {
                    *counts.entry(queue).or_default() += 1;
                }
            }
            Ok(counts)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_server::TestServer;
    use crate::spec::JobSpec;
    use std::collections::BTreeMap;

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
        let expected = [("long", 6000), ("other", 500), ("short", 2)];
        let expected: BTreeMap<String, u64> =
            expected.into_iter().map(|(queue, count)| (queue.to_owned(), count)).collect();
        assert_eq!(engine.counts().await.unwrap(), expected);
    }
}
