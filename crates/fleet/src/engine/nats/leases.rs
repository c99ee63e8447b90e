//! Messages that expire unless they are renewed: the presence of workers, places of keys, holds of providers.

use super::connection::Nats;
use super::store::terms;
use super::subject::Names;
use crate::engine::interface::Leases;
use crate::engine::value::{Announcement, LeaseSlot, Refused, RetryFor, TakenPlace};
use async_nats::jetstream::message::StreamMessage;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt, future};
use ground::error::Error;
use std::time::Duration;

/// Header with the holder of a place, by which a holder recognizes its own message after a lost answer.
const HOLDER: &str = "Sheepdog-Holder";
/// A place that was given back is a message without a text, for so long: the shortest time that a server knows.
const FREED_FOR: Duration = Duration::from_secs(1);
/// Tries at a place that changes at this very moment.
const TRIES: u32 = 3;

/// Stored form of a place.
enum Place {
    /// Nothing, or what was given back.
    Free(u64),
    Ours(u64),
    Taken,
}

#[async_trait]
impl Leases for Nats {
    /// Writes over the revision that the slot has, or over what is there when that is ours or nobody's.
    async fn hold_place(&self, slot: &mut LeaseSlot, payload: Bytes) -> Result<bool, Error> {
        for _ in 0..TRIES {
            let over = Some(slot.revision);
            match self.write_lease(&slot.place, payload.clone(), slot.length, over, Some(&slot.holder)).await
            {
                Ok(revision) => {
                    slot.revision = revision;
                    return Ok(true);
                }
                Err(Refused::Conflict) => {}
                Err(refused) => return Err(refused.into()),
            }
            match self.place(slot).await? {
                // It was written, and the answer was lost.
                Place::Ours(revision) if revision > slot.revision => {
                    slot.revision = revision;
                    return Ok(true);
                }
                Place::Ours(revision) | Place::Free(revision) => slot.revision = revision,
                Place::Taken => return Ok(false),
            }
        }
        Ok(false)
    }

    async fn places(&self, key: Option<&str>) -> Result<Vec<TakenPlace>, Error> {
        let filter = key.map_or_else(|| self.names().all_slots(), |key| self.names().slots(key));
        self.all_leases(filter)
            .try_filter_map(|message| {
                let place = Names::place_of(&message.subject);
                let holder = message.payload;
                future::ready(Ok(place.map(|(key, number)| TakenPlace { key, number, holder })))
            })
            .try_collect()
            .await
    }

    async fn drop_lease(&self, slot: &LeaseSlot) {
        for _ in 0..TRIES {
            // When it fails, it ends by itself.
            let Ok(Place::Ours(revision)) = self.place(slot).await else { return };
            let freed = self.write_lease(&slot.place, Bytes::new(), FREED_FOR, Some(revision), None).await;
            if !matches!(freed, Err(Refused::Conflict)) {
                return;
            }
        }
    }

    async fn announce(&self, what: &Announcement, payload: Bytes, length: Duration) -> Result<(), Error> {
        self.write_lease(what, payload, length, None, None).await?;
        Ok(())
    }

    async fn forget(&self, what: &Announcement) {
        // When it fails, it ends by itself.
        let _ = self.write_lease(what, Bytes::new(), FREED_FOR, None, None).await;
    }

    async fn announced(&self, what: &Announcement) -> Result<Option<Bytes>, Error> {
        let found = self.last_message(&self.names().announcement(what), RetryFor::ASKED).await?;
        Ok(found.map(|message| message.payload).filter(|payload| !payload.is_empty()))
    }

    async fn announced_workers(&self) -> Result<Vec<Bytes>, Error> {
        self.all_leases(self.names().workers()).map_ok(|message| message.payload).try_collect().await
    }
}

impl Nats {
    async fn place(&self, slot: &LeaseSlot) -> Result<Place, Error> {
        let subject = self.names().announcement(&slot.place);
        let found = self.last_message(&subject, RetryFor(slot.length)).await?;
        Ok(match found {
            None => Place::Free(0),
            Some(message) if message.payload.is_empty() => Place::Free(message.sequence),
            Some(message) => match message.headers.get(HOLDER) {
                Some(holder) if holder.as_str() == slot.holder => Place::Ours(message.sequence),
                _ => Place::Taken,
            },
        })
    }

    /// The leases that the filter names, without those that were given back.
    fn all_leases(&self, filter: String) -> impl Stream<Item = Result<StreamMessage, Error>> + use<> {
        let all = self.all_of(self.names().lease_stream(), filter, 1);
        all.try_filter(|message| future::ready(!message.payload.is_empty()))
    }

    async fn write_lease(
        &self,
        what: &Announcement,
        payload: Bytes,
        length: Duration,
        over: Option<u64>,
        holder: Option<&str>,
    ) -> Result<u64, Refused> {
        let mut headers = terms(over, Some(length));
        if let Some(holder) = holder {
            headers.insert(HOLDER, holder);
        }
        let stored = self.store(&self.names().announcement(what), headers, payload, RetryFor(length)).await?;
        Ok(stored.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_server::{PATIENCE, Road, TestServer, connect};
    use super::*;
    use std::collections::HashSet;

    #[tokio::test]
    async fn what_ends_while_it_is_listed_is_not_waited_for() {
        let Some(server) = TestServer::start().await else { return };
        let road = Road::to(&server, "PUB $JS.API.").await;
        let (engine, other) = (connect(&road.url).await, server.engine().await);
        for name in ["stays", "goes"] {
            let worker = Announcement::Worker(name.to_owned());
            other.announce(&worker, Bytes::from(name), Duration::from_secs(300)).await.unwrap();
        }
        let before = road.seen();
        road.hold_until(usize::MAX);
        let listed = ground::task::spawn({
            let engine = engine.clone();
            async move { engine.announced_workers().await }
        });
        road.until(before + 1).await;
        other.forget(&Announcement::Worker("goes".to_owned())).await;
        road.hold_until(0);
        let listed = tokio::time::timeout(PATIENCE, listed).await.expect("it ends").unwrap().unwrap();
        assert!(listed.contains(&Bytes::from("stays")), "{listed:?}");
    }
    #[tokio::test]
    async fn a_holder_whose_answer_was_lost_keeps_its_place() {
        let Some(server) = TestServer::start().await else { return };
        let road = Road::to(&server, "PUB $KV.SD_LEASE.key.").await;
        let (engine, other) = (connect(&road.url).await, server.engine().await);
        let subject = Announcement::Place { key: "k".to_owned(), number: 0 };
        let (mine, length) = (Bytes::from("job"), Duration::from_secs(60));
        // No answer comes before the question was repeated.
        road.hold_until(road.seen() + 2);
        let mut slot = engine.take_lease(subject.clone(), mine.clone(), "me", length).await.unwrap().unwrap();
        road.hold_until(road.seen() + 2);
        assert!(engine.hold_place(&mut slot, mine.clone()).await.unwrap());
        assert!(road.seen() >= 4, "answers were lost");
        let taken = other.take_lease(subject.clone(), mine.clone(), "another", length).await.unwrap();
        assert!(taken.is_none(), "two of a key at once");
        assert!(engine.hold_place(&mut slot, mine.clone()).await.unwrap());
        engine.drop_lease(&slot).await;
        let taken = other.take_lease(subject, mine.clone(), "another", length).await.unwrap();
        assert!(taken.is_some(), "free at once");
        assert!(!engine.hold_place(&mut slot, mine).await.unwrap(), "it is another's by now");
        engine.drop_lease(&slot).await;
        assert_eq!(other.places_taken("k").await.unwrap(), HashSet::from([0]));
        let holders = other.key_holders("k").await.unwrap();
        assert_eq!(holders.len(), 1, "nobody gives back what is another's");
    }
}
