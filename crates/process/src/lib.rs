//! Runs and supervises a program.
//!
//! [`spawn`] starts one owner task per run (`life`) and returns a cloneable [`Process`]. The owner waits for its admission and
//! resolves the command (`start`, `command`), and starts it off the JavaScript thread (`launch`). Then it waits in one
//! `select!` (`runner`) for orders from the handles, for the tree (`launch::Tree`), for its clock, and for bytes (`outputs`,
//! which go to the `outlet`). Pure siblings decide the next step: `watchdog` (time limits, the sequence of signals), `end`
//! (events of the tree). At the end the `report` makes the outcome, and the `publisher`
//! publishes it.
//!
//! - Done is the command's exit, not its pipes' end: pipes that others hold are read for `drain`, then strays are killed.
//! - The end is published once, when the tree is gone; every handle may await it.
//! - Dropping the last handle kills the tree, as a backstop.
//! - Every run has a mark that its processes inherit and that names its host, and a line in this user's list (`roster`). So
//!   running trees can be listed, and those of a dead host reaped (`census`).
//! - The output of a run is kept on `record`, and shown on the host's own descriptors (`echo`), if that is requested.
//! - A reader (`sink`) that is too slow stops the reading, and with it the idle clock.

mod batch_file;
mod census;
mod command;
mod command_fault;
mod echo;
mod end;
mod fence;
mod first_step;
mod gate;
pub mod guard;
mod handle;
mod launch;
mod life;
mod local_bins;
mod newcomer;
mod on_record;
mod once;
mod order;
mod outlet;
mod output;
mod outputs;
mod protected;
mod publisher;
mod refusals;
mod replay;
mod report;
mod resolved_command;
mod roster;
mod roster_queue;
mod run_clock;
mod runner;
mod sandbox;
mod save;
mod shim;
mod sink;
mod spec;
mod start;
mod stdin;
mod stop;
mod stream;
mod sweep;
mod threshold;
mod traffic;
mod watchdog;

pub use batch_file::file_behind;
pub use census::{Reaped, TreeFacts, TreeMember, TreeState, census, reap, stop_tree};
pub use echo::{Echo, EchoTarget};
pub use gate::{Egress, Gate, Hosts, Metering};
pub use ground::line::LineTooLong;
pub use ground::os::{TerminalSize, TreeUsage};
pub use handle::{Process, WeakProcess, spawn, spawn_after};
pub use launch::sandbox_support;
pub use newcomer::{Moment, Newcomer, end as end_newcomers};
pub use on_record::secrets_of;
pub use refusals::{Kind as RefusedKind, NewRefusals, Refusals, Refused};
pub use sandbox::contained_folders;
pub use sandbox::report::{SandboxReport, SandboxSupport};
pub use sandbox::{Network, Protect, Sandbox};
pub use save::{SavePlan, Saved};
pub use sink::Window;
pub use sink::{ChunkReader, Missed, Sink};
pub use spec::{
    Containment, ContainmentLevel, Encoding, Environment, EnvironmentBase, Input, Outcome, ProcessSpec,
    ProcessUsage, RunResult, Stdio, StopReason, Strays,
};
pub use start::Admission;
pub use stdin::StdinWriter;
pub use stream::Stream;
pub use traffic::{Metered, Traffic};
