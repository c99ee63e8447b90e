//! The fence of a sandbox: the host decides about each connection of the tree, and makes it itself.
//!
//! The sandbox's filter asks about connect(2), and with `hosts` about bind(2) and listen(2). The kernel stops the calling thread and
//! queues a [`notice`]. One task reads the notices and hands each to a thread that may block ([`answer`]), because a connection may wait.
//! That thread reads the address once, takes the program's socket by its pidfd, and makes the call with its own copy of the address. So
//! a second thread of the program that changes the address meanwhile changes nothing.
//!
//! A tree has [`threads`] of its own, at most [`AT_ONCE`]. They have the program's [`rights`] to files, not this process's.
//!
//! Only this process holds the listener. When it ends, or the fence is dropped with its run, every call that waits and every later one
//! fails: closed, not open. A program that this process may not look at (it is undumpable) is refused.
//!
//! [`rules`] and [`address`] decide, and are PURE. [`listeners`] knows which servers are the tree's own.
#![cfg(target_os = "linux")]

mod address;
mod answer;
mod listeners;
mod notice;
mod rights;
mod rules;
mod support;
mod threads;

pub(crate) use rules::{Rules, Tcp};
pub(crate) use support::can_decide;

use crate::traffic::Traffic;
use listeners::Listeners;
use notice::Listener;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use threads::Threads;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Semaphore, oneshot};

/// Calls of one tree that are answered at once, each on a thread of the tree's own. A program that fills them with connections that hang
/// keeps itself waiting alone.
const AT_ONCE: usize = 8;

/// Decides about a tree's connections until it is dropped.
#[derive(Debug)]
pub(crate) struct Fence {
    _alive: oneshot::Sender<()>,
}

impl Fence {
    /// Needs tokio.
    pub(crate) fn start(listener: OwnedFd, rules: Rules, traffic: &Traffic) -> io::Result<Fence> {
        let listener = Listener::new(listener);
        let Traffic { refusals, callers, .. } = traffic.clone();
        let listeners = Listeners::default();
        let fence = Arc::new(answer::Fence { listener, rules, listeners, refusals, callers });
        // SAFETY: the descriptor is owned by the fence, which what is registered holds, and stays the same for its lifetime.
        let ready = unsafe { AsyncFd::register(Waiting(fence.clone())) }.map_err(io::Error::from)?;
        let (alive, mut ended) = oneshot::channel();
        ground::task::spawn(async move {
            tokio::select! {
                _ = &mut ended => {}
                () = serve(&fence, &ready) => {}
            }
        });
        Ok(Fence { _alive: alive })
    }
}

/// The listener as tokio waits for it.
struct Waiting(Arc<answer::Fence>);

impl std::os::fd::AsRawFd for Waiting {
    fn as_raw_fd(&self) -> i32 {
        self.0.listener.as_raw_fd()
    }
}

async fn serve(fence: &Arc<answer::Fence>, ready: &AsyncFd<Waiting>) {
    let (places, threads) = (Arc::new(Semaphore::new(AT_ONCE)), Threads::new(AT_ONCE));
    loop {
        let Ok(mut readiness) = ready.readable().await else { return };
        loop {
            // A place first: a notice that was taken out must be answered.
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match fence.listener.next() {
                Ok(Some(notice)) => threads.answer(fence, notice, place),
                Ok(None) => break,
                // The last process is gone.
                Err(_) => return,
            }
        }
        readiness.clear_ready();
    }
}
