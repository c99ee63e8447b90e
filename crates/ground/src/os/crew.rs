//! Threads for jobs that may block, and the queue before them. Idle threads are used first; then new ones are started.

use crate::lock::lock;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The queue, and the count of the threads that serve it. Its owner starts the threads, each of which runs [`Crew::work`].
#[derive(Debug)]
pub struct Crew<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
    most_threads: usize,
    /// An idle thread ends after this time.
    keep_alive: Duration,
    /// Whether a job may wait for a thread that is at work when the system refuses a further one.
    may_wait: bool,
}

#[derive(Debug)]
pub(super) struct State<J> {
    /// Jobs that no thread has taken, with their numbers.
    pub(super) waiting: VecDeque<(u64, J)>,
    jobs: u64,
    pub(super) threads: usize,
    idle: usize,
    is_over: bool,
}

impl<J> Crew<J> {
    pub const fn new(most_threads: usize, keep_alive: Duration, may_wait: bool) -> Crew<J> {
        let state = State { waiting: VecDeque::new(), jobs: 0, threads: 0, idle: 0, is_over: false };
        Crew { state: Mutex::new(state), changed: Condvar::new(), most_threads, keep_alive, may_wait }
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> std::sync::MutexGuard<'_, State<J>> {
        lock(&self.state)
    }

    /// Queues a job. Returns whether it has to wait until a thread is done with its own. `start` starts a thread.
    ///
    /// # Errors
    /// The system's error when it refused a thread, with the job, unless a thread took it meanwhile.
    pub fn put(
        &self,
        job: J,
        start: impl FnOnce() -> io::Result<()>,
    ) -> Result<bool, (io::Error, Option<J>)> {
        let (number, is_behind_others);
        {
            let mut state = lock(&self.state);
            number = state.jobs;
            state.jobs += 1;
            state.waiting.push_back((number, job));
            let is_taken = state.idle >= state.waiting.len();
            if is_taken || state.threads >= self.most_threads {
                drop(state);
                self.changed.notify_one();
                return Ok(!is_taken);
            }
            is_behind_others = state.waiting.len() > state.idle + 1;
            state.threads += 1;
        }
        let Err(error) = start() else { return Ok(is_behind_others) };
        let mut state = lock(&self.state);
        state.threads -= 1;
        if self.may_wait && state.threads > 0 {
            return Ok(true);
        }
        let at = state.waiting.iter().position(|(waiting, _)| *waiting == number);
        Err((error, at.and_then(|at| state.waiting.remove(at)).map(|(_, job)| job)))
    }

    /// Jobs that no thread has taken.
    pub fn waiting(&self) -> usize {
        lock(&self.state).waiting.len()
    }

    /// The main loop of a thread. A panic of `run` ends the job only.
    pub fn work(&self, run: impl Fn(J)) {
        let mut state = lock(&self.state);
        loop {
            if let Some((_, job)) = state.waiting.pop_front() {
                drop(state);
                let _ = catch_unwind(AssertUnwindSafe(|| run(job)));
                state = lock(&self.state);
                continue;
            }
            if state.is_over {
                return;
            }
            state.idle += 1;
            let (woken, waited) =
                self.changed.wait_timeout(state, self.keep_alive).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }

    /// Lets the idle threads end. What waits is still done.
    pub fn close(&self) {
        lock(&self.state).is_over = true;
        self.changed.notify_all();
    }
}
