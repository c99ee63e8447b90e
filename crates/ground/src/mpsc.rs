//! tokio's mpsc channels, with receivers that leave no message behind.
//!
//! A sender of tokio counts its message before it puts it into the queue. A receiver that is dropped in between does not see
//! the message, and it stays in the queue as long as a sender lives. If the message holds the sender of an answer, whoever waits
//! for that answer waits for ever. The receivers here wait for such messages, which is a matter of microseconds, and drop them.
//! clippy.toml forbids tokio's own constructors.

use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::coop::unconstrained;

pub use tokio::sync::mpsc::error;
pub use tokio::sync::mpsc::{Sender, UnboundedSender, WeakSender, WeakUnboundedSender};

/// The longest wait for messages at the end of a receiver. A sender may hold a place in the queue that it never uses.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

pub type Receiver<T> = Drained<mpsc::Receiver<T>>;
pub type UnboundedReceiver<T> = Drained<mpsc::UnboundedReceiver<T>>;

#[expect(clippy::disallowed_methods, reason = "its receiver is wrapped here")]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel(capacity);
    (sender, Drained(receiver))
}

#[expect(clippy::disallowed_methods, reason = "its receiver is wrapped here")]
pub fn unbounded_channel<T>() -> (UnboundedSender<T>, UnboundedReceiver<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Drained(receiver))
}

/// The common part of the two receivers of tokio.
pub trait Receive {
    fn close(&mut self);
    /// Drops the next message; false when none can come any more.
    fn drop_next(&mut self) -> impl Future<Output = bool>;
}

impl<T> Receive for mpsc::UnboundedReceiver<T> {
    fn close(&mut self) {
        mpsc::UnboundedReceiver::close(self);
    }

    async fn drop_next(&mut self) -> bool {
        self.recv().await.is_some()
    }
}

impl<T> Receive for mpsc::Receiver<T> {
    fn close(&mut self) {
        mpsc::Receiver::close(self);
    }

    async fn drop_next(&mut self) -> bool {
        self.recv().await.is_some()
    }
}

/// A receiver that takes all that was sent to it along when it is dropped.
#[derive(Debug)]
pub struct Drained<R: Receive>(R);

impl<R: Receive> Deref for Drained<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.0
    }
}

impl<R: Receive> DerefMut for Drained<R> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.0
    }
}

impl<R: Receive> Drop for Drained<R> {
    fn drop(&mut self) {
        self.0.close();
        let begun = Instant::now();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match pin!(unconstrained(self.0.drop_next())).as_mut().poll(&mut context) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return,
                Poll::Pending if begun.elapsed() > LONGEST_WAIT => return,
                Poll::Pending => std::thread::yield_now(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Senders and the end of the receiver, at the same time, many times; each message that was sent is dropped although its
    /// sender lives on.
    #[test]
    fn no_message_stays_behind() {
        let kept: Vec<_> = (0..20_000)
            .map(|_| {
                let (sender, receiver) = unbounded_channel();
                let message = Arc::new(());
                let sent = message.clone();
                let ending = std::thread::spawn(move || drop(receiver));
                let _ = sender.send(sent);
                ending.join().unwrap();
                (sender, message)
            })
            .filter(|(_, message)| Arc::strong_count(message) > 1)
            .collect();
        assert_eq!(kept.len(), 0);
    }

    #[test]
    fn what_is_in_the_queue_is_dropped() {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let dropped = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = channel(400);
        for _ in 0..300 {
            assert!(sender.try_send(Counted(dropped.clone())).is_ok());
        }
        drop(receiver);
        assert_eq!(dropped.load(Ordering::Relaxed), 300);
    }

    #[test]
    fn a_place_that_is_never_used_is_waited_for_a_moment_only() {
        let (sender, receiver) = channel::<()>(1);
        let place = sender.try_reserve().unwrap();
        let begun = Instant::now();
        drop(receiver);
        assert!(begun.elapsed() >= LONGEST_WAIT);
        drop(place);
    }
}
