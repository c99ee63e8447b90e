//! Stores one message in a stream: repeats it until the server has it, or refuses it.

use super::connection::{Nats, REQUEST_TIMEOUT, answer_within};
use super::streams;
use crate::engine::value::{Refused, RetryFor, TOO_LONG};
use async_nats::jetstream;
use async_nats::jetstream::ErrorCode as ServerCode;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};
use async_nats::{HeaderMap, Request, RequestErrorKind};
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use serde::Deserialize;
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// A server ends the connection of a client whose line is longer than 4,096 bytes; the subject of the answer is part of it.
const MAX_SUBJECT_BYTES: usize = 3500;
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The server's answer.
#[derive(Debug)]
pub(crate) struct Stored {
    pub sequence: u64,
    /// Whether the server had the message already.
    pub is_duplicate: bool,
}

#[derive(Deserialize)]
pub(super) struct PublishAnswer {
    #[serde(default, rename = "seq")]
    sequence: u64,
    #[serde(default)]
    duplicate: bool,
    pub(super) error: Option<Problem>,
}

#[derive(Deserialize)]
pub(super) struct Problem {
    #[serde(default)]
    pub(super) code: u64,
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    pub(super) description: String,
}

impl Nats {
    pub(crate) async fn store(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
        retry_for: RetryFor,
    ) -> Result<Stored, Refused> {
        if subject.len() > MAX_SUBJECT_BYTES {
            let message = format!("a name of {} bytes is longer than the server takes", subject.len());
            return Err(Error::new(ErrorCode::FleetStorage, message).with(TOO_LONG, true).into());
        }
        self.ask(retry_for, || self.try_store(subject, &headers, &payload)).await
    }

    async fn try_store(
        &self,
        subject: &str,
        headers: &HeaderMap,
        payload: &Bytes,
    ) -> Result<Stored, Asked<Refused>> {
        let within = answer_within(payload.len());
        let request = Request::new()
            .payload(payload.clone())
            .headers(headers.clone())
            .timeout(Some(within + REQUEST_TIMEOUT));
        let reconnected = std::pin::pin!(self.reconnected());
        let request = self.0.client.send_request(subject.to_owned(), request);
        let message = match self.heard(subject, within, reconnected, request).await {
            Ok(Ok(message)) => message,
            Ok(Err(error)) if error.kind() == RequestErrorKind::MaxPayloadExceeded => {
                let message = format!(
                    "a message of {} bytes exceeds the server's limit: raise its max_payload",
                    payload.len()
                );
                let error = Error::new(ErrorCode::FleetStorage, message).with(TOO_LONG, true);
                return Err(Asked::Final(error.into()));
            }
            Ok(Err(error)) => return Err(self.unanswered(subject, error)),
            Err(Silence::Denied) => return Err(Asked::Final(denied(subject).into())),
            // Whether the server has the message shows at the next try.
            Err(Silence::Away(why)) => return Err(Asked::NoAnswer(why)),
        };
        match ground::json::read::<PublishAnswer>(&message.payload) {
            Ok(PublishAnswer { error: None, sequence, duplicate }) => {
                Ok(Stored { sequence, is_duplicate: duplicate })
            }
            Ok(PublishAnswer { error: Some(problem), .. }) => {
                Err(match refused(&problem, &self.names().stream_of(subject)) {
                    Some(refused) => Asked::Final(refused),
                    None => Asked::Away(problem.description),
                })
            }
            Err(error) => Err(Asked::Away(format!("an answer that can't be read: {error}"))),
        }
    }

    /// Stores a message past every check, as any other client of the server may.
    #[cfg(test)]
    pub(crate) async fn publish_raw(&self, subject: &str, pairs: &[(&str, &str)], payload: Bytes) {
        self.store(subject, headers(pairs), payload, RetryFor::ASKED).await.unwrap();
    }

    /// The reason why a request to this subject got no answer.
    pub(super) fn unanswered<E: From<Error>>(&self, subject: &str, why: impl Display) -> Asked<E> {
        if self.is_denied(subject) { Asked::Final(denied(subject).into()) } else { Asked::away(why) }
    }

    /// Waits for the answer to a request to this subject. The wait ends early if the user lacks the rights, or if the
    /// connection is lost, because then no answer comes.
    pub(super) async fn heard<T>(
        &self,
        subject: &str,
        within: Duration,
        mut reconnected: Pin<&mut impl Future<Output = ()>>,
        answer: impl Future<Output = T>,
    ) -> Result<T, Silence> {
        let mut answer = std::pin::pin!(answer);
        let late = tokio::time::Instant::now() + within;
        loop {
            let look = late.min(tokio::time::Instant::now() + REQUEST_TIMEOUT);
            tokio::select! {
                biased;
                answer = &mut answer => return Ok(answer),
                () = &mut reconnected => return Err(Silence::Away("the connection was lost")),
                () = tokio::time::sleep_until(look) => {
                    if self.is_denied(subject) {
                        return Err(Silence::Denied);
                    }
                    if look >= late {
                        return Err(Silence::Away("it stopped in the middle of an answer"));
                    }
                }
            }
        }
    }

    /// The error for a server that did not do what it was asked to, for as long as somebody waited. `why`: as it looks here.
    async fn unserved(&self, why: &str) -> Error {
        if *self.0.is_connected.borrow() && streams::are_missing(&self.0.context, self.names()).await {
            let message = "the server has lost the fleet's streams: bring its store back, or begin with an empty fleet by Fleet.connect()";
            return Error::new(ErrorCode::FleetStorage, message);
        }
        self.away(why)
    }

    /// Asks again while the server is away.
    pub(super) async fn ask<T, E: From<Error>, F>(
        &self,
        retry_for: RetryFor,
        mut ask: impl FnMut() -> F,
    ) -> Result<T, E>
    where
        F: Future<Output = Result<T, Asked<E>>>,
    {
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let why = match ask().await {
                Ok(value) => return Ok(value),
                Err(Asked::Final(error)) => return Err(error),
                Err(Asked::NoAnswer(_)) if begun.elapsed() <= retry_for.0 => continue,
                Err(Asked::NoAnswer(why)) => why.to_owned(),
                Err(Asked::Away(why)) => why,
            };
            if begun.elapsed() + pause > retry_for.0 {
                return Err(self.unserved(&why).await.into());
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

/// The reason for a missing answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    Denied,
    Away(&'static str),
}

pub(super) fn denied(subject: &str) -> Error {
    let message = format!("this user may not publish to {subject}: check its rights on the server");
    Error::new(ErrorCode::FleetUnauthorized, message)
}

/// The reason why a request failed.
pub(super) enum Asked<E = Error> {
    /// Another try would not change it.
    Final(E),
    /// Another try may succeed a moment later.
    Away(String),
    /// The same request is sent again at once.
    NoAnswer(&'static str),
}

impl<E> Asked<E> {
    pub(super) fn away(why: impl Display) -> Asked<E> {
        Asked::Away(why.to_string())
    }
}

/// `stream`: where the message was to go.
fn refused(problem: &Problem, stream: &str) -> Option<Refused> {
    match problem.err_code {
        10071 | 10164 => Some(Refused::Conflict),
        10077 if problem.description.contains("per subject") => Some(Refused::Taken),
        10077 => Some(full(stream, &problem.description).into()),
        10023 | 10047 | 10002 => {
            let message = format!(
                "the server has no room left ({}): make room on its disk, remove old jobs with `sheepdog fleet prune`, or raise the max_file_store of its configuration",
                problem.description
            );
            Some(Error::new(ErrorCode::FleetStorage, message).with("stream", stream).into())
        }
        // Its copies are not agreed on the same message yet, which somebody else sends at this very moment.
        10158 => None,
        // The server is starting, or the stream has no leader yet.
        _ if problem.code == 503 || problem.code == 500 => None,
        _ => {
            let message =
                format!("the server refused a message: {} ({})", problem.description, problem.err_code);
            Some(Error::new(ErrorCode::FleetStorage, message).into())
        }
    }
}

/// A stream that takes no more. What is in a queue goes by itself; the others keep what is over.
pub(crate) fn full(stream: &str, why: &str) -> Error {
    let remedy = if stream.contains("_JOBS") {
        "wait until jobs are done"
    } else {
        "remove old jobs with `sheepdog fleet prune`"
    };
    let message =
        format!("the fleet's stream {stream} is full ({why}): {remedy}, or give the stream more room");
    Error::new(ErrorCode::FleetFull, message).with("stream", stream)
}

/// The reason why one of many messages in flight was not stored.
pub(super) fn refused_by(error: &PublishError, stream: &str) -> Asked {
    if error.kind() == PublishErrorKind::MaxPayloadExceeded {
        let message = format!("a message exceeds the server's limit ({error}): raise its max_payload");
        return Asked::Final(Error::new(ErrorCode::FleetStorage, message));
    }
    let said = std::error::Error::source(error).and_then(|said| said.downcast_ref::<jetstream::Error>());
    let problem = said.and_then(|said| serde_json::to_value(said).ok());
    let problem = problem.and_then(|problem| ground::json::typed::<Problem>(problem).ok());
    match problem.as_ref().and_then(|problem| refused(problem, stream)) {
        Some(refused) => Asked::Final(refused.into()),
        None => Asked::away(error),
    }
}

/// The reason why a consumer of this stream was not created.
pub(super) fn consumer_refused(stream: &str, error: &ConsumerError) -> Asked {
    match error.kind() {
        ConsumerErrorKind::JetStream(server)
            if server.error_code() == ServerCode::MAXIMUM_CONSUMERS_LIMIT =>
        {
            let message = format!(
                "the stream {stream} has reached its limit of consumers: use fewer queue names, or raise its max_consumers"
            );
            Asked::Final(Error::new(ErrorCode::FleetFull, message).with("stream", stream))
        }
        // It understood the question, and will answer no other way.
        ConsumerErrorKind::JetStream(server) if server.code() == 400 => {
            let message = format!("the server makes no consumer on the stream {stream}: {server}");
            Asked::Final(Error::new(ErrorCode::FleetStorage, message).with("stream", stream))
        }
        _ => Asked::away(error),
    }
}

pub(super) fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.insert(*name, *value);
    }
    headers
}

/// Headers of a message that is written over this revision of its subject (0: there must be none), and expires.
pub(super) fn terms(over: Option<u64>, expires_after: Option<Duration>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(revision) = over {
        headers.insert("Nats-Expected-Last-Subject-Sequence", revision.to_string());
    }
    if let Some(length) = expires_after {
        // The server counts in whole seconds.
        headers.insert("Nats-TTL", format!("{}s", length.as_millis().div_ceil(1000).max(1)));
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_can_do_a_moment_later_is_asked_again() {
        let answer = |code, err_code, description: &str| {
            refused(&Problem { code, err_code, description: description.to_owned() }, "KV_SD_RUN")
        };
        // Submitted twice at once, on a cluster.
        assert!(answer(409, 10158, "duplicate message id is in process").is_none());
        assert!(answer(503, 10008, "JetStream system temporarily unavailable").is_none());
        assert!(matches!(answer(400, 10071, "wrong last sequence: 7"), Some(Refused::Conflict)));
        assert!(matches!(answer(400, 10164, "wrong last sequence"), Some(Refused::Conflict)));
        let taken = answer(400, 10077, "maximum messages per subject exceeded");
        assert!(matches!(taken, Some(Refused::Taken)));
        let error = |refused: Option<Refused>| Error::from(refused.unwrap());
        let code = |refused: Option<Refused>| error(refused).code();
        let full = error(answer(400, 10077, "maximum bytes exceeded"));
        assert_eq!((full.code(), full.facts()["stream"].as_str()), (ErrorCode::FleetFull, Some("KV_SD_RUN")));
        assert!(full.message().contains("KV_SD_RUN") && full.message().contains("fleet prune"), "{full}");
        assert_eq!(code(answer(500, 10023, "insufficient resources")), ErrorCode::FleetStorage);
        assert_eq!(code(answer(400, 10003, "bad request")), ErrorCode::FleetStorage);
    }
}
