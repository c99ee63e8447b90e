//! The entries of a fleet by their meaning, over any engine: records of jobs, settings, places of keys, announcements.

use super::interface::{Changes, Engine};
use super::value::{CLOSED, Entry, Found, Group, KEPT, Kept, Key, Place, Refused, RetryFor, away};
use crate::listed::Listed;
use crate::record::JobRecord;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use ground::error::{Error, ErrorCode};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A watch reads again by itself this often: nothing that it is told of is kept for it.
pub(super) const REREAD_EVERY: Duration = Duration::from_secs(20);
/// A removed entry stays for so long, without a text: the shortest time that a server knows.
const REMOVED_FOR: Duration = Duration::from_secs(1);
/// Tries at a place that changes at this very moment.
const TRIES: u32 = 3;

/// The record in an entry.
pub(super) fn parse(entry: &Entry) -> Result<JobRecord, Error> {
    ground::json::read_own(&entry.payload).map_err(|error| {
        let message = format!("a job's record can't be read: {error}. Was it written by a newer version?");
        Error::new(ErrorCode::FleetStorage, message)
    })
}

fn kept(entry: &Entry) -> Result<Kept, Error> {
    Ok(Kept { record: parse(entry)?, revision: entry.revision })
}

fn record(id: &str) -> Key {
    Key::Record(id.to_owned())
}

impl dyn Engine {
    /// The entry, unless it was removed.
    pub(crate) async fn present(&self, key: &Key, retry_for: RetryFor) -> Result<Option<Entry>, Error> {
        Ok(self.entry(key, retry_for).await?.filter(|entry| !entry.is_removed()))
    }

    /// Removes the entry if it has this revision; `None`: whatever it has.
    async fn remove(&self, key: &Key, over: Option<u64>, retry_for: RetryFor) -> Result<u64, Refused> {
        self.put_entry(key, Bytes::new(), over, Some(REMOVED_FOR), retry_for).await
    }

    /// The entries of a group.
    fn all(&self, group: &Group, from: u64) -> BoxStream<'static, Result<(Key, Entry), Error>> {
        let present = |found: &(Key, Entry)| std::future::ready(!found.1.is_removed());
        self.entries(group, from).try_filter(present).boxed()
    }

    pub(crate) async fn read_record(&self, id: &str, retry_for: RetryFor) -> Result<Option<Kept>, Error> {
        self.present(&record(id), retry_for).await?.as_ref().map(kept).transpose()
    }

    /// Writes over the revision (0: there must be none). Says `Conflict` when the record is another one by now.
    pub(crate) async fn write_record(
        &self,
        next: &JobRecord,
        over: u64,
        retry_for: RetryFor,
    ) -> Result<Kept, Refused> {
        let payload = serde_json::to_vec(next).map_err(|error| {
            let message = format!("the record of {} can't be written: {error}", next.id);
            Error::new(ErrorCode::FleetStorage, message)
        })?;
        let length = next.state.is_over().then_some(KEPT);
        let revision =
            self.put_entry(&record(&next.id), payload.into(), Some(over), length, retry_for).await?;
        Ok(Kept { record: next.clone(), revision })
    }

    /// The record as it is shown, also when a newer version wrote it.
    pub(crate) async fn read_listed(&self, id: &str) -> Result<Option<Listed>, Error> {
        let found = self.present(&record(id), RetryFor::ASKED).await?;
        Ok(found.map(|entry| Listed::parse(&entry.payload, id.to_owned())))
    }

    /// The records of these jobs, of those that have one; by their ids. A moment old, maybe.
    pub(crate) async fn records_of(&self, ids: &[&str]) -> Result<HashMap<String, Listed>, Error> {
        let found = self.last_records(ids).await?.into_iter().filter(|(_, entry)| !entry.is_removed());
        Ok(found.map(|(id, entry)| (id.clone(), Listed::parse(&entry.payload, id))).collect())
    }

    /// Every record from this revision on, in their order; one that is written meanwhile may come again as it is by then.
    pub(crate) fn records_from(&self, from: u64) -> BoxStream<'static, Result<Found, Error>> {
        let found = |(key, Entry { payload, revision, stored_at }): (Key, Entry)| {
            let record = Listed::parse(&payload, key.name().to_owned());
            Found { record, revision, stored_at }
        };
        self.all(&Group::Records, from).map_ok(found).boxed()
    }

    /// Removes the record, unless it was written since.
    pub(crate) async fn drop_record(&self, kept: &Kept) -> Result<bool, Error> {
        self.drop_entry(&record(&kept.record.id), kept.revision).await
    }

    pub(crate) async fn watch_record(self: &Arc<Self>, id: &str) -> Result<RecordWatch, Error> {
        Ok(RecordWatch {
            engine: self.clone(),
            changes: self.changes(&Group::One(record(id))).await?,
            connections: self.connections(),
            id: id.to_owned(),
            seen: None,
            is_stale: true,
        })
    }

    /// All settings of a group, by name.
    pub(crate) async fn settings(&self, group: &Group) -> Result<BTreeMap<String, Entry>, Error> {
        let found = self.all(group, 0).map_ok(|(key, entry)| (key.name().to_owned(), entry));
        found.try_collect().await
    }

    /// Removes a setting. True when there was one.
    pub(crate) async fn unset(&self, key: &Key) -> Result<bool, Error> {
        let was_there = self.present(key, RetryFor::ASKED).await?.is_some();
        if was_there {
            self.remove(key, None, RetryFor::ASKED).await?;
        }
        Ok(was_there)
    }

    /// Takes a place that is free; `None` when somebody has it.
    pub(crate) async fn take_place(
        &self,
        key: Key,
        holder: &str,
        job: &str,
        length: Duration,
    ) -> Result<Option<Place>, Error> {
        let payload = Bytes::from(format!("{holder} {job}"));
        let mut place = Place { key, payload, revision: 0, length };
        Ok(self.hold_place(&mut place).await?.then_some(place))
    }

    /// Takes the place, or holds it for longer. False when it is another's.
    pub(crate) async fn hold_place(&self, place: &mut Place) -> Result<bool, Error> {
        let (length, retry_for) = (Some(place.length), RetryFor(place.length));
        for _ in 0..TRIES {
            let over = Some(place.revision);
            match self.put_entry(&place.key, place.payload.clone(), over, length, retry_for).await {
                Ok(revision) => {
                    place.revision = revision;
                    return Ok(true);
                }
                Err(Refused::Conflict) => {}
                Err(refused) => return Err(refused.into()),
            }
            place.revision = match self.entry(&place.key, retry_for).await? {
                None => 0,
                Some(entry) if entry.is_removed() || entry.payload == place.payload => entry.revision,
                Some(_) => return Ok(false),
            };
        }
        Ok(false)
    }

    /// Free at once, for the next one. Never another's: it is written over what is ours.
    pub(crate) async fn drop_place(&self, place: &Place) {
        let retry_for = RetryFor(place.length);
        for _ in 0..TRIES {
            // When it fails, it ends by itself.
            let Ok(Some(entry)) = self.entry(&place.key, retry_for).await else { return };
            if entry.payload != place.payload {
                return;
            }
            if !matches!(
                self.remove(&place.key, Some(entry.revision), retry_for).await,
                Err(Refused::Conflict)
            ) {
                return;
            }
        }
    }

    /// The places that are taken, of a group of places; each with the id of the job that has it. A moment old, maybe.
    pub(crate) async fn places(&self, group: &Group) -> Result<Vec<(Key, String)>, Error> {
        let found = self.all(group, 1).map_ok(|(key, entry)| {
            let payload = String::from_utf8_lossy(&entry.payload);
            let job = payload.split_once(' ').map_or("", |(_, job)| job).to_owned();
            (key, job)
        });
        found.try_collect().await
    }

    /// Numbers of the key's places that are taken. A moment old, maybe.
    pub(crate) async fn places_taken(&self, key: &str) -> Result<HashSet<u32>, Error> {
        let places = self.places(&Group::PlacesOf(key.to_owned())).await?;
        Ok(places.into_iter().filter_map(|(key, _)| key.number()).collect())
    }

    /// The jobs that hold the places of a key.
    pub(crate) async fn key_holders(&self, key: &str) -> Result<Vec<String>, Error> {
        let places = self.places(&Group::PlacesOf(key.to_owned())).await?;
        Ok(places.into_iter().map(|(_, job)| job).collect())
    }

    /// Stores an announcement that expires after `length`, in place of any earlier one.
    pub(crate) async fn announce(&self, key: &Key, payload: Bytes, length: Duration) -> Result<(), Error> {
        self.put_entry(key, payload, None, Some(length), RetryFor(length)).await?;
        Ok(())
    }

    pub(crate) async fn forget(&self, key: &Key) {
        // When it fails, it ends by itself.
        let _ = self.remove(key, None, RetryFor(REMOVED_FOR)).await;
    }

    /// The announcements of all workers.
    pub(crate) async fn announced_workers(&self) -> Result<Vec<Bytes>, Error> {
        self.all(&Group::Workers, 1).map_ok(|(_, entry)| entry.payload).try_collect().await
    }
}

/// Tells of a record's changes: first of the record as it is, then of what follows. Some in between may be left out.
pub(crate) struct RecordWatch {
    engine: Arc<dyn Engine>,
    id: String,
    changes: Changes,
    connections: watch::Receiver<u64>,
    /// The last revision that was told; 0: there was no record.
    seen: Option<u64>,
    is_stale: bool,
}

impl RecordWatch {
    /// The next state of the record; `None` as long as there is none at all. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Kept>, Error> {
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
                told = self.changes.next() => {
                    let (_, entry) = told.ok_or_else(|| away(CLOSED))?;
                    if entry.is_removed() {
                        self.is_stale = true;
                    } else if self.seen.is_none_or(|seen| entry.revision > seen) {
                        self.seen = Some(entry.revision);
                        return kept(&entry).map(Some);
                    }
                }
                changed = self.connections.changed() => {
                    changed.map_err(|_| away(CLOSED))?;
                    self.is_stale = true;
                }
                () = tokio::time::sleep(REREAD_EVERY) => self.is_stale = true,
            }
        }
    }

    /// As after a connection that was lost.
    #[cfg(test)]
    pub(crate) fn doubt(&mut self) {
        self.is_stale = true;
    }
}
