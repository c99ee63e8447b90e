//! PURE: the requests that are open on both sides. Towards each side they have ids of our own; the other side's ids come back in
//! the answers, as they were written. Each is answered once.

use super::message::Message;
use crate::acp::question::Question;
use serde_json::Value;
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

/// The client's requests, and our own.
#[derive(Default)]
pub(super) struct Requests {
    last: u64,
    sent: BTreeMap<u64, Asked>,
    /// The client's open ids, as JSON text, with ours once the request was sent.
    client: HashMap<String, Option<u64>>,
}

impl Requests {
    /// The client asks with this id. `Err`: why it may not.
    pub(super) fn take(&mut self, id: &Value) -> Result<(), &'static str> {
        if self.client.len() >= MAX_OPEN {
            return Err("too many requests are open");
        }
        match self.client.entry(id.to_string()) {
            std::collections::hash_map::Entry::Occupied(_) => Err("a request with this id is open"),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(None);
                Ok(())
            }
        }
    }

    /// The client gets its answer: false if it had one before.
    pub(super) fn close(&mut self, id: &Value) -> bool {
        self.client.remove(&id.to_string()).is_some()
    }

    /// Ours for a request that is sent to the agent.
    pub(super) fn send(&mut self, asked: Asked) -> u64 {
        self.last += 1;
        if let Some(ours) = self.client.get_mut(&asked.id.to_string()) {
            *ours = Some(self.last);
        }
        self.sent.insert(self.last, asked);
        self.last
    }

    /// The request that the agent answers with this id.
    pub(super) fn answered(&mut self, id: &Value) -> Option<(u64, Asked)> {
        let ours = whole(id)?;
        Some((ours, self.sent.remove(&ours)?))
    }

    /// Ours for an id of the client's; `Some(None)`: the agent has not got it yet.
    pub(super) fn sent_as(&self, id: &Value) -> Option<Option<u64>> {
        self.client.get(&id.to_string()).copied()
    }

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

    /// The client's ids that have no answer.
    pub(super) fn unanswered(&mut self) -> Vec<Value> {
        let ids = self.client.drain().filter_map(|(id, _)| ground::json::read_own(id).ok());
        ids.collect()
    }
}

/// The side that answers a question of the agent's.
enum Place {
    /// The client has it, with this id.
    Client(u64),
    /// The disk is looked at for it.
    Disk,
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

/// The agent's requests.
#[derive(Default)]
pub(super) struct Questions {
    last: u64,
    put: BTreeMap<u64, Put>,
    agent: HashMap<String, Place>,
}

impl Questions {
    /// The agent asks with this id. `Err`: why it may not.
    pub(super) fn check(&self, id: &Value) -> Result<(), &'static str> {
        if self.agent.len() >= MAX_OPEN {
            return Err("too many requests are open");
        }
        match self.agent.contains_key(&id.to_string()) {
            true => Err("a request with this id is open"),
            false => Ok(()),
        }
    }

    /// The disk is looked at for the question with this id.
    pub(super) fn look(&mut self, id: &Value) {
        self.agent.insert(id.to_string(), Place::Disk);
    }

    /// The client's id for a question that it gets.
    pub(super) fn put(&mut self, put: Put) -> u64 {
        self.last += 1;
        self.agent.insert(put.id.to_string(), Place::Client(self.last));
        self.put.insert(self.last, put);
        self.last
    }

    /// The question that the client answers with this id.
    pub(super) fn answered(&mut self, id: &Value) -> Option<Put> {
        let put = self.put.remove(&whole(id)?)?;
        self.agent.remove(&put.id.to_string());
        Some(put)
    }

    /// The agent gets an answer that is not the client's. False if it has one.
    pub(super) fn close(&mut self, id: &Value) -> bool {
        self.agent.remove(&id.to_string()).is_some()
    }

    /// The agent withdraws a question: the client's id of it, with what is known of it.
    pub(super) fn withdrawn(&mut self, id: &Value) -> Option<(u64, &mut Put)> {
        match self.agent.get(&id.to_string())? {
            Place::Client(ours) => Some((*ours, self.put.get_mut(ours)?)),
            Place::Disk => None,
        }
    }

    /// Whether the agent waits for the client in this session.
    pub(super) fn has_open(&self, session: &str) -> bool {
        self.put.values().any(|put| put.session.as_deref() == Some(session) && !put.is_withdrawn)
    }

    /// The questions of a session to a person, which nobody decides on any more.
    pub(super) fn cancel(&mut self, session: &str) -> Vec<(u64, Put)> {
        let is_meant =
            |_: &u64, put: &mut Put| put.session.as_deref() == Some(session) && put.cancelled.is_some();
        let cancelled: Vec<(u64, Put)> = self.put.extract_if(.., is_meant).collect();
        for (_, put) in &cancelled {
            self.agent.remove(&put.id.to_string());
        }
        cancelled
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
