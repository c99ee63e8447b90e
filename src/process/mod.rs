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
//! - A reader (`sink`) that is too slow stops the reading, and with it the idle clock.

mod command;
#[cfg(target_os = "linux")]
pub(crate) mod guard;
mod handle;
mod keep;
mod launch;
mod output;
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
pub use handle::{Admission, Process, WeakProcess, spawn, spawn_after};
pub use sandbox::{Network, Sandbox};
pub(crate) use sink::Window;
pub use sink::{ChunkReader, Sink};
pub use spec::{
    Containment, ContainmentLevel, Encoding, Environment, EnvironmentBase, Input, Outcome, ProcessSpec,
    RunResult, Stdio, StopReason, Strays, Stream, Usage,
};
pub use stdin::StdinWriter;
