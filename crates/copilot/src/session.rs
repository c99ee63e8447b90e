//! A session: its event filter, its ordered sends, and the turns that wait.
//!
//! State is changed under one short lock per session: by the reader (events), by the host (sends), and by one task per turn that
//! wakes for its clocks. The lock is never held across a call into the connection.

use super::outbox::{Filter, Outbox};
use super::request_timeout::request_timeout;
use super::runtime_wait::{METHOD as SEND_AND_WAIT, Replied, Support};
use super::session_event::{EventHead, TurnEvent};
use super::session_state::{Send, SessionState};
use super::tracked_turn::TurnEnd;
use super::turn_handle::{TurnHandle, TurnKind};
use super::turn_state::shut_down;
use ground::error::Error;
use ground::lock::lock;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wires::jsonrpc::{Client, Completion};

/// One session, which exists as long as a handle does.
pub struct Session {
    pub id: String,
    /// The number by which the host knows the session.
    pub key: u32,
    filter: Arc<Filter>,
    state: Mutex<SessionState>,
    began: Instant,
}

/// The state of a message whose caller no longer waits.
pub enum Left {
    /// It was never sent.
    Unsent,
    /// It may have reached the server. `is_alone`: no other caller waits for work of this session.
    Sent { is_alone: bool },
}

/// The state of a turn.
pub enum TurnLook {
    /// The caller has the end.
    Told,
    Ended(TurnEnd),
    /// The turn is open: check again at this time, or when woken.
    Open {
        deadline: Option<Duration>,
        last_event_at: Duration,
    },
}

impl Session {
    pub(crate) fn new(id: &str, key: u32) -> Session {
        Session {
            id: id.to_owned(),
            key,
            filter: Arc::default(),
            state: Mutex::default(),
            began: Instant::now(),
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Selects the events that go to the host.
    pub fn want(&self, all: bool, kinds: impl IntoIterator<Item = String>) {
        self.filter.set(all, kinds);
    }

    /// Number of messages that the server accepted from this object.
    pub fn sent(&self) -> u64 {
        lock(&self.state).outgoing.sent
    }

    pub(crate) fn on_event(self: &Arc<Self>, event: &EventHead<'_>, outbox: &Outbox) {
        let now = self.now();
        let mut state = lock(&self.state);
        state.last_event.at = now;
        state.last_event.kind.clear();
        state.last_event.kind.push_str(&event.kind);
        let kind = state.intern(&event.kind);
        let mut wakes = false;
        let mut released = None;
        let ending_id = event.ending_id();
        let has_turns = !state.turns.is_empty() || !state.runtime_waits.is_empty();
        let matters = matches!(&*event.kind, "session.idle" | "user.message") || ending_id.is_some();
        if has_turns || matters {
            let event = event.turn_event();
            match &event {
                TurnEvent::SessionIdle { background, .. } => state.active &= !background.is_empty(),
                // Other clients may send messages too.
                TurnEvent::UserMessage { continuation, .. } => {
                    state.active = true;
                    if !continuation && state.runtime_waits.on_user_message() {
                        state.outgoing.sent += 1;
                        released = state.outgoing.held_by.take();
                    }
                }
                TurnEvent::Shutdown { reason } => state.runtime_waits.fail_all(&shut_down(reason.as_deref())),
                _ => {}
            }
            if let Some(id) = ending_id {
                let error = match &event {
                    TurnEvent::Error(error) => Some((**error).clone()),
                    _ => None,
                };
                state.runtime_waits.on_ending_event(id, error);
            }
            wakes = !matches!(event, TurnEvent::Other | TurnEvent::Work);
            if !matches!(event, TurnEvent::Other) {
                state.turns.on_event(&event, now);
            }
        }
        // Under the lock, so that the host gets the event before the end of the turn that it ends.
        outbox.push_event(self.key, &self.filter, &kind, event.event);
        if wakes {
            state.tell_ends(now);
        }
        if let Some(client) = released {
            state.outgoing.is_sending = false;
            drop(state);
            self.pump(&client);
        }
    }

    /// Sends `session.send` after the earlier ones were answered. `params` and the result are JSON text.
    pub fn send(
        self: &Arc<Self>,
        client: &Client,
        params: String,
        turn: Option<Arc<TurnHandle>>,
        complete: Completion,
    ) {
        let mut state = lock(&self.state);
        if let Some(error) = state.closed.clone() {
            drop(state);
            if let Some(turn) = turn {
                turn.fail(&error);
            }
            return complete.settle(Err(error));
        }
        state.waiting.extend(turn.clone());
        state.outgoing.queue.push_back(Send { params, turn, complete });
        drop(state);
        self.pump(client);
    }

    /// Writes the next send, when none is on its way.
    fn pump(self: &Arc<Self>, client: &Client) {
        let mut state = lock(&self.state);
        if state.outgoing.is_sending {
            return;
        }
        let Some(send) = state.outgoing.queue.pop_front() else { return };
        let turn = send.turn.clone();
        match (turn, state.runtime_waits.support()) {
            (Some(turn), Support::Unknown | Support::Present) if turn.kind != TurnKind::Retry => {
                self.ask_runtime_to_wait(client, send, turn, state);
            }
            _ => self.write_send(client, send, state),
        }
    }

    /// Sends `session.sendAndWait`. Messages are sent one after the other until it is known that the runtime has the method.
    /// After that the runtime takes them in the order in which they are written.
    fn ask_runtime_to_wait(
        self: &Arc<Self>,
        client: &Client,
        send: Send,
        turn: Arc<TurnHandle>,
        mut state: MutexGuard<'_, SessionState>,
    ) {
        let is_known = state.runtime_waits.support() == Support::Present;
        let was_active = std::mem::replace(&mut state.active, true);
        if !is_known {
            state.outgoing.is_sending = true;
            state.outgoing.held_by = Some(client.clone());
        }
        state.runtime_waits.open(&turn);
        drop(state);
        let (session, next, asked) = (Arc::clone(self), client.clone(), Arc::clone(&turn));
        let params = send.params.clone();
        let replied = Completion::new(move |result| {
            session.on_runtime_reply(&next, &asked, send, was_active, &result);
        });
        let call = client.call(SEND_AND_WAIT, &params, None, replied);
        turn.lock().call.get_or_insert(call);
        if is_known {
            self.pump(client);
        }
    }

    fn on_runtime_reply(
        self: &Arc<Self>,
        client: &Client,
        turn: &Arc<TurnHandle>,
        send: Send,
        was_active: bool,
        result: &Result<&str, Error>,
    ) {
        let now = self.now();
        let mut state = lock(&self.state);
        let replied = state.runtime_waits.on_reply(turn, result, now);
        // While sends are held, no other request of this kind is open.
        if state.outgoing.held_by.take().is_some() {
            state.outgoing.is_sending = false;
        }
        match replied {
            Replied::Unknown => {
                // The message goes out before those behind it.
                turn.lock().call = None;
                state.active = was_active;
                return self.write_send(client, send, state);
            }
            Replied::Taken { is_new } => state.outgoing.sent += u64::from(is_new),
            Replied::Nothing => {}
        }
        state.tell_ends(now);
        drop(state);
        send.complete.settle(result.clone());
        self.pump(client);
    }

    /// Writes `session.send`, or for a turn without a message `session.sendMessages`.
    fn write_send(self: &Arc<Self>, client: &Client, send: Send, mut state: MutexGuard<'_, SessionState>) {
        let Send { params, turn, complete } = send;
        state.outgoing.is_sending = true;
        let was_active = std::mem::replace(&mut state.active, true);
        if let Some(turn) = &turn {
            let id = state.turns.open(turn.kind == TurnKind::Steering, !was_active);
            turn.lock().id = Some(id);
        }
        drop(state);
        let session = Arc::clone(self);
        let next = client.clone();
        let answered = turn.clone();
        let sent = Completion::new(move |result| {
            session.on_sent(answered.as_deref(), &result);
            complete.settle(result);
            session.pump(&next);
        });
        let method = match turn.as_ref().map(|turn| turn.kind) {
            Some(TurnKind::Retry) => "session.sendMessages",
            _ => "session.send",
        };
        // The wait for a turn has limits of its own.
        let timeout = turn.is_none().then(|| request_timeout(method));
        let call = client.call(method, &params, timeout, sent);
        if let Some(turn) = &turn {
            turn.lock().call = Some(call);
        }
    }

    fn on_sent(&self, turn: Option<&TurnHandle>, result: &Result<&str, Error>) {
        let now = self.now();
        let mut state = lock(&self.state);
        state.outgoing.is_sending = false;
        match result {
            Ok(result) => {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Sent {
                    message_id: String,
                }
                let message_id = ground::json::read::<Sent>(result).ok().map(|sent| sent.message_id);
                let is_message = turn.is_none_or(|turn| turn.kind != TurnKind::Retry);
                state.outgoing.sent += u64::from(is_message);
                match turn.and_then(|turn| turn.lock().id) {
                    Some(id) => {
                        match is_message {
                            true => state.turns.on_reply(id, message_id, now),
                            false => state.turns.on_retry_taken(id, now),
                        }
                        // The turn's events may have come before.
                        state.tell_ends(now);
                    }
                    None => message_id.into_iter().for_each(|id| state.turns.remember(id)),
                }
            }
            Err(error) => {
                drop(state);
                if let Some(turn) = turn {
                    turn.fail(error);
                }
            }
        }
    }

    /// The current state of the turn. Its end is returned once.
    pub fn look(&self, turn: &TurnHandle) -> TurnLook {
        let now = self.now();
        let mut state = lock(&self.state);
        if turn.is_told() {
            return TurnLook::Told;
        }
        let handle = turn.lock();
        if let Some(error) = handle.failed.clone() {
            return TurnLook::Ended(Err(error));
        }
        let id = handle.id;
        drop(handle);
        let Some(id) = id else {
            if let Some(end) = state.runtime_waits.take_end(turn, now) {
                return TurnLook::Ended(end);
            }
            let deadline = state.runtime_waits.deadline(turn);
            return TurnLook::Open { deadline, last_event_at: state.last_event.at };
        };
        if let Some(end) = state.turns.take_end(id, now) {
            return TurnLook::Ended(end);
        }
        TurnLook::Open { deadline: state.turns.deadline(id), last_event_at: state.last_event.at }
    }

    /// Abandons the turn, whatever its work does.
    pub fn leave(&self, client: &Client, turn: &Arc<TurnHandle>, error: &Error) -> Left {
        let now = self.now();
        let mut state = lock(&self.state);
        state.waiting.retain(|waiting| !Arc::ptr_eq(waiting, turn));
        let queued = state
            .outgoing
            .queue
            .iter()
            .position(|send| send.turn.as_ref().is_some_and(|held| Arc::ptr_eq(held, turn)));
        let unsent = queued.and_then(|index| state.outgoing.queue.remove(index));
        let handle = turn.lock();
        let (id, call) = (handle.id, handle.call);
        drop(handle);
        if let Some(id) = id {
            state.turns.give_up(id, now);
        }
        let is_runtime_wait = state.runtime_waits.leave(turn);
        let is_alone =
            state.turns.is_empty() && state.runtime_waits.is_empty() && state.outgoing.queue.is_empty();
        drop(state);
        if let Some(send) = unsent {
            send.complete.settle(Err(error.clone()));
            return Left::Unsent;
        }
        match call {
            // The runtime stops waiting for this message; its work and all other waits go on.
            Some(call) if is_runtime_wait => client.cancel(call, error.clone()),
            // No message goes to the server, because the turn's message may already be on its way to being worked on.
            Some(call) => client.forget(call, error.clone()),
            None => {}
        }
        Left::Sent { is_alone: is_alone || !is_runtime_wait }
    }

    /// `session.abort` was sent: the running turns end soon.
    pub fn on_abort_requested(&self) {
        let mut state = lock(&self.state);
        state.turns.on_abort_requested(self.now());
        let waiting = state.waiting.clone();
        drop(state);
        waiting.iter().for_each(|turn| turn.wake());
    }

    /// Describes the pending step of the turn, for the message of a timeout.
    pub fn describe(&self, turn: &TurnHandle) -> String {
        let now = self.now();
        let state = lock(&self.state);
        let mut facts = Vec::new();
        match state.last_event.kind.is_empty() {
            true => facts.push("no event came".to_owned()),
            false => facts.push(format!(
                "last event: {} {} ms ago",
                state.last_event.kind,
                now.saturating_sub(state.last_event.at).as_millis()
            )),
        }
        let id = turn.lock().id;
        let description = match id {
            Some(id) => Some(state.turns.describe(id)),
            None => state.runtime_waits.describe(turn).map(|wait| {
                let parts = [Some(wait), state.turns.describe_open()];
                parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
            }),
        };
        match description {
            Some(description) if description.is_empty() => {}
            Some(description) => facts.push(description),
            None => facts.push("an earlier session.send was not answered".to_owned()),
        }
        facts.join("; ")
    }

    pub fn last_event(&self) -> Option<String> {
        let state = lock(&self.state);
        (!state.last_event.kind.is_empty()).then(|| state.last_event.kind.clone())
    }

    /// The time when the session began. Times of its events count from it.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The reason why the session is closed, if it is.
    pub fn closed(&self) -> Option<Error> {
        lock(&self.state).closed.clone()
    }

    /// Whether a turn runs or a message is on its way; of a closed session, whether that was so at its end.
    pub fn is_busy(&self) -> bool {
        let state = lock(&self.state);
        match state.closed {
            Some(_) => state.was_busy,
            None => state.is_busy(),
        }
    }

    pub(crate) fn close(&self, error: &Error) {
        let mut state = lock(&self.state);
        if state.closed.is_none() {
            state.was_busy = state.is_busy();
            state.closed = Some(error.clone());
        }
        state.turns.fail_all(error);
        state.runtime_waits.fail_all(error);
        state.outgoing.held_by = None;
        let sends = std::mem::take(&mut state.outgoing.queue);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for send in sends {
            if let Some(turn) = &send.turn {
                turn.fail(error);
            }
            send.complete.settle(Err(error.clone()));
        }
        for turn in waiting {
            // A turn whose message was sent has its end in `turns`, which may be an earlier and more exact one.
            let was_sent = turn.lock().id.is_some();
            match was_sent {
                true => turn.wake(),
                false => turn.fail(error),
            }
        }
    }
}
