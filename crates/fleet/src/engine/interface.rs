//! The interface of an engine, and the guarantee of each call.

use super::lane::Lane;
use super::value::{Entry, Group, JobPage, Key, LogBatch, Queued, Refused, RetryFor, Rooms, Waiting};
use crate::filter::Filter;
use crate::name::MAX_PRIORITY;
use crate::spec::JobSpec;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use ground::error::Error;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// An engine as the parts of a fleet share it.
pub(crate) type Shared = Arc<dyn Engine>;

/// The classes of a queue, the first one first.
pub(crate) fn classes() -> impl Iterator<Item = u8> {
    (0..=MAX_PRIORITY).rev()
}

/// Everything that a fleet needs of its engine.
#[async_trait]
pub(crate) trait Engine: Queue + Entries + Logs + Objects {
    /// A job whose holder is silent for so long is given to another worker.
    fn lease(&self) -> Duration;

    /// Counts connections: at each change something may have been missed.
    fn connections(&self) -> watch::Receiver<u64>;

    /// Whether the engine can be reached right now.
    fn is_connected(&self) -> watch::Receiver<bool>;

    fn version(&self) -> String;

    /// The most bytes that one message may have.
    fn max_message_bytes(&self) -> usize;

    /// The sizes and limits of all stores.
    async fn rooms(&self) -> Result<Rooms, Error>;

    /// The sequences to read on from behind the last change of any record, and behind the last message of any job.
    async fn last_changes(&self) -> Result<(u64, u64), Error>;

    /// Returns `FLEET_FULL` when the records have no room for jobs that have none yet. A moment old.
    async fn check_room(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The records' room is measured anew at the next check.
    fn forget_room(&self) {}

    /// Closes the connection after the pending messages were sent.
    async fn close(&self) {}
}

/// Jobs that wait, or are in the hands of a worker.
#[async_trait]
pub(crate) trait Queue: Send + Sync + 'static {
    /// Puts a job into its queue. `again` tells a later message of the same id from a repeated one. True when it was there.
    async fn put_job(&self, spec: &JobSpec, again: &str) -> Result<bool, Error>;

    /// Puts new jobs into their queues, many at once. False for a job that was not put: one of its neighbours may be known, or
    /// the answer was lost.
    async fn put_jobs(&self, specs: &[JobSpec]) -> Result<Vec<bool>, Error>;

    /// The job's message, wherever it waits.
    async fn find_job(&self, id: &str) -> Result<Option<Waiting>, Error>;

    /// Sequence of the job's message.
    async fn message_of(&self, id: &str) -> Result<Option<u64>, Error> {
        Ok(self.find_job(id).await?.map(|waiting| waiting.sequence))
    }

    /// Takes the job's messages up to this one off the queue, given out or not. A later one is of a later retry.
    async fn drop_job(&self, id: &str, up_to: u64) -> Result<(), Error>;

    /// Removes the spec of a job that is done, where its message only names it.
    async fn free_spec(&self, _id: &str) {}

    /// Keeps the spec of a job that did not get done, for a later retry.
    async fn bury_job(&self, spec: &JobSpec, retry_for: RetryFor) -> Result<(), Error>;

    async fn buried_job(&self, id: &str) -> Result<Option<JobSpec>, Error>;

    /// Jobs in the queue, the oldest first, from this sequence on. Only those of at most about `most` messages
    /// that the filter names, whatever their state is.
    async fn jobs_from(&self, filter: &Filter, from: u64, most: usize) -> Result<JobPage, Error>;

    /// Which of these jobs have a message. A moment old, maybe.
    async fn jobs_with_message(&self, ids: &[&str]) -> Result<HashSet<String>, Error>;

    /// The queues with jobs that are not over, and the `oldest` first jobs of each. `known`: queues that the caller knows of; a
    /// long store is searched for others by samples first.
    async fn queues(
        &self,
        known: &BTreeSet<String>,
        oldest: usize,
    ) -> Result<BTreeMap<String, Queued>, Error>;

    /// The lane of a class of a queue; made when it is not there.
    async fn lane(&self, queue: &str, priority: u8, retry_for: RetryFor) -> Result<Arc<dyn Lane>, Error>;
}

/// Short values by their keys: records of jobs, settings, places of keys, announcements. A removed one is an entry without a
/// text, which expires.
#[async_trait]
pub(crate) trait Entries: Send + Sync + 'static {
    async fn entry(&self, key: &Key, retry_for: RetryFor) -> Result<Option<Entry>, Error>;

    /// Writes over the revision (0: there must be none; `None`: whatever there is). Says `Conflict` when the entry is another one
    /// by now. It expires after `length`, if there is one. An answer that was lost is made good by reading the entry back: nobody
    /// else writes the same bytes. Returns the new revision.
    async fn put_entry(
        &self,
        key: &Key,
        payload: Bytes,
        over: Option<u64>,
        length: Option<Duration>,
        retry_for: RetryFor,
    ) -> Result<u64, Refused>;

    /// Takes the entry out, unless it was written since this revision.
    async fn drop_entry(&self, key: &Key, up_to: u64) -> Result<bool, Error>;

    /// The entries of a group from this revision on, in their order. A moment old, maybe.
    fn entries(&self, group: &Group, from: u64) -> BoxStream<'static, Result<(Key, Entry), Error>>;

    /// The records of these jobs, of those that have one; by their ids. A moment old, maybe.
    async fn last_records(&self, ids: &[&str]) -> Result<Vec<(String, Entry)>, Error>;

    /// Tells of changes from now on. Changes while the engine is away are not told.
    async fn changes(&self, group: &Group) -> Result<Changes, Error>;
}

/// Entries that were changed; ends when there will be no more. Dropping a future of it loses nothing.
pub(crate) type Changes = BoxStream<'static, (Key, Entry)>;

/// Logs of attempts: batches of events in order, read by any number of readers from any point on.
#[async_trait]
pub(crate) trait Logs: Send + Sync + 'static {
    /// Appends the batch of this number to the attempt's log, behind the message of `after` (0: it is the first). Repeats itself
    /// until it is stored; a batch that was stored before its answer was lost is stored once. Returns its sequence.
    async fn append_log(
        &self,
        id: &str,
        attempt: u32,
        number: u64,
        after: u64,
        lines: Bytes,
    ) -> Result<u64, Error>;

    /// The last message of a job's logs; 0 when there is none.
    async fn last_of_logs(&self, id: &str) -> Result<u64, Error>;

    /// Reads a job's logs from this sequence on.
    fn read_logs(&self, id: &str, from: u64) -> Box<dyn LogReader>;

    /// Removes the logs of a job, and the spec that was kept for a retry.
    async fn drop_traces(&self, id: &str) -> Result<(), Error>;
}

/// The batches of a job's logs, in order, as they come.
#[async_trait]
pub(crate) trait LogReader: Send {
    /// The next batch; waits for it. `is_growing`: the job may still write, so that new batches should come at once. Dropping the
    /// future loses nothing.
    async fn next(&mut self, is_growing: bool) -> Result<LogBatch, Error>;

    /// Reads stored batches again, so that an awaited batch that was missed is found.
    fn reopen(&mut self) {}

    /// Releases what the engine keeps for this reader. Further reading creates it anew.
    fn close(&mut self) {}
}

/// Whole files and long texts by name.
#[async_trait]
pub(crate) trait Objects: Send + Sync + 'static {
    async fn put_object(&self, name: &str, bytes: Bytes) -> Result<(), Error>;

    /// The file's length and its SHA-256 in hexadecimal digits.
    async fn put_file(&self, name: &str, file: File) -> Result<(u64, String), Error>;

    async fn object(&self, name: &str) -> Result<Bytes, Error>;

    /// Writes the object into a file, which is there whole or not at all.
    async fn fetch_object(&self, name: &str, to: &Path) -> Result<(), Error>;

    /// Removes the objects that `is_meant` names, by their names and when they were stored. Returns how many those were, and
    /// their bytes; `is_trial`: counts them only.
    async fn drop_objects(
        &self,
        is_meant: &(dyn for<'name> Fn(&'name str, SystemTime) -> bool + Send + Sync),
        is_trial: bool,
    ) -> Result<(u64, u64), Error>;
}
