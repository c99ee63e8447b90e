//! Puts many jobs into the queue by one message with an answer: the server takes all of them or none.

use super::connection::{Nats, answer_within};
use super::store::PublishAnswer;
use crate::spec::JobSpec;
use async_nats::{HeaderMap, Request};
use ground::error::Error;
use ground::random;

/// Most messages in a batch of the server.
const MOST_MESSAGES: usize = 1000;
/// Most bytes in a batch: all of it is in the server's memory until the last message arrives.
const MOST_BYTES: usize = 4 << 20;

/// Subject, headers and payload of a message.
type Put = (String, HeaderMap, bytes::Bytes);

impl Nats {
    /// Stores the jobs. False: the server took none of them, or its answer was lost. Some may be known, or lack room.
    pub(super) async fn put_at_once(&self, specs: &[JobSpec]) -> Result<Vec<bool>, Error> {
        let mut messages = Vec::with_capacity(specs.len());
        for spec in specs {
            let (headers, payload) = self.spec_message(spec).await?;
            messages.push((self.names().job(&spec.queue, spec.priority, &spec.id), headers, payload));
        }
        let mut stored = Vec::with_capacity(specs.len());
        let mut rest = messages.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, _, payload): &&Put| {
                bytes += payload.len();
                bytes <= MOST_BYTES
            };
            let count = rest.iter().take(MOST_MESSAGES).take_while(fits).count().max(1);
            let (batch, others) = rest.split_at(count);
            let is_stored = self.put_one_batch(batch).await;
            stored.extend(std::iter::repeat_n(is_stored, count));
            rest = others;
        }
        Ok(stored)
    }

    async fn put_one_batch(&self, batch: &[Put]) -> bool {
        let name = random::name::<16>();
        let Some((last, before)) = batch.split_last() else { return true };
        let headers_of = |number: usize, own: &HeaderMap| {
            let mut headers = own.clone();
            headers.insert("Nats-Batch-Id", name.as_str());
            headers.insert("Nats-Batch-Sequence", number.to_string());
            headers
        };
        let mut bytes = last.2.len();
        for (n, (subject, headers, payload)) in before.iter().enumerate() {
            bytes += payload.len();
            let headers = headers_of(n + 1, headers);
            let sent = self.0.client.publish_with_headers(subject.clone(), headers, payload.clone()).await;
            if sent.is_err() {
                return false;
            }
        }
        let (subject, headers, payload) = last;
        let mut headers = headers_of(batch.len(), headers);
        headers.insert("Nats-Batch-Commit", "1");
        let request =
            Request::new().payload(payload.clone()).headers(headers).timeout(Some(answer_within(bytes)));
        let reconnected = std::pin::pin!(self.reconnected());
        let request = self.0.client.send_request(subject.clone(), request);
        let answer = self.heard(subject, answer_within(bytes), reconnected, request).await;
        let Ok(Ok(message)) = answer else { return false };
        ground::json::read::<PublishAnswer>(&message.payload).is_ok_and(|answer| answer.error.is_none())
    }
}
