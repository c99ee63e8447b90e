//! Runs a program under watch.

mod keep;
mod line;
mod spec;
mod watchdog;

pub use line::{LineFramer, LineTooLong, block_text, lines_of};
pub use spec::{
    Containment, ContainmentLevel, Environment, EnvironmentBase, Input, Outcome, ProcessSpec, RunResult,
    StopReason, Strays, Stream, Usage,
};
