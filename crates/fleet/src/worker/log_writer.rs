//! Writes an attempt's log in batches, one after another. An event that comes alone is sent at once. Events that follow within
//! [`PACE`], or while a batch is being sent, form the next batch: each batch is a synchronized write for the server, however short
//! it is. The waiting events are bounded.
//!
//! A log that can't be written does not undo the work: its events are counted as lost, and the work continues. The keeper checks
//! whether this worker still holds the job.

use crate::engine::Shared;
use crate::record::LogEnd;
use bytes::{BufMut, BytesMut};
use ground::error::{Error, ErrorCode};
use ground::mpsc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

/// Waits in memory at most; whoever emits more waits.
const MAX_WAITING_BYTES: usize = 1 << 20;
const MAX_BATCH_BYTES: usize = 128 << 10;
/// From one batch to the next, unless the batch is full or the log ends.
const PACE: Duration = Duration::from_millis(100);

enum Entry {
    Event(String, u32),
    End(oneshot::Sender<LogEnd>),
}

/// The handle; the log's task ends with its last clone.
#[derive(Clone)]
pub(super) struct LogWriter {
    entries: mpsc::UnboundedSender<Entry>,
    room: Arc<Semaphore>,
}

impl LogWriter {
    pub(super) fn open(engine: Shared, id: &str, attempt: u32) -> LogWriter {
        let (entries, received) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(MAX_WAITING_BYTES));
        let max_event_bytes = engine.max_message_bytes();
        let writing = Writing {
            engine,
            id: id.to_owned(),
            attempt,
            room: room.clone(),
            max_event_bytes,
            end: LogEnd::default(),
            number: 0,
        };
        ground::task::spawn(writing.run(received));
        LogWriter { entries, room }
    }

    pub(super) async fn emit(&self, event: String) -> Result<(), Error> {
        let weight = u32::try_from(event.len().clamp(1, MAX_WAITING_BYTES)).unwrap_or(1);
        match self.room.acquire_many(weight).await {
            Ok(permit) => permit.forget(),
            Err(_) => return Err(ended()),
        }
        self.entries.send(Entry::Event(event, weight)).map_err(|_| ended())
    }

    /// Everything that was emitted is stored, or counted as lost. Nothing is taken after it.
    pub(super) async fn end(&self) -> LogEnd {
        let (sender, end) = oneshot::channel();
        if self.entries.send(Entry::End(sender)).is_err() {
            return LogEnd::default();
        }
        end.await.unwrap_or_default()
    }
}

fn ended() -> Error {
    Error::new(
        ErrorCode::JobLeaseLost,
        "the attempt's log is closed: the job is over, or another worker has it",
    )
}

struct Writing {
    engine: Shared,
    id: String,
    attempt: u32,
    room: Arc<Semaphore>,
    max_event_bytes: usize,
    end: LogEnd,
    number: u64,
}

impl Writing {
    async fn run(mut self, mut entries: mpsc::UnboundedReceiver<Entry>) {
        let mut batch = BytesMut::new();
        let mut next_at = Instant::now();
        while let Some(entry) = entries.recv().await {
            let (mut next, mut weight, mut events) = (Some(entry), 0_usize, 0_u64);
            let mut end = None;
            while let Some(entry) = next.take() {
                match entry {
                    Entry::Event(event, cost) => {
                        weight += cost as usize;
                        events += 1;
                        self.put(&mut batch, &event);
                    }
                    Entry::End(sender) => {
                        end = Some(sender);
                        break;
                    }
                }
                if batch.len() < MAX_BATCH_BYTES.min(self.max_event_bytes / 2) {
                    next = timeout_at(next_at, entries.recv()).await.ok().flatten();
                }
            }
            if !batch.is_empty() {
                next_at = Instant::now() + PACE;
                self.append(batch.split().freeze(), events).await;
            }
            self.room.add_permits(weight);
            if let Some(sender) = end {
                self.room.close();
                let _ = sender.send(self.end);
                return;
            }
        }
    }

    fn put(&self, batch: &mut BytesMut, event: &str) {
        if !batch.is_empty() {
            batch.put_u8(b'\n');
        }
        if event.len() <= self.max_event_bytes / 2 {
            batch.put_slice(event.as_bytes());
        } else {
            let message =
                format!("an event of {} bytes was left out: it exceeds the server's limit", event.len());
            batch.put_slice(
                serde_json::json!({ "type": "warning", "message": message }).to_string().as_bytes(),
            );
        }
    }

    async fn append(&mut self, lines: bytes::Bytes, events: u64) {
        // A batch that is lost leaves its number out, so that readers are told of the gap.
        self.number += 1;
        match self.engine.append_log(&self.id, self.attempt, self.number, self.end.sequence, lines).await {
            Ok(sequence) => {
                self.end.sequence = sequence;
                self.end.events += events;
            }
            Err(_) => self.end.lost += events,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::open_memory;

    /// The lines of each batch that is stored by now.
    async fn batches(engine: &Shared, last: u64) -> Vec<usize> {
        let mut log = engine.read_logs("job", 0);
        let mut found = Vec::new();
        loop {
            let batch = log.next(false).await.unwrap();
            found.push(batch.lines.split(|byte| *byte == b'\n').count());
            if batch.sequence >= last {
                return found;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn events_that_come_quickly_share_batches_and_the_first_one_does_not_wait() {
        let engine = open_memory(Duration::from_secs(10));
        let writer = LogWriter::open(engine.clone(), "job", 1);
        writer.emit("0".to_owned()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let first = engine.last_of_logs("job").await.unwrap();
        assert_eq!(batches(&engine, first).await, [1]);
        for number in 1..=50 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            writer.emit(number.to_string()).await.unwrap();
        }
        let asked = Instant::now();
        let end = writer.end().await;
        assert_eq!((end.events, end.lost, asked.elapsed()), (51, 0, Duration::ZERO), "the end does not wait");
        let all = batches(&engine, end.sequence).await;
        assert_eq!(all.iter().sum::<usize>(), 51);
        assert!((6..=7).contains(&all.len()), "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_batch_does_not_wait_for_its_time() {
        let engine = open_memory(Duration::from_secs(10));
        let writer = LogWriter::open(engine.clone(), "job", 1);
        let begun = Instant::now();
        for _ in 0..40 {
            writer.emit("x".repeat(MAX_BATCH_BYTES / 4)).await.unwrap();
        }
        // Only four times as much as a batch may wait in memory: all of it was taken without a pause.
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(writer.end().await.events, 40);
    }
}
