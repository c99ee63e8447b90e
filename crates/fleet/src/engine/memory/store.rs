//! Records, leases and objects of a fleet in memory.

use super::handle::Memory;
use super::state::{Lease, Stored};
use crate::engine::interface::{Leases, Objects, RecordWatch, Records};
use crate::engine::value::{
    Announcement, Found, Kept, LeaseSlot, Refused, RetryFor, TakenPlace, no_object, unwritable,
};
use crate::listed::Listed;
use crate::record::JobRecord;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use ground::error::Error;
use ground::hex::hex;
use ground::os::on_disk;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

#[async_trait]
impl Records for Memory {
    async fn read_record(&self, id: &str, _: RetryFor) -> Result<Option<Kept>, Error> {
        Ok(self.read(|state| state.records.get(id).map(|stored| stored.kept.clone())))
    }

    async fn write_record(&self, record: &JobRecord, over: u64, _: RetryFor) -> Result<Kept, Refused> {
        self.change(|state| {
            let revision = state.records.get(&record.id).map_or(0, |stored| stored.kept.revision);
            if revision != over {
                return Err(Refused::Conflict);
            }
            let kept = Kept { record: record.clone(), revision: state.next() };
            let stored = Stored { kept: kept.clone(), at: SystemTime::now() };
            state.records.insert(record.id.clone(), stored);
            Ok(kept)
        })
    }

    async fn read_listed(&self, id: &str) -> Result<Option<Listed>, Error> {
        let found = self.read_record(id, RetryFor::ASKED).await?;
        Ok(found.map(|kept| Listed::Known(Box::new(kept.record))))
    }

    async fn records_of(&self, ids: &[&str]) -> Result<HashMap<String, Listed>, Error> {
        Ok(self.read(|state| {
            let found = ids.iter().filter_map(|id| state.records.get_key_value(*id));
            found
                .map(|(id, stored)| (id.clone(), Listed::Known(Box::new(stored.kept.record.clone()))))
                .collect()
        }))
    }

    fn records_from(&self, from: u64) -> BoxStream<'static, Result<Found, Error>> {
        let (engine, revision) = (self.clone(), from);
        let mut order: Vec<(u64, String)> = self.read(|state| {
            let meant = state.records.iter().filter(|(_, stored)| stored.kept.revision >= revision);
            meant.map(|(id, stored)| (stored.kept.revision, id.clone())).collect()
        });
        order.sort_unstable();
        // One at a time: a copy of all of them would hold each record twice.
        stream::iter(order)
            .filter_map(move |(revision, id)| {
                let found = engine.read(|state| {
                    let stored = state.records.get(&id).filter(|stored| stored.kept.revision == revision)?;
                    let record = Listed::Known(Box::new(stored.kept.record.clone()));
                    Some(Ok(Found { record, revision, stored_at: stored.at }))
                });
                std::future::ready(found)
            })
            .boxed()
    }

    async fn drop_record(&self, kept: &Kept) -> Result<bool, Error> {
        Ok(self.change(|state| {
            let id = &kept.record.id;
            let is_same = state.records.get(id).is_some_and(|stored| stored.kept.revision == kept.revision);
            if is_same {
                state.records.remove(id);
            }
            is_same
        }))
    }

    async fn watch_record(&self, id: &str) -> Result<Box<dyn RecordWatch>, Error> {
        Ok(Box::new(Watch { engine: self.clone(), id: id.to_owned(), seen: None }))
    }
}

struct Watch {
    engine: Memory,
    id: String,
    /// The last revision that was told; 0: there was none.
    seen: Option<u64>,
}

#[async_trait]
impl RecordWatch for Watch {
    async fn next(&mut self) -> Result<Option<Kept>, Error> {
        let news = self.engine.until(|state| {
            let kept = state.records.get(&self.id).map(|stored| &stored.kept);
            let revision = kept.map_or(0, |kept| kept.revision);
            (self.seen != Some(revision)).then(|| (revision, kept.cloned()))
        });
        let (revision, kept) = news.await;
        self.seen = Some(revision);
        Ok(kept)
    }
}

#[async_trait]
impl Leases for Memory {
    async fn hold_place(&self, slot: &mut LeaseSlot, payload: Bytes) -> Result<bool, Error> {
        Ok(self.change(|state| state.hold(slot, payload)))
    }

    async fn drop_lease(&self, slot: &LeaseSlot) {
        self.change(|state| {
            if state.lease(&slot.place).is_some_and(|lease| lease.holder.as_ref() == Some(&slot.holder)) {
                state.leases.remove(&slot.place);
            }
        });
    }

    async fn places(&self, wanted: Option<&str>) -> Result<Vec<TakenPlace>, Error> {
        Ok(self.read(|state| {
            let places = state.live_leases().filter_map(|(what, lease)| match what {
                Announcement::Place { key, number } if wanted.is_none_or(|wanted| wanted == key) => {
                    Some(TakenPlace { key: key.clone(), number: *number, holder: lease.payload.clone() })
                }
                _ => None,
            });
            places.collect()
        }))
    }

    async fn announce(&self, what: &Announcement, payload: Bytes, length: Duration) -> Result<(), Error> {
        let lease = Lease { payload, holder: None, until: Instant::now() + length };
        self.change(|state| state.leases.insert(what.clone(), lease));
        Ok(())
    }

    async fn forget(&self, what: &Announcement) {
        self.change(|state| state.leases.remove(what));
    }

    async fn announced(&self, what: &Announcement) -> Result<Option<Bytes>, Error> {
        Ok(self.read(|state| state.lease(what).map(|lease| lease.payload.clone())))
    }

    async fn announced_workers(&self) -> Result<Vec<Bytes>, Error> {
        Ok(self.read(|state| {
            let workers = state.live_leases().filter(|(what, _)| matches!(what, Announcement::Worker(_)));
            workers.map(|(_, lease)| lease.payload.clone()).collect()
        }))
    }
}

#[async_trait]
impl Objects for Memory {
    async fn put_object(&self, name: &str, bytes: Bytes) -> Result<(), Error> {
        self.change(|state| state.objects.insert(name.to_owned(), (bytes, SystemTime::now())));
        Ok(())
    }

    async fn put_file(&self, name: &str, mut file: File) -> Result<(u64, String), Error> {
        let read = on_disk(move || {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok((hex(&Sha256::digest(&bytes)), bytes))
        });
        let (digest, bytes) = read
            .await
            .map_err(|error| Error::invalid_option("path", format!("{name} can't be read: {error}")))?;
        let length = bytes.len() as u64;
        self.put_object(name, bytes.into()).await?;
        Ok((length, digest))
    }

    async fn object(&self, name: &str) -> Result<Bytes, Error> {
        let found = self.read(|state| state.objects.get(name).map(|(bytes, _)| bytes.clone()));
        found.ok_or_else(|| no_object(name))
    }

    async fn fetch_object(&self, name: &str, to: &Path) -> Result<(), Error> {
        let (bytes, path) = (self.object(name).await?, to.to_owned());
        let written = on_disk(move || {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let mut unfinished = path.as_os_str().to_owned();
            unfinished.push(format!(".{}.part", ground::random::name::<8>()));
            let moved =
                std::fs::write(&unfinished, &bytes).and_then(|()| std::fs::rename(&unfinished, &path));
            if moved.is_err() {
                let _ = std::fs::remove_file(&unfinished);
            }
            moved
        });
        written.await.map_err(|error| unwritable(to, &error))
    }

    async fn drop_objects(
        &self,
        is_meant: &(dyn for<'name> Fn(&'name str, SystemTime) -> bool + Send + Sync),
        is_trial: bool,
    ) -> Result<(u64, u64), Error> {
        Ok(self.change(|state| {
            let (mut count, mut bytes) = (0, 0);
            state.objects.retain(|name, (object, at)| {
                let is_meant = is_meant(name, *at);
                if is_meant {
                    (count, bytes) = (count + 1, bytes + object.len() as u64);
                }
                !is_meant || is_trial
            });
            (count, bytes)
        }))
    }
}
