//! Entries: the last message of each subject, read at the leader, written over the sequence that was read. The stream of records
//! and settings publishes every change. Leases expire.

use super::batch::EVERYTHING;
use super::connection::{Nats, REQUEST_TIMEOUT};
use super::store::{Asked, terms};
use crate::engine::interface::{Changes, Entries};
use crate::engine::value::{Entry, Group, Key, Refused, RetryFor, away};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{RawMessageBuilder, RawMessageErrorKind};
use async_nats::{Message, Subscriber};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use ground::error::{Error, ErrorCode};
use std::time::{Duration, SystemTime};

#[async_trait]
impl Entries for Nats {
    async fn entry(&self, key: &Key, retry_for: RetryFor) -> Result<Option<Entry>, Error> {
        Ok(self.last_message(&self.names().entry(key), retry_for).await?.map(entry_of))
    }

    async fn put_entry(
        &self,
        key: &Key,
        payload: Bytes,
        over: Option<u64>,
        length: Option<Duration>,
        retry_for: RetryFor,
    ) -> Result<u64, Refused> {
        match self.store(&self.names().entry(key), terms(over, length), payload.clone(), retry_for).await {
            Ok(stored) => Ok(stored.sequence),
            Err(Refused::Conflict) => match self.entry(key, retry_for).await? {
                // It was written, and the answer was lost.
                Some(entry) if entry.payload == payload => Ok(entry.revision),
                _ => Err(Refused::Conflict),
            },
            Err(refused) => Err(refused),
        }
    }

    async fn drop_entry(&self, key: &Key, up_to: u64) -> Result<bool, Error> {
        Ok(self.purge(&self.names().entry(key), Some(up_to + 1), RetryFor::ASKED).await? > 0)
    }

    fn entries(&self, group: &Group, from: u64) -> BoxStream<'static, Result<(Key, Entry), Error>> {
        let (engine, group) = (self.clone(), group.clone());
        let filter = self.names().stored(&group);
        let stream = self.names().stream_of(&filter);
        let found = match group {
            // A filter for the records alone costs the server a look at all subjects for each page.
            Group::Records => self.all_of(stream, EVERYTHING.to_owned(), from).boxed(),
            // There are few, and a worker's user may read nothing else of that stream.
            Group::Pauses | Group::Drains | Group::Schedules => self.one_by_one(filter, from).boxed(),
            _ => self.all_of(stream, filter, from).boxed(),
        };
        let of_group = move |message: StreamMessage| {
            let key = engine.names().key_of(&message.subject).filter(|key| group.has(key));
            std::future::ready(Ok(key.map(|key| (key, entry_of(message)))))
        };
        found.try_filter_map(of_group).boxed()
    }

    async fn last_records(&self, ids: &[&str]) -> Result<Vec<(String, Entry)>, Error> {
        let stream = self.names().run_stream();
        let record = |id: &&str| self.names().entry(&Key::Record((*id).to_owned()));
        let subjects: Vec<String> = ids.iter().map(record).collect();
        let batch = self.ask(RetryFor::ASKED, || self.last_of_each(&stream, &subjects)).await?;
        let found = batch.messages.into_iter().filter_map(|message| {
            let key = self.names().key_of(&message.subject)?;
            Some((key.name().to_owned(), entry_of(message)))
        });
        Ok(found.collect())
    }

    async fn changes(&self, group: &Group) -> Result<Changes, Error> {
        let told = self.subscribed(self.names().told(group)).await?;
        let engine = self.clone();
        let changed = move |told: Message| {
            let revision = sequence_of(&told);
            let entry = Entry { payload: told.payload, revision, stored_at: SystemTime::now() };
            std::future::ready(engine.names().key_of(&told.subject).map(|key| (key, entry)))
        };
        Ok(told.filter_map(changed).boxed())
    }
}

/// The sequence of a message that the server publishes because it has stored it.
pub(super) fn sequence_of(told: &Message) -> u64 {
    let sequence = told.headers.as_ref().and_then(|headers| headers.get("Nats-Sequence"));
    sequence.and_then(|sequence| sequence.as_str().parse().ok()).unwrap_or(0)
}

impl Nats {
    /// The server knows of the subscription before anything is read.
    async fn subscribed(&self, subject: String) -> Result<Subscriber, Error> {
        let subscriber = self.0.client.subscribe(subject).await.map_err(away)?;
        let _ = tokio::time::timeout(REQUEST_TIMEOUT, self.0.client.flush()).await;
        Ok(subscriber)
    }

    /// Tells the sequence of each batch of the job's logs.
    pub(super) async fn told_of_logs(&self, id: &str) -> Result<Subscriber, Error> {
        self.subscribed(self.names().logs_told(id)).await
    }

    /// The last message that the filter names, read at its stream's leader.
    pub(super) async fn last_message(
        &self,
        filter: &str,
        retry_for: RetryFor,
    ) -> Result<Option<StreamMessage>, Error> {
        self.message(filter, retry_for, |wanted| wanted.last_by_subject(filter)).await
    }

    /// The first message from this sequence on that the filter names, read at its stream's leader.
    pub(super) async fn next_message(
        &self,
        filter: &str,
        from: u64,
        retry_for: RetryFor,
    ) -> Result<Option<StreamMessage>, Error> {
        self.message(filter, retry_for, |wanted| wanted.sequence(from).next_by_subject(filter)).await
    }

    /// The messages that the filter names, read at their stream's leader.
    fn one_by_one(
        &self,
        filter: String,
        from: u64,
    ) -> impl futures_util::Stream<Item = Result<StreamMessage, Error>> + use<> {
        let engine = self.clone();
        stream::try_unfold(from, move |from| {
            let (engine, filter) = (engine.clone(), filter.clone());
            async move {
                let found = engine.next_message(&filter, from, RetryFor::ASKED).await?;
                Ok(found.map(|message| {
                    let next = message.sequence + 1;
                    (message, next)
                }))
            }
        })
    }

    async fn message(
        &self,
        filter: &str,
        retry_for: RetryFor,
        which: impl Fn(RawMessageBuilder) -> RawMessageBuilder,
    ) -> Result<Option<StreamMessage>, Error> {
        let stream = self.names().stream_of(filter);
        let api = self.api(&format!("STREAM.MSG.GET.{stream}"));
        self.ask(retry_for, || async {
            let stream = self.0.context.get_stream_no_info(&stream).await.map_err(Asked::away)?;
            match which(stream.raw_message_builder()).send().await {
                Ok(message) => Ok(Some(message)),
                Err(error) => match error.kind() {
                    RawMessageErrorKind::NoMessageFound => Ok(None),
                    RawMessageErrorKind::InvalidSubject => Err(Asked::Final(Error::new(
                        ErrorCode::FleetStorage,
                        format!("{filter} is not a subject"),
                    ))),
                    _ => Err(self.unanswered(&api, error)),
                },
            }
        })
        .await
    }
}

fn entry_of(message: StreamMessage) -> Entry {
    let stored_at = stored_at(&message);
    Entry { payload: message.payload, revision: message.sequence, stored_at }
}

/// By the server's clock.
pub(super) fn stored_at(message: &StreamMessage) -> SystemTime {
    since_epoch(message.time.unix_timestamp_nanos())
}

pub(super) fn since_epoch(nanos: i128) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::test_server::{PATIENCE, Road, TestServer, connect};
    use super::*;
    use crate::engine::interface::Shared;
    use crate::record::JobRecord;
    use crate::spec::JobSpec;
    use std::collections::HashSet;

    #[tokio::test]
    async fn a_watch_tells_that_a_record_was_removed() {
        let Some(server) = TestServer::start().await else { return };
        let engine = server.engine().await;
        let spec = JobSpec { id: "job".into(), handler: Some("h".into()), ..JobSpec::new() };
        let kept = engine.write_record(&JobRecord::queued(&spec), 0, RetryFor::ASKED).await.unwrap();
        let mut watch = engine.watch_record("job").await.unwrap();
        assert!(watch.next().await.unwrap().is_some());
        assert!(engine.drop_record(&kept).await.unwrap());
        watch.doubt();
        let told = tokio::time::timeout(PATIENCE, watch.next()).await.expect("it tells");
        assert!(told.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_ends_while_it_is_listed_is_not_waited_for() {
        let Some(server) = TestServer::start().await else { return };
        let road = Road::to(&server, "PUB $JS.API.").await;
        let (engine, other) = (connect(&road.url).await, server.engine().await);
        for name in ["stays", "goes"] {
            let worker = Key::Worker(name.to_owned());
            other.announce(&worker, Bytes::from(name), Duration::from_secs(300)).await.unwrap();
        }
        let before = road.seen();
        road.hold_until(usize::MAX);
        let listed = ground::task::spawn({
            let engine = engine.clone();
            async move { engine.announced_workers().await }
        });
        road.until(before + 1).await;
        other.forget(&Key::Worker("goes".to_owned())).await;
        road.hold_until(0);
        let listed = tokio::time::timeout(PATIENCE, listed).await.expect("it ends").unwrap().unwrap();
        assert!(listed.contains(&Bytes::from("stays")), "{listed:?}");
    }

    #[tokio::test]
    async fn a_holder_whose_answer_was_lost_keeps_its_place() {
        let Some(server) = TestServer::start().await else { return };
        let road = Road::to(&server, "PUB $KV.SD_LEASE.key.").await;
        let (engine, other) = (connect(&road.url).await, server.engine().await);
        let length = Duration::from_secs(60);
        let take = async |engine: &Shared, holder| {
            engine.take_place(Key::Place("k".to_owned(), 0), holder, "job", length).await.unwrap()
        };
        // No answer comes before the question was repeated.
        road.hold_until(road.seen() + 2);
        let mut place = take(&engine, "me").await.unwrap();
        road.hold_until(road.seen() + 2);
        assert!(engine.hold_place(&mut place).await.unwrap());
        assert!(road.seen() >= 4, "answers were lost");
        assert!(take(&other, "another").await.is_none(), "two of a key at once");
        assert!(engine.hold_place(&mut place).await.unwrap());
        engine.drop_place(&place).await;
        assert!(take(&other, "another").await.is_some(), "free at once");
        assert!(!engine.hold_place(&mut place).await.unwrap(), "it is another's by now");
        engine.drop_place(&place).await;
        assert_eq!(other.places_taken("k").await.unwrap(), HashSet::from([0]));
        let holders = other.key_holders("k").await.unwrap();
        assert_eq!(holders, ["job"], "nobody gives back what is another's");
    }
}
