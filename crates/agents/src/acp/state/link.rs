//! The connection to the agent, and our requests that it has not answered.

use crate::acp::state::order::Reply;
use crate::acp::wire::connection::Connection;
use crate::harness::turn::traffic::TurnTraffic;
use process::Traffic;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// The setting of a session that a request of ours changes.
pub(crate) enum Change {
    Mode(String),
    Option(String, Value),
    Steer,
}

/// A request of ours that is not a prompt.
pub(crate) struct PendingRequest {
    pub change: Change,
    /// `None`: nobody asked. The caller's mode, which the agent has left, is set again.
    pub reply: Option<Reply<()>>,
}

pub(crate) struct Link {
    pub(crate) connection: Connection,
    pub(crate) traffic: TurnTraffic,
    pub(crate) tags: u64,
    pub(crate) pending: HashMap<u64, PendingRequest>,
}

impl Link {
    pub(crate) fn new(connection: Connection, traffic: &Traffic) -> Link {
        Link { connection, traffic: TurnTraffic::of(traffic), tags: 0, pending: HashMap::new() }
    }

    /// Sends a request that is not a prompt. Its answer must come within `limit`.
    pub(crate) fn send(
        &mut self,
        method: &str,
        params: &Value,
        limit: Option<Duration>,
        pending: PendingRequest,
    ) {
        let tag = self.next_tag();
        self.pending.insert(tag, pending);
        self.connection.send(method, params, limit, tag);
    }

    pub(crate) fn next_tag(&mut self) -> u64 {
        self.tags += 1;
        self.tags
    }
}
