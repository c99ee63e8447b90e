//! The state that a connection's handle and tasks share: requests in flight, and frames to write.

use super::completion::Completion;
use super::message::{NO_ID, Refusal};
use super::wire::Wire;
use bytes::{Bytes, BytesMut};
use ground::error::{Error, ErrorCode};
use ground::lock::lock;
use ground::os::Awake;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio_util::time::{DelayQueue, delay_queue};

/// Identifies a request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(pub(super) u64);

pub(super) struct PendingCall {
    pub method: String,
    pub timeout: Option<Duration>,
    pub complete: Completion,
    deadline: Option<delay_queue::Key>,
    /// Since it was sent. A limit does not count the time for which this process was stopped.
    awake: Option<Awake>,
}

#[derive(Default)]
pub(super) struct State {
    next_id: u64,
    pending: HashMap<u64, PendingCall>,
    deadlines: DelayQueue<u64>,
    outgoing: VecDeque<Bytes>,
    pub outgoing_bytes: usize,
    pub closed: Option<Error>,
}

pub(super) struct Connected {
    state: Mutex<State>,
    pub wire: Wire,
    /// Requests may be made on any thread, but their timeouts need tokio's timer.
    runtime: Handle,
    // The tasks hold these without holding the connection alive.
    /// A frame is ready to be written.
    pub to_write: Arc<Notify>,
    /// The sink failed.
    pub write_failed: Arc<Notify>,
    /// Becomes true at the end. Its receivers also notice when the last handle is dropped.
    pub ended: watch::Sender<bool>,
}

impl State {
    /// Most bytes that may wait for a peer that does not read: 128 MiB. Beyond it, requests fail.
    const MAX_OUTGOING: usize = 128 << 20;
    /// Longest timeout: a year. Longer ones are reduced to it, because the timer can't hold them.
    const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    pub(super) fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    pub(super) fn enqueue(&mut self, frame: Bytes) -> Result<(), Error> {
        if self.outgoing_bytes > 0 && self.outgoing_bytes + frame.len() > Self::MAX_OUTGOING {
            let message = format!("the peer does not read: {} bytes wait for it", self.outgoing_bytes);
            return Err(Error::new(ErrorCode::ConnectionLost, message));
        }
        self.outgoing_bytes += frame.len();
        self.outgoing.push_back(frame);
        Ok(())
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<PendingCall> {
        let pending = self.pending.remove(&id)?;
        if let Some(deadline) = &pending.deadline {
            self.deadlines.try_remove(deadline);
        }
        Some(pending)
    }

    /// The id of the request in flight, if there is exactly one.
    fn only(&self) -> Option<u64> {
        let mut ids = self.pending.keys();
        ids.next().copied().filter(|_| ids.next().is_none())
    }

    pub(super) fn count(&self) -> usize {
        self.pending.len()
    }
}

impl Connected {
    /// Small frames are joined into one write up to this size.
    const WRITE_TOGETHER: usize = 64 << 10;

    /// Must be called within tokio.
    pub(super) fn new(wire: Wire) -> Self {
        Connected {
            state: Mutex::default(),
            wire,
            runtime: Handle::current(),
            to_write: Arc::default(),
            write_failed: Arc::default(),
            ended: watch::Sender::new(false),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn insert(
        &self,
        state: &mut State,
        id: u64,
        method: &str,
        timeout: Option<Duration>,
        complete: Completion,
    ) {
        let deadline = timeout.filter(|timeout| *timeout <= State::MAX_TIMEOUT).map(|timeout| {
            let _entered = self.runtime.enter();
            state.deadlines.insert(id, timeout)
        });
        let awake = deadline.is_some().then(|| {
            let _entered = self.runtime.enter();
            Awake::new()
        });
        let method = method.to_owned();
        state.pending.insert(id, PendingCall { method, timeout, complete, deadline, awake });
    }

    /// Takes the first overdue request.
    pub(super) fn poll_overdue(&self, context: &mut Context<'_>) -> Poll<PendingCall> {
        let mut state = self.lock();
        while let Poll::Ready(Some(expired)) = state.deadlines.poll_expired(context) {
            let (id, state) = (expired.into_inner(), &mut *state);
            if let Some(call) = state.pending.get_mut(&id)
                && let Some(awake) = &mut call.awake
                && let (_, gap) = awake.tick()
                && !gap.is_zero()
            {
                call.deadline = Some(state.deadlines.insert(id, gap));
                continue;
            }
            if let Some(overdue) = state.pending.remove(&id) {
                return Poll::Ready(overdue);
            }
        }
        // An empty queue wakes the task when a request is added.
        Poll::Pending
    }

    /// Settles the request that a reply names, or the only one if an error names none. False when there is no such request.
    pub(super) fn settle(&self, id: &str, result: Result<&str, Refusal>) -> bool {
        let mut state = self.lock();
        let id = match id {
            NO_ID => state.only(),
            // Some write 7 as 7.0.
            id => id.strip_suffix(".0").unwrap_or(id).parse::<u64>().ok(),
        };
        let Some(pending) = id.and_then(|id| state.remove(id)) else { return false };
        drop(state);
        let PendingCall { method, complete, .. } = pending;
        complete.settle(result.map_err(|refusal| refusal.into_error(&method)));
        true
    }

    /// All pending and later requests fail with `error`. Only the first call has an effect.
    pub(super) fn close(&self, error: &Error) {
        let mut state = self.lock();
        if state.closed.is_some() {
            return;
        }
        state.closed = Some(error.clone());
        state.deadlines.clear();
        state.outgoing.clear();
        let mut pending: Vec<(u64, PendingCall)> = state.pending.drain().collect();
        drop(state);
        pending.sort_by_key(|(id, _)| *id);
        for (_, pending) in pending {
            pending.complete.settle(Err(error.clone()));
        }
        self.ended.send_replace(true);
    }

    /// Takes the frames that are written together.
    pub(super) fn take_frames(&self) -> Option<Bytes> {
        let mut state = self.lock();
        let first = state.outgoing.pop_front()?;
        let mut together: Option<BytesMut> = None;
        while let Some(next) = state.outgoing.front() {
            let size = together.as_ref().map_or(first.len(), BytesMut::len);
            if size + next.len() > Self::WRITE_TOGETHER {
                break;
            }
            let buffer = together.get_or_insert_with(|| BytesMut::from(first.as_ref()));
            buffer.extend_from_slice(next);
            state.outgoing.pop_front();
        }
        Some(together.map_or(first, BytesMut::freeze))
    }
}

/// The error of a request that timed out.
pub(super) fn timed_out(method: &str, limit: Duration) -> Error {
    let after = limit.as_millis() as u64;
    Error::new(ErrorCode::ConnectionTimedOut, format!("{method} was not answered within {after} ms"))
        .with("method", method)
        .with("timeoutMs", after)
}

/// Each task holds one. When a task ends, by a panic or because its executor is gone, dropping it ends the connection.
pub(super) struct CloseOnDrop {
    pub connected: Weak<Connected>,
    pub task: &'static str,
}

impl CloseOnDrop {
    pub(super) fn disarm(mut self) {
        self.connected = Weak::new();
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let Some(connected) = self.connected.upgrade() else { return };
        let message =
            format!("Connection is closed: its {} ended before it. Start the client again", self.task);
        connected.close(&Error::new(ErrorCode::ConnectionLost, message));
    }
}
