//! Logs of attempts in memory.

use super::handle::Memory;
use crate::engine::interface::{LogReader, Logs};
use crate::engine::value::LogBatch;
use async_trait::async_trait;
use bytes::Bytes;
use ground::error::Error;
use ground::record::epoch_ms;
use std::time::SystemTime;

#[async_trait]
impl Logs for Memory {
    async fn append_log(
        &self,
        id: &str,
        attempt: u32,
        number: u64,
        _after: u64,
        lines: Bytes,
    ) -> Result<u64, Error> {
        let stored_at = epoch_ms(SystemTime::now());
        Ok(self.change(|state| {
            let sequence = state.next();
            let log = state.logs.entry(id.to_owned()).or_default();
            if let Some(same) = log.iter().find(|batch| (batch.attempt, batch.number) == (attempt, number)) {
                return same.sequence;
            }
            log.push(LogBatch { attempt, number, sequence, lines, stored_at });
            sequence
        }))
    }

    async fn last_of_logs(&self, id: &str) -> Result<u64, Error> {
        Ok(self.read(|state| state.logs.get(id).and_then(|log| log.last()).map_or(0, |batch| batch.sequence)))
    }

    fn read_logs(&self, id: &str, from: u64) -> Box<dyn LogReader> {
        Box::new(Reader { engine: self.clone(), id: id.to_owned(), next: from })
    }

    async fn drop_traces(&self, id: &str) -> Result<(), Error> {
        self.change(|state| {
            state.logs.remove(id);
            state.dead.remove(id);
        });
        Ok(())
    }
}

struct Reader {
    engine: Memory,
    id: String,
    next: u64,
}

#[async_trait]
impl LogReader for Reader {
    async fn next(&mut self, _is_growing: bool) -> Result<LogBatch, Error> {
        let batch = self.engine.until(|state| {
            let log = state.logs.get(&self.id)?;
            log.get(log.partition_point(|batch| batch.sequence < self.next)).cloned()
        });
        let batch = batch.await;
        self.next = batch.sequence + 1;
        Ok(batch)
    }
}
