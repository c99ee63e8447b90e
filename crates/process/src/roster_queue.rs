//! The queue of writes to the list of trees, which one thread runs one after the other. A burst of runs must not become a burst of
//! threads that compete for one folder, and a folder on a dead disk holds up only this thread.

use ground::os::Crew;
use std::time::Duration;

/// Most waiting writes. The limit is only reached behind a dead disk; then names are lost, and nothing else.
const MOST_WAITING: usize = 10_000;
/// The idle thread ends after this time.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

static QUEUE: Crew<Work> = Crew::new(1, KEEP_ALIVE, true);

pub(super) fn enqueue(work: impl FnOnce() + Send + 'static) {
    put(&QUEUE, Box::new(work));
}

fn put(queue: &'static Crew<Work>, work: Work) {
    let serve = || queue.work(|work| work());
    if queue.waiting() < MOST_WAITING {
        // If the system refuses the thread, a name is lost, and nothing else.
        let _ = queue.put(work, || {
            std::thread::Builder::new().name("sheepdog-work".to_owned()).spawn(serve).map(drop)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::os::blocking;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    fn queue() -> &'static Crew<Work> {
        Box::leak(Box::new(Crew::new(1, KEEP_ALIVE, true)))
    }

    #[tokio::test]
    async fn a_burst_is_one_thread_in_its_order_and_a_panic_stops_nobody() {
        let queue = queue();
        let (told, hears) = channel();
        let at_once = Arc::new(AtomicUsize::new(0));
        for number in 0..200 {
            let (told, at_once) = (told.clone(), at_once.clone());
            put(
                queue,
                Box::new(move || {
                    assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0);
                    told.send(number).unwrap();
                    at_once.fetch_sub(1, Ordering::SeqCst);
                }),
            );
        }
        let heard = blocking(move || hears.iter().take(200).collect::<Vec<_>>()).await.unwrap();
        assert!(heard.is_sorted());

        let (told, hears) = channel();
        put(queue, Box::new(|| panic!("a fault of ours")));
        put(queue, Box::new(move || told.send(()).unwrap()));
        blocking(move || hears.recv()).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_dead_disk_holds_one_thread_and_bounded_memory() {
        let queue = queue();
        let (release, held) = channel::<()>();
        let (begun, begins) = channel();
        put(
            queue,
            Box::new(move || {
                begun.send(()).unwrap();
                let _ = held.recv();
            }),
        );
        blocking(move || begins.recv()).await.unwrap().unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..MOST_WAITING + 500 {
            let done = done.clone();
            put(
                queue,
                Box::new(move || {
                    done.fetch_add(1, Ordering::SeqCst);
                }),
            );
        }
        assert_eq!(done.load(Ordering::SeqCst), 0);
        drop(release);
        // This one runs behind all that waited.
        while queue.waiting() > 0 {
            tokio::task::yield_now().await;
        }
        let (told, hears) = channel();
        put(queue, Box::new(move || told.send(()).unwrap()));
        blocking(move || hears.recv()).await.unwrap().unwrap();
        assert_eq!(done.load(Ordering::SeqCst), MOST_WAITING);
    }
}
