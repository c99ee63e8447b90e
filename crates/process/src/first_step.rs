//! A task whose first step is taken by the thread that starts it.
//!
//! A new task is usually queued, and its thread is woken to look at it. If its first step only hands work to another thread, that
//! wake-up is for nothing. [`spawn_begun`] polls the future once at once. It becomes a task of the runtime when it is woken.
//!
//! In its first step the future must begin to wait for work of another thread, for a descriptor or for a timer, all of which wake
//! it when the runtime ends. Before it waits for anything else (a lock, a channel, a place), it must yield once, as
//! `tokio::task::yield_now` does: otherwise nobody would drop it when the runtime ends.

use ground::lock::lock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use tokio::runtime::Handle;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that has taken its first step, and is no task yet.
struct Begun {
    runtime: Handle,
    state: Mutex<State>,
}

enum State {
    /// The first step is being taken.
    Beginning,
    /// It was woken during its first step.
    Woken,
    Waiting(Work),
    /// It is a task by now, or has ended.
    Away,
}

impl Wake for Begun {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let state = &mut *lock(&self.state);
        match std::mem::replace(state, State::Away) {
            State::Beginning | State::Woken => *state = State::Woken,
            // A runtime that has ended drops the future.
            State::Waiting(work) => drop(self.runtime.spawn(work)),
            State::Away => {}
        }
    }
}

/// Takes the future's first step here; the rest is a task of the current runtime. A panic drops the future, as it would in a task.
/// Call it within tokio.
pub(super) fn spawn_begun(future: impl Future<Output = ()> + Send + 'static) {
    let begun = Arc::new(Begun { runtime: Handle::current(), state: Mutex::new(State::Beginning) });
    let waker = Waker::from(begun.clone());
    let mut work: Work = Box::pin(future);
    let step = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut Context::from_waker(&waker))));
    let mut state = lock(&begun.state);
    match (step, &*state) {
        (Ok(Poll::Pending), State::Beginning) => *state = State::Waiting(work),
        (Ok(Poll::Pending), _) => {
            *state = State::Away;
            drop(state);
            begun.runtime.spawn(work);
        }
        (Ok(Poll::Ready(())) | Err(_), _) => {
            *state = State::Away;
            drop(state);
            // It ends here: it may wake others.
            drop(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::mpsc;
    use std::thread::{ThreadId, current};
    use tokio::sync::oneshot;

    fn here() -> ThreadId {
        current().id()
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
    }

    #[test]
    fn the_first_step_is_taken_here_and_the_others_by_the_runtime() {
        let runtime = runtime();
        let (told, mut heard) = mpsc::unbounded_channel();
        let (wake, woken) = oneshot::channel();
        {
            let _within = runtime.enter();
            spawn_begun(async move {
                let _ = told.send(here());
                let _ = woken.await;
                let _ = told.send(here());
            });
        }
        assert_eq!(heard.try_recv().ok(), Some(here()));
        assert!(heard.try_recv().is_err(), "it waits");
        wake.send(()).expect("a receiver");
        let second = runtime.block_on(heard.recv()).expect("a second step");
        assert_ne!(second, here());
        assert!(runtime.block_on(heard.recv()).is_none(), "it has ended");
    }

    #[test]
    fn a_future_that_yields_in_its_first_step_goes_on() {
        let runtime = runtime();
        let (told, mut heard) = mpsc::unbounded_channel();
        {
            let _within = runtime.enter();
            spawn_begun(async move {
                tokio::task::yield_now().await;
                let _ = told.send(here());
            });
        }
        assert_ne!(runtime.block_on(heard.recv()).expect("the rest"), here());
    }

    #[test]
    fn a_panic_in_the_first_step_drops_the_future() {
        let runtime = runtime();
        let _within = runtime.enter();
        let (held, dropped) = oneshot::channel::<()>();
        spawn_begun(async move {
            let _held = held;
            panic!("a bug");
        });
        assert!(runtime.block_on(dropped).is_err());
    }

    #[test]
    fn the_end_of_the_runtime_drops_a_future_that_waits_for_a_descriptor_or_a_timer() {
        let (held, dropped) = oneshot::channel::<()>();
        let (also_held, also_dropped) = oneshot::channel::<()>();
        let runtime = runtime();
        {
            let _within = runtime.enter();
            spawn_begun(async move {
                let _held = held;
                tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
            });
            spawn_begun(async move {
                let _held = also_held;
                let (ours, _theirs) = tokio::net::UnixStream::pair().expect("a pair");
                let _ = ours.readable().await;
            });
        }
        drop(runtime);
        assert!(dropped.blocking_recv().is_err());
        assert!(also_dropped.blocking_recv().is_err());
    }
}
