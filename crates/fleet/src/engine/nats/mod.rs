//! NATS JetStream as the engine: its streams are queue, record store, log, lease store and object store. No other module uses
//! its names.

mod batch;
mod blob;
mod connection;
mod count;
mod entries;
mod local;
mod log;
mod put_batch;
mod queue;
mod room;
mod store;
mod streams;
mod subject;
#[cfg(test)]
pub(crate) mod test_server;
mod trust;

use crate::engine::interface::{Engine, Shared};
use crate::engine::value::{RetryFor, Room, Rooms};
use async_trait::async_trait;
pub use connection::Access;
use connection::Nats;
use ground::error::Error;
pub(crate) use local::Local;
pub use local::ServerPlaces;
use std::sync::Arc;
use std::time::Duration;
use store::full;
use tokio::sync::watch;

/// Connects to the servers of a fleet, and makes the fleet's streams where they are missing.
pub(crate) async fn connect(access: &Access) -> Result<Shared, Error> {
    Ok(Arc::new(Nats::connect(access).await?))
}

#[async_trait]
impl Engine for Nats {
    fn lease(&self) -> Duration {
        self.0.lease
    }

    fn connections(&self) -> watch::Receiver<u64> {
        self.0.connections.clone()
    }

    fn is_connected(&self) -> watch::Receiver<bool> {
        self.0.is_connected.clone()
    }

    fn version(&self) -> String {
        self.0.client.server_info().version
    }

    fn max_message_bytes(&self) -> usize {
        self.0.client.server_info().max_payload.saturating_sub(4096)
    }

    async fn rooms(&self) -> Result<Rooms, Error> {
        let streams = self.names().streams();
        let rooms = streams.iter().map(|stream| self.room(stream, RetryFor::ASKED));
        let rooms: Vec<Room> = futures_util::future::try_join_all(rooms).await?;
        Ok(Rooms {
            all: streams.iter().cloned().zip(rooms).collect(),
            records: self.names().run_stream(),
            leases: self.names().lease_stream(),
        })
    }

    async fn last_changes(&self) -> Result<(u64, u64), Error> {
        let behind_last = async |stream: String| {
            let found = self.stream(&stream, RetryFor::ASKED).await?;
            Ok(found.cached_info().state.last_sequence + 1)
        };
        let (runs, jobs) = (self.names().run_stream(), self.names().jobs_stream());
        futures_util::future::try_join(behind_last(runs), behind_last(jobs)).await
    }

    async fn check_room(&self) -> Result<(), Error> {
        if self.is_full_of_records().await {
            return Err(full(&self.names().run_stream(), "the rest is reserved for jobs that have started"));
        }
        Ok(())
    }

    fn forget_room(&self) {
        self.forget_records_room();
    }

    async fn close(&self) {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.0.client.flush()).await;
        let _ = tokio::time::timeout(Duration::from_secs(1), self.0.client.drain()).await;
    }
}
