//! Logs of attempts: batches of events in order, read by any number of readers from any point on.

use super::connection::Engine;
use super::store::{Asked, Refused, RetryFor, headers};
use crate::error::Error;
use crate::fleet::subject::Names;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::watch;

/// Some events of an attempt.
#[derive(Clone, Debug)]
pub(crate) struct LogBatch {
    pub attempt: u32,
    /// Of the message in the stream: grows over all attempts of a job.
    pub sequence: u64,
    /// One JSON a line.
    pub lines: Bytes,
    /// Epoch milliseconds, by the server's clock.
    pub stored_at: u64,
}

impl Engine {
    /// Appends the batch of this number to the attempt's log, behind the message of `after` (0: it is the first). Repeats itself
    /// until it is stored; a batch that was stored before its answer was lost is stored once. Returns its sequence.
    pub(crate) async fn append_log(
        &self,
        id: &str,
        attempt: u32,
        number: u64,
        after: u64,
        lines: Bytes,
    ) -> Result<u64, Error> {
        let subject = self.names().log(id, attempt);
        let (message_id, after) = (format!("{subject}.{number}"), after.to_string());
        let pairs =
            [("Nats-Msg-Id", message_id.as_str()), ("Nats-Expected-Last-Subject-Sequence", after.as_str())];
        match self.store(&subject, headers(&pairs), lines, RetryFor::WORK).await {
            Ok(stored) => Ok(stored.sequence),
            Err(Refused::Conflict) => {
                // Stored long ago, its answer lost: then the last message is this very one.
                let found = self.last_message(&self.names().log_stream(), &subject, RetryFor::WORK).await?;
                let same = found.filter(|message| {
                    message.headers.get("Nats-Msg-Id").is_some_and(|id| id.as_str() == message_id)
                });
                same.map(|message| message.sequence).ok_or_else(|| Refused::Conflict.into_error())
            }
            Err(refused) => Err(refused.into_error()),
        }
    }

    /// The last message of a job's logs; 0 when there is none.
    pub(crate) async fn last_of_logs(&self, id: &str) -> Result<u64, Error> {
        let found =
            self.last_message(&self.names().log_stream(), &self.names().logs(id), RetryFor::ASKED).await?;
        Ok(found.map_or(0, |message| message.sequence))
    }

    /// Reads a job's logs from this sequence on.
    pub(crate) fn read_logs(&self, id: &str, from: u64) -> LogReader {
        LogReader {
            engine: self.clone(),
            filter: self.names().logs(id),
            next: from.max(1),
            messages: None,
            connections: self.connections(),
        }
    }

    /// The most bytes that one message may have, headers aside.
    pub(crate) fn max_message_bytes(&self) -> usize {
        self.0.client.server_info().max_payload.saturating_sub(4096).max(64 << 10)
    }
}

/// The batches of a job's logs, in order, as they come.
pub(crate) struct LogReader {
    engine: Engine,
    filter: String,
    next: u64,
    messages: Option<Ordered>,
    connections: watch::Receiver<u64>,
}

impl LogReader {
    /// What it waits for is asked for anew.
    pub(crate) fn reopen(&mut self) {
        self.messages = None;
    }

    /// The next batch; waits for it. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<LogBatch, Error> {
        loop {
            let messages = match &mut self.messages {
                Some(messages) => messages,
                None => {
                    self.connections.mark_unchanged();
                    let opened = open(&self.engine, &self.filter, self.next).await?;
                    self.messages.insert(opened)
                }
            };
            let message = tokio::select! {
                message = messages.next() => message,
                changed = self.connections.changed() => {
                    if changed.is_err() {
                        return Err(super::store::away("the connection was closed"));
                    }
                    // The server may have forgotten who reads what.
                    self.messages = None;
                    continue;
                }
            };
            let Some(Ok(message)) = message else {
                self.messages = None;
                continue;
            };
            let Ok(info) = message.info() else { continue };
            let sequence = info.stream_sequence;
            let Some(attempt) = Names::attempt_of(&message.subject) else { continue };
            self.next = sequence + 1;
            let stored_at = info.published.unix_timestamp_nanos() / 1_000_000;
            return Ok(LogBatch {
                attempt,
                sequence,
                stored_at: u64::try_from(stored_at).unwrap_or(0),
                lines: message.payload.clone(),
            });
        }
    }
}

async fn open(engine: &Engine, filter: &str, from: u64) -> Result<Ordered, Error> {
    let config = OrderedConfig {
        filter_subject: filter.to_owned(),
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from },
        ..OrderedConfig::default()
    };
    let stream = engine.names().log_stream();
    engine
        .ask(RetryFor::WORK, || async {
            let away = |error: &dyn std::fmt::Display| Asked::Away(error.to_string());
            let created = engine.0.context.create_consumer_on_stream(config.clone(), &stream).await;
            created.map_err(|error| away(&error))?.messages().await.map_err(|error| away(&error))
        })
        .await
}
