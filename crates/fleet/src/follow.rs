//! Follows a job: its events over all attempts, from any point on, live, until the job is over.

use super::engine::{Kept, LogReader, RecordWatch, Shared};
use super::record::LogEnd;
use super::submitter::now;
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::sleep;

/// Longest wait for an event that is known to be due, before the log is read again; it doubles each time. A reader can miss a
/// wake-up, and the log can be cut by its limits or by hand.
const FIRST_LOOK: Duration = Duration::from_secs(2);
const LAST_LOOK: Duration = Duration::from_secs(60);

/// Position of a reader, exclusive: the event after it comes next. Users see the text `<attempt>:<sequence>.<line>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    sequence: u64,
    /// Lines of that message that were handed out.
    lines: usize,
}

impl Cursor {
    fn parse(text: &str) -> Result<Cursor, Error> {
        let read = || {
            let (_, position) = text.split_once(':')?;
            let (sequence, line) = position.split_once('.')?;
            Some(Cursor {
                sequence: sequence.parse().ok()?,
                lines: line.parse::<usize>().ok()?.checked_add(1)?,
            })
        };
        read().ok_or_else(|| Error::invalid_option("from", "invalid cursor: pass the `cursor` of an event"))
    }

    /// Whether all of the message was told.
    fn is_past(self, sequence: u64) -> bool {
        self.sequence > sequence || (self.sequence == sequence && self.lines == usize::MAX) || sequence == 0
    }
}

/// Events of one attempt.
#[derive(Clone, Debug)]
pub struct FollowedBatch {
    pub attempt: u32,
    /// Prefix of the cursors of these events; the line's number follows.
    pub cursor: String,
    /// Number of the first line.
    pub first_line: usize,
    /// Time when the server stored them, in epoch milliseconds.
    pub stored_at: u64,
    /// One JSON object per line.
    pub lines: Bytes,
}

/// A reader of a job's events.
pub struct Follow {
    engine: Shared,
    id: String,
    logs: Box<dyn LogReader>,
    watch: RecordWatch,
    live: bool,
    told: Told,
    seen: Seen,
    /// The last message to hand out, once it is known.
    last: Option<u64>,
    look: Duration,
    /// A batch that was read, and is handed out after the report of a gap before it.
    held: Option<FollowedBatch>,
}

/// Progress of the reader.
#[derive(Debug, Default)]
struct Told {
    after: Cursor,
    places: Places,
    /// Attempt and lines of the batch that was told last.
    batch: (u32, usize),
    /// Whether a gap was reported.
    of_gap: bool,
}

/// The job by the last record that was seen.
#[derive(Debug, Default)]
struct Seen {
    is_over: bool,
    has_record: bool,
    /// The record existed and was removed.
    is_removed: bool,
    /// The attempt and the end of its log, for the job's last attempt.
    end: Option<(u32, LogEnd)>,
}

/// The last batches that were told, of each attempt: an attempt whose batches do not follow each other has lost some. Those of
/// several attempts may be mixed, because a worker that was frozen writes on for a moment.
#[derive(Clone, Debug, Default)]
struct Places {
    numbers: HashMap<u32, u64>,
    /// Its reader began in the middle, and does not know what came before.
    is_partial: bool,
}

impl Places {
    /// Whether batches before this one are gone.
    fn miss(&mut self, attempt: u32, number: u64) -> bool {
        if number == 0 {
            return false;
        }
        match self.numbers.insert(attempt, number) {
            Some(last) => number > last + 1,
            None => !self.is_partial && number > 1,
        }
    }
}

impl Follow {
    /// `live`: until the job is over; else until what there is now was told.
    pub(crate) async fn open(
        engine: &Shared,
        id: &str,
        from: Option<&str>,
        live: bool,
    ) -> Result<Follow, Error> {
        let after = from.map(Cursor::parse).transpose()?.unwrap_or_default();
        let attempt = from.and_then(|text| text.split(':').next()?.parse().ok()).unwrap_or(0);
        let mut follow = Follow {
            engine: engine.clone(),
            id: id.to_owned(),
            logs: engine.read_logs(id, after.sequence),
            watch: engine.watch_record(id).await?,
            live,
            told: Told {
                after,
                places: Places { is_partial: from.is_some(), ..Places::default() },
                batch: (attempt, 0),
                of_gap: false,
            },
            seen: Seen::default(),
            last: None,
            look: FIRST_LOOK,
            held: None,
        };
        // Read first: nothing has to be told of the log of a job that is over.
        let kept = follow.watch.next().await?;
        follow.on_record(kept);
        if !live {
            follow.last = Some(engine.last_of_logs(id).await?);
        }
        Ok(follow)
    }

    /// The next events; `None` when all of them were told. Dropping the future loses nothing, and after an error it goes on.
    pub async fn next(&mut self) -> Result<Option<FollowedBatch>, Error> {
        loop {
            if let Some(batch) = self.held.take() {
                return Ok(Some(batch));
            }
            if self.seen.is_removed {
                let message = format!("job {} was removed while its events were read", self.id);
                return Err(Error::new(ErrorCode::JobNotFound, message));
            }
            // All that its attempts wrote is there before the record says that it is over. Asked here, and not where that is heard:
            // the record tells it once, and who gives up meanwhile asks again.
            if self.seen.is_over && self.last.is_none() {
                self.last = Some(self.engine.last_of_logs(&self.id).await?);
            }
            if self.last.is_some_and(|last| self.told.after.is_past(last)) {
                self.logs.close();
                return Ok(self.missing_end());
            }
            tokio::select! {
                batch = self.logs.next(self.last.is_none()) => {
                    let batch = batch?;
                    self.look = FIRST_LOOK;
                    let skipped = if batch.sequence == self.told.after.sequence { self.told.after.lines } else { 0 };
                    let lines = behind(&batch.lines, skipped);
                    let gap = self.told.places.miss(batch.attempt, batch.number).then(|| self.gap(batch.attempt));
                    self.told.after = Cursor { sequence: batch.sequence, lines: usize::MAX };
                    self.told.batch = (batch.attempt, batch.lines.iter().filter(|byte| **byte == b'\n').count() + 1);
                    if !lines.is_empty() {
                        self.held = Some(FollowedBatch {
                            attempt: batch.attempt,
                            cursor: format!("{}:{}.", batch.attempt, batch.sequence),
                            first_line: skipped,
                            stored_at: batch.stored_at,
                            lines,
                        });
                    }
                    if gap.is_some() {
                        return Ok(gap);
                    }
                }
                () = sleep(self.look), if self.last.is_some() => {
                    self.look = LAST_LOOK.min(self.look * 2);
                    // If the server is away, the earlier value is kept: the reader waits longer for the server than this
                    // request does.
                    if let Ok(last) = self.engine.last_of_logs(&self.id).await {
                        self.last = Some(last);
                    }
                    self.logs.reopen();
                }
                kept = self.watch.next(), if self.live => {
                    let kept = kept?;
                    self.on_record(kept);
                    self.last = None;
                }
            }
        }
    }

    /// Gives up what the server keeps for this reader.
    pub fn close(&mut self) {
        self.logs.close();
    }

    fn on_record(&mut self, kept: Option<Kept>) {
        self.seen.is_removed = self.seen.has_record && kept.is_none();
        self.seen.has_record |= kept.is_some();
        self.seen.is_over = kept.as_ref().is_some_and(|kept| kept.record.state.is_over());
        self.seen.end = kept.and_then(|kept| kept.record.log.map(|log| (kept.record.attempt, log)));
    }

    /// A warning in the place of events that are not kept any more.
    fn gap(&mut self, attempt: u32) -> FollowedBatch {
        self.told.of_gap = true;
        let message = format!(
            "events of attempt {attempt} are missing here: the log was cut by its age or size, or could not be written"
        );
        let event = serde_json::json!({ "type": "warning", "kind": "log_gap", "message": message });
        FollowedBatch {
            attempt,
            cursor: format!("{}:{}.", self.told.batch.0.max(1), self.told.after.sequence),
            first_line: self.told.batch.1,
            stored_at: now(),
            lines: event.to_string().into(),
        }
    }

    /// Reports a gap, once, if the log lacks the end that the record names.
    fn missing_end(&mut self) -> Option<FollowedBatch> {
        let (attempt, end) = self.seen.end.take().filter(|_| self.seen.is_over)?;
        let is_cut = end.sequence > self.told.after.sequence || (end.lost > 0 && !self.told.of_gap);
        is_cut.then(|| self.gap(attempt))
    }
}

/// The text behind its first lines.
fn behind(text: &Bytes, lines: usize) -> Bytes {
    let mut at = 0;
    for _ in 0..lines {
        match text[at..].iter().position(|byte| *byte == b'\n') {
            Some(end) => at += end + 1,
            None => return Bytes::new(),
        }
    }
    text.slice(at..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::test_server::{PATIENCE, Road, TestServer, connect};

    #[tokio::test]
    async fn the_end_of_a_job_is_not_lost_with_a_future_that_is_dropped() {
        let Some(server) = TestServer::start().await else { return };
        let road = Road::to(&server, "$JS.API.STREAM.MSG.GET.SD_LOG").await;
        let (engine, other) = (connect(&road.url).await, server.engine().await);
        let spec = serde_json::json!({ "id": "job", "handler": "none" });
        other.submit(ground::json::typed(spec).unwrap()).await.unwrap();
        let mut follow = Follow::open(&engine, "job", None, true).await.unwrap();
        // No answer comes once it asks where the log ends.
        road.hold_until(2);
        let cancelled = async {
            other.cancel("job", false).await.unwrap();
            road.until(1).await;
        };
        tokio::select! {
            ended = follow.next() => panic!("{ended:?}"),
            () = cancelled => {}
        }
        road.hold_until(0);
        let ended = tokio::time::timeout(PATIENCE, follow.next()).await;
        assert!(ended.expect("an end").unwrap().is_none());
    }

    #[tokio::test]
    async fn a_log_that_is_cut_while_it_is_read_comes_to_its_end() {
        let Some(server) = TestServer::start().await else { return };
        let engine = server.engine().await;
        let spec = serde_json::json!({ "id": "job", "handler": "none" });
        engine.submit(ground::json::typed(spec).unwrap()).await.unwrap();
        let mut after = 0;
        for number in 0..2 {
            after = engine.append_log("job", 1, number, after, Bytes::from_static(b"{}")).await.unwrap();
        }
        let mut follow = Follow::open(&engine, "job", None, false).await.unwrap();
        server.purge_logs().await;
        let ended = tokio::time::timeout(PATIENCE, follow.next()).await;
        assert!(ended.expect("an end").unwrap().is_none());
    }

    #[test]
    fn a_gap_is_one_of_an_attempt_however_attempts_are_mixed() {
        let mut places = Places::default();
        // The frozen worker of the first attempt wrote one more batch.
        for (attempt, number) in [(1, 1), (2, 1), (1, 2), (2, 2), (2, 3)] {
            assert!(!places.miss(attempt, number), "{attempt}:{number}");
        }
        assert!(places.miss(2, 5));
        assert!(!places.miss(2, 6), "it is told once");
        assert!(places.miss(3, 2));
        let mut partial = Places { is_partial: true, ..Places::default() };
        assert!(!partial.miss(1, 7) && partial.miss(1, 9));
    }

    #[test]
    fn a_cursor_is_exclusive_within_a_batch_too() {
        let cursor = Cursor::parse("2:17.1").unwrap();
        assert_eq!(cursor, Cursor { sequence: 17, lines: 2 });
        let text = Bytes::from_static(b"a\nb\nc");
        assert_eq!(behind(&text, cursor.lines), "c");
        assert_eq!(behind(&text, 3), "");
        assert_eq!(behind(&text, 0), "a\nb\nc");
        for wrong in ["", "1", "1:2", "1:2.x", "x"] {
            assert!(Cursor::parse(wrong).is_err(), "{wrong}");
        }
    }
}
