//! Settings: stored beside the records, whose stream publishes every change. They are read one by one, at the leader: there are
//! few, and a worker's user may read nothing else of that stream.

use super::away::away;
use super::connection::Nats;
use super::store::terms;
use super::subject::Names;
use crate::engine::interface::{SettingWatch, Settings};
use crate::engine::value::{Refused, RetryFor, Setting, SettingKind, Stored};
use async_nats::Subscriber;
use async_nats::jetstream::message::StreamMessage;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use ground::error::Error;
use std::collections::BTreeMap;
use std::time::Duration;

/// A setting that was removed is a message without a text, for so long: the shortest time that a server knows.
const REMOVED_FOR: Duration = Duration::from_secs(1);

#[async_trait]
impl Settings for Nats {
    async fn setting(&self, what: &Setting, retry_for: RetryFor) -> Result<Option<Stored>, Error> {
        let found = self.last_message(&self.names().setting(what), retry_for).await?;
        let found = found.filter(|message| !message.payload.is_empty());
        Ok(found.map(|message| Stored { payload: message.payload, revision: message.sequence }))
    }

    async fn settings(&self, kind: SettingKind) -> Result<BTreeMap<String, Stored>, Error> {
        let filter = self.names().settings(kind);
        let (mut found, mut from) = (BTreeMap::new(), 0);
        while let Some(message) = self.next_message(&filter, from).await? {
            from = message.sequence + 1;
            let StreamMessage { payload, sequence: revision, subject, .. } = message;
            if let Some(name) = Names::name_of(&subject).filter(|_| !payload.is_empty()) {
                found.insert(name, Stored { payload, revision });
            }
        }
        Ok(found)
    }

    async fn set(
        &self,
        what: &Setting,
        payload: Bytes,
        over: Option<u64>,
        length: Option<Duration>,
    ) -> Result<(), Refused> {
        let subject = self.names().setting(what);
        match self.store(&subject, terms(over, length), payload.clone(), RetryFor::ASKED).await {
            Ok(_) => Ok(()),
            Err(Refused::Conflict) => match self.setting(what, RetryFor::ASKED).await? {
                // It was written, and the answer was lost.
                Some(stored) if stored.payload == payload => Ok(()),
                _ => Err(Refused::Conflict),
            },
            Err(refused) => Err(refused),
        }
    }

    async fn unset(&self, what: &Setting) -> Result<bool, Error> {
        let was_there = self.setting(what, RetryFor::ASKED).await?.is_some();
        if was_there {
            self.set(what, Bytes::new(), None, Some(REMOVED_FOR)).await?;
        }
        Ok(was_there)
    }

    async fn watch_settings(&self, kind: SettingKind) -> Result<Box<dyn SettingWatch>, Error> {
        let subject = self.names().settings_told(kind);
        let subscriber = self.0.client.subscribe(subject).await;
        Ok(Box::new(Watch(subscriber.map_err(away)?)))
    }
}

struct Watch(Subscriber);

#[async_trait]
impl SettingWatch for Watch {
    async fn next(&mut self) -> Result<String, Error> {
        loop {
            let Some(told) = self.0.next().await else {
                return Err(away("the connection was closed"));
            };
            if let Some(name) = Names::name_of(&told.subject) {
                return Ok(name);
            }
        }
    }
}
