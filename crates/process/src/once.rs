//! A value that is set once, for those who await it and for those who want to be called.

use ground::lock::lock;
use ground::task::found;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

type Listener<T> = Box<dyn FnOnce(T) + Send>;

/// Cloneable; all clones are the same value.
pub(super) struct Once<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    is_set: Notify,
}

enum State<T> {
    Unset(Vec<Listener<T>>),
    Set(T),
}

impl<T> Clone for Once<T> {
    fn clone(&self) -> Self {
        Once(self.0.clone())
    }
}

impl<T: Clone> Once<T> {
    pub(super) fn new() -> Self {
        Once(Arc::new(Shared { state: Mutex::new(State::Unset(Vec::new())), is_set: Notify::new() }))
    }

    /// The first value stays.
    pub(super) fn set(&self, value: T) {
        let listeners = match &mut *lock(&self.0.state) {
            State::Set(_) => return,
            state => std::mem::replace(state, State::Set(value.clone())),
        };
        self.0.is_set.notify_waiters();
        // Not under the lock: a listener may ask for the value.
        if let State::Unset(listeners) = listeners {
            for listener in listeners {
                listener(value.clone());
            }
        }
    }

    pub(super) fn get(&self) -> Option<T> {
        match &*lock(&self.0.state) {
            State::Set(value) => Some(value.clone()),
            State::Unset(_) => None,
        }
    }

    /// Waits for the value.
    pub(super) async fn wait(&self) -> T {
        found(&self.0.is_set, || self.get()).await
    }

    /// Calls the listener with the value, by the thread that sets it; at once if it is set.
    pub(super) fn listen(&self, listener: impl FnOnce(T) + Send + 'static) {
        let value = match &mut *lock(&self.0.state) {
            State::Unset(listeners) => {
                listeners.push(Box::new(listener));
                return;
            }
            State::Set(value) => value.clone(),
        };
        listener(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn the_first_value_reaches_all_who_wait_and_all_who_listen() {
        let once = Once::new();
        let waiting = ground::task::spawn({
            let once = once.clone();
            async move { once.wait().await }
        });
        tokio::task::yield_now().await;
        let (told, heard) = mpsc::channel();
        let listen = || {
            let told = told.clone();
            once.listen(move |value| told.send(value).expect("a listener"));
        };
        listen();
        assert_eq!(once.get(), None);
        once.set(1);
        once.set(2);
        listen();
        assert_eq!(waiting.await.expect("a value"), 1);
        assert_eq!((once.get(), once.wait().await), (Some(1), 1));
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [1, 1]);
    }
}
