//! Runs a program under watch.
//!
//! [`spawn`] starts one owner task a run ([`runner`]) and gives a cloneable [`Process`]. The owner resolves the command
//! (`command`), has it started off the JavaScript thread (`launch`), and then waits in one `select!` for words from the
//! handles, for the tree (`launch::Tree`), for its clock, and for bytes. What follows from an event is decided by pure siblings:
//! `watchdog` (clocks, the ladder of a kill), `keep` (bounded head and tail), `line`.
//!
//! - Done is the command's exit, not its pipes' end: pipes that others hold are read for `drain`, then strays are killed.
//! - The end is published once, when the tree is gone; every handle may await it.
//! - Dropping the last handle kills the tree, as a backstop.
//! - Every run has a mark that its processes inherit and that names its host, and a line in this user's list (`roster`): what there is
//!   can be seen, and what a dead host left reaped (`census`).
//! - What a run prints is kept on `record` where that is wanted.
//! - A reader (`sink`) that is too slow stops the reading, and with it the idle clock.

mod census;
mod command;
#[cfg(target_os = "linux")]
pub(crate) mod guard;
mod handle;
mod keep;
mod launch;
mod newcomer;
mod on_record;
mod output;
mod roster;
mod runner;
mod sandbox;
mod sink;
mod spec;
mod start;
mod stdin;
mod stop;
mod sweep;
mod watchdog;
mod wiring;

pub use crate::line::LineTooLong;
pub use crate::os::{TerminalSize, TreeUsage};
pub use census::{Reaped, TreeFacts, TreeMember, TreeState, census, reap, stop_tree};
pub use handle::{Admission, Process, WeakProcess, spawn, spawn_after};
pub(crate) use newcomer::{Moment, Newcomer, end as end_newcomers};
pub(crate) use on_record::secrets_of;
pub use sandbox::{Network, Sandbox};
pub(crate) use sink::Window;
pub use sink::{ChunkReader, Sink};
pub use spec::{
    Containment, ContainmentLevel, Encoding, Environment, EnvironmentBase, Input, Outcome, ProcessSpec,
    RunResult, Stdio, StopReason, Strays, Stream, Usage,
};
pub use stdin::StdinWriter;
