//! What ends by itself when nobody renews it: workers' presence, places of keys, holds of providers.

use super::connection::Engine;
use super::store::{Refused, RetryFor, headers};
use crate::error::Error;
use bytes::Bytes;
use futures_util::TryStreamExt;
use std::time::Duration;

/// A place that was taken. It ends unless it is renewed in time.
#[derive(Clone, Debug)]
pub(crate) struct LeaseSlot {
    subject: String,
    revision: u64,
    length: Duration,
}

impl Engine {
    /// Takes a place that is free; `None` when somebody has it.
    pub(crate) async fn take_lease(
        &self,
        subject: String,
        payload: Bytes,
        length: Duration,
    ) -> Result<Option<LeaseSlot>, Error> {
        match self.write_lease(&subject, payload, length, Some(0)).await {
            Ok(revision) => Ok(Some(LeaseSlot { subject, revision, length })),
            Err(Refused::Conflict) => Ok(None),
            Err(refused) => Err(refused.into_error()),
        }
    }

    /// False when it is another's by now.
    pub(crate) async fn renew_lease(&self, slot: &mut LeaseSlot, payload: Bytes) -> bool {
        match self.write_lease(&slot.subject, payload, slot.length, Some(slot.revision)).await {
            Ok(revision) => {
                slot.revision = revision;
                true
            }
            Err(_) => false,
        }
    }

    /// Free at once, for the next one.
    pub(crate) async fn drop_lease(&self, slot: &LeaseSlot) {
        if let Ok(stream) = self.0.context.get_stream_no_info(self.lease_stream()).await {
            // When it fails, it ends by itself.
            let _ = stream.purge().filter(slot.subject.as_str()).await;
        }
    }

    /// Says something that is true for so long, whoever said it before.
    pub(crate) async fn announce(
        &self,
        subject: &str,
        payload: Bytes,
        length: Duration,
    ) -> Result<(), Error> {
        self.write_lease(subject, payload, length, None).await.map(drop).map_err(Refused::into_error)
    }

    pub(crate) async fn forget(&self, subject: &str) {
        if let Ok(stream) = self.0.context.get_stream_no_info(self.lease_stream()).await {
            let _ = stream.purge().filter(subject).await;
        }
    }

    /// What was announced there, if it still is true.
    pub(crate) async fn announced(&self, subject: &str) -> Result<Option<Bytes>, Error> {
        let found = self.last_of(&self.lease_stream(), subject, RetryFor::ASKED).await?;
        Ok(found.map(|(_, payload)| payload))
    }

    pub(crate) async fn all_announced(&self, filter: String) -> Result<Vec<Bytes>, Error> {
        self.all_of(self.lease_stream(), filter).map_ok(|message| message.payload).try_collect().await
    }

    fn lease_stream(&self) -> String {
        format!("KV_{}", self.names().lease_bucket())
    }

    async fn write_lease(
        &self,
        subject: &str,
        payload: Bytes,
        length: Duration,
        over: Option<u64>,
    ) -> Result<u64, Refused> {
        // The server counts in whole seconds.
        let seconds = length.as_millis().div_ceil(1000).max(1);
        let (ttl, over) = (format!("{seconds}s"), over.map(|revision| revision.to_string()));
        let mut pairs = vec![("Nats-TTL", ttl.as_str())];
        if let Some(over) = &over {
            pairs.push(("Nats-Expected-Last-Subject-Sequence", over));
        }
        self.store(subject, headers(&pairs), payload, RetryFor(length)).await.map(|stored| stored.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_server::{PATIENCE, Road, TestServer, connect};
    use super::*;

    #[tokio::test]
    async fn what_ends_while_it_is_listed_is_not_waited_for() {
        let Some(server) = TestServer::start().await else { return };
        let road = Road::to(&server, "PUB $JS.API.").await;
        let (engine, other) = (connect(&road.url).await, server.engine().await);
        for name in ["stays", "goes"] {
            let subject = other.names().worker(name);
            other.announce(&subject, Bytes::from(name), Duration::from_secs(300)).await.unwrap();
        }
        let before = road.seen();
        road.hold_until(usize::MAX);
        let listed = tokio::spawn({
            let (engine, filter) = (engine.clone(), engine.names().workers());
            async move { engine.all_announced(filter).await }
        });
        road.until(before + 1).await;
        other.forget(&other.names().worker("goes")).await;
        road.hold_until(0);
        let listed = tokio::time::timeout(PATIENCE, listed).await.expect("it ends").unwrap().unwrap();
        assert!(listed.contains(&Bytes::from("stays")), "{listed:?}");
    }
}
