//! Stores whole files and long texts by name, in chunks, in the format in which every client of NATS keeps objects.
//!
//! The server writes each chunk to its disk before it answers. To wait for nothing but that disk, several chunks are in flight
//! at a time ([`Window`]): as many as the link takes without delaying its other users. A transfer is limited by its progress,
//! not by its length. The object's name is written last, when all chunks are stored. Chunks are stored in the order of their
//! arrival, so a failed chunk can't be repeated alone. Instead the whole object is sent again under another number, and the
//! earlier chunks are removed.

use super::batch::{Batch, Most};
use super::connection::{Nats, REQUEST_TIMEOUT, STALLED_AFTER};
use super::entries::stored_at;
use super::store::{Asked, Silence, denied, headers, refused_by};
use super::subject::Names;
use crate::engine::interface::{Engine as _, Objects};
use crate::engine::value::{RetryFor, away, no_object, unwritable};
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::object_store::{ObjectInfo, ObjectOptions};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bytes::Bytes;
use futures_util::StreamExt;
use ground::error::{Error, ErrorCode};
use ground::hex::hex;
use ground::os::{on_disk, read_piece};
use ground::random;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::fs::File;
use std::future::IntoFuture;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

/// Size of a chunk, if the server accepts such messages. Each chunk waits for the server's disk, and delays other users of the
/// link.
const CHUNK_BYTES: usize = 128 << 10;
/// Most memory that is reserved for an object in advance, whatever its stated length.
const MOST_RESERVED: usize = 8 << 20;
/// Most chunks in one request of an object's reader. Twice as much is in memory.
const BATCH_MESSAGES: usize = 64;
/// An answer faster than this widens the [`Window`], one slower than `SLOW` narrows it. It is about how long other messages on
/// the link wait behind a transfer.
const QUICK: Duration = Duration::from_millis(250);
const SLOW: Duration = Duration::from_millis(1000);

/// Number of bytes in flight without an answer: it grows while answers come quickly, and shrinks when they are slow.
#[derive(Clone, Copy, Debug)]
struct Window {
    bytes: usize,
}

impl Window {
    const FIRST: usize = 2 * CHUNK_BYTES;
    /// Memory that an object takes.
    const MOST: usize = 8 << 20;

    fn new() -> Window {
        Window { bytes: Self::FIRST }
    }

    /// The answer for `bytes` of it took so long.
    fn on_answer(&mut self, bytes: usize, took: Duration) {
        if took < QUICK {
            self.bytes = (self.bytes + bytes).min(Self::MOST);
        } else if took > SLOW {
            self.bytes = (self.bytes - self.bytes / 4).max(CHUNK_BYTES);
        }
    }
}

/// Retries while a copy of the stream is a little behind, or an object is being replaced.
const LOOKS: u32 = 10;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The source of an object's bytes. It is read again when the connection breaks during the transfer.
enum Source {
    Memory(Bytes),
    File(Arc<File>),
}

impl Source {
    /// The next bytes, at most `most`, none at the end; and the digest of all bytes so far.
    async fn read(&self, at: u64, most: usize, mut digest: Sha256) -> io::Result<(Bytes, Sha256)> {
        let bytes = match self {
            Source::Memory(bytes) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                bytes.slice(from..bytes.len().min(from.saturating_add(most)))
            }
            Source::File(file) => read_piece(file, at, most).await?,
        };
        on_disk(move || {
            digest.update(&bytes);
            Ok((bytes, digest))
        })
        .await
    }
}

#[async_trait]
impl Objects for Nats {
    async fn put_object(&self, name: &str, bytes: Bytes) -> Result<(), Error> {
        self.put(name, Source::Memory(bytes), RetryFor::ASKED).await.map(drop)
    }

    async fn put_file(&self, name: &str, file: File) -> Result<(u64, String), Error> {
        self.put(name, Source::File(Arc::new(file)), RetryFor::WORK).await
    }

    async fn object(&self, name: &str) -> Result<Bytes, Error> {
        let info = self.known_object(name).await?;
        let mut reading = Reading::of(self, &info);
        let (mut bytes, mut digest) = (Vec::with_capacity(info.size.min(MOST_RESERVED)), Sha256::new());
        while let Some(some) = reading.next().await.map_err(|error| broken(name, &error))? {
            for chunk in some {
                digest.update(&chunk);
                bytes.extend_from_slice(&chunk);
            }
        }
        check(name, &info, &digest.finalize())?;
        Ok(bytes.into())
    }

    async fn fetch_object(&self, name: &str, to: &Path) -> Result<(), Error> {
        let info = self.known_object(name).await?;
        let mut unfinished = to.as_os_str().to_owned();
        unfinished.push(format!(".{}-{}.part", std::process::id(), random::name::<4>()));
        let unfinished = std::path::PathBuf::from(unfinished);
        if let Some(folder) = to.parent() {
            let folder = folder.to_owned();
            on_disk(move || std::fs::create_dir_all(folder)).await.map_err(|error| unwritable(to, &error))?;
        }
        let copied = self.copy_object(name, &info, &unfinished, to).await;
        if copied.is_err() {
            let _ = on_disk(move || std::fs::remove_file(unfinished)).await;
        }
        copied
    }

    async fn drop_objects(
        &self,
        is_meant: &(dyn for<'name> Fn(&'name str, SystemTime) -> bool + Send + Sync),
        is_trial: bool,
    ) -> Result<(u64, u64), Error> {
        let mut found =
            std::pin::pin!(self.all_of(self.names().blob_stream(), self.names().all_objects(), 1));
        let (mut count, mut bytes) = (0, 0);
        while let Some(message) = found.next().await {
            let message = message?;
            let Some(name) = Names::object_of(&message.subject) else { continue };
            if !is_meant(&name, stored_at(&message)) {
                continue;
            }
            let Ok(info) = ground::json::read::<ObjectInfo>(&message.payload) else { continue };
            (count, bytes) = (count + 1, bytes + info.size as u64);
            if !is_trial {
                let before = Some(message.sequence + 1);
                self.purge(&message.subject, before, RetryFor::ASKED).await?;
                self.purge(&self.names().chunks(&info.nuid), None, RetryFor::ASKED).await?;
            }
        }
        Ok((count, bytes))
    }
}

impl Nats {
    async fn put(&self, name: &str, source: Source, retry_for: RetryFor) -> Result<(u64, String), Error> {
        let before = self.object_info(name).await?;
        let info = self.ask(retry_for, || self.put_chunks(name, &source)).await?;
        let payload = serde_json::to_vec(&info).map_err(|error| {
            Error::new(ErrorCode::FleetStorage, format!("the facts of {name} cannot be written: {error}"))
        })?;
        // The last one of its name is the only one.
        let subject = self.names().object(name);
        let stored =
            self.store(&subject, headers(&[("Nats-Rollup", "sub")]), payload.into(), retry_for).await;
        if let Err(refused) = stored {
            self.drop_chunks(&info.nuid).await;
            return Err(refused.into());
        }
        if let Some(before) = before {
            self.drop_chunks(&before.nuid).await;
        }
        Ok((info.size as u64, hexadecimal(info.digest.as_deref().unwrap_or_default())))
    }

    /// Stores the object's bytes; leaves nothing behind when that fails.
    async fn put_chunks(&self, name: &str, source: &Source) -> Result<ObjectInfo, Asked> {
        let number = random::name::<11>();
        let chunk_bytes = CHUNK_BYTES.min(self.max_message_bytes());
        let mut sending = Sending {
            engine: self,
            subject: self.names().chunks(&number),
            waiting: VecDeque::new(),
            on_their_way: 0,
            window: Window::new(),
            last: 0,
        };
        match sending.all(name, source, chunk_bytes).await {
            Ok(Sent { bytes, chunks, digest }) => Ok(ObjectInfo {
                name: name.to_owned(),
                description: None,
                metadata: std::collections::HashMap::new(),
                headers: None,
                options: Some(ObjectOptions { link: None, max_chunk_size: Some(chunk_bytes) }),
                bucket: self.names().blob_bucket(),
                nuid: number,
                size: usize::try_from(bytes).unwrap_or(usize::MAX),
                chunks,
                modified: Some(async_nats::datetime::now()),
                digest: Some(format!("SHA-256={}", URL_SAFE.encode(digest))),
                deleted: false,
            }),
            Err(why) => {
                sending.settle().await;
                self.drop_chunks(&number).await;
                Err(why)
            }
        }
    }

    /// Removes an object, if it is there. Of a user who may not purge its name stays, and says that it is gone.
    pub(crate) async fn drop_object(&self, name: &str) -> Result<(), Error> {
        let Some(info) = self.object_info(name).await?.filter(|info| !info.deleted) else { return Ok(()) };
        let gone = ObjectInfo { deleted: true, size: 0, chunks: 0, digest: None, ..info.clone() };
        let payload = serde_json::to_vec(&gone).unwrap_or_default();
        let subject = self.names().object(name);
        self.store(&subject, headers(&[("Nats-Rollup", "sub")]), payload.into(), RetryFor::ASKED).await?;
        self.drop_chunks(&info.nuid).await;
        Ok(())
    }

    /// When it fails, they go with the age of the stream.
    async fn drop_chunks(&self, number: &str) {
        let subject = self.names().chunks(number);
        let retry_for = RetryFor(LOOK_EVERY * LOOKS);
        if !self.0.may_not_purge.load(Ordering::Relaxed) {
            match self.purge(&subject, None, retry_for).await {
                Err(error) if error.code() == ErrorCode::FleetUnauthorized => {
                    self.0.may_not_purge.store(true, Ordering::Relaxed);
                }
                _ => return,
            }
        }
        // A worker may not purge, because that is all or nothing. An empty message takes the place of the chunks.
        let _ = self.store(&subject, headers(&[("Nats-Rollup", "sub")]), Bytes::new(), retry_for).await;
    }

    async fn copy_object(
        &self,
        name: &str,
        info: &ObjectInfo,
        unfinished: &Path,
        to: &Path,
    ) -> Result<(), Error> {
        let created = unfinished.to_owned();
        let file = on_disk(move || File::create(created).map(Arc::new)).await;
        let file = file.map_err(|error| unwritable(to, &error))?;
        let mut reading = Reading::of(self, info);
        let mut digest = Sha256::new();
        let mut next = reading.next().await;
        while let Some(some) = next.map_err(|error| broken(name, &error))? {
            // The next ones come while these are written.
            let (written, following) = tokio::join!(write(&file, some, digest), reading.next());
            digest = written.map_err(|error| unwritable(to, &error))?;
            next = following;
        }
        check(name, info, &digest.finalize())?;
        let (from, to_path) = (unfinished.to_owned(), to.to_owned());
        on_disk(move || std::fs::rename(from, to_path)).await.map_err(|error| unwritable(to, &error))
    }

    async fn known_object(&self, name: &str) -> Result<ObjectInfo, Error> {
        self.object_info(name).await?.filter(|info| !info.deleted).ok_or_else(|| no_object(name))
    }

    async fn object_info(&self, name: &str) -> Result<Option<ObjectInfo>, Error> {
        let Some(message) = self.last_message(&self.names().object(name), RetryFor::ASKED).await? else {
            return Ok(None);
        };
        ground::json::read(&message.payload).map(Some).map_err(|error| {
            let message = format!("the facts of {name} cannot be read: {error}");
            Error::new(ErrorCode::FleetStorage, message)
        })
    }
}

/// The stored chunks of an object.
struct Sent {
    bytes: u64,
    chunks: usize,
    digest: [u8; 32],
}

/// An object on its way to the server.
struct Sending<'engine> {
    engine: &'engine Nats,
    subject: String,
    /// Answers that are not here yet, the oldest first.
    waiting: VecDeque<Waiting>,
    /// Bytes of those.
    on_their_way: usize,
    window: Window,
    /// Sequence of the last chunk that is known to be stored.
    last: u64,
}

struct Waiting {
    answer: PublishAckFuture,
    bytes: usize,
    since: Instant,
}

impl Sending<'_> {
    /// Sends all of it; fails as soon as the connection is lost.
    async fn all(&mut self, name: &str, source: &Source, chunk_bytes: usize) -> Result<Sent, Asked> {
        let reconnected = self.engine.reconnected();
        tokio::select! {
            sent = self.each(name, source, chunk_bytes) => sent,
            () = reconnected => Err(Asked::away("the connection was lost")),
        }
    }

    async fn each(&mut self, name: &str, source: &Source, chunk_bytes: usize) -> Result<Sent, Asked> {
        let (mut bytes, mut chunks, mut digest) = (0, 0, Sha256::new());
        loop {
            let read = source.read(bytes, chunk_bytes, digest).await;
            let chunk;
            (chunk, digest) = read.map_err(|error| Asked::Final(unreadable(name, &error)))?;
            if chunk.is_empty() {
                break;
            }
            (bytes, chunks) = (bytes + chunk.len() as u64, chunks + 1);
            let bytes = chunk.len();
            while !self.waiting.is_empty() && self.on_their_way + bytes > self.window.bytes {
                self.answer().await?;
            }
            let message = PublishMessage::build().payload(chunk);
            let sent = self.engine.0.transfers.send_publish(self.subject.clone(), message).await;
            let answer = sent.map_err(|error| refused_by(&error, &self.engine.names().blob_stream()))?;
            self.on_their_way += bytes;
            self.waiting.push_back(Waiting { answer, bytes, since: Instant::now() });
        }
        while !self.waiting.is_empty() {
            self.answer().await?;
        }
        Ok(Sent { bytes, chunks, digest: digest.finalize().into() })
    }

    /// Waits for the oldest answer.
    async fn answer(&mut self) -> Result<(), Asked> {
        let Some(Waiting { answer, bytes, since }) = self.waiting.pop_front() else { return Ok(()) };
        self.on_their_way -= bytes;
        // A lost connection is not watched here; the code that sends the whole object handles it.
        let never = std::pin::pin!(std::future::pending());
        let answer = match self.engine.heard(&self.subject, STALLED_AFTER, never, answer.into_future()).await
        {
            Ok(answer) => answer,
            Err(Silence::Denied) => return Err(Asked::Final(denied(&self.subject))),
            Err(Silence::Away(_)) => return Err(Asked::away("it has stalled")),
        };
        self.window.on_answer(bytes, since.elapsed());
        match answer {
            // A connection that broke in between may have brought them in another order.
            Ok(stored) if stored.sequence <= self.last => {
                Err(Asked::away("its chunks came in the wrong order"))
            }
            Ok(stored) => {
                self.last = stored.sequence;
                Ok(())
            }
            Err(error) => Err(refused_by(&error, &self.engine.names().blob_stream())),
        }
    }

    /// Waits a moment for all answers, whatever they are. Afterwards few chunks are in flight.
    async fn settle(&mut self) {
        let answers = self.waiting.drain(..).map(|waiting| waiting.answer.into_future());
        let _ = tokio::time::timeout(REQUEST_TIMEOUT, futures_util::future::join_all(answers)).await;
    }
}

/// An object on its way here.
struct Reading<'engine> {
    engine: &'engine Nats,
    subject: String,
    from: u64,
    /// Chunks that are still to come.
    left: usize,
    /// Size of the next batch: as much as the link takes without delaying its other users.
    window: Window,
}

impl<'engine> Reading<'engine> {
    fn of(engine: &'engine Nats, info: &ObjectInfo) -> Reading<'engine> {
        Reading {
            engine,
            subject: engine.names().chunks(&info.nuid),
            from: 1,
            left: info.chunks,
            window: Window::new(),
        }
    }

    /// The next chunks; `None` when all were here.
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        for _ in 0..LOOKS {
            let stream = self.engine.names().blob_stream();
            let most = Most { messages: BATCH_MESSAGES, bytes: self.window.bytes };
            let begun = Instant::now();
            let some = self
                .engine
                .ask(RetryFor::ASKED, || self.engine.read_on(&stream, &self.subject, self.from, most));
            let Batch { messages, .. } = some.await?;
            if let Some(last) = messages.last() {
                self.window.on_answer(self.window.bytes, begun.elapsed());
                self.from = last.sequence + 1;
                self.left = self.left.saturating_sub(messages.len());
                return Ok(Some(messages.into_iter().map(|message| message.payload).collect()));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(away("chunks are missing"))
    }
}

async fn write(file: &Arc<File>, chunks: Vec<Bytes>, mut digest: Sha256) -> io::Result<Sha256> {
    let file = Arc::clone(file);
    on_disk(move || {
        for chunk in chunks {
            digest.update(&chunk);
            (&*file).write_all(&chunk)?;
        }
        Ok(digest)
    })
    .await
}

fn check(name: &str, info: &ObjectInfo, digest: &[u8]) -> Result<(), Error> {
    let found = format!("SHA-256={}", URL_SAFE.encode(digest));
    if info.digest.as_ref().is_none_or(|digest| *digest == found) {
        return Ok(());
    }
    Err(Error::new(ErrorCode::FleetStorage, format!("{name} is damaged: its digest does not match")))
}

fn unreadable(name: &str, error: &io::Error) -> Error {
    Error::new(ErrorCode::FleetStorage, format!("{name} can't be read: {error}"))
}

fn broken(name: &str, error: &Error) -> Error {
    Error::new(ErrorCode::FleetStorage, format!("{name} could not be read completely: {}", error.message()))
}

/// The store says `SHA-256=` and base64url.
fn hexadecimal(digest: &str) -> String {
    let encoded = digest.split_once('=').map_or("", |(_, encoded)| encoded);
    hex(&URL_SAFE.decode(encoded).unwrap_or_default())
}

#[cfg(test)]
#[path = "blob_tests.rs"]
mod tests;
