//! Settings of a fleet in memory.

use super::handle::Memory;
use super::state::SettingEntry;
use crate::engine::interface::{SettingWatch, Settings};
use crate::engine::value::{Refused, RetryFor, Setting, SettingKind, Stored};
use async_trait::async_trait;
use bytes::Bytes;
use ground::error::Error;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[async_trait]
impl Settings for Memory {
    async fn setting(&self, what: &Setting, _: RetryFor) -> Result<Option<Stored>, Error> {
        Ok(self.read(|state| state.setting(what).map(|entry| entry.stored.clone())))
    }

    async fn settings(&self, kind: SettingKind) -> Result<BTreeMap<String, Stored>, Error> {
        Ok(self.read(|state| {
            let now = Instant::now();
            let live = state.settings.iter().filter(|(what, entry)| what.kind == kind && entry.is_live(now));
            live.map(|(what, entry)| (what.name.clone(), entry.stored.clone())).collect()
        }))
    }

    async fn set(
        &self,
        what: &Setting,
        payload: Bytes,
        over: Option<u64>,
        length: Option<Duration>,
    ) -> Result<(), Refused> {
        self.change(|state| {
            let last = state.setting(what).map_or(0, |entry| entry.stored.revision);
            if over.is_some_and(|over| over != last) {
                return Err(Refused::Conflict);
            }
            let stored = Stored { payload, revision: state.next() };
            let entry = SettingEntry { stored, until: length.map(|length| Instant::now() + length) };
            state.settings.insert(what.clone(), entry);
            state.tell_setting(what);
            Ok(())
        })
    }

    async fn unset(&self, what: &Setting) -> Result<bool, Error> {
        Ok(self.change(|state| {
            let was_there = state.setting(what).is_some();
            state.settings.remove(what);
            state.tell_setting(what);
            was_there
        }))
    }

    async fn watch_settings(&self, kind: SettingKind) -> Result<Box<dyn SettingWatch>, Error> {
        let seen = self.read(|state| state.last);
        Ok(Box::new(Watch { engine: self.clone(), kind, seen }))
    }
}

struct Watch {
    engine: Memory,
    kind: SettingKind,
    /// Number of the last change that was told.
    seen: u64,
}

#[async_trait]
impl SettingWatch for Watch {
    async fn next(&mut self) -> Result<String, Error> {
        let news = self.engine.until(|state| {
            let from = state.setting_changes.partition_point(|(number, _)| *number <= self.seen);
            state.setting_changes.iter().skip(from).find(|(_, what)| what.kind == self.kind).cloned()
        });
        let (number, what) = news.await;
        self.seen = number;
        Ok(what.name)
    }
}
