//! The clock that rests while this process is stopped: SIGSTOP, a frozen cgroup, a laptop asleep, starvation.
//!
//! A limit on silence says something about the program only while somebody could listen, and a program that was frozen together
//! with its host was not silent for that long. No system tells a process how long it was stopped; so while anyone asks for the
//! clock, a task beats every [`BEAT`], and a beat that comes much too late says that the time since the one before was not ours.

use crate::lock::lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const BEAT: Duration = Duration::from_millis(50);
/// Later than this it was not the load.
const LATE: Duration = Duration::from_millis(100);

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
static HEART: Mutex<Heart> =
    Mutex::new(Heart { rest: Rest { last_beat: None, lost: Duration::ZERO }, task: None });
/// Who asks. Without anyone the heart stands still.
static LISTENERS: AtomicU64 = AtomicU64::new(0);

struct Heart {
    rest: Rest,
    task: Option<JoinHandle<()>>,
}

/// PURE: what the beats say.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// Since [`ORIGIN`].
    last_beat: Option<Duration>,
    lost: Duration,
}

impl Rest {
    /// Whoever looks first after a stop counts as the late beat: a timer may fire before the heart does.
    fn beat(&mut self, now: Duration) {
        if let Some(gap) = self.last_beat.and_then(|last| now.checked_sub(last))
            && gap > LATE
        {
            self.lost += gap - BEAT;
        }
        self.last_beat = Some(now);
    }
}

/// Somebody who measures silence. The heart beats as long as one is alive.
#[derive(Debug)]
pub struct Awake(());

impl Awake {
    /// Starts the heartbeat task if it does not run. Must be called within a tokio runtime.
    #[expect(clippy::new_without_default, reason = "it starts a task")]
    pub fn new() -> Awake {
        LISTENERS.fetch_add(1, Ordering::AcqRel);
        let awake = Awake(());
        awake.lost();
        awake
    }

    /// How long this process was stopped in all, since it began to look. Only differences mean anything.
    pub fn lost(&self) -> Duration {
        let mut heart = lock(&HEART);
        if heart.task.as_ref().is_none_or(JoinHandle::is_finished) {
            // Nobody beat: the time since then says nothing.
            heart.rest.last_beat = None;
            heart.task = tokio::runtime::Handle::try_current().ok().map(|runtime| runtime.spawn(beat()));
        }
        heart.rest.beat(ORIGIN.elapsed());
        heart.rest.lost
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
        for (now, lost) in [(1000, 0), (1050, 0), (1140, 0), (1840, 650), (1890, 650), (2090, 800)] {
            rest.beat(ms(now));
            assert_eq!(rest.lost, ms(lost), "at {now} ms");
        }
    }
}
