//! The threads of one tree's fence, where its calls may block. They are the tree's alone: a program whose connections hang keeps nobody
//! else waiting. They have less rights than this process, because they open paths in the program's place.

use super::answer::Fence;
use super::notice::{Answer, Notice};
use super::rights;
use ground::lock::lock;
use nix::errno::Errno;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// An idle thread ends after this time.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
const STACK_BYTES: usize = 256 * 1024;

/// A call, and the place that it takes until it is answered.
type Call = (Notice, OwnedSemaphorePermit);

/// Idle threads end when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Threads(Arc<Shared>);

impl Drop for Threads {
    fn drop(&mut self) {
        lock(&self.0.state).is_over = true;
        self.0.changed.notify_all();
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Call>,
    threads: usize,
    idle: usize,
    is_over: bool,
}

impl Threads {
    /// Has a thread answer. There are as many threads as places, at most. Without any thread the call is refused.
    pub(super) fn answer(&self, fence: &Arc<Fence>, notice: Notice, place: OwnedSemaphorePermit) {
        {
            let mut state = lock(&self.0.state);
            state.waiting.push_back((notice, place));
            if state.idle >= state.waiting.len() {
                self.0.changed.notify_one();
                return;
            }
            state.threads += 1;
        }
        let (shared, own) = (self.0.clone(), fence.clone());
        if start(move || shared.work(&own)).is_ok() {
            return;
        }
        let mut state = lock(&self.0.state);
        state.threads -= 1;
        // In the queue it would wait for a call that may hang.
        if let Some((notice, _)) = state.waiting.pop_back() {
            fence.listener.answer(&notice, Answer::Failed(Errno::EACCES));
        }
    }
}

fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("sheepdog-fence".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(work).map(drop)
}

impl Shared {
    /// The main loop of a thread.
    fn work(&self, fence: &Fence) {
        let has_less = rights::give_up();
        let mut state = lock(&self.state);
        loop {
            if let Some((notice, place)) = state.waiting.pop_front() {
                drop(state);
                let answered =
                    has_less.is_ok() && catch_unwind(AssertUnwindSafe(|| fence.answer(&notice))).is_ok();
                if !answered {
                    fence.listener.answer(&notice, Answer::Failed(Errno::EACCES));
                }
                drop(place);
                state = lock(&self.state);
                continue;
            }
            if state.is_over {
                return;
            }
            state.idle += 1;
            let (woken, waited) =
                self.changed.wait_timeout(state, KEEP_ALIVE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}
