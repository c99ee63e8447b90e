//! Runs blocking work on threads of its own. All blocking work goes through this module: when the system refuses a thread, the
//! result is an error here, while tokio's `spawn_blocking` panics inside the caller.
//!
//! Idle threads are used first; then new ones are started, at most [`MOST_THREADS`]. Further work is queued. When no thread comes
//! free within [`STARVED_AFTER`] (all hang on a dead network folder), the work is taken back and refused. The caller's timeouts
//! continue meanwhile: it awaits a future and holds no thread.

use super::crew::Crew;
use crate::lock::lock;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

const MOST_THREADS: usize = 512;
/// An idle thread ends after this time.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const STARVED_AFTER: Duration = Duration::from_secs(5);

static POOL: Pool = Pool::new(start_thread, STARVED_AFTER);

/// Runs `work` on a thread where it may block. Must be called within tokio. When the future is dropped before a thread took the
/// work, the work does not run.
///
/// # Errors
/// The system's error when it refused a thread; `TimedOut` when all threads hang; `Other` when `work` panicked.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    hand_over(work)?.result().await
}

/// Like [`blocking`], for work whose end is noticed in another way: nothing is woken by it until the result is awaited.
///
/// # Errors
/// The system's error when it refused a thread.
pub fn hand_over<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<HandedOver<T>> {
    POOL.hand_over(work)
}

/// Work that was handed over. When this is dropped before a thread took the work, the work does not run.
pub struct HandedOver<T> {
    job: TakenBackOnDrop,
    done: oneshot::Receiver<T>,
    /// Work that no thread takes until then is taken back.
    starves_at: Instant,
    /// Whether it may starve: all threads are at work, and there will be no further one.
    is_queued: bool,
}

impl<T> HandedOver<T> {
    /// Resolves when [`HandedOver::result`] may refuse the work; never when a thread has taken it. It needs no clock then.
    pub async fn starved(&self) {
        if !self.is_queued {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.starves_at).await;
    }

    /// The result of the work.
    ///
    /// # Errors
    /// `TimedOut` when all threads hang; `Other` when the work panicked.
    pub async fn result(mut self) -> io::Result<T> {
        let panicked = |_| io::Error::other("the work on a thread of the addon panicked");
        match tokio::time::timeout_at(self.starves_at, &mut self.done).await {
            Ok(done) => done.map_err(panicked),
            Err(_) if self.job.0.take().is_some() => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "all threads for blocking work are stuck (on a dead network folder?) and the system refuses new ones",
            )),
            Err(_) => self.done.await.map_err(panicked),
        }
    }
}

type Work = Box<dyn FnOnce() + Send>;
type StartThread = fn(&'static Pool) -> io::Result<()>;

fn start_thread(pool: &'static Pool) -> io::Result<()> {
    std::thread::Builder::new().name("sheepdog-work".to_owned()).spawn(move || pool.work()).map(|_| ())
}

struct Pool {
    crew: Crew<Arc<Job>>,
    start_thread: StartThread,
    starved_after: Duration,
}

/// The work, until a thread takes it or its owner takes it back.
struct Job(Mutex<Option<Work>>);

impl Job {
    fn take(&self) -> Option<Work> {
        lock(&self.0).take()
    }
}

/// Takes the work back when the caller's future is dropped. Work that has not begun is not run then.
struct TakenBackOnDrop(Arc<Job>);

impl Drop for TakenBackOnDrop {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

impl Pool {
    const fn new(start_thread: StartThread, starved_after: Duration) -> Pool {
        Pool { crew: Crew::new(MOST_THREADS, KEEP_ALIVE, true), start_thread, starved_after }
    }

    fn hand_over<T: Send + 'static>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<HandedOver<T>> {
        let (reply, done) = oneshot::channel();
        let runtime = tokio::runtime::Handle::try_current();
        let work = move || {
            let _within = runtime.as_ref().map(tokio::runtime::Handle::enter);
            // The caller may be gone; then the result is dropped here.
            let _ = reply.send(work());
        };
        let job = TakenBackOnDrop(Arc::new(Job(Mutex::new(Some(Box::new(work))))));
        let is_queued =
            self.crew.put(job.0.clone(), || (self.start_thread)(self)).map_err(|(error, _)| error)?;
        Ok(HandedOver { job, done, starves_at: Instant::now() + self.starved_after, is_queued })
    }

    fn work(&self) {
        self.crew.work(|job| {
            // After a panic no reply is sent; the owner recognises the panic by that.
            if let Some(work) = job.take() {
                work();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    /// A number of the system, of whichever one.
    const EAGAIN: i32 = 11;

    impl Pool {
        async fn run<T: Send + 'static>(
            &'static self,
            work: impl FnOnce() -> T + Send + 'static,
        ) -> io::Result<T> {
            self.hand_over(work)?.result().await
        }
    }

    fn pool(start_thread: StartThread) -> &'static Pool {
        Box::leak(Box::new(Pool::new(start_thread, Duration::from_millis(50))))
    }

    fn refuse(_: &'static Pool) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(EAGAIN))
    }

    fn one_thread(pool: &'static Pool) -> io::Result<()> {
        if pool.crew.state().threads > 1 { refuse(pool) } else { start_thread(pool) }
    }

    #[tokio::test]
    async fn a_refused_thread_is_an_error_and_the_next_work_is_not_stuck_behind_it() {
        static REFUSALS: AtomicUsize = AtomicUsize::new(1);
        let pool = pool(|pool| {
            if REFUSALS.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok()
            {
                return refuse(pool);
            }
            start_thread(pool)
        });
        let error = pool.run(|| 1).await.expect_err("no thread");
        assert_eq!(error.raw_os_error(), Some(EAGAIN));
        assert_eq!(pool.run(|| 2).await.expect("a thread"), 2);
    }

    #[tokio::test]
    async fn work_that_panics_is_an_error_and_its_thread_serves_on() {
        let pool = pool(one_thread);
        let error = pool.run(|| assert_eq!(1, 2, "a bug")).await.expect_err("a panic");
        assert_eq!(error.kind(), io::ErrorKind::Other);
        assert_eq!(pool.run(|| 3).await.expect("the same thread"), 3);
    }

    #[tokio::test]
    async fn work_behind_threads_that_hang_is_refused_and_never_run_later() {
        let pool = pool(one_thread);
        let (let_go, held) = mpsc::channel::<()>();
        let hanging = crate::task::spawn(pool.run(move || held.recv().is_err()));
        while pool.crew.state().threads == 0 || !pool.crew.state().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        let (told, ran) = mpsc::channel();
        let error = pool.run(move || told.send(())).await.expect_err("starved");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(let_go);
        assert!(hanging.await.expect("a task").expect("its thread came back"));
        assert_eq!(pool.run(|| 4).await.expect("the thread is free"), 4);
        assert!(ran.recv().is_err(), "what was taken back was run");
    }

    #[tokio::test]
    async fn many_at_once_are_all_served() {
        let pool = pool(start_thread);
        let all: Vec<_> = (0..100).map(|number| crate::task::spawn(pool.run(move || number))).collect();
        for (number, one) in all.into_iter().enumerate() {
            assert_eq!(one.await.expect("a task").expect("served"), number);
        }
    }
}
