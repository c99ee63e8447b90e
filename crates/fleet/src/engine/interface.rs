//! The interface of an engine, and the guarantee of each call.

use super::lane::Lane;
use super::value::{
    Announcement, Found, JobPage, Kept, LeaseSlot, LogBatch, Queued, Refused, RetryFor, Rooms, Setting,
    SettingKind, Stored, TakenPlace, Waiting,
};
use crate::filter::Filter;
use crate::listed::Listed;
use crate::name::MAX_PRIORITY;
use crate::record::JobRecord;
use crate::spec::JobSpec;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use ground::error::Error;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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
pub(crate) trait Engine: Queue + Records + Settings + Logs + Leases + Objects {
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

/// The records of jobs.
#[async_trait]
pub(crate) trait Records: Send + Sync + 'static {
    async fn read_record(&self, id: &str, retry_for: RetryFor) -> Result<Option<Kept>, Error>;

    /// Writes over the revision (0: there must be none). Says `Conflict` when the record is another one by now. An answer that
    /// was lost is made good by reading the record back: nobody else writes the same bytes.
    async fn write_record(&self, record: &JobRecord, over: u64, retry_for: RetryFor)
    -> Result<Kept, Refused>;

    /// The record as it is shown, also when a newer version wrote it.
    async fn read_listed(&self, id: &str) -> Result<Option<Listed>, Error>;

    /// The records of these jobs, of those that have one; by their ids. A moment old, maybe.
    async fn records_of(&self, ids: &[&str]) -> Result<HashMap<String, Listed>, Error>;

    /// Every record from this revision on, in their order; one that is written meanwhile may come again as it is by then.
    fn records_from(&self, from: u64) -> BoxStream<'static, Result<Found, Error>>;

    /// Removes the record, unless it was written since.
    async fn drop_record(&self, kept: &Kept) -> Result<bool, Error>;

    async fn watch_record(&self, id: &str) -> Result<Box<dyn RecordWatch>, Error>;
}

/// Tells of a record's changes: first of the record as it is, then of what follows. Some in between may be left out.
#[async_trait]
pub(crate) trait RecordWatch: Send {
    /// The next state of the record; `None` as long as there is none at all. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Option<Kept>, Error>;
}

/// Facts that operators set for the whole fleet. Everybody reads them, and hears of their changes.
#[async_trait]
pub(crate) trait Settings: Send + Sync + 'static {
    async fn setting(&self, what: &Setting, retry_for: RetryFor) -> Result<Option<Stored>, Error>;

    /// All settings of a kind, by name.
    async fn settings(&self, kind: SettingKind) -> Result<BTreeMap<String, Stored>, Error>;

    /// Writes over the revision (0: there must be none; `None`: whatever there is). It expires after `length`, if there is one.
    async fn set(
        &self,
        what: &Setting,
        payload: Bytes,
        over: Option<u64>,
        length: Option<Duration>,
    ) -> Result<(), Refused>;

    /// True when there was one.
    async fn unset(&self, what: &Setting) -> Result<bool, Error>;

    /// Tells of changes from now on. Changes while the engine is away are not told.
    async fn watch_settings(&self, kind: SettingKind) -> Result<Box<dyn SettingWatch>, Error>;
}

/// Tells that a setting was changed.
#[async_trait]
pub(crate) trait SettingWatch: Send {
    /// The name of a setting that was changed; fails when there will be no more. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<String, Error>;
}

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

/// Messages that expire unless they are renewed: the presence of workers, places of keys, holds of providers.
#[async_trait]
pub(crate) trait Leases: Send + Sync + 'static {
    /// Takes the place, or holds it for longer. False when it is another's.
    async fn hold_place(&self, slot: &mut LeaseSlot, payload: Bytes) -> Result<bool, Error>;

    /// Takes a place that is free; `None` when somebody has it.
    async fn take_lease(
        &self,
        place: Announcement,
        payload: Bytes,
        holder: &str,
        length: Duration,
    ) -> Result<Option<LeaseSlot>, Error> {
        let mut slot = LeaseSlot { place, holder: holder.to_owned(), revision: 0, length };
        Ok(self.hold_place(&mut slot, payload).await?.then_some(slot))
    }

    /// Free at once, for the next one. Never another's: it is written over what is ours.
    async fn drop_lease(&self, slot: &LeaseSlot);

    /// The places that are taken: of a key, or of all keys. A moment old, maybe.
    async fn places(&self, key: Option<&str>) -> Result<Vec<TakenPlace>, Error>;

    /// Numbers of the key's places that are taken. A moment old, maybe.
    async fn places_taken(&self, key: &str) -> Result<HashSet<u32>, Error> {
        Ok(self.places(Some(key)).await?.into_iter().map(|place| place.number).collect())
    }

    /// The jobs that hold the places of a key.
    async fn key_holders(&self, key: &str) -> Result<Vec<Bytes>, Error> {
        Ok(self.places(Some(key)).await?.into_iter().map(|place| place.holder).collect())
    }

    /// Stores an announcement that expires after `length`, in place of any earlier one.
    async fn announce(&self, what: &Announcement, payload: Bytes, length: Duration) -> Result<(), Error>;

    async fn forget(&self, what: &Announcement);

    /// The announcement, if it has not expired.
    async fn announced(&self, what: &Announcement) -> Result<Option<Bytes>, Error>;

    /// The announcements of all workers.
    async fn announced_workers(&self) -> Result<Vec<Bytes>, Error>;
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
