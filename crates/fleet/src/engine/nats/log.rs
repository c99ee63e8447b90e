//! Logs of attempts: batches of events in order, read by any number of readers from any point on.

use super::batch::Most;
use super::connection::Nats;
use super::entries::sequence_of;
use super::store::terms;
use super::subject::Names;
use crate::engine::entries::REREAD_EVERY;
use crate::engine::interface::{LogReader, Logs};
use crate::engine::value::{CLOSED, LogBatch, Refused, RetryFor, away};
use async_nats::Subscriber;
use async_nats::jetstream::message::StreamMessage;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use ground::error::Error;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::watch;

/// Tries to append to a log that is being truncated.
const APPENDS: u32 = 4;
/// Limits of a page of stored log messages.
const PAGE: Most = Most { messages: 256, bytes: 1 << 20 };
/// Pause between two pages of a log that does not grow.
const PAGE_PAUSE: Duration = Duration::from_millis(300);

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
            id: id.to_owned(),
            next: from.max(1),
            ready: VecDeque::new(),
            is_behind: true,
            due: 0,
            told: None,
            connections: self.0.connections.clone(),
        })
    }

    async fn drop_traces(&self, id: &str) -> Result<(), Error> {
        self.purge(&self.names().logs(id), None, RetryFor::ASKED).await?;
        self.purge(&self.names().dead_anywhere(id), None, RetryFor::ASKED).await.map(drop)
    }
}

/// The batches of a job's logs, in order, as they come: read page by page. The server publishes the sequence of each batch that it
/// stores. That is not kept for anybody, so the log is also read when the connection was lost, and now and then.
struct Reader {
    engine: Nats,
    id: String,
    /// Sequence from which on the log is read next.
    next: u64,
    /// Batches that were read and are not handed out yet.
    ready: VecDeque<LogBatch>,
    /// The stream may hold more messages than were read so far.
    is_behind: bool,
    /// The last sequence that was told. A copy of the stream may lack it for a moment.
    due: u64,
    told: Option<Subscriber>,
    connections: watch::Receiver<u64>,
}

#[async_trait]
impl LogReader for Reader {
    fn reopen(&mut self) {
        self.is_behind = true;
    }

    fn close(&mut self) {
        self.told = None;
    }

    async fn next(&mut self, is_growing: bool) -> Result<LogBatch, Error> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(batch);
            }
            if self.is_behind {
                self.connections.mark_unchanged();
                self.read_page().await?;
                continue;
            }
            let Some(told) = &mut self.told else {
                if is_growing {
                    self.told = Some(self.engine.told_of_logs(&self.id).await?);
                } else {
                    tokio::time::sleep(PAGE_PAUSE).await;
                }
                self.is_behind = true;
                continue;
            };
            tokio::select! {
                told = told.next() => {
                    self.due = self.due.max(sequence_of(&told.ok_or_else(|| away(CLOSED))?));
                    self.is_behind = self.due >= self.next;
                }
                changed = self.connections.changed() => {
                    changed.map_err(|_| away(CLOSED))?;
                    self.is_behind = true;
                }
                () = tokio::time::sleep(REREAD_EVERY) => self.is_behind = true,
            }
        }
    }
}

impl Reader {
    async fn read_page(&mut self) -> Result<(), Error> {
        let (stream, filter) = (self.engine.names().log_stream(), self.engine.names().logs(&self.id));
        let read = || self.engine.read_on(&stream, &filter, self.next, PAGE);
        let mut page = self.engine.ask(RetryFor::WORK, read).await?;
        if page.messages.is_empty() && self.due >= self.next {
            // The copy that answered is behind. What the leader does not have either was cut.
            page.messages.extend(self.engine.next_message(&filter, self.next, RetryFor::WORK).await?);
        }
        match page.messages.last() {
            Some(last) => self.next = last.sequence + 1,
            None => (self.due, page.left) = (0, 0),
        }
        self.is_behind = page.left > 0 || self.due >= self.next;
        self.ready.extend(page.messages.into_iter().filter_map(batch));
        Ok(())
    }
}

fn batch(message: StreamMessage) -> Option<LogBatch> {
    let number = message.headers.get("Nats-Msg-Id");
    let number = number.and_then(|id| id.as_str().rsplit('.').next()?.parse().ok());
    Some(LogBatch {
        attempt: Names::attempt_of(&message.subject)?,
        number: number.unwrap_or(0),
        sequence: message.sequence,
        stored_at: u64::try_from(message.time.unix_timestamp_nanos() / 1_000_000).unwrap_or(0),
        lines: message.payload,
    })
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
