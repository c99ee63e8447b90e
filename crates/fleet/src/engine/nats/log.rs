//! Logs of attempts: batches of events in order, read by any number of readers from any point on.

use super::batch::Most;
use super::connection::Nats;
use super::store::{consumer_refused, terms};
use super::subject::Names;
use crate::engine::interface::{LogReader, Logs};
use crate::engine::value::{CLOSED, LogBatch, Refused, RetryFor, away};
use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use ground::error::{Error, ErrorCode};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::watch;

/// Tries to append to a log that is being truncated.
const APPENDS: u32 = 4;
/// Limits of a page of stored log messages.
const PAGE: Most = Most { messages: 256, bytes: 1 << 20 };
/// Pause between two pages of a log that has no consumer, or whose copy here is behind.
const PAGE_PAUSE: Duration = Duration::from_millis(300);
/// Messages of a growing log that are in flight at a time.
const LIVE_MESSAGES: usize = 16;
/// The server deletes a consumer that is not used for so long.
const ABANDONED_AFTER: Duration = Duration::from_secs(30);

#[async_trait]
impl Logs for Nats {
    async fn append_log(
        &self,
        id: &str,
        attempt: u32,
        number: u64,
        after: u64,
        lines: Bytes,
    ) -> Result<u64, Error> {
        let subject = self.names().log(id, attempt);
        let message_id = format!("{subject}.{number}");
        let mut after = after;
        for _ in 0..APPENDS {
            let mut headers = terms(Some(after), None);
            headers.insert("Nats-Msg-Id", message_id.as_str());
            match self.store(&subject, headers, lines.clone(), RetryFor::WORK).await {
                Ok(stored) => return Ok(stored.sequence),
                Err(Refused::Conflict) => {}
                Err(refused) => return Err(refused.into()),
            }
            after = match self.last_message(&subject, RetryFor::WORK).await? {
                // Stored long ago, its answer lost.
                Some(message)
                    if message.headers.get("Nats-Msg-Id").is_some_and(|id| id.as_str() == message_id) =>
                {
                    return Ok(message.sequence);
                }
                // The log was cut by its age, its size or by hand: it goes on behind what is left.
                found => found.map_or(0, |message| message.sequence),
            };
        }
        Err(Refused::Conflict.into())
    }

    async fn last_of_logs(&self, id: &str) -> Result<u64, Error> {
        let found = self.last_message(&self.names().logs(id), RetryFor::ASKED).await?;
        Ok(found.map_or(0, |message| message.sequence))
    }

    fn read_logs(&self, id: &str, from: u64) -> Box<dyn LogReader> {
        Box::new(Reader {
            engine: self.clone(),
            filter: self.names().logs(id),
            next: from.max(1),
            ready: VecDeque::new(),
            is_behind: true,
            live: None,
            connections: self.0.connections.clone(),
        })
    }

    async fn drop_traces(&self, id: &str) -> Result<(), Error> {
        self.purge(&self.names().logs(id), None, RetryFor::ASKED).await?;
        self.purge(&self.names().dead_anywhere(id), None, RetryFor::ASKED).await.map(drop)
    }
}

/// The batches of a job's logs, in order, as they come.
///
/// Stored batches are read page by page, which leaves nothing behind on the server. Only future batches need a consumer there. If
/// the server has no room for another consumer, pages are polled instead.
struct Reader {
    engine: Nats,
    filter: String,
    next: u64,
    /// Batches that were read and are not handed out yet.
    ready: VecDeque<LogBatch>,
    /// The stream may hold more messages than were read so far.
    is_behind: bool,
    live: Option<LiveLog>,
    connections: watch::Receiver<u64>,
}

#[async_trait]
impl LogReader for Reader {
    /// Drops the consumer and reads stored batches again, so that an awaited batch that was missed is found.
    fn reopen(&mut self) {
        self.live = None;
        self.is_behind = true;
    }

    /// Drops the server's consumer of this reader. Further reading creates a new one.
    fn close(&mut self) {
        self.live = None;
    }

    async fn next(&mut self, is_growing: bool) -> Result<LogBatch, Error> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                self.next = batch.sequence + 1;
                return Ok(batch);
            }
            if self.live.is_none() {
                self.connections.mark_unchanged();
                if self.is_behind {
                    self.read_page().await?;
                    continue;
                }
                if is_growing {
                    match LiveLog::open(&self.engine, &self.filter, self.next).await {
                        Ok(live) => self.live = Some(live),
                        Err(error) if error.code() == ErrorCode::FleetFull => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            let Some(live) = &mut self.live else {
                tokio::time::sleep(PAGE_PAUSE).await;
                self.is_behind = true;
                continue;
            };
            tokio::select! {
                batch = live.next() => match batch {
                    Some(batch) => {
                        self.next = batch.sequence + 1;
                        return Ok(batch);
                    }
                    None => self.reopen(),
                },
                changed = self.connections.changed() => {
                    if changed.is_err() {
                        return Err(away(CLOSED));
                    }
                    // The server may have forgotten who reads what.
                    self.reopen();
                }
            }
        }
    }
}

impl Reader {
    async fn read_page(&mut self) -> Result<(), Error> {
        let stream = self.engine.names().log_stream();
        let page = self
            .engine
            .ask(RetryFor::WORK, || self.engine.read_on(&stream, &self.filter, self.next, PAGE))
            .await?;
        self.is_behind = page.left > 0 && !page.messages.is_empty();
        self.ready.extend(page.messages.into_iter().filter_map(|message| {
            batch(
                &message.subject,
                message.sequence,
                message.time.unix_timestamp_nanos(),
                &message.headers,
                message.payload,
            )
        }));
        Ok(())
    }
}

/// A consumer on the server that tells what is appended to a log. It is deleted when its reader is done: a server has room for so
/// many consumers of a stream.
struct LiveLog {
    engine: Nats,
    consumer: String,
    messages: pull::Stream,
    /// Messages that the consumer delivered so far; a gap means that one was lost on its way.
    delivered: u64,
    runtime: tokio::runtime::Handle,
}

impl LiveLog {
    async fn open(engine: &Nats, filter: &str, from: u64) -> Result<LiveLog, Error> {
        let config = pull::Config {
            filter_subject: filter.to_owned(),
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from },
            ack_policy: AckPolicy::None,
            memory_storage: true,
            num_replicas: 1,
            // This consumer belongs to a reader that was killed.
            inactive_threshold: ABANDONED_AFTER,
            ..pull::Config::default()
        };
        let stream = engine.names().log_stream();
        let consumer = engine
            .ask(RetryFor::WORK, || async {
                let created = engine.0.context.create_consumer_on_stream(config.clone(), &stream).await;
                created.map_err(|error| consumer_refused(&stream, &error))
            })
            .await?;
        let messages = consumer.stream().max_messages_per_batch(LIVE_MESSAGES).messages().await;
        Ok(LiveLog {
            engine: engine.clone(),
            consumer: consumer.cached_info().name.clone(),
            messages: messages.map_err(away)?,
            delivered: 0,
            runtime: tokio::runtime::Handle::current(),
        })
    }

    /// `None`: it has to be opened anew.
    async fn next(&mut self) -> Option<LogBatch> {
        loop {
            let message = self.messages.next().await?.ok()?;
            let info = message.info().ok()?;
            let (sequence, stored_at) = (info.stream_sequence, info.published.unix_timestamp_nanos());
            if info.consumer_sequence != self.delivered + 1 {
                return None;
            }
            self.delivered += 1;
            let headers = message.headers.clone().unwrap_or_default();
            if let Some(batch) =
                batch(&message.subject, sequence, stored_at, &headers, message.payload.clone())
            {
                return Some(batch);
            }
        }
    }
}

impl Drop for LiveLog {
    fn drop(&mut self) {
        let (engine, consumer) = (self.engine.clone(), std::mem::take(&mut self.consumer));
        self.runtime.spawn(async move {
            // When it fails the server deletes it after `ABANDONED_AFTER`.
            let stream = engine.names().log_stream();
            let _ = engine.0.context.delete_consumer_from_stream(consumer, stream).await;
        });
    }
}

/// `stored_at`: epoch nanoseconds.
fn batch(
    subject: &str,
    sequence: u64,
    stored_at: i128,
    headers: &HeaderMap,
    lines: Bytes,
) -> Option<LogBatch> {
    let number = headers.get("Nats-Msg-Id").and_then(|id| id.as_str().rsplit('.').next()?.parse().ok());
    Some(LogBatch {
        attempt: Names::attempt_of(subject)?,
        number: number.unwrap_or(0),
        sequence,
        stored_at: u64::try_from(stored_at / 1_000_000).unwrap_or(0),
        lines,
    })
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
