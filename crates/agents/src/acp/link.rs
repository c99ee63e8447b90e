//! The connection to the agent, and our requests that it has not answered.

use super::connection::Connection;
use super::order::Reply;
use crate::harness::turn::traffic::TurnTraffic;
use process::Traffic;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

/// A request of ours that is not a prompt.
pub(super) enum PendingRequest {
    Mode {
        mode: String,
        reply: Reply<()>,
    },
    /// The caller's mode, which the agent has left.
    Level {
        mode: String,
    },
    Option {
        id: String,
        value: Value,
        reply: Reply<()>,
    },
    Steer {
        reply: Reply<()>,
    },
}

pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) traffic: TurnTraffic,
    pub(super) tags: u64,
    pub(super) pending: HashMap<u64, PendingRequest>,
}

impl Link {
    pub(super) fn new(connection: Connection, traffic: &Traffic) -> Link {
        Link { connection, traffic: TurnTraffic::of(traffic), tags: 0, pending: HashMap::new() }
    }

    /// Sends a request that is not a prompt. Its answer must come within `limit`.
    pub(super) fn send(
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

    pub(super) fn next_tag(&mut self) -> u64 {
        self.tags += 1;
        self.tags
    }
}
