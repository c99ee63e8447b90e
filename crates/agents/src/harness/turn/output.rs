//! Reads an attempt's output in the task that reads the pipes, so that a chunk is neither copied nor handed on.
//!
//! [`output`] returns both sides. The process run pushes its bytes into the [`OutputWriter`]. The attempt's own task learns through the
//! [`OutputReader`] that output came, and processes all of it at once. While events are built, the reader stays at most
//! [`WINDOW_BYTES`] ahead of that task. Without a consumer of events there is no such limit, because nothing is queued.

use crate::harness::provider::Provider;
use crate::harness::verdict::transcript::Transcript;
use futures_util::task::AtomicWaker;
use ground::lock::lock;
use process::{LineTooLong, Missed, Sink, Stream};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

const WINDOW_BYTES: usize = 256 << 10;
/// Bytes at the end of stderr that are kept, to find the reason of an exit code.
const STDERR_TAIL_BYTES: usize = 64 << 10;

/// The output so far.
pub(super) struct Heard {
    pub transcript: Transcript,
    pub stderr: Vec<u8>,
    /// Bytes since the attempt's task last processed the output.
    unseen_bytes: usize,
    has_news: bool,
    /// Whether a line that came since the last look was a sign of progress.
    pub has_progressed: bool,
    /// Reading is paused because a listener is slow.
    is_held: bool,
    is_over: bool,
}

impl Heard {
    fn has_room(&self) -> bool {
        !self.is_held && (self.unseen_bytes < WINDOW_BYTES || !self.transcript.digest.events.are_built)
    }
}

struct SharedOutput {
    heard: Mutex<Heard>,
    attempt: AtomicWaker,
    run: AtomicWaker,
}

impl SharedOutput {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        lock(&self.heard)
    }
}

/// The run's side.
pub(super) struct OutputWriter(Arc<SharedOutput>);

/// The attempt's side.
pub(super) struct OutputReader(Arc<SharedOutput>);

pub(super) fn output(transcript: Transcript) -> (OutputWriter, OutputReader) {
    let shared = Arc::new(SharedOutput {
        heard: Mutex::new(Heard {
            transcript,
            stderr: Vec::new(),
            unseen_bytes: 0,
            has_news: false,
            has_progressed: false,
            is_held: false,
            is_over: false,
        }),
        attempt: AtomicWaker::new(),
        run: AtomicWaker::new(),
    });
    (OutputWriter(shared.clone()), OutputReader(shared))
}

impl OutputReader {
    /// Resolves with true when something came, with false when both streams have ended and all was looked at.
    pub(crate) async fn news(&mut self) -> bool {
        poll_fn(|context| {
            self.0.attempt.register(context.waker());
            let mut heard = self.0.heard();
            if std::mem::take(&mut heard.has_news) {
                heard.unseen_bytes = 0;
                drop(heard);
                self.0.run.wake();
                return Poll::Ready(true);
            }
            if heard.is_over { Poll::Ready(false) } else { Poll::Pending }
        })
        .await
    }

    /// The output so far. The guard must not be held over an await.
    pub(crate) fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.heard()
    }

    /// Ends the reading and returns the transcript and the end of stderr.
    pub(crate) fn end(&self, provider: Provider) -> (Transcript, Vec<u8>) {
        let mut heard = self.heard();
        let nothing = Transcript::new(provider, false, None);
        (std::mem::replace(&mut heard.transcript, nothing), std::mem::take(&mut heard.stderr))
    }

    /// Pauses the reading, or resumes it.
    pub(crate) fn hold(&self, is_held: bool) {
        if std::mem::replace(&mut self.heard().is_held, is_held) != is_held {
            self.0.run.wake();
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.heard().is_held
    }
}

impl Sink for OutputWriter {
    fn takes(&self, _: Stream) -> bool {
        true
    }

    fn push(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), LineTooLong> {
        let mut heard = self.0.heard();
        match stream {
            Stream::Stdout => {
                heard.transcript.feed(bytes);
                heard.has_progressed |= heard.transcript.digest.idle.lines == 0;
            }
            Stream::Stderr => {
                heard.stderr.extend_from_slice(bytes);
                let length = heard.stderr.len();
                if length > 2 * STDERR_TAIL_BYTES {
                    heard.stderr.drain(..length - STDERR_TAIL_BYTES);
                }
            }
        }
        heard.unseen_bytes += bytes.len();
        heard.has_news = true;
        drop(heard);
        self.0.attempt.wake();
        Ok(())
    }

    fn end(&mut self, _: Stream) -> Result<(), LineTooLong> {
        Ok(())
    }

    // It is the reader from the beginning.
    fn refuse(&mut self, _: Missed) {}

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // Before the look: the room may come between the two.
        self.0.run.register(context.waker());
        if self.0.heard().has_room() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn finish(&mut self) {
        self.0.heard().is_over = true;
        self.0.attempt.wake();
    }
}

impl Drop for OutputWriter {
    fn drop(&mut self) {
        // A run that ends in an unforeseen way must not leave its attempt waiting.
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    const LINE: &[u8] =
        b"{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"hi\"}}\n";

    fn has_room(writer: &mut OutputWriter) -> bool {
        writer.poll_room(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn fill(writer: &mut OutputWriter) {
        for _ in 0..=WINDOW_BYTES / LINE.len() {
            writer.push(Stream::Stdout, LINE).unwrap();
        }
    }

    #[tokio::test]
    async fn all_that_came_is_one_piece_of_news_and_its_end_comes_last() {
        let (mut writer, mut reader) = output(Transcript::new(Provider::Codex, true, None));
        writer.push(Stream::Stdout, LINE).unwrap();
        writer.push(Stream::Stderr, b"words").unwrap();
        drop(writer);
        assert!(reader.news().await);
        assert_eq!(reader.heard().transcript.digest.take_events().len(), 1);
        assert_eq!(reader.heard().stderr, b"words");
        assert!(!reader.news().await);
    }

    #[tokio::test]
    async fn events_that_nobody_has_looked_at_stop_the_reading() {
        let (mut writer, mut reader) = output(Transcript::new(Provider::Codex, true, None));
        fill(&mut writer);
        assert!(!has_room(&mut writer));
        assert!(reader.news().await);
        assert!(has_room(&mut writer));
        reader.hold(true);
        assert!(!has_room(&mut writer));
        reader.hold(false);
        assert!(has_room(&mut writer));
    }

    #[test]
    fn without_events_nothing_stops_it() {
        let (mut writer, _reader) = output(Transcript::new(Provider::Codex, false, None));
        fill(&mut writer);
        assert!(has_room(&mut writer));
    }
}
