//! A receiver whose messages never stay behind.
//!
//! A sender of tokio counts its message before it puts it into the queue. A receiver that is dropped in between does not see
//! the message, and it stays in the queue as long as a sender lives. Whoever waits for an answer that is in the message would
//! wait for ever. [`Mailbox`] waits for such messages, which is a matter of microseconds, and drops them.

use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use tokio::task::coop::unconstrained;

/// A sender may hold a place in the queue that it never uses; it is not waited for any longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The common part of the two receivers of tokio.
pub trait Receive {
    fn close(&mut self);
    /// Drops the next message; false when none can come any more.
    fn drop_next(&mut self) -> impl Future<Output = bool>;
}

impl<T> Receive for UnboundedReceiver<T> {
    fn close(&mut self) {
        UnboundedReceiver::close(self);
    }

    async fn drop_next(&mut self) -> bool {
        self.recv().await.is_some()
    }
}

impl<T> Receive for Receiver<T> {
    fn close(&mut self) {
        Receiver::close(self);
    }

    async fn drop_next(&mut self) -> bool {
        self.recv().await.is_some()
    }
}

/// A receiver that takes all that was sent to it along when it is dropped.
#[derive(Debug)]
pub struct Mailbox<R: Receive>(R);

impl<R: Receive> Mailbox<R> {
    pub fn new(receiver: R) -> Self {
        Mailbox(receiver)
    }
}

impl<R: Receive> Deref for Mailbox<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.0
    }
}

impl<R: Receive> DerefMut for Mailbox<R> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.0
    }
}

impl<R: Receive> Drop for Mailbox<R> {
    fn drop(&mut self) {
        self.0.close();
        let begun = Instant::now();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match pin!(unconstrained(self.0.drop_next())).as_mut().poll(&mut context) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return,
                Poll::Pending if begun.elapsed() > PATIENCE => return,
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
    use tokio::sync::mpsc::{channel, unbounded_channel};

    /// Senders and the end of the receiver, at the same time, many times; each message that was sent is dropped although its
    /// sender lives on.
    #[test]
    fn no_message_stays_behind() {
        let kept: Vec<_> = (0..20_000)
            .map(|_| {
                let (sender, receiver) = unbounded_channel();
                let receiver = Mailbox::new(receiver);
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
        drop(Mailbox::new(receiver));
        assert_eq!(dropped.load(Ordering::Relaxed), 300);
    }

    #[test]
    fn a_place_that_is_never_used_is_waited_for_a_moment_only() {
        let (sender, receiver) = channel::<()>(1);
        let place = sender.try_reserve().unwrap();
        let begun = Instant::now();
        drop(Mailbox::new(receiver));
        assert!(begun.elapsed() >= PATIENCE);
        drop(place);
    }
}
