//! Runs a program under watch.

mod spec;

pub use spec::{
    Containment, ContainmentLevel, Environment, EnvironmentBase, Input, Outcome, ProcessSpec, RunResult,
    StopReason, Strays, Stream, Usage,
};
