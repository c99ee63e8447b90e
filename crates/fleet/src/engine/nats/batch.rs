//! Reads many messages of a stream by one request: the server sends them one after the other, and then marks the end.

use super::connection::{Nats, answer_within};
use super::store::{Asked, Silence, denied};
use crate::engine::value::RetryFor;
use async_nats::StatusCode;
use async_nats::jetstream::message::StreamMessage;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use ground::error::Error;
use serde_json::json;

/// Approximate size of the messages that are read.
const LONGEST: usize = 256 << 10;
/// Status of the message that ends a batch.
const END: u16 = 204;

/// Limits of one request. The first message comes however long it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub messages: usize,
    pub bytes: usize,
}

/// Limits of a page in a listing.
pub(super) const LISTED: Most = Most { messages: 1000, bytes: 1 << 20 };

/// Filter for all messages of a stream. The server counts what it leaves of them without a look at each subject, which takes it
/// 50 to 100 ms in a stream of 100,000 subjects.
pub(super) const EVERYTHING: &str = ">";

/// Some messages, in the stream's order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub messages: Vec<StreamMessage>,
    /// Number of further messages behind these.
    pub left: u64,
}

impl Nats {
    /// Messages of the stream that match the filter, from sequence `from` on. Any copy of the stream may answer, and it may
    /// lack a message that was stored a moment ago.
    pub(super) async fn read_on(
        &self,
        stream: &str,
        filter: &str,
        from: u64,
        most: Most,
    ) -> Result<Batch, Asked> {
        let asked = json!({
            "seq": from.max(1), "next_by_subj": filter, "batch": most.messages, "max_bytes": most.bytes,
        });
        self.gather(stream, &asked).await
    }

    /// All that the filter names in the stream, from a sequence on, page by page. What goes meanwhile is missing, and nobody waits for it.
    pub(super) fn all_of(
        &self,
        stream: String,
        filter: String,
        from: u64,
    ) -> impl Stream<Item = Result<StreamMessage, Error>> + use<> {
        let engine = self.clone();
        let pages = stream::try_unfold(Some(from), move |from| {
            let (engine, stream, filter) = (engine.clone(), stream.clone(), filter.clone());
            async move {
                let Some(from) = from else { return Ok::<_, Error>(None) };
                let read = || engine.read_on(&stream, &filter, from, LISTED);
                let page = engine.ask(RetryFor::ASKED, read).await?;
                let last = page.messages.last().filter(|_| page.left > 0);
                let next = last.map(|last| last.sequence + 1);
                Ok(Some((stream::iter(page.messages).map(Ok), next)))
            }
        });
        pages.try_flatten()
    }

    /// The last message of each of these subjects, at most 1,024 of them, that has one.
    pub(super) async fn last_of_each(&self, stream: &str, subjects: &[String]) -> Result<Batch, Asked> {
        if subjects.is_empty() {
            return Ok(Batch::default());
        }
        self.gather(stream, &json!({ "multi_last": subjects })).await
    }

    async fn gather(&self, stream: &str, asked: &serde_json::Value) -> Result<Batch, Asked> {
        let reconnected = self.reconnected();
        let inbox = self.0.client.new_inbox();
        let mut answers = self.0.client.subscribe(inbox.clone()).await.map_err(Asked::away)?;
        let subject = self.api(&format!("DIRECT.GET.{stream}"));
        let asked = Bytes::from(asked.to_string());
        self.0.client.publish_with_reply(subject.clone(), inbox, asked).await.map_err(Asked::away)?;
        let mut batch = Batch::default();
        let mut reconnected = std::pin::pin!(reconnected);
        loop {
            // A message may be long and the link slow: the time is that of one message, not of all.
            let answer =
                self.heard(&subject, answer_within(LONGEST), reconnected.as_mut(), answers.next()).await;
            let answer = match answer {
                Ok(Some(answer)) => answer,
                Ok(None) => return Err(Asked::away("the connection was closed")),
                Err(Silence::Denied) => return Err(Asked::Final(denied(&subject))),
                Err(Silence::Away(why)) => return Err(Asked::away(why)),
            };
            match answer.status {
                None => batch.messages.push(StreamMessage::try_from(answer).map_err(Asked::away)?),
                Some(status) if status.as_u16() == END => {
                    let left = answer.headers.as_ref().and_then(|headers| headers.get("Nats-Num-Pending"));
                    batch.left = left.and_then(|left| left.as_str().parse().ok()).unwrap_or(0);
                    return Ok(batch);
                }
                Some(StatusCode::NOT_FOUND) => return Ok(batch),
                Some(status) => {
                    let why = answer.description.unwrap_or_default();
                    return Err(Asked::away(format!("{} {why}", status.as_u16())));
                }
            }
        }
    }
}
