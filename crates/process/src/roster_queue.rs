//! The queue of writes to the list of trees, which run one after the other. A burst of runs must not become a burst of threads
//! that compete for one folder, and a folder on a dead disk holds up only one thread.

use ground::lock::lock;
use ground::os::blocking;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// Most waiting writes. The limit is only reached behind a dead disk; then names are lost, and nothing else.
const MOST_WAITING: usize = 10_000;

type Work = Box<dyn FnOnce() + Send>;

struct RosterQueue(Mutex<Waiting>);

struct Waiting {
    work: VecDeque<Work>,
    /// A thread has it, or is on its way.
    is_served: bool,
}

static QUEUE: RosterQueue = RosterQueue(Mutex::new(Waiting { work: VecDeque::new(), is_served: false }));

/// Call it within tokio. What finds no thread waits for the next call.
pub(super) fn enqueue(work: impl FnOnce() + Send + 'static) {
    QUEUE.enqueue(Box::new(work));
}

impl RosterQueue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.0)
    }

    fn enqueue(&'static self, work: Work) {
        let mut waiting = self.waiting();
        if waiting.work.len() < MOST_WAITING {
            waiting.work.push_back(work);
        }
        if std::mem::replace(&mut waiting.is_served, true) {
            return;
        }
        drop(waiting);
        let service = Service(self);
        ground::task::spawn(blocking(move || service.run()));
    }
}

/// The thread that takes it; however it ends, also when it never began, the next one may come.
struct Service(&'static RosterQueue);

impl Service {
    fn run(self) {
        loop {
            let mut waiting = self.0.waiting();
            let Some(work) = waiting.work.pop_front() else {
                // Within the same lock: what comes after this look begins another service.
                waiting.is_served = false;
                drop(waiting);
                std::mem::forget(self);
                return;
            };
            drop(waiting);
            work();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.0.waiting().is_served = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    fn queue() -> &'static RosterQueue {
        Box::leak(Box::new(RosterQueue(Mutex::new(Waiting { work: VecDeque::new(), is_served: false }))))
    }

    #[tokio::test]
    async fn a_burst_is_one_thread_in_its_order_and_a_panic_stops_nobody() {
        let queue = queue();
        let (told, hears) = channel();
        let at_once = Arc::new(AtomicUsize::new(0));
        for number in 0..200 {
            let (told, at_once) = (told.clone(), at_once.clone());
            queue.enqueue(Box::new(move || {
                assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0);
                told.send(number).unwrap();
                at_once.fetch_sub(1, Ordering::SeqCst);
            }));
        }
        let heard = blocking(move || hears.iter().take(200).collect::<Vec<_>>()).await.unwrap();
        assert!(heard.is_sorted());

        let (told, hears) = channel();
        queue.enqueue(Box::new(|| panic!("a fault of ours")));
        // The service that panicked tells it when it is gone.
        while queue.waiting().is_served {
            tokio::task::yield_now().await;
        }
        queue.enqueue(Box::new(move || told.send(()).unwrap()));
        blocking(move || hears.recv()).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_dead_disk_holds_one_thread_and_bounded_memory() {
        let queue = queue();
        let (release, held) = channel::<()>();
        let (begun, begins) = channel();
        queue.enqueue(Box::new(move || {
            begun.send(()).unwrap();
            let _ = held.recv();
        }));
        blocking(move || begins.recv()).await.unwrap().unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..MOST_WAITING + 500 {
            let done = done.clone();
            queue.enqueue(Box::new(move || {
                done.fetch_add(1, Ordering::SeqCst);
            }));
        }
        assert_eq!(done.load(Ordering::SeqCst), 0);
        drop(release);
        while queue.waiting().is_served {
            tokio::task::yield_now().await;
        }
        assert_eq!(done.load(Ordering::SeqCst), MOST_WAITING);
    }
}
