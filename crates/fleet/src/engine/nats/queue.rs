//! The queue: a job's message waits in its lane (queue and class) until a worker pulls it, and leaves when it is acknowledged.

use super::super::entries::parse;
use super::batch::{Batch, EVERYTHING, LISTED, Most};
use super::connection::{Nats, REQUEST_TIMEOUT};
use super::entries::since_epoch;
use super::store::{Stored, consumer_refused, headers};
use super::subject::Names;
use crate::engine::interface::{Engine as _, Entries as _, Objects as _, Queue};
use crate::engine::lane::{Delivery, Holder, Lane};
use crate::engine::value::{JobPage, Key, Queued, Refused, RetryFor, Waiting, away};
use crate::filter::Filter;
use crate::name::{escape, spec_object};
use crate::spec::JobSpec;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, Consumer};
use async_nats::jetstream::message::{Acker, Message, StreamMessage};
use async_nats::{Client, HeaderMap, Subject};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use ground::error::{Error, ErrorCode};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A spec that is longer goes to the object store, and its message only names it.
const MAX_SPEC_BYTES: usize = 128 << 10;
const OBJECT: &str = "Sheepdog-Object";
/// Longest wait between two messages of a pull: a reachable server sends them at once. A message that comes later is idle for a
/// whole lease.
const PULL_TIMEOUT: Duration = Duration::from_secs(5);

/// A message that can't be read is left alone for twice as long, then longer each time, up to about a minute.
const UNREADABLE_DELAY: Duration = Duration::from_secs(2);

/// A page of the whole stream is enough for one queue if at least one message of so many is of that queue.
const WORTH_A_FILTER: usize = 4;

/// A lane that no worker asks for so long is deleted by the server; the jobs in it stay.
const UNUSED_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);

/// One class of one queue, as a worker pulls from it.
struct NatsLane {
    engine: Nats,
    queue: String,
    priority: u8,
    consumer: Consumer<Config>,
}

fn waiting_of(message: &StreamMessage, spec: Result<JobSpec, Error>) -> Result<Waiting, Error> {
    let sequence = message.sequence;
    match spec {
        Ok(spec) => Ok(Waiting { sequence, spec, problem: None }),
        Err(error) => {
            let Some((queue, priority, id)) = Names::job_of(&message.subject) else { return Err(error) };
            let spec = JobSpec { id, queue, priority, ..JobSpec::new() };
            Ok(Waiting { sequence, spec, problem: Some(error) })
        }
    }
}

/// Title and tags of a spec. Reading them alone takes a fraction of the time that the whole spec takes.
#[derive(Deserialize)]
struct Labels<'spec> {
    #[serde(borrow, default)]
    title: Option<Cow<'spec, str>>,
    #[serde(default)]
    tags: Vec<String>,
}

/// Whether the title and the tags are wanted. True as well if they can't be read from the message alone.
fn may_be_wanted(message: &StreamMessage, wanted: &Filter) -> bool {
    let labels = ground::json::read_borrowed::<Labels>(&message.payload);
    labels.map_or(true, |labels| wanted.takes_labels(labels.title.as_deref(), &labels.tags))
}

fn unreadable(why: &str) -> Error {
    let message = format!("a job's message can't be read: {why}. Was it written by a newer version?");
    Error::new(ErrorCode::FleetStorage, message)
}

#[async_trait]
impl Queue for Nats {
    async fn put_job(&self, spec: &JobSpec, again: &str) -> Result<bool, Error> {
        let (mut headers, payload) = self.spec_message(spec).await?;
        let subject = self.names().job(&spec.queue, spec.priority, &spec.id);
        // As subjects have the id: a header takes no end of a line.
        headers.insert("Nats-Msg-Id", format!("{}{again}", escape(&spec.id)));
        match self.store(&subject, headers, payload, RetryFor::ASKED).await {
            Ok(Stored { is_duplicate, .. }) => Ok(is_duplicate),
            Err(Refused::Taken) => Ok(true),
            Err(refused) => Err(refused.into()),
        }
    }

    async fn put_jobs(&self, specs: &[JobSpec]) -> Result<Vec<bool>, Error> {
        self.put_at_once(specs).await
    }

    async fn find_job(&self, id: &str) -> Result<Option<Waiting>, Error> {
        match self.waiting(id).await? {
            Some(message) => {
                let spec = self.spec_of(&message.subject, &message.payload, Some(&message.headers)).await;
                waiting_of(&message, spec.map(|(spec, _)| spec)).map(Some)
            }
            None => Ok(None),
        }
    }

    async fn message_of(&self, id: &str) -> Result<Option<u64>, Error> {
        Ok(self.waiting(id).await?.map(|message| message.sequence))
    }

    async fn drop_job(&self, id: &str, up_to: u64) -> Result<(), Error> {
        self.purge(&self.names().anywhere(id), Some(up_to + 1), RetryFor::ASKED).await.map(drop)
    }

    async fn free_spec(&self, id: &str) {
        // A leftover object is removed by `prune`, or when the stream's maximum age is reached.
        let _ = self.drop_object(&spec_object(id)).await;
    }

    async fn bury_job(&self, spec: &JobSpec, retry_for: RetryFor) -> Result<(), Error> {
        let (headers, payload) = self.spec_message(spec).await?;
        self.store(&self.names().dead(&spec.queue, &spec.id), headers, payload, retry_for).await?;
        Ok(())
    }

    async fn buried_job(&self, id: &str) -> Result<Option<JobSpec>, Error> {
        match self.last_message(&self.names().dead_anywhere(id), RetryFor::ASKED).await? {
            Some(message) => {
                let found = self.text_of(id, &message.payload, Some(&message.headers)).await?;
                Ok(Some(found.0))
            }
            None => Ok(None),
        }
    }

    async fn jobs_from(&self, wanted: &Filter, from: u64, most: usize) -> Result<JobPage, Error> {
        // Not by a consumer: a work queue's messages are its workers' alone.
        let stream = self.names().jobs_stream();
        let most = Most { messages: most.min(LISTED.messages), ..LISTED };
        let mut page = self.ask(RetryFor::ASKED, || self.read_on(&stream, EVERYTHING, from, most)).await?;
        let next =
            |page: &Batch| page.messages.last().filter(|_| page.left > 0).map(|last| last.sequence + 1);
        let mut behind = next(&page);
        if let Some(queue) = &wanted.queue {
            let read = page.messages.len();
            page.messages
                .retain(|message| Names::job_of(&message.subject).is_some_and(|job| job.0 == *queue));
            // A filter costs the server about as much as some pages that are read in vain.
            if behind.is_some() && page.messages.len() * WORTH_A_FILTER < read {
                let filter = self.names().queue(queue);
                page = self.ask(RetryFor::ASKED, || self.read_on(&stream, &filter, from, most)).await?;
                behind = next(&page);
            }
        }
        if wanted.has_labels() {
            page.messages.retain(|message| may_be_wanted(message, wanted));
        }
        Ok(JobPage { jobs: self.waiting_in(&page).await, next: behind })
    }

    async fn jobs_with_message(&self, ids: &[&str]) -> Result<HashSet<String>, Error> {
        let stream = self.names().jobs_stream();
        let subjects: Vec<String> = ids.iter().map(|id| self.names().anywhere(id)).collect();
        let batch = self.ask(RetryFor::ASKED, || self.last_of_each(&stream, &subjects)).await?;
        let found = batch.messages.iter().filter_map(|message| Names::job_of(&message.subject));
        Ok(found.map(|(_, _, id)| id).collect())
    }

    async fn queues(
        &self,
        known: &BTreeSet<String>,
        oldest: usize,
    ) -> Result<BTreeMap<String, Queued>, Error> {
        self.counted(known, oldest).await
    }

    async fn lane(&self, queue: &str, priority: u8, retry_for: RetryFor) -> Result<Arc<dyn Lane>, Error> {
        let config = Config {
            durable_name: Some(Names::consumer(queue, priority)),
            filter_subject: self.names().class(queue, priority),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.lease(),
            // Attempts are counted in the record: a delivery that began none costs nothing.
            max_deliver: -1,
            max_ack_pending: -1,
            // A queue that nobody uses any more takes no room. A worker that finds its lane gone makes it anew.
            inactive_threshold: UNUSED_AFTER,
            ..Config::default()
        };
        let stream = self.names().jobs_stream();
        let consumer = self
            .ask(retry_for, || async {
                let created = self.0.context.create_consumer_on_stream(config.clone(), &stream).await;
                created.map_err(|error| consumer_refused(&stream, &error))
            })
            .await?;
        Ok(Arc::new(NatsLane { engine: self.clone(), queue: queue.to_owned(), priority, consumer }))
    }
}

impl Nats {
    pub(super) async fn spec_message(&self, spec: &JobSpec) -> Result<(HeaderMap, Bytes), Error> {
        let payload = serde_json::to_vec(spec)
            .map_err(|error| Error::invalid_option("data", format!("can't be written as JSON: {error}")))?;
        if payload.len() <= MAX_SPEC_BYTES {
            return Ok((HeaderMap::new(), payload.into()));
        }
        let name = spec_object(&spec.id);
        let payload = Bytes::from(payload);
        match self.put_object(&name, payload.clone()).await {
            Ok(()) => Ok((headers(&[(OBJECT, &name)]), Bytes::new())),
            // A user who only submits may not be allowed to write objects: objects hold the results of other jobs.
            Err(error)
                if error.code() == ErrorCode::FleetUnauthorized
                    && payload.len() <= self.max_message_bytes() =>
            {
                Ok((HeaderMap::new(), payload))
            }
            Err(error) => Err(error),
        }
    }

    /// The jobs of these messages.
    pub(super) async fn waiting_in(&self, page: &Batch) -> Vec<Waiting> {
        let mut jobs = Vec::with_capacity(page.messages.len());
        for message in &page.messages {
            let spec = self.spec_of(&message.subject, &message.payload, Some(&message.headers)).await;
            jobs.extend(waiting_of(message, spec.map(|(spec, _)| spec)).ok());
        }
        jobs
    }

    /// The job's message, read at the stream's leader.
    async fn waiting(&self, id: &str) -> Result<Option<StreamMessage>, Error> {
        self.next_message(&self.names().anywhere(id), 0, RetryFor::ASKED).await
    }

    /// The spec in a job's message, and its length. The subject says which job that is; a spec that says another is nobody's.
    async fn spec_of(
        &self,
        subject: &str,
        payload: &[u8],
        headers: Option<&HeaderMap>,
    ) -> Result<(JobSpec, usize), Error> {
        let Some((queue, priority, id)) = Names::job_of(subject) else {
            return Err(unreadable(&format!("{subject} names no job")));
        };
        let (spec, bytes) = self.text_of(&id, payload, headers).await?;
        if (&spec.queue, spec.priority) != (&queue, priority) {
            return Err(unreadable("it names another queue than it is in"));
        }
        Ok((spec, bytes))
    }

    /// The spec of the job of this id, and its length.
    async fn text_of(
        &self,
        id: &str,
        payload: &[u8],
        headers: Option<&HeaderMap>,
    ) -> Result<(JobSpec, usize), Error> {
        let parse = |payload: &[u8]| {
            let spec: JobSpec =
                ground::json::read_own(payload).map_err(|error| unreadable(&error.to_string()))?;
            let spec = spec.with_defaults();
            spec.check().map_err(|error| unreadable(error.message()))?;
            if spec.id != id {
                return Err(unreadable("it names another job than its subject"));
            }
            Ok((spec, payload.len()))
        };
        // Any submitter can write the header and name any object, so the object's name comes from the job's id.
        match headers.and_then(|headers| headers.get(OBJECT)) {
            Some(_) => parse(&self.object(&spec_object(id)).await?),
            None => parse(payload),
        }
    }

    /// Whether the job of this message is over, so that nobody needs its spec.
    async fn is_over(&self, subject: &str) -> bool {
        let Some((_, _, id)) = Names::job_of(subject) else { return false };
        let found = self.entry(&Key::Record(id), RetryFor(REQUEST_TIMEOUT)).await;
        found.ok().flatten().is_some_and(|entry| parse(&entry).is_ok_and(|record| record.state.is_over()))
    }

    /// `None`: the message can't be read. It is given back, or taken off the queue when its job is over.
    async fn delivery(&self, message: Message) -> Option<Delivery> {
        let (deliveries, sequence, stored_at) = message.info().map_or((1, 0, SystemTime::now()), |info| {
            let deliveries = u64::try_from(info.delivered).unwrap_or(1);
            (deliveries, info.stream_sequence, since_epoch(info.published.unix_timestamp_nanos()))
        });
        let reply = message.reply.clone();
        let (message, acker) = message.split();
        let held = Held { client: self.0.client.clone(), reply, acker };
        let is_object = message.headers.as_ref().is_some_and(|headers| headers.get(OBJECT).is_some());
        match self.spec_of(&message.subject, &message.payload, message.headers.as_ref()).await {
            Ok(spec) => {
                Some(Delivery::new(spec, is_object, deliveries, (sequence, stored_at), Box::new(held)))
            }
            Err(_) => {
                let kind = if self.is_over(&message.subject).await {
                    AckKind::Ack
                } else {
                    // It may be readable elsewhere, or later.
                    let times = u32::try_from(deliveries.min(5)).unwrap_or(5);
                    AckKind::Nak(Some(UNREADABLE_DELAY * 2_u32.pow(times)))
                };
                let _ = held.acker.ack_with(kind).await;
                None
            }
        }
    }
}

#[async_trait]
impl Lane for NatsLane {
    fn is_known_empty(&self) -> bool {
        let info = self.consumer.cached_info();
        // A message that is in the hands of a worker comes to those who wait, if it comes.
        info.num_pending == 0
    }

    async fn pull(&self, most: usize) -> Result<Vec<Delivery>, Error> {
        let mut connections = self.engine.0.connections.clone();
        connections.mark_unchanged();
        let messages = self.consumer.fetch().max_messages(most).messages().await;
        let mut messages = messages.map_err(away)?;
        let mut found = Vec::new();
        let lost = loop {
            let message = tokio::select! {
                biased;
                message = tokio::time::timeout(PULL_TIMEOUT, messages.next()) => message,
                _ = connections.changed() => break "the connection was lost".to_owned(),
            };
            match message {
                Ok(Some(Ok(message))) => found.extend(self.engine.delivery(message).await),
                Ok(None) => return Ok(found),
                Ok(Some(Err(error))) => break error.to_string(),
                Err(_) => break "it was asked for jobs".to_owned(),
            }
        };
        // Messages that came before the loss belong to this worker. Dropping them would leave them idle for a whole lease.
        if found.is_empty() { Err(away(lost)) } else { Ok(found) }
    }

    async fn pull_one(&self, within: Duration) -> Result<Option<Delivery>, Error> {
        let messages = self.consumer.batch().max_messages(1).expires(within).messages().await;
        let mut messages = messages.map_err(away)?;
        match messages.next().await {
            Some(Ok(message)) => Ok(self.engine.delivery(message).await),
            Some(Err(error)) => Err(away(error)),
            None => Ok(None),
        }
    }

    async fn anew(&self) -> Result<Arc<dyn Lane>, Error> {
        self.engine.lane(&self.queue, self.priority, RetryFor(REQUEST_TIMEOUT)).await
    }
}

/// A message that was delivered to this worker.
struct Held {
    acker: Acker,
    client: Client,
    /// Subject of what is said about the message.
    reply: Option<Subject>,
}

#[async_trait]
impl Holder for Held {
    async fn beat(&self) {
        // A beat that is lost is followed by others.
        let _ = self.acker.ack_with(AckKind::Progress).await;
    }

    async fn give_back(&self, delay: Duration) {
        // When this is lost the lease runs out.
        let _ = self.acker.ack_with(AckKind::Nak((!delay.is_zero()).then_some(delay))).await;
    }

    async fn take_up(&self) -> bool {
        // The answer says that the consumer is there, and that it heard this before now.
        let Some(reply) = self.reply.clone() else { return false };
        self.client.request(reply, AckKind::Progress.into()).await.is_ok()
    }

    async fn finish(&self) -> bool {
        for _ in 0..3 {
            if self.acker.double_ack().await.is_ok() {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
