//! Back-pressure by weight: how much of what was passed on its reader has not taken.

use crate::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use futures_util::task::AtomicWaker;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// The weight that was passed on and not yet taken by the reader. The limit is soft: one item may exceed it.
#[derive(Debug)]
pub struct Window {
    limit: usize,
    used: AtomicUsize,
    waker: AtomicWaker,
}

impl Window {
    pub fn new(limit: usize) -> Self {
        Window { limit, used: AtomicUsize::new(0), waker: AtomicWaker::new() }
    }

    pub fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::AcqRel);
    }

    /// The reader has taken so many bytes.
    pub fn release(&self, bytes: usize) {
        // Saturating: a reader that releases too much must not wrap the count.
        let _ = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| Some(used.saturating_sub(bytes)));
        self.waker.wake();
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    pub fn has_room(&self) -> bool {
        self.used() < self.limit
    }

    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        self.waker.register(context.waker());
        // Checked again: room may have come between the first check and the registration.
        if self.has_room() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A queue between two tasks whose sender learns from its window when the reader is behind.
pub fn weighed<T>(limit: usize) -> (WeighedSender<T>, WeighedReceiver<T>) {
    let (sender, items) = unbounded_channel();
    let window = Arc::new(Window::new(limit));
    (WeighedSender { items: Some(sender), window: window.clone() }, WeighedReceiver { items, window })
}

/// Dropping it, and its clones, is the end of the queue.
pub struct WeighedSender<T> {
    items: Option<UnboundedSender<(T, usize)>>,
    pub window: Arc<Window>,
}

impl<T> WeighedSender<T> {
    /// Does nothing when the reader is gone.
    pub fn send(&self, item: T, weight: usize) {
        let Some(items) = &self.items else { return };
        self.window.take(weight);
        if items.send((item, weight)).is_err() {
            self.window.release(weight);
        }
    }

    /// Nothing more comes.
    pub fn end(&mut self) {
        self.items = None;
    }

    pub fn is_gone(&self) -> bool {
        self.items.as_ref().is_none_or(UnboundedSender::is_closed)
    }
}

impl<T> Clone for WeighedSender<T> {
    fn clone(&self) -> Self {
        WeighedSender { items: self.items.clone(), window: Arc::clone(&self.window) }
    }
}

/// Dropping it means that nobody reads any more: the window stays open.
pub struct WeighedReceiver<T> {
    items: UnboundedReceiver<(T, usize)>,
    window: Arc<Window>,
}

impl<T> WeighedReceiver<T> {
    /// The next item; `None` after the last. Taking it makes room.
    pub async fn next(&mut self) -> Option<T> {
        let (item, weight) = self.items.recv().await?;
        self.window.release(weight);
        Some(item)
    }

    /// The next item, if there is one already.
    pub fn next_now(&mut self) -> Option<T> {
        let (item, weight) = self.items.try_recv().ok()?;
        self.window.release(weight);
        Some(item)
    }
}

impl<T> Drop for WeighedReceiver<T> {
    fn drop(&mut self) {
        self.items.close();
        self.window.release(usize::MAX);
    }
}
