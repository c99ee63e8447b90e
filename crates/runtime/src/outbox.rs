//! The outgoing frames of one end that the peer does not have yet: a bounded, numbered queue between the producers and the
//! socket's writer.
//!
//! A peer that does not resume gets each frame once. A peer that resumes gets a frame again until it has acknowledged it, over as
//! many sockets as needed. Streams wait for room in the queue; the few replies of the protocol itself do not wait.
//!
//! The state of the requests is guarded by the same lock, so that checking whether a message may still be sent and queueing it
//! are one step. The guarantee "exactly one terminal message, nothing after it" depends on this.

use super::request_state::{RequestNumber, RequestState};
use super::wire::frame::Body;
use ground::lock::lock;
use ground::task::found;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Bytes queued for a peer that does not resume, before streams have to wait.
const PLAIN_WINDOW: usize = 1 << 20;
/// Unacknowledged bytes of a peer that resumes, before streams have to wait.
const RESUMABLE_WINDOW: usize = 4 << 20;
/// Room beyond the window for replies that do not wait. The server stops reading from a peer that causes more replies without
/// reading them.
const HEADROOM: usize = 1 << 20;
/// Bytes that a resuming peer may leave unacknowledged even when it reads them.
const MAX_UNACKNOWLEDGED: usize = 16 << 20;

/// The right to stream for one request, until that request has an outcome.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub number: RequestNumber,
    /// Id that every message of the request carries.
    pub request_id: Arc<str>,
}

/// The writer's next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    Frame(Utf8Bytes),
    /// Acknowledge the peer's frames up to this number.
    Acknowledge(u64),
    /// Everything has been sent.
    Ended,
    /// Another socket has taken over.
    Moved,
}

#[derive(Debug, Default)]
pub struct Outbox {
    state: Mutex<State>,
    /// Wakes streams that wait for room.
    room: Notify,
    /// Wakes the writer.
    work: Notify,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<(u64, Utf8Bytes)>,
    bytes: usize,
    /// Bytes of those frames that the current socket has not been given.
    waiting_bytes: usize,
    last_seq: u64,
    /// Number of the last frame that the current socket was given.
    given: u64,
    /// Number of the last frame that is no longer kept.
    dropped: u64,
    resumable: bool,
    socket: u64,
    acknowledge: Option<u64>,
    closed: bool,
    requests: RequestState,
    request_id: Option<Arc<str>>,
}

impl State {
    fn window(&self) -> usize {
        if self.resumable { RESUMABLE_WINDOW } else { PLAIN_WINDOW }
    }

    fn push(&mut self, body: Body, request_id: Option<&str>) {
        if self.closed {
            return;
        }
        self.last_seq += 1;
        let frame = Utf8Bytes::from(body.into_frame(request_id, self.last_seq));
        self.bytes += frame.len();
        self.waiting_bytes += frame.len();
        self.frames.push_back((self.last_seq, frame));
    }

    fn drop_through(&mut self, seq: u64) {
        while let Some((first, frame)) = self.frames.front() {
            if *first > seq {
                break;
            }
            self.dropped = *first;
            self.bytes -= frame.len();
            if *first > self.given {
                self.waiting_bytes -= frame.len();
            }
            self.frames.pop_front();
        }
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Queues a message of the protocol itself. Never waits.
    pub fn push(&self, body: Body) {
        self.lock().push(body, None);
        self.work.notify_one();
    }

    /// Does the same as [`Outbox::push`], with the id of the request in flight, if there is one.
    pub fn push_tagged(&self, body: Body) {
        let mut state = self.lock();
        let request_id = state.requests.in_flight().and_then(|_| state.request_id.clone());
        state.push(body, request_id.as_deref());
        self.work.notify_one();
    }

    /// Begins a request, unless one is in flight.
    pub fn begin(&self, request_id: Arc<str>) -> Option<Ticket> {
        let mut state = self.lock();
        let number = state.requests.begin()?;
        state.request_id = Some(request_id.clone());
        Some(Ticket { number, request_id })
    }

    /// Queues a message about a request in flight that is not part of its stream: a heartbeat.
    pub fn push_for(&self, ticket: &Ticket, body: Body) {
        let mut state = self.lock();
        if state.requests.in_flight() == Some(ticket.number) {
            state.push(body, Some(&ticket.request_id));
            self.work.notify_one();
        }
    }

    /// Queues a message of a request's stream; waits for room. False when the stream has ended: the request's outcome is known,
    /// or the outbox has no reader any more.
    pub async fn stream(&self, ticket: &Ticket, body: Body) -> bool {
        let mut body = Some(body);
        let look = || {
            let mut state = self.lock();
            if state.closed || !state.requests.admits(ticket.number) {
                return Some(false);
            }
            if state.bytes >= state.window() {
                return None;
            }
            state.push(body.take()?, Some(&ticket.request_id));
            self.work.notify_one();
            Some(true)
        };
        found(&self.room, look).await
    }

    /// Ends a request's stream because its outcome is known. False when another outcome came first.
    pub fn decide(&self, number: RequestNumber) -> bool {
        let first = self.lock().requests.decide(number);
        self.room.notify_waiters();
        first
    }

    /// Queues the terminal message of a request. False when the request has had one.
    pub fn finish(&self, ticket: &Ticket, terminal: Body) -> bool {
        let mut state = self.lock();
        let first = state.requests.finish(ticket.number);
        if first {
            state.push(terminal, Some(&ticket.request_id));
            self.work.notify_one();
        }
        drop(state);
        self.room.notify_waiters();
        first
    }

    pub fn in_flight(&self) -> Option<RequestNumber> {
        self.lock().requests.in_flight()
    }

    /// The peer acknowledges and resumes: frames are kept from now on until they are acknowledged.
    pub fn make_resumable(&self) {
        self.lock().resumable = true;
    }

    /// The peer neither acknowledges nor resumes: frames are dropped once they were given to the socket.
    pub fn make_plain(&self) {
        let mut state = self.lock();
        state.resumable = false;
        let given = state.given;
        state.drop_through(given);
        drop(state);
        self.room.notify_waiters();
    }

    /// Begins the next socket, after the last frame that its peer has. Returns the socket's number, or `None` when frames that
    /// the peer misses are gone.
    pub fn open_socket(&self, peer_received: u64) -> Option<u64> {
        let mut state = self.lock();
        if peer_received < state.dropped || peer_received > state.last_seq {
            return None;
        }
        state.drop_through(peer_received);
        if state.bytes > MAX_UNACKNOWLEDGED {
            return None;
        }
        state.given = peer_received;
        state.waiting_bytes = state.bytes;
        state.socket += 1;
        let socket = state.socket;
        drop(state);
        // Wakes the old socket's writer, so that it ends. The new writer checks the queue before it waits.
        self.work.notify_one();
        self.room.notify_waiters();
        Some(socket)
    }

    /// The socket can't be used any more: its writer ends.
    pub fn abandon_socket(&self) {
        self.lock().socket += 1;
        self.work.notify_one();
    }

    /// Lets the writer acknowledge the frames up to this number.
    pub fn acknowledge(&self, received: u64) {
        self.lock().acknowledge = Some(received);
        self.work.notify_one();
    }

    /// The peer has read the frames up to this number.
    pub fn acknowledged(&self, seq: u64) {
        let mut state = self.lock();
        if state.resumable {
            let seq = seq.min(state.last_seq);
            state.drop_through(seq);
        }
        drop(state);
        self.room.notify_waiters();
    }

    /// Waits for the writer's next action on a socket.
    pub async fn next(&self, socket: u64) -> Outgoing {
        loop {
            if let Some(next) = self.try_next(socket) {
                return next;
            }
            self.work.notified().await;
        }
    }

    /// The same as [`Outbox::next`], but `None` instead of waiting.
    pub fn try_next(&self, socket: u64) -> Option<Outgoing> {
        let mut state = self.lock();
        if state.socket != socket {
            // The wake-up may have been meant for the new socket's writer, so it is passed on.
            self.work.notify_one();
            return Some(Outgoing::Moved);
        }
        if let Some(received) = state.acknowledge.take() {
            return Some(Outgoing::Acknowledge(received));
        }
        let given = state.given;
        // Frame numbers have no gaps, so the next frame's position follows from its number.
        let at = usize::try_from(given.saturating_sub(state.dropped)).unwrap_or(usize::MAX);
        if let Some((seq, frame)) = state.frames.get(at).cloned() {
            state.given = seq;
            state.waiting_bytes -= frame.len();
            if !state.resumable {
                state.drop_through(seq);
            }
            drop(state);
            self.room.notify_waiters();
            return Some(Outgoing::Frame(frame));
        }
        state.closed.then_some(Outgoing::Ended)
    }

    /// Waits until the peer has taken enough for reading from it to continue. Frames that it was given do not count, because its
    /// acknowledgements are among the frames to be read. False when the peer leaves too much unacknowledged.
    pub async fn may_listen(&self) -> bool {
        let look = || {
            let state = self.lock();
            if state.bytes > MAX_UNACKNOWLEDGED && !state.closed {
                return Some(false);
            }
            (state.closed || state.waiting_bytes <= state.window() + HEADROOM).then_some(true)
        };
        found(&self.room, look).await
    }

    /// Whether a stream could send without waiting.
    pub fn has_room(&self) -> bool {
        let state = self.lock();
        state.bytes < state.window()
    }

    /// Number of the last frame that need not be kept: a resuming peer has acknowledged it.
    pub fn acknowledged_through(&self) -> u64 {
        self.lock().dropped
    }

    /// Whether everything has been sent and acknowledged.
    pub fn is_empty(&self) -> bool {
        self.lock().frames.is_empty()
    }

    /// Whether the writer has nothing to send.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.given == state.last_seq
    }

    /// Ends the queue. Frames that are queued are still sent.
    pub fn close(&self) {
        self.lock().closed = true;
        self.work.notify_one();
        self.room.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::reply;
    use super::super::wire::runtime_message::OutputStream;
    use super::*;

    fn frame(outgoing: Option<Outgoing>) -> u64 {
        match outgoing {
            Some(Outgoing::Frame(frame)) => {
                ground::json::read::<serde_json::Value>(&frame).unwrap()["seq"].as_u64().unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_plain_peer_is_given_each_frame_once() {
        let outbox = Outbox::default();
        let socket = outbox.open_socket(0).unwrap();
        outbox.push(reply::heartbeat(1));
        outbox.push(reply::heartbeat(2));
        assert_eq!(frame(outbox.try_next(socket)), 1);
        assert_eq!(frame(outbox.try_next(socket)), 2);
        assert_eq!(outbox.try_next(socket), None);
        assert!(outbox.is_empty());
        assert_eq!(outbox.open_socket(0), None, "what is gone can't be resumed");
    }

    #[test]
    fn a_peer_that_turns_out_to_be_plain_leaves_nothing_to_keep() {
        let outbox = Outbox::default();
        outbox.make_resumable();
        let socket = outbox.open_socket(0).unwrap();
        (0..3).for_each(|number| outbox.push(reply::heartbeat(number)));
        assert_eq!((frame(outbox.try_next(socket)), frame(outbox.try_next(socket))), (1, 2));
        outbox.make_plain();
        assert!(!outbox.is_empty(), "the third frame was not sent yet");
        assert_eq!(frame(outbox.try_next(socket)), 3);
        assert!(outbox.is_empty());
        assert_eq!(outbox.open_socket(0), None, "what is gone can't be resumed");
    }

    #[test]
    fn rule_16_a_resuming_peer_is_given_what_it_misses() {
        let outbox = Outbox::default();
        outbox.make_resumable();
        let first = outbox.open_socket(0).unwrap();
        (0..5).for_each(|number| outbox.push(reply::heartbeat(number)));
        (1..=5).for_each(|seq| assert_eq!(frame(outbox.try_next(first)), seq));
        outbox.acknowledged(2);
        let second = outbox.open_socket(3).unwrap();
        assert_eq!(
            outbox.try_next(first),
            Some(Outgoing::Moved),
            "the old writer takes nothing from the new one"
        );
        assert_eq!(frame(outbox.try_next(second)), 4);
        assert_eq!(outbox.open_socket(2), None, "acknowledged frames are gone");
        assert_eq!(outbox.open_socket(6), None, "nobody can have read what was not said");
        outbox.acknowledged(99);
        assert!(outbox.is_empty());
    }

    #[tokio::test]
    async fn rule_14_what_a_peer_was_given_keeps_nobody_from_listening_to_it() {
        let outbox = Outbox::default();
        outbox.make_resumable();
        let socket = outbox.open_socket(0).unwrap();
        let mut metadata = serde_json::Map::new();
        metadata.insert("x".into(), "x".repeat(200 << 10).into());
        let large = reply::error("x", metadata);
        (0..40).for_each(|_| outbox.push(large.clone()));
        let listening = tokio::time::timeout(std::time::Duration::from_millis(50), outbox.may_listen()).await;
        assert!(listening.is_err(), "8 MB wait: it is to read first");
        while outbox.try_next(socket).is_some() {}
        assert!(outbox.may_listen().await, "it has them: its acknowledgement is what we wait for");
        (0..60).for_each(|_| outbox.push(large.clone()));
        assert!(!outbox.may_listen().await, "20 MB that it does not acknowledge");
        assert_eq!(outbox.open_socket(0), None);
        assert!(outbox.open_socket(40).is_some());
    }

    #[tokio::test]
    async fn rule_2_after_the_outcome_nothing_is_streamed_and_one_terminal_goes_out() {
        let outbox = Outbox::default();
        let ticket = outbox.begin("id".into()).unwrap();
        assert!(outbox.stream(&ticket, reply::heartbeat(1)).await);
        assert!(outbox.decide(ticket.number));
        assert!(!outbox.stream(&ticket, reply::heartbeat(2)).await);
        assert!(outbox.begin("other".into()).is_none());
        assert!(outbox.finish(&ticket, reply::error("x", Default::default())));
        assert!(!outbox.finish(&ticket, reply::error("y", Default::default())));
        outbox.push_for(&ticket, reply::heartbeat(3));
        let socket = outbox.open_socket(0).unwrap();
        assert_eq!((frame(outbox.try_next(socket)), frame(outbox.try_next(socket))), (1, 2));
        assert_eq!(outbox.try_next(socket), None);
    }

    #[tokio::test]
    async fn rule_14_who_streams_waits_until_the_peer_reads() {
        let outbox = Arc::new(Outbox::default());
        let socket = outbox.open_socket(0).unwrap();
        let ticket = outbox.begin("id".into()).unwrap();
        let text = "x".repeat(300 << 10);
        let speaker = {
            let outbox = outbox.clone();
            ground::task::spawn(async move {
                let mut said = 0;
                for _ in 0..50 {
                    for body in reply::command_output(OutputStream::Stdout, "c", &text) {
                        said += usize::from(outbox.stream(&ticket, body).await);
                    }
                }
                said
            })
        };
        while outbox.lock().bytes < PLAIN_WINDOW {
            tokio::task::yield_now().await;
        }
        assert!(outbox.lock().bytes < PLAIN_WINDOW + (256 << 10), "bounded");
        let mut read = 0;
        while read < 100 {
            assert_eq!(frame(Some(outbox.next(socket).await)), read + 1);
            read += 1;
        }
        assert_eq!(speaker.await.unwrap(), 100);
    }
}
