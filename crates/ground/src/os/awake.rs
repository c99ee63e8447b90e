//! A clock that stops while this process is stopped: SIGSTOP, a frozen cgroup, a sleeping laptop, starvation.
//!
//! A limit on silence is meaningful only while this process could read the output. A program that was frozen together with its
//! host was not silent for that time. No system tells a process how long it was stopped. So while an [`Awake`] handle exists, a
//! task beats every [`BEAT`]. A beat that comes much too late means that the process was stopped since the beat before it.

use super::deadline::sleep_until;
use crate::lock::lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const BEAT: Duration = Duration::from_millis(50);
/// A beat that is later than this means a stopped process. Ordinary load causes shorter delays.
const LATE: Duration = Duration::from_millis(100);
/// Ordinary load causes no stop that is as long as this.
const LONG: Duration = Duration::from_secs(1);
/// Time in which the tasks of this process read what came while it was stopped.
const LOOK: Duration = Duration::from_millis(500);

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
static HEART: Mutex<Heart> =
    Mutex::new(Heart { rest: Rest { last_beat: None, lost: Duration::ZERO }, task: None });
/// Number of live [`Awake`] handles. The heartbeat task stops when it drops to zero.
static LISTENERS: AtomicU64 = AtomicU64::new(0);

struct Heart {
    rest: Rest,
    task: Option<JoinHandle<()>>,
}

/// PURE: the time that the process was stopped, computed from the beats.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// Time of the last beat since [`ORIGIN`].
    last_beat: Option<Duration>,
    lost: Duration,
}

impl Rest {
    /// Records a beat. A reader of the clock counts as a beat too: after a stop, its timer may fire before the heartbeat task
    /// runs.
    fn beat(&mut self, now: Duration) {
        if let Some(gap) = self.last_beat.and_then(|last| now.checked_sub(last))
            && gap > LATE
        {
            self.lost += gap - BEAT;
        }
        // A reader that was held up after it had looked at the clock does not move the last beat back.
        self.last_beat = self.last_beat.max(Some(now));
    }
}

/// A handle for code that measures silence. The heartbeat task runs as long as one exists.
#[derive(Debug)]
pub struct Awake {
    /// Time lost before this handle existed.
    before: Duration,
    /// Time lost since then, as the last [`Awake::tick`] told it.
    known: Duration,
}

impl Awake {
    /// Starts the heartbeat task if it does not run. Must be called within a tokio runtime.
    #[expect(clippy::new_without_default, reason = "it starts a task")]
    pub fn new() -> Awake {
        LISTENERS.fetch_add(1, Ordering::AcqRel);
        let mut awake = Awake { before: Duration::ZERO, known: Duration::ZERO };
        awake.before = awake.lost();
        awake
    }

    /// How long this process was stopped since this handle exists.
    pub fn lost(&self) -> Duration {
        self.lost_at(Instant::now())
    }

    fn lost_at(&self, now: Instant) -> Duration {
        let mut heart = lock(&HEART);
        if heart.task.as_ref().is_none_or(JoinHandle::is_finished) {
            // There was no heartbeat task, so the time since the last beat is unknown.
            heart.rest.last_beat = None;
            heart.task = tokio::runtime::Handle::try_current().ok().map(|runtime| runtime.spawn(beat()));
        }
        heart.rest.beat(now.saturating_duration_since(*ORIGIN));
        heart.rest.lost.saturating_sub(self.before)
    }

    /// How long this process was stopped until the last [`Awake::tick`].
    pub fn known(&self) -> Duration {
        self.known
    }

    /// Now, on the clock that rests while this process is stopped.
    pub fn now(&self) -> Instant {
        let now = Instant::now();
        now.checked_sub(self.lost_at(now)).unwrap_or(now)
    }

    /// As [`Awake::now`], with the time for which this process was stopped since the last call.
    pub fn tick(&mut self) -> (Instant, Duration) {
        let now = Instant::now();
        let lost = self.lost_at(now);
        let gap = lost.saturating_sub(std::mem::replace(&mut self.known, lost));
        (now.checked_sub(lost).unwrap_or(now), gap)
    }

    /// Resolves when this clock has reached the deadline, or at this time of the wall clock if this process was stopped meanwhile: then
    /// a [`WallLimit`] may be over. Stays pending when there is no deadline.
    pub async fn sleep_until(&self, deadline: Option<Instant>) {
        sleep_until(deadline.and_then(|deadline| deadline.checked_add(self.lost()))).await;
    }
}

/// PURE: the start of a limit that counts also the time for which this process was stopped, by the clock that rests meanwhile. After a long
/// stop the limit waits until what came in time is read.
#[derive(Clone, Copy, Debug)]
pub struct WallLimit {
    start: Instant,
    looks_until: Option<Instant>,
}

impl WallLimit {
    pub fn new(now: Instant) -> WallLimit {
        WallLimit { start: now, looks_until: None }
    }

    /// See [`Awake::tick`].
    pub fn on_stopped(&mut self, gap: Duration, now: Instant) {
        self.start = self.start.checked_sub(gap).unwrap_or(self.start);
        if gap > LONG {
            self.looks_until = now.checked_add(LOOK);
        }
    }

    /// `None`: never.
    pub fn end(&self, limit: Duration) -> Option<Instant> {
        let end = self.start.checked_add(limit)?;
        Some(self.looks_until.map_or(end, |until| until.max(end)))
    }
}

/// The result of the work, if it comes within this time on the clock that rests while this process is stopped. What has come by then
/// counts, however late this process looks.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let awake = Awake::new();
    let deadline = awake.now().checked_add(limit);
    let over = async {
        loop {
            let lost = awake.lost();
            awake.sleep_until(deadline).await;
            // This process was not stopped meanwhile, so the time is over. The system's clock is not asked: the timers of a test with a
            // paused clock run ahead of it.
            if awake.lost() == lost {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        result = work => Some(result),
        () = over => None,
    }
}

impl Clone for Awake {
    fn clone(&self) -> Awake {
        LISTENERS.fetch_add(1, Ordering::AcqRel);
        Awake { before: self.before, known: self.known }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        LISTENERS.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn beat() {
    loop {
        tokio::time::sleep(BEAT).await;
        let mut heart = lock(&HEART);
        if LISTENERS.load(Ordering::Acquire) == 0 {
            heart.task = None;
            return;
        }
        heart.rest.beat(ORIGIN.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_beat_is_time_that_was_not_ours() {
        let mut rest = Rest { last_beat: None, lost: Duration::ZERO };
        let ms = Duration::from_millis;
        for (now, lost) in
            [(1000, 0), (1050, 0), (1140, 0), (1840, 650), (1890, 650), (2090, 800), (1940, 800), (2140, 800)]
        {
            rest.beat(ms(now));
            assert_eq!(rest.lost, ms(lost), "at {now} ms");
        }
    }

    #[test]
    fn a_limit_that_passed_during_a_stop_waits_for_what_came_in_time() {
        let (now, limit) = (Instant::now(), Duration::from_secs(3));
        let mut whole = WallLimit::new(now);
        whole.on_stopped(BEAT, now + BEAT);
        assert_eq!(whole.end(limit), Some(now - BEAT + limit), "a delay by load puts nothing off");
        whole.on_stopped(limit, now + BEAT);
        assert_eq!(whole.end(limit), Some(now + BEAT + LOOK));
        let far = Duration::from_secs(60);
        assert_eq!(whole.end(far), Some(now - BEAT - limit + far));
        assert_eq!(whole.end(Duration::MAX), None);
    }
}
