//! Entries of a fleet in memory.

use super::handle::Memory;
use crate::engine::interface::{Changes, Entries};
use crate::engine::value::{Entry, Group, Key, Refused, RetryFor};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use ground::error::Error;
use std::time::{Duration, Instant};

#[async_trait]
impl Entries for Memory {
    async fn entry(&self, key: &Key, _: RetryFor) -> Result<Option<Entry>, Error> {
        Ok(self.read(|state| state.live(key).cloned()))
    }

    async fn put_entry(
        &self,
        key: &Key,
        payload: Bytes,
        over: Option<u64>,
        length: Option<Duration>,
        _: RetryFor,
    ) -> Result<u64, Refused> {
        self.change(|state| {
            let last = state.live(key).map_or(0, |entry| entry.revision);
            if over.is_some_and(|over| over != last) {
                return Err(Refused::Conflict);
            }
            Ok(state.put(key, payload, length))
        })
    }

    async fn drop_entry(&self, key: &Key, up_to: u64) -> Result<bool, Error> {
        Ok(self.change(|state| {
            let is_meant = state.live(key).is_some_and(|entry| entry.revision <= up_to);
            if is_meant {
                // A removed entry that nobody can read, so that a watch tells of it.
                state.put(key, Bytes::new(), Some(Duration::ZERO));
            }
            is_meant
        }))
    }

    fn entries(&self, group: &Group, from: u64) -> BoxStream<'static, Result<(Key, Entry), Error>> {
        let mut found: Vec<(Key, Entry)> = self.read(|state| {
            let now = Instant::now();
            let live = state.of_group(group).filter(|(_, held)| held.is_live(now));
            let wanted = live.filter(|(_, held)| held.entry.revision >= from);
            wanted.map(|(key, held)| (key.clone(), held.entry.clone())).collect()
        });
        found.sort_by_key(|(_, entry)| entry.revision);
        stream::iter(found).map(Ok).boxed()
    }

    async fn last_records(&self, ids: &[&str]) -> Result<Vec<(String, Entry)>, Error> {
        Ok(self.read(|state| {
            let found = ids.iter().filter_map(|id| {
                let id = (*id).to_owned();
                Some((id.clone(), state.live(&Key::Record(id))?.clone()))
            });
            found.collect()
        }))
    }

    async fn changes(&self, group: &Group) -> Result<Changes, Error> {
        let begin = (self.clone(), group.clone(), self.read(|state| state.last));
        let changes = stream::unfold(begin, |(engine, group, seen)| async move {
            let changed = engine.until(|state| {
                let news = state.of_group(&group).filter(|(_, held)| held.entry.revision > seen);
                let first = news.min_by_key(|(_, held)| held.entry.revision)?;
                Some((first.0.clone(), first.1.entry.clone()))
            });
            let (key, entry) = changed.await;
            let seen = entry.revision;
            Some(((key, entry), (engine, group, seen)))
        });
        Ok(changes.boxed())
    }
}
