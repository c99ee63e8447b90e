//! A record's handle, and the task that writes its data to the disk.

use super::buffer::{Buffer, Channel};
use super::files::Files;
use super::folder;
use super::spec::{RecordFacts, RecordSpec};
use crate::error::Error;
use crate::lock::lock;
use crate::os::{HeldFolder, blocking};
use crate::redaction::Redactor;
use futures_util::task::AtomicWaker;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::Sleep;

/// Pushed data is written to the disk after at most this time.
pub const FLUSH: Duration = Duration::from_millis(100);
/// Longest time in total that a full buffer may hold a run back.
pub const HOLDS_AT_MOST: Duration = Duration::from_secs(2);
/// Longest time that the end of a run waits for a disk that does not accept its record.
const END_WITHIN: Duration = Duration::from_secs(2);

/// A record that is being written. The writer task ends with it.
pub struct Record {
    folder: Arc<HeldFolder>,
    begun: Instant,
    shared: Arc<WriterState>,
    files: Option<Files>,
    facts: watch::Receiver<Option<RecordFacts>>,
    publish: Option<watch::Sender<Option<RecordFacts>>>,
    /// The remaining time that a full buffer may hold the run back.
    may_hold: Duration,
    held: Option<Held>,
}

struct Held {
    since: Instant,
    until: Pin<Box<Sleep>>,
}

#[derive(Default)]
struct WriterState {
    state: Mutex<State>,
    /// Wakes the writer for new data, and for data that should be written soon.
    news: Notify,
    urgent: Notify,
    room: AtomicWaker,
}

#[derive(Default)]
struct State {
    buffer: Buffer,
    end: Option<(Value, u64)>,
}

impl WriterState {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Record {
    /// Makes the folder and writes `run.json`. Blocks. Nothing else is written before [`Record::begin`].
    ///
    /// # Errors
    /// `INVALID_OPTION` where the folder can't be written.
    pub fn create(spec: &RecordSpec, mut start: Map<String, Value>) -> Result<Self, Error> {
        let redactor = Redactor::new(spec.secrets.iter().cloned());
        start.extend(spec.facts.clone());
        let mut start = Value::Object(start);
        redactor.redact_json(&mut start);
        let folder = Arc::new(folder::make(spec, &start)?);
        let (publish, facts) = watch::channel(None);
        Ok(Record {
            files: Some(Files::new(folder.clone(), redactor, spec.max_bytes)),
            folder,
            begun: Instant::now(),
            shared: Arc::default(),
            facts,
            publish: Some(publish),
            may_hold: HOLDS_AT_MOST,
            held: None,
        })
    }

    /// Starts the clock of the record and its writer. Must be called within tokio.
    pub fn begin(&mut self, at: Instant) {
        self.begun = at;
        if let (Some(files), Some(publish)) = (self.files.take(), self.publish.take()) {
            let folder = self.path().to_string_lossy().into_owned();
            crate::task::spawn(write(self.shared.clone(), folder, files, publish));
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The record's folder, for records inside it.
    pub fn folder(&self) -> Arc<HeldFolder> {
        self.folder.clone()
    }

    pub fn push(&mut self, channel: Channel, bytes: &[u8]) {
        let ms = self.ms();
        let mut state = self.shared.state();
        state.buffer.push(channel, ms, bytes);
        let is_large = state.buffer.is_large();
        drop(state);
        self.shared.news.notify_one();
        if is_large {
            self.shared.urgent.notify_one();
        }
    }

    /// Milliseconds since the start.
    pub fn ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Ready when there is room for more data, or when the run has waited long enough for it.
    pub fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Register before the check, so that room made in between is noticed.
        self.shared.room.register(context.waker());
        if !self.shared.state().buffer.is_full() {
            if let Some(held) = self.held.take() {
                self.may_hold = self.may_hold.saturating_sub(held.since.elapsed());
            }
            return Poll::Ready(());
        }
        if self.may_hold.is_zero() {
            return Poll::Ready(());
        }
        let longest = self.may_hold;
        let held = self.held.get_or_insert_with(|| Held {
            since: Instant::now(),
            until: Box::pin(tokio::time::sleep(longest)),
        });
        let until = held.until.as_mut().poll(context);
        if until.is_ready() {
            self.held = None;
            self.may_hold = Duration::ZERO;
        }
        until
    }

    /// Whether the record holds its run back right now.
    pub fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// Ends the record. Resolves when the end is on the disk, or after a short time without success.
    pub async fn finish(mut self, end: Value) -> RecordFacts {
        self.end(end);
        let mut facts = self.facts.clone();
        let written = facts.wait_for(Option::is_some);
        match tokio::time::timeout(END_WITHIN, written).await {
            Ok(Ok(facts)) => facts.clone().unwrap_or_default(),
            _ => RecordFacts {
                folder: self.path().to_string_lossy().into_owned(),
                problem: Some(
                    "the end of the record was not written: the disk was still busy when the run was over"
                        .to_owned(),
                ),
                ..RecordFacts::default()
            },
        }
    }

    fn end(&mut self, end: Value) {
        self.begin(self.begun);
        let ms = self.ms();
        let mut state = self.shared.state();
        if state.end.is_none() {
            state.buffer.close(ms);
            state.end = Some((end, ms));
        }
        drop(state);
        self.shared.news.notify_one();
        self.shared.urgent.notify_one();
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // A tokio runtime that is shutting down takes no task. Then the record stays without an end.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.end(json!({ "error": { "code": "PROCESS_LOST", "message": "the task that watched the run ended before the run" } }));
        }
    }
}

/// The writer's task: it flushes as long as data comes, and writes the end last.
async fn write(
    shared: Arc<WriterState>,
    folder: String,
    files: Files,
    publish: watch::Sender<Option<RecordFacts>>,
) {
    let mut files = Some(files);
    loop {
        shared.news.notified().await;
        tokio::select! {
            () = tokio::time::sleep(FLUSH) => {}
            () = shared.urgent.notified() => {}
        }
        let (batch, end) = {
            let mut state = shared.state();
            (state.buffer.take(), state.end.take())
        };
        let Some(mut own) = files.take() else { return };
        let has_end = end.is_some();
        let written = blocking(move || {
            own.append(&batch);
            let facts = end.map(|(end, ms)| own.end(end, ms));
            (own, facts)
        })
        .await;
        shared.state().buffer.written();
        shared.room.wake();
        match written {
            Ok((own, None)) => files = Some(own),
            Ok((_, facts)) => {
                publish.send_replace(facts);
                return;
            }
            // No thread is available. The record stays as it is, and the missing end shows that it is incomplete.
            Err(error) => {
                let problem = Some(format!("the system refused a thread to write the record: {error}"));
                publish.send_replace(Some(RecordFacts { folder, left_out_bytes: 0, problem }));
                return;
            }
        }
        if has_end {
            return;
        }
        if !shared.state().buffer.is_empty() {
            shared.news.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::Place;
    use super::*;
    use std::fs::read_to_string;

    fn create(folder: &Path) -> Record {
        let start = Map::from_iter([("command".to_owned(), json!("x"))]);
        let mut record = Record::create(&RecordSpec::new(Place::Below(folder.to_owned())), start).unwrap();
        record.begin(Instant::now());
        record
    }

    #[tokio::test]
    async fn what_was_pushed_is_in_the_files_before_the_end_comes() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = create(folder.path());
        record.push(Channel::Stdout, b"hello\n");
        let path = record.path().join("stdout");
        while !read_to_string(&path).is_ok_and(|text| text == "hello\n") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let path = record.path().to_owned();
        let facts = record.finish(json!({"exitCode": 0})).await;
        assert_eq!((facts.left_out_bytes, facts.problem), (0, None));
        assert!(read_to_string(path.join("run.json")).unwrap().contains("\"command\": \"x\""));
        assert!(read_to_string(path.join("end.json")).unwrap().contains("\"exitCode\": 0"));
    }

    #[tokio::test]
    async fn a_record_that_is_let_go_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let record = create(folder.path());
        let end = record.path().join("end.json");
        drop(record);
        while !end.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(read_to_string(end).unwrap().contains("PROCESS_LOST"));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_a_wrong_option() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Record::create(&RecordSpec::new(Place::Below(file)), Map::new()).err().unwrap();
        assert_eq!(error.code().as_str(), "INVALID_OPTION");
        assert!(error.message().starts_with("record: "), "{}", error.message());
    }

    fn on_disk(folder: &Path, disk: fn() -> std::io::Result<()>) -> Record {
        let spec = RecordSpec::new(Place::Below(folder.to_owned()));
        let mut record = Record::create(&spec, Map::new()).unwrap();
        record.files.as_mut().unwrap().disk = Some(disk);
        record.begin(Instant::now());
        record
    }

    #[tokio::test]
    async fn a_disk_that_hangs_keeps_no_end_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = on_disk(folder.path(), || {
            loop {
                std::thread::park();
            }
        });
        record.push(Channel::Stdout, b"text");
        let begun = Instant::now();
        let problem = record.finish(json!({})).await.problem.unwrap();
        assert!(problem.contains("was not written"), "{problem}");
        assert!(begun.elapsed() >= END_WITHIN);
    }

    #[tokio::test]
    async fn a_disk_that_is_full_is_told_and_the_end_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut record =
            on_disk(folder.path(), || Err(std::io::Error::from(std::io::ErrorKind::StorageFull)));
        record.push(Channel::Stdout, b"text");
        let end = record.path().join("end.json");
        let facts = record.finish(json!({})).await;
        let problem = facts.problem.unwrap();
        assert!(problem.contains("no storage space"), "{problem}");
        assert_eq!(facts.left_out_bytes, 4);
        assert!(read_to_string(end).unwrap().contains("could not be written"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_holds_a_run_back_as_long_as_it_may_and_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let start = Map::new();
        // This record is never begun, so no task empties its buffer.
        let mut record = Record::create(&RecordSpec::new(Place::Below(folder.path().into())), start).unwrap();
        record.push(Channel::Stdout, &vec![0; super::super::buffer::FULL]);
        let begun = tokio::time::Instant::now();
        std::future::poll_fn(|context| record.poll_room(context)).await;
        assert_eq!(begun.elapsed(), HOLDS_AT_MOST);
        std::future::poll_fn(|context| record.poll_room(context)).await;
        assert_eq!(begun.elapsed(), HOLDS_AT_MOST, "it is for all of the run");
    }
}
