//! PURE: the requests that are open on both sides. Towards each side they have ids of our own; the other side's ids come back in
//! the answers, as they were written. Each is answered once.

use super::message::Message;
use crate::acp::question::Question;
use serde_json::Value;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Instant;

/// Most open requests of one side.
const MAX_OPEN: usize = 1024;

/// The meaning of an answer of the agent.
pub(super) enum Purpose {
    /// The client gets the answer. `mode`: the mode that is set by it.
    Passed { mode: Option<String> },
    /// It agrees on a version, of which the client asks for this one.
    Greeting { asked: Option<u64> },
    /// It opens a session in this folder.
    Opening { cwd: PathBuf },
    /// A step of ours towards the session's level.
    Step,
    /// The client was told that the session does not open; if it opens late, it is closed.
    Late,
    /// Nothing follows.
    Own,
}

/// A request to the agent that it has not answered.
pub(super) struct Asked {
    /// The client's id; null for a request of our own.
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) session: Option<String>,
    pub(super) purpose: Purpose,
    /// When the agent counts as silent; `None`: it may take its time.
    pub(super) until: Option<Instant>,
}

/// A question that the client has.
pub(super) struct Put {
    /// The agent's id.
    pub(super) id: Value,
    pub(super) session: Option<String>,
    /// How it is answered when nobody decides on it any more; `None`: it is no question to a person.
    pub(super) cancelled: Option<Value>,
    /// A permission request.
    pub(super) permission: Option<Box<Question>>,
    /// The agent needs no answer any more, but one is due.
    pub(super) is_withdrawn: bool,
}

/// The client's requests, and our own.
pub(super) type Requests = Open<Asked>;

/// The agent's requests.
pub(super) type Questions = Open<Put>;

/// The open requests of one side, with what is known of those that the other side has.
pub(super) struct Open<T> {
    last: u64,
    sent: BTreeMap<u64, T>,
    /// The ids of this side, as JSON text, with ours once the other side has the request.
    ids: HashMap<String, Option<u64>>,
}

impl<T> Open<T> {
    pub(super) fn new() -> Self {
        Open { last: 0, sent: BTreeMap::new(), ids: HashMap::new() }
    }

    /// This side asks with this id. `Err`: why it may not.
    pub(super) fn take(&mut self, id: &Value) -> Result<(), &'static str> {
        if self.ids.len() >= MAX_OPEN {
            return Err("too many requests are open");
        }
        match self.ids.entry(id.to_string()) {
            Entry::Occupied(_) => Err("a request with this id is open"),
            Entry::Vacant(entry) => {
                entry.insert(None);
                Ok(())
            }
        }
    }

    /// This side gets its answer: false if it had one before.
    pub(super) fn close(&mut self, id: &Value) -> bool {
        self.ids.remove(&id.to_string()).is_some()
    }

    /// Ours for a request that is sent to the other side.
    pub(super) fn send(&mut self, id: &Value, request: T) -> u64 {
        self.last += 1;
        if let Some(ours) = self.ids.get_mut(&id.to_string()) {
            *ours = Some(self.last);
        }
        self.sent.insert(self.last, request);
        self.last
    }

    /// The request that the other side answers with this id.
    pub(super) fn answered(&mut self, id: &Value) -> Option<(u64, T)> {
        self.sent.remove_entry(&whole(id)?)
    }

    /// Ours for an id of this side; `Some(None)`: the other side has not got it yet.
    pub(super) fn sent_as(&self, id: &Value) -> Option<Option<u64>> {
        self.ids.get(&id.to_string()).copied()
    }

    /// The ids that have no answer.
    pub(super) fn unanswered(&mut self) -> Vec<Value> {
        self.ids.drain().filter_map(|(id, _)| ground::json::read_own(id).ok()).collect()
    }
}

impl Open<Asked> {
    /// Whether the agent is asked for a session whose name it has not told.
    pub(super) fn has_unborn(&self) -> bool {
        let is_unborn =
            |asked: &Asked| asked.session.is_none() && matches!(asked.purpose, Purpose::Opening { .. });
        self.sent.values().any(is_unborn)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.sent.values().filter_map(|asked| asked.until).min()
    }

    /// A request that was not answered in time.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<&mut Asked> {
        self.sent.values_mut().find(|asked| asked.until.is_some_and(|until| until <= now))
    }

    /// The agent repeats a long conversation of this session.
    pub(super) fn extend(&mut self, session: &str, until: Option<Instant>) {
        for asked in self.sent.values_mut().filter(|asked| asked.session.as_deref() == Some(session)) {
            asked.until = asked.until.max(asked.until.and(until));
        }
    }
}

impl Open<Put> {
    /// The agent withdraws a question: the client's id of it, with what is known of it.
    pub(super) fn withdrawn(&mut self, id: &Value) -> Option<(u64, &mut Put)> {
        let ours = self.sent_as(id)??;
        Some((ours, self.sent.get_mut(&ours)?))
    }

    /// Whether the agent waits for the client in this session.
    pub(super) fn has_open(&self, session: &str) -> bool {
        self.sent.values().any(|put| put.session.as_deref() == Some(session) && !put.is_withdrawn)
    }

    /// The questions of a session to a person, which nobody decides on any more.
    pub(super) fn cancel(&mut self, session: &str) -> Vec<(u64, Put)> {
        let is_meant =
            |_: &u64, put: &mut Put| put.session.as_deref() == Some(session) && put.cancelled.is_some();
        self.sent.extract_if(.., is_meant).collect()
    }
}

/// A request that waits for a look at the disk.
pub(super) enum Looking {
    /// It begins a session in these folders.
    Opening(Message, Vec<PathBuf>),
    /// It asks for permission.
    Question(Message, Box<Question>),
}

/// Peers write our ids back in the form of their numbers.
fn whole(id: &Value) -> Option<u64> {
    let float =
        || id.as_f64().filter(|id| id.fract() == 0.0 && (0.0..=9e15).contains(id)).map(|id| id as u64);
    id.as_u64().or_else(float)
}
