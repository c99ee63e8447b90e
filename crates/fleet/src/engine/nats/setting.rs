//! Settings: stored beside the records, whose stream publishes every change. They are read one by one, at the leader: there are
//! few, and a worker's user may read nothing else of that stream.

use super::connection::Nats;
use super::store::{Asked, headers};
use super::subject::Names;
use crate::engine::interface::{SettingWatch, Settings};
use crate::engine::value::{Refused, RetryFor, Setting, SettingKind, Stored};
use async_nats::Subscriber;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::RawMessageErrorKind;
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
        let subject = self.names().setting(what);
        let found = self.last_of(&self.names().settings_stream(), &subject, retry_for).await?;
        let found = found.filter(|(_, payload)| !payload.is_empty());
        Ok(found.map(|(revision, payload)| Stored { payload, revision }))
    }

    async fn settings(&self, kind: SettingKind) -> Result<BTreeMap<String, Stored>, Error> {
        let (stream, filter) = (self.names().settings_stream(), self.names().settings(kind));
        let (mut found, mut from) = (BTreeMap::new(), 0);
        while let Some(message) = self.next_message(&stream, &filter, from).await? {
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
        let (ttl, over) = (length.map(seconds), over.map(|revision| revision.to_string()));
        let mut pairs = Vec::new();
        pairs.extend(ttl.as_deref().map(|ttl| ("Nats-TTL", ttl)));
        pairs.extend(over.as_deref().map(|over| ("Nats-Expected-Last-Subject-Sequence", over)));
        let subject = self.names().setting(what);
        match self.store(&subject, headers(&pairs), payload.clone(), RetryFor::ASKED).await {
            Ok(_) => Ok(()),
            Err(Refused::Conflict) => match self.setting(what, RetryFor::ASKED).await {
                // It was written, and the answer was lost.
                Ok(Some(stored)) if stored.payload == payload => Ok(()),
                Ok(_) => Err(Refused::Conflict),
                Err(error) => Err(Refused::Fault(error)),
            },
            Err(refused) => Err(refused),
        }
    }

    async fn unset(&self, what: &Setting) -> Result<bool, Error> {
        let was_there = self.setting(what, RetryFor::ASKED).await?.is_some();
        if was_there {
            self.set(what, Bytes::new(), None, Some(REMOVED_FOR)).await.map_err(Refused::into_error)?;
        }
        Ok(was_there)
    }

    async fn watch_settings(&self, kind: SettingKind) -> Result<Box<dyn SettingWatch>, Error> {
        let subject = self.names().settings_told(kind);
        let subscriber = self.0.client.subscribe(subject).await;
        Ok(Box::new(Watch(subscriber.map_err(|error| super::store::away(&error.to_string()))?)))
    }
}

/// The server counts in whole seconds.
fn seconds(length: Duration) -> String {
    format!("{}s", length.as_millis().div_ceil(1000).max(1))
}

struct Watch(Subscriber);

#[async_trait]
impl SettingWatch for Watch {
    async fn next(&mut self) -> Result<String, Error> {
        loop {
            let Some(told) = self.0.next().await else {
                return Err(super::store::away("the connection was closed"));
            };
            if let Some(name) = Names::name_of(&told.subject) {
                return Ok(name);
            }
        }
    }
}

impl Nats {
    /// The first message from this sequence on that the filter names, read at the stream's leader.
    pub(super) async fn next_message(
        &self,
        stream: &str,
        filter: &str,
        from: u64,
    ) -> Result<Option<StreamMessage>, Error> {
        let api = self.api(&format!("STREAM.MSG.GET.{stream}"));
        self.ask(RetryFor::ASKED, || async {
            let stream = self.0.context.get_stream_no_info(stream).await;
            let stream = stream.map_err(|error| Asked::Away(error.to_string()))?;
            match stream.raw_message_builder().sequence(from).next_by_subject(filter).send().await {
                Ok(message) => Ok(Some(message)),
                Err(error) => match error.kind() {
                    RawMessageErrorKind::NoMessageFound => Ok(None),
                    _ => Err(self.unanswered(&api, &error)),
                },
            }
        })
        .await
    }
}
