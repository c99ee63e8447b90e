//! A fleet whose jobs and records are divided over several partitions, each an engine of its own. A job belongs to one of them by
//! a hash of its id, with its messages, its record and its log: so all that is promised about one job is promised by one engine.
//!
//! | call | partition |
//! |---|---|
//! | about one job | the job's |
//! | about several jobs, lists, counts | all of them at once; lists are merged by the time at which their entries were stored |
//! | lanes | one of each |
//! | settings, leases, announcements, objects | the first one |
//!
//! The order of a list is as exact as the clock of the engine. Within a partition it is the order of the sequences.

use super::interface::{
    Engine, Leases, LogReader, Logs, Objects, Queue, RecordWatch, Records, SettingWatch, Settings, Shared,
};
use super::lane::Lane;
use super::value::{
    Announcement, Found, JobPage, Kept, LeaseSlot, Place, Queued, Refused, RetryFor, Room, Rooms, Setting,
    SettingKind, Stored, Waiting, Wanted,
};
use crate::listed::Listed;
use crate::name::part_of;
use crate::record::JobRecord;
use crate::spec::JobSpec;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use futures_util::stream::{self, BoxStream, Peekable};
use futures_util::{StreamExt, TryStreamExt};
use ground::error::Error;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

pub(crate) struct Partitioned {
    first: Shared,
    parts: Vec<Shared>,
}

impl Partitioned {
    /// `None`: there is no partition.
    pub(crate) fn of(parts: Vec<Shared>) -> Option<Partitioned> {
        Some(Partitioned { first: parts.first()?.clone(), parts })
    }

    fn number(&self, id: &str) -> usize {
        part_of(id, self.parts.len())
    }

    /// The partition of the job.
    fn part(&self, id: &str) -> &Shared {
        self.parts.get(self.number(id)).unwrap_or(&self.first)
    }

    /// The partitions of these jobs.
    fn grouped<'a>(&self, ids: &[&'a str]) -> Vec<(&Shared, Vec<&'a str>)> {
        let mut groups: Vec<(&Shared, Vec<&'a str>)> =
            self.parts.iter().map(|part| (part, Vec::new())).collect();
        for id in ids {
            groups[self.number(id)].1.push(id);
        }
        groups.retain(|(_, ids)| !ids.is_empty());
        groups
    }
}

/// The time from which on entries of a partition are behind an entry of partition `own` in a list. Entries of the same time are
/// listed by their partitions.
fn since(part: usize, own: usize, time: SystemTime) -> SystemTime {
    if part < own { time.checked_add(Duration::from_nanos(1)).unwrap_or(time) } else { time }
}

/// The first jobs of pages of all partitions, each with the place at which it begins. The order within a partition is that of its
/// sequences, also after its clock was set back.
fn first_jobs(pages: Vec<(u64, JobPage)>) -> JobPage {
    let mut heads: Vec<_> = pages
        .into_iter()
        .map(|(begin, page)| {
            let end = page.next.map(|next| (page.until, next.of(0)));
            (begin, page.jobs.into_iter().peekable(), end)
        })
        .collect();
    let (mut jobs, mut until) = (Vec::new(), None);
    loop {
        // The end of a page stands for the messages behind it. All that is newer waits for the next page. Its partition was read
        // to that end, so each page gets on.
        let ages = heads.iter_mut().enumerate().filter_map(|(part, (_, page, end))| {
            let age = page.peek().map(|waiting| waiting.stored_at).or(end.map(|(until, _)| until));
            Some((age?, part))
        });
        let Some((age, part)) = ages.min() else { break };
        let (behind, page, _) = &mut heads[part];
        let Some(waiting) = page.next() else {
            until = Some(age);
            break;
        };
        *behind = waiting.sequence + 1;
        jobs.push(Waiting { part, ..waiting });
    }
    let mut next = Place::default();
    for (part, (behind, mut page, end)) in heads.into_iter().enumerate() {
        let held_back = page.peek().map(|waiting| waiting.sequence);
        next.set(part, held_back.or(end.map(|(_, next)| next)).unwrap_or(behind));
    }
    JobPage { jobs, next: until.map(|_| next), until: until.unwrap_or(SystemTime::UNIX_EPOCH) }
}

/// A place of the fleet: those of the partitions together.
fn joined(places: impl IntoIterator<Item = Place>) -> Place {
    let mut all = Place::default();
    for (part, place) in places.into_iter().enumerate() {
        all.set(part, place.of(0));
    }
    all
}

#[async_trait]
impl Engine for Partitioned {
    fn lease(&self) -> Duration {
        self.first.lease()
    }

    fn connections(&self) -> watch::Receiver<u64> {
        self.first.connections()
    }

    fn is_connected(&self) -> watch::Receiver<bool> {
        self.first.is_connected()
    }

    fn version(&self) -> String {
        self.first.version()
    }

    fn partitions(&self) -> usize {
        self.parts.len()
    }

    fn max_message_bytes(&self) -> usize {
        self.first.max_message_bytes()
    }

    async fn rooms(&self) -> Result<Rooms, Error> {
        let rooms = try_join_all(self.parts.iter().map(|part| part.rooms())).await?;
        let fullness = |rooms: &&Rooms| {
            let room = rooms.all.get(&rooms.records);
            let used = |room: &Room| room.bytes.saturating_mul(100).checked_div(room.max_bytes).unwrap_or(0);
            room.map(|room| (room.is_full, used(room)))
        };
        let Some(fullest) = rooms.iter().max_by_key(fullness) else { return Ok(Rooms::default()) };
        let (records, leases) = (fullest.records.clone(), fullest.leases.clone());
        Ok(Rooms { records, leases, all: rooms.into_iter().flat_map(|rooms| rooms.all).collect() })
    }

    async fn last_changes(&self) -> Result<(Place, Place), Error> {
        let changes = try_join_all(self.parts.iter().map(|part| part.last_changes())).await?;
        let (records, jobs): (Vec<Place>, Vec<Place>) = changes.into_iter().unzip();
        Ok((joined(records), joined(jobs)))
    }

    /// All partitions fill up alike: new jobs wait for the fullest one.
    async fn check_room(&self) -> Result<(), Error> {
        try_join_all(self.parts.iter().map(|part| part.check_room())).await.map(drop)
    }

    fn forget_room(&self) {
        self.parts.iter().for_each(|part| part.forget_room());
    }

    async fn close(&self) {
        self.first.close().await;
    }
}

#[async_trait]
impl Queue for Partitioned {
    async fn put_job(&self, spec: &JobSpec, again: &str) -> Result<bool, Error> {
        self.part(&spec.id).put_job(spec, again).await
    }

    async fn put_jobs(&self, specs: &[JobSpec]) -> Result<Vec<bool>, Error> {
        let mut groups: Vec<(Vec<usize>, Vec<JobSpec>)> =
            self.parts.iter().map(|_| Default::default()).collect();
        for (n, spec) in specs.iter().enumerate() {
            let (numbers, group) = &mut groups[self.number(&spec.id)];
            numbers.push(n);
            group.push(spec.clone());
        }
        let put = groups.iter().zip(&self.parts).map(async |((numbers, group), part)| {
            // A partition that fails has put nothing. The others may have stored theirs.
            let stored = part.put_jobs(group).await.unwrap_or_default();
            numbers.iter().copied().zip(stored).collect::<Vec<_>>()
        });
        let mut all = vec![false; specs.len()];
        for (n, is_stored) in join_all(put).await.into_iter().flatten() {
            all[n] = is_stored;
        }
        Ok(all)
    }

    async fn find_job(&self, id: &str) -> Result<Option<Waiting>, Error> {
        let found = self.part(id).find_job(id).await?;
        Ok(found.map(|waiting| Waiting { part: self.number(id), ..waiting }))
    }

    async fn message_of(&self, id: &str) -> Result<Option<u64>, Error> {
        self.part(id).message_of(id).await
    }

    async fn drop_job(&self, id: &str, up_to: u64) -> Result<(), Error> {
        self.part(id).drop_job(id, up_to).await
    }

    async fn free_spec(&self, id: &str) {
        self.part(id).free_spec(id).await;
    }

    async fn bury_job(&self, spec: &JobSpec, retry_for: RetryFor) -> Result<(), Error> {
        self.part(&spec.id).bury_job(spec, retry_for).await
    }

    async fn buried_job(&self, id: &str) -> Result<Option<JobSpec>, Error> {
        self.part(id).buried_job(id).await
    }

    async fn jobs_from(&self, wanted: &Wanted, from: &Place, most: usize) -> Result<JobPage, Error> {
        let each = most.div_ceil(self.parts.len());
        let asked = self.parts.iter().enumerate().map(async |(n, part)| {
            let begin = from.of(n);
            Ok::<_, Error>((begin, part.jobs_from(wanted, &Place::at(begin), each).await?))
        });
        Ok(first_jobs(try_join_all(asked).await?))
    }

    async fn jobs_behind(&self, id: &str) -> Result<Option<Place>, Error> {
        // Read once: if the sequence and the time came from two reads, the job could have left the queue between them.
        let Some(found) = self.part(id).find_job(id).await? else { return Ok(None) };
        let (own, time) = (self.number(id), found.stored_at);
        let others =
            self.parts.iter().enumerate().map(|(part, engine)| engine.jobs_since(since(part, own, time)));
        let mut place = try_join_all(others).await.map(joined)?;
        place.pass(own, found.sequence);
        Ok(Some(place))
    }

    async fn jobs_since(&self, time: SystemTime) -> Result<Place, Error> {
        try_join_all(self.parts.iter().map(|part| part.jobs_since(time))).await.map(joined)
    }

    async fn jobs_with_message(&self, ids: &[&str]) -> Result<HashSet<String>, Error> {
        let groups = self.grouped(ids);
        let found = groups.iter().map(|(part, ids)| part.jobs_with_message(ids));
        Ok(try_join_all(found).await?.into_iter().flatten().collect())
    }

    async fn queues(
        &self,
        known: &BTreeSet<String>,
        oldest: usize,
    ) -> Result<BTreeMap<String, Queued>, Error> {
        let found = try_join_all(self.parts.iter().map(|part| part.queues(known, oldest))).await?;
        let mut all: BTreeMap<String, Queued> = BTreeMap::new();
        for (part, queues) in found.into_iter().enumerate() {
            for (name, Queued { count, oldest: first }) in queues {
                let queued = all.entry(name).or_insert_with(|| Queued { count: 0, oldest: Vec::new() });
                queued.count += count;
                queued.oldest.extend(first.into_iter().map(|waiting| Waiting { part, ..waiting }));
            }
        }
        for queued in all.values_mut() {
            queued.oldest.sort_by_key(|waiting| waiting.stored_at);
            queued.oldest.truncate(oldest);
        }
        Ok(all)
    }

    async fn lanes(
        &self,
        queue: &str,
        priority: u8,
        retry_for: RetryFor,
    ) -> Result<Vec<Arc<dyn Lane>>, Error> {
        let lanes = self.parts.iter().map(|part| part.lanes(queue, priority, retry_for));
        Ok(try_join_all(lanes).await?.into_iter().flatten().collect())
    }
}

/// The entries of several streams, the oldest first.
fn merged<T: Send + 'static>(
    streams: impl Iterator<Item = BoxStream<'static, Result<T, Error>>>,
    age: fn(&T) -> SystemTime,
) -> BoxStream<'static, Result<T, Error>> {
    let heads: Vec<Peekable<BoxStream<'static, Result<T, Error>>>> =
        streams.map(StreamExt::peekable).collect();
    let merged = stream::unfold(heads, move |mut heads| async move {
        let ages = heads.iter_mut().map(|head| async move {
            // An error is told at once.
            let entry = Pin::new(head).peek().await?;
            Some(entry.as_ref().map_or(SystemTime::UNIX_EPOCH, age))
        });
        let ages = join_all(ages).await;
        let oldest = ages.into_iter().enumerate().filter_map(|(part, age)| Some((age?, part))).min();
        let found = heads.get_mut(oldest?.1)?.next().await?;
        Some((found, heads))
    });
    merged.boxed()
}

#[async_trait]
impl Records for Partitioned {
    async fn read_record(&self, id: &str, retry_for: RetryFor) -> Result<Option<Kept>, Error> {
        self.part(id).read_record(id, retry_for).await
    }

    async fn write_record(
        &self,
        record: &JobRecord,
        over: u64,
        retry_for: RetryFor,
    ) -> Result<Kept, Refused> {
        self.part(&record.id).write_record(record, over, retry_for).await
    }

    async fn read_listed(&self, id: &str) -> Result<Option<Listed>, Error> {
        self.part(id).read_listed(id).await
    }

    async fn records_of(&self, ids: &[&str]) -> Result<HashMap<String, Listed>, Error> {
        let groups = self.grouped(ids);
        let found = groups.iter().map(|(part, ids)| part.records_of(ids));
        Ok(try_join_all(found).await?.into_iter().flatten().collect())
    }

    fn records_from(&self, from: &Place) -> BoxStream<'static, Result<Found, Error>> {
        let parts = self.parts.iter().enumerate().map(|(part, engine)| {
            let found = engine.records_from(&Place::at(from.of(part)));
            found.map_ok(move |found| Found { part, ..found }).boxed()
        });
        merged(parts, |found| found.stored_at)
    }

    async fn record_stored_at(&self, id: &str) -> Result<Option<(u64, SystemTime)>, Error> {
        self.part(id).record_stored_at(id).await
    }

    async fn records_behind(&self, id: &str, revision: u64) -> Result<Option<Place>, Error> {
        let found = self.record_stored_at(id).await?;
        let Some((_, time)) = found.filter(|(last, _)| *last == revision) else { return Ok(None) };
        let own = self.number(id);
        let others =
            self.parts.iter().enumerate().map(|(part, engine)| engine.records_since(since(part, own, time)));
        let mut place = try_join_all(others).await.map(joined)?;
        place.pass(own, revision);
        Ok(Some(place))
    }

    async fn records_since(&self, time: SystemTime) -> Result<Place, Error> {
        try_join_all(self.parts.iter().map(|part| part.records_since(time))).await.map(joined)
    }

    async fn drop_record(&self, kept: &Kept) -> Result<bool, Error> {
        self.part(&kept.record.id).drop_record(kept).await
    }

    async fn watch_record(&self, id: &str) -> Result<Box<dyn RecordWatch>, Error> {
        self.part(id).watch_record(id).await
    }
}

#[async_trait]
impl Settings for Partitioned {
    async fn setting(&self, what: &Setting, retry_for: RetryFor) -> Result<Option<Stored>, Error> {
        self.first.setting(what, retry_for).await
    }

    async fn settings(&self, kind: SettingKind) -> Result<BTreeMap<String, Stored>, Error> {
        self.first.settings(kind).await
    }

    async fn set(
        &self,
        what: &Setting,
        payload: Bytes,
        over: Option<u64>,
        length: Option<Duration>,
    ) -> Result<(), Refused> {
        self.first.set(what, payload, over, length).await
    }

    async fn unset(&self, what: &Setting) -> Result<bool, Error> {
        self.first.unset(what).await
    }

    async fn watch_settings(&self, kind: SettingKind) -> Result<Box<dyn SettingWatch>, Error> {
        self.first.watch_settings(kind).await
    }
}

#[async_trait]
impl Logs for Partitioned {
    async fn append_log(
        &self,
        id: &str,
        attempt: u32,
        number: u64,
        after: u64,
        lines: Bytes,
    ) -> Result<u64, Error> {
        self.part(id).append_log(id, attempt, number, after, lines).await
    }

    async fn last_of_logs(&self, id: &str) -> Result<u64, Error> {
        self.part(id).last_of_logs(id).await
    }

    fn read_logs(&self, id: &str, from: u64) -> Box<dyn LogReader> {
        self.part(id).read_logs(id, from)
    }

    async fn drop_traces(&self, id: &str) -> Result<(), Error> {
        self.part(id).drop_traces(id).await
    }
}

#[async_trait]
impl Leases for Partitioned {
    async fn hold_place(&self, slot: &mut LeaseSlot, payload: Bytes) -> Result<bool, Error> {
        self.first.hold_place(slot, payload).await
    }

    async fn drop_lease(&self, slot: &LeaseSlot) {
        self.first.drop_lease(slot).await;
    }

    async fn places_taken(&self, key: &str) -> Result<HashSet<u32>, Error> {
        self.first.places_taken(key).await
    }

    async fn all_places_taken(&self) -> Result<HashMap<String, HashSet<u32>>, Error> {
        self.first.all_places_taken().await
    }

    async fn announce(&self, what: &Announcement, payload: Bytes, length: Duration) -> Result<(), Error> {
        self.first.announce(what, payload, length).await
    }

    async fn forget(&self, what: &Announcement) {
        self.first.forget(what).await;
    }

    async fn announced(&self, what: &Announcement) -> Result<Option<Bytes>, Error> {
        self.first.announced(what).await
    }

    async fn announced_workers(&self) -> Result<Vec<Bytes>, Error> {
        self.first.announced_workers().await
    }

    async fn key_holders(&self, key: &str) -> Result<Vec<Bytes>, Error> {
        self.first.key_holders(key).await
    }
}

#[async_trait]
impl Objects for Partitioned {
    async fn put_object(&self, name: &str, bytes: Bytes) -> Result<(), Error> {
        self.first.put_object(name, bytes).await
    }

    async fn put_file(&self, name: &str, file: File) -> Result<(u64, String), Error> {
        self.first.put_file(name, file).await
    }

    async fn object(&self, name: &str) -> Result<Bytes, Error> {
        self.first.object(name).await
    }

    async fn fetch_object(&self, name: &str, to: &Path) -> Result<(), Error> {
        self.first.fetch_object(name, to).await
    }

    async fn drop_objects(
        &self,
        is_meant: &(dyn for<'name> Fn(&'name str, SystemTime) -> bool + Send + Sync),
        is_trial: bool,
    ) -> Result<(u64, u64), Error> {
        self.first.drop_objects(is_meant, is_trial).await
    }
}

#[cfg(test)]
#[path = "partitioned_tests.rs"]
mod tests;
