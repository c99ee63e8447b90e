//! The way in which a turn's attempts are made: by a command, which is a process each, or over a protocol, which is a session each.
//! The turn's owner is the same for both.

use super::Order;
use super::audience::Audience;
use super::preparation::Again;
use super::record::Judged;
use super::request::TurnRequest;
use crate::harness::agent_request::AgentRequest;
use crate::harness::budget::allowance::Allowance;
use crate::harness::event::AgentEvent;
use crate::harness::limit::usage_limit::HeldAccount;
use crate::harness::verdict::Fault;
use crate::harness::verdict::result::TurnResult;
use crate::model::Reading;
use ground::error::Error;
use ground::mpsc::UnboundedReceiver;
use process::{Metered, Refused};

/// See the module.
pub(crate) trait Way: Sized + Send {
    /// Whether a turn keeps a record of its own. Otherwise each attempt keeps one.
    const IS_RECORDED: bool;

    /// `INVALID_OPTION` for a request that can't be served in this way.
    fn check(request: &TurnRequest) -> Result<(), Error>;

    /// The way to this agent. Called when the turn has its slot, before anything is prepared for it.
    fn to(agent: &AgentRequest) -> Result<Self, Error>;

    /// Makes an attempt. An error is one of the turn's own: there was no attempt.
    fn attempt(
        &mut self,
        task: &Task<'_>,
        orders: &mut UnboundedReceiver<Order>,
        audience: &mut Audience,
    ) -> impl Future<Output = Result<Attempted, Error>> + Send;

    /// Removes what the attempts shared.
    fn end(self) -> impl Future<Output = ()> + Send;
}

/// An attempt to make.
pub(crate) struct Task<'a> {
    /// Number of the turn in the log.
    pub number: u64,
    pub request: &'a TurnRequest,
    pub allowance: &'a Allowance,
    pub account: &'a HeldAccount,
    pub again: &'a Again,
    /// Display name.
    pub name: String,
}

/// An attempt that is over.
pub(crate) struct Attempted {
    /// The result, as far as it came.
    pub result: TurnResult,
    pub fault: Option<Fault>,
    /// The attempt could not be run at all.
    pub error: Option<Error>,
    /// Whether the answer fits the schema, where that is for the turn to judge.
    pub reading: Option<Reading>,
    /// A model answered, or a tool ran.
    pub has_worked: bool,
    pub is_aborted: bool,
    /// The agent's own error and end, which are told if no other attempt follows.
    pub last_events: Vec<AgentEvent>,
    /// Hosts and sockets that the sandbox refused.
    pub refused: Vec<Refused>,
    /// Tokens as they were seen on their way.
    pub metered: Metered,
    /// The evidence of the verdict, for the record.
    pub judged: Judged,
}
