//! The free space of the streams, and the removal of messages that take it.

use super::connection::Nats;
use super::store::{Asked, Problem};
use crate::engine::value::{FULL_AT, RetryFor, Room};
use async_nats::jetstream::stream::{DiscardPolicy, Stream};
use ground::error::{Error, ErrorCode};
use ground::json::object::put;
use ground::lock::lock;
use serde::Deserialize;
use serde_json::json;
use std::time::{Duration, Instant};

/// Time for which a measurement of the records' free space is reused.
const GOOD_FOR: Duration = Duration::from_secs(1);
const GOOD_FOR_LITTLE: Duration = Duration::from_millis(20);
/// Assumed fastest growth of a stream, in bytes per second: a measurement counts until its free space could be used up.
const FASTEST: u64 = 10 << 20;
/// New jobs are refused above this percentage. The rest of the records' space is kept for running jobs: their results and
/// cancels.
const NEW_WORK_UP_TO: u64 = 90;

#[derive(Deserialize)]
struct Purged {
    #[serde(default)]
    purged: u64,
    error: Option<Problem>,
}

impl Nats {
    pub(crate) async fn room(&self, stream: &str, retry_for: RetryFor) -> Result<Room, Error> {
        let found = self.stream(stream, retry_for).await?;
        let (state, config) = (&found.cached_info().state, &found.cached_info().config);
        let max_bytes = u64::try_from(config.max_bytes).unwrap_or(0);
        let max_messages = u64::try_from(config.max_messages).unwrap_or(0);
        let up_to = if stream == self.names().run_stream() { NEW_WORK_UP_TO } else { FULL_AT };
        let is_used =
            |used: u64, most: u64| most > 0 && used.saturating_mul(100) >= most.saturating_mul(up_to);
        // The others make room by themselves: the oldest goes first.
        let keeps_all = config.discard == DiscardPolicy::New;
        let is_full = keeps_all && (is_used(state.bytes, max_bytes) || is_used(state.messages, max_messages));
        Ok(Room { bytes: state.bytes, max_bytes, messages: state.messages, is_full })
    }

    /// The stream with its present state.
    pub(super) async fn stream(&self, name: &str, retry_for: RetryFor) -> Result<Stream, Error> {
        self.ask(retry_for, || async { self.0.context.get_stream(name).await.map_err(Asked::away) }).await
    }

    /// Whether the records have no room for jobs that have none yet. A moment old.
    pub(crate) async fn is_full_of_records(&self) -> bool {
        let known = *lock(&self.0.records_room);
        if let Some((until, is_full)) = known
            && Instant::now() < until
        {
            return is_full;
        }
        // When nobody answers, the write will say so.
        let room = self.room(&self.names().run_stream(), RetryFor(Duration::ZERO)).await;
        let is_full = room.as_ref().is_ok_and(|room| room.is_full);
        let left = room.map_or(0, |room| {
            let up_to = room.max_bytes.saturating_mul(NEW_WORK_UP_TO) / 100;
            if room.max_bytes == 0 { u64::MAX } else { up_to.saturating_sub(room.bytes) }
        });
        let good_for = Duration::from_millis((left / (FASTEST / 1000)).min(1000));
        let until = Instant::now() + good_for.clamp(GOOD_FOR_LITTLE, GOOD_FOR);
        *lock(&self.0.records_room) = Some((until, is_full));
        is_full
    }

    /// The records' room is looked at anew.
    pub(crate) fn forget_records_room(&self) {
        *lock(&self.0.records_room) = None;
    }

    /// Removes what the filter names, before this sequence (`None`: all of it). Returns how many messages that were.
    pub(crate) async fn purge(
        &self,
        filter: &str,
        before: Option<u64>,
        retry_for: RetryFor,
    ) -> Result<u64, Error> {
        let stream = self.names().stream_of(filter);
        let api = format!("STREAM.PURGE.{stream}");
        let mut asked = json!({ "filter": filter });
        if let Some(before) = before {
            put(&mut asked, "seq", before);
        }
        self.ask(retry_for, || async {
            let answer: Result<Purged, _> = self.0.context.request(api.clone(), &asked).await;
            match answer {
                Ok(Purged { error: None, purged }) => Ok(purged),
                Ok(Purged { error: Some(problem), .. }) if problem.code == 503 => {
                    Err(Asked::Away(problem.description))
                }
                Ok(Purged { error: Some(problem), .. }) => {
                    let message = format!("{stream} can't be purged: {}", problem.description);
                    Err(Asked::Final(Error::new(ErrorCode::FleetStorage, message)))
                }
                Err(error) => Err(self.unanswered(&self.api(&api), error)),
            }
        })
        .await
    }
}
