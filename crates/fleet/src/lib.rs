//! The same jobs on many machines: none lost, none done twice. NATS JetStream is the engine (only `engine` uses it). The queue,
//! the store and the consensus are its own; this crate implements none of them.
//!
//! ```text
//! submit ──> queue (a lane a class) ──pull──> worker (owner task) ──> attempt (one task a job)
//!                                                                      │ claim: compare-and-swap on the record
//!                                                                      │ keeper: beats, watches the record
//!                                                                      │ work: a harness turn, or own code
//!                                                                      │ log writer ──> log ──> follow
//!                                                                      └ commit: compare-and-swap, then acknowledge
//! ```
//!
//! - The **record** ([`record`], PURE) holds the state of a job ([`transition`], PURE, changes it). Its revision is the
//!   fencing token: every change is written over the revision that was read, at the leader. The write that says "done" is the
//!   commit; a message that is redelivered after it is acknowledged without a run.
//! - The **lease** ([`lease`], PURE) is renewed by the keeper of the attempt, independent of JavaScript and the agent. A keeper
//!   that wakes late reads the record first. A fenced worker kills its tree and writes nothing more.
//! - **Logs and artifacts** belong to an attempt and need no fence: the record names the attempt that counts.
//! - **Retries** depend on the reason of the failure ([`retry_table`], PURE).
//! - A fleet without a server of its user's starts one (`local`): a child under our guard, with its store in a folder.

mod engine;
mod fault;
#[cfg(test)]
mod fault_tests;
mod filter;
mod follow;
mod handle;
#[cfg(test)]
mod hostile_tests;
pub mod lease;
mod listed;
mod listing;
pub mod name;
mod operation;
mod presence;
#[cfg(test)]
mod promise_tests;
mod prune;
pub mod record;
pub mod retry_table;
pub mod run_list;
pub mod schedule;
mod scheduler;
pub mod spec;
pub mod status;
mod stuck;
#[cfg(test)]
mod submit_many_tests;
mod submitter;
#[cfg(test)]
mod test_host;
pub mod transition;
mod watching;
mod worker;

pub use engine::{Access, ServerPlaces};
pub use fault::JobFault;
pub use filter::Filter;
pub use follow::{Follow, FollowedBatch};
pub use git::{GitPlace, GitSource};
pub use handle::{Fleet, FleetOptions, WeakFleet};
pub use listed::Listed;
pub use listing::JobList;
pub use prune::{Prune, Pruned};
pub use record::{JobRecord, JobState};
pub use schedule::{CatchUp, Schedule};
pub use spec::JobSpec;
pub use submitter::Submitted;
pub use watching::JobWatch;
pub use worker::{JobFuture, JobHost, JobRun, StopCause, StopSignal, Worker, WorkerOptions, run_turn};
