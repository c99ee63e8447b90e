//! Runs a program under watch.

#[cfg(target_os = "linux")]
pub(crate) mod guard;
mod spec;

pub use spec::{
    Containment, ContainmentLevel, Environment, EnvironmentBase, Input, Outcome, ProcessSpec, RunResult,
    StopReason, Strays, Stream, Usage,
};
