//! Records of jobs: read at the leader, written over the revision that was read, and published to watchers.

use super::away::away;
use super::batch::EVERYTHING;
use super::connection::Nats;
use super::store::{Asked, terms};
use super::streams::KEPT;
use crate::engine::interface::{RecordWatch, Records};
use crate::engine::value::{Found, Kept, Refused, RetryFor};
use crate::listed::Listed;
use crate::record::JobRecord;
use async_nats::Subscriber;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{RawMessageBuilder, RawMessageErrorKind};
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use ground::error::{Error, ErrorCode};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// A watch reads again by itself this often: nothing that it is told of is kept for it.
const REREAD_EVERY: Duration = Duration::from_secs(20);

#[async_trait]
impl Records for Nats {
    async fn read_record(&self, id: &str, retry_for: RetryFor) -> Result<Option<Kept>, Error> {
        let subject = self.names().record(id);
        let found = self.last_message(&subject, retry_for).await?;
        found
            .map(|message| Ok(Kept { record: parse(&message.payload)?, revision: message.sequence }))
            .transpose()
    }

    async fn write_record(
        &self,
        record: &JobRecord,
        over: u64,
        retry_for: RetryFor,
    ) -> Result<Kept, Refused> {
        let payload = serde_json::to_vec(record).map_err(|error| {
            let message = format!("the record of {} can't be written: {error}", record.id);
            Error::new(ErrorCode::FleetStorage, message)
        })?;
        let terms = terms(Some(over), record.state.is_over().then_some(KEPT));
        let subject = self.names().record(&record.id);
        match self.store(&subject, terms, payload.into(), retry_for).await {
            Ok(stored) => Ok(Kept { record: record.clone(), revision: stored.sequence }),
            Err(Refused::Conflict) => match self.read_record(&record.id, retry_for).await? {
                Some(kept) if kept.record == *record => Ok(kept),
                _ => Err(Refused::Conflict),
            },
            Err(refused) => Err(refused),
        }
    }

    async fn read_listed(&self, id: &str) -> Result<Option<Listed>, Error> {
        let subject = self.names().record(id);
        let found = self.last_message(&subject, RetryFor::ASKED).await?;
        Ok(found.map(|message| Listed::parse(&message.payload, id.to_owned())))
    }

    async fn records_of(&self, ids: &[&str]) -> Result<HashMap<String, Listed>, Error> {
        let stream = self.names().run_stream();
        let subjects: Vec<String> = ids.iter().map(|id| self.names().record(id)).collect();
        let batch = self.ask(RetryFor::ASKED, || self.last_of_each(&stream, &subjects)).await?;
        let records = batch.messages.iter().filter_map(|message| self.listed(message));
        Ok(records.map(|record| (record.id().to_owned(), record)).collect())
    }

    fn records_from(&self, from: u64) -> BoxStream<'static, Result<Found, Error>> {
        let engine = self.clone();
        // Settings are left out here: a filter for the records alone costs the server a look at all subjects for each page.
        self.all_of(self.names().run_stream(), EVERYTHING.to_owned(), from)
            .filter_map(move |message| {
                let found = message.map(|message| {
                    let record = engine.listed(&message)?;
                    let (revision, stored_at) = (message.sequence, stored_at(&message));
                    Some(Found { record, revision, stored_at })
                });
                std::future::ready(found.transpose())
            })
            .boxed()
    }

    async fn drop_record(&self, kept: &Kept) -> Result<bool, Error> {
        let subject = self.names().record(&kept.record.id);
        Ok(self.purge(&subject, Some(kept.revision + 1), RetryFor::ASKED).await? > 0)
    }

    async fn watch_record(&self, id: &str) -> Result<Box<dyn RecordWatch>, Error> {
        Ok(Box::new(self.open_watch(id).await?))
    }
}

impl Nats {
    fn listed(&self, message: &StreamMessage) -> Option<Listed> {
        Some(Listed::parse(&message.payload, self.names().recorded(&message.subject)?))
    }

    async fn open_watch(&self, id: &str) -> Result<Watch, Error> {
        let subscriber = self.0.client.subscribe(self.names().record_told(id)).await.map_err(away)?;
        // So that the server knows of it before the first read.
        let _ = tokio::time::timeout(Duration::from_secs(2), self.0.client.flush()).await;
        Ok(Watch {
            engine: self.clone(),
            id: id.to_owned(),
            subscriber,
            connections: self.0.connections.clone(),
            seen: None,
            is_stale: true,
        })
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
    pub(super) async fn next_message(&self, filter: &str, from: u64) -> Result<Option<StreamMessage>, Error> {
        self.message(filter, RetryFor::ASKED, |wanted| wanted.sequence(from).next_by_subject(filter)).await
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

/// Tells of a record's changes: first of the record as it is, then of what follows. Some in between may be left out.
struct Watch {
    engine: Nats,
    id: String,
    subscriber: Subscriber,
    connections: watch::Receiver<u64>,
    /// The last revision that was told.
    seen: Option<u64>,
    is_stale: bool,
}

#[async_trait]
impl RecordWatch for Watch {
    async fn next(&mut self) -> Result<Option<Kept>, Error> {
        loop {
            if self.is_stale {
                let found = self.engine.read_record(&self.id, RetryFor::ASKED).await?;
                self.is_stale = false;
                let revision = found.as_ref().map_or(0, |kept| kept.revision);
                // A record that was there and is gone was removed.
                if self.seen.is_none_or(|seen| revision > seen || (revision == 0 && seen > 0)) {
                    self.seen = Some(revision);
                    return Ok(found);
                }
            }
            tokio::select! {
                told = self.subscriber.next() => {
                    let Some(told) = told else {
                        return Err(away("the connection was closed"));
                    };
                    let revision = told.headers.as_ref().and_then(|headers| headers.get("Nats-Sequence"));
                    let revision = revision.and_then(|value| value.as_str().parse::<u64>().ok()).unwrap_or(0);
                    if self.seen.is_none_or(|seen| revision > seen) {
                        self.seen = Some(revision);
                        return Ok(Some(Kept { record: parse(&told.payload)?, revision }));
                    }
                }
                changed = self.connections.changed() => {
                    if changed.is_err() {
                        return Err(away("the connection was closed"));
                    }
                    self.is_stale = true;
                }
                () = tokio::time::sleep(REREAD_EVERY) => self.is_stale = true,
            }
        }
    }
}

/// By the server's clock.
pub(super) fn stored_at(message: &StreamMessage) -> SystemTime {
    since_epoch(message.time.unix_timestamp_nanos())
}

pub(super) fn since_epoch(nanos: i128) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

fn parse(payload: &[u8]) -> Result<JobRecord, Error> {
    ground::json::read_own(payload).map_err(|error| {
        let message = format!("a job's record can't be read: {error}. Was it written by a newer version?");
        Error::new(ErrorCode::FleetStorage, message)
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_server::{PATIENCE, TestServer};
    use super::*;
    use crate::spec::JobSpec;

    #[tokio::test]
    async fn a_watch_tells_that_a_record_was_removed() {
        let Some(server) = TestServer::start().await else { return };
        let engine = server.engine().await;
        let spec = JobSpec { id: "job".into(), handler: Some("h".into()), ..JobSpec::new() };
        let kept = engine.write_record(&JobRecord::queued(&spec), 0, RetryFor::ASKED).await.unwrap();
        let mut watch = engine.nats.open_watch("job").await.unwrap();
        assert!(watch.next().await.unwrap().is_some());
        assert!(engine.drop_record(&kept).await.unwrap());
        // As after a connection that was lost.
        watch.is_stale = true;
        let told = tokio::time::timeout(PATIENCE, watch.next()).await.expect("it tells");
        assert!(told.unwrap().is_none());
    }
}
