//! A started program with the tree that holds it, or the reason why there is none.

use super::super::spec::ContainmentLevel;
use ground::error::Error;
use ground::os::{Pipe, PipeWriter, Terminal};
use std::sync::Arc;
use std::time::Instant;

/// A started program.
pub(crate) struct Launched<T> {
    pub pid: u32,
    /// Just before the system was asked: the zero of the run's clocks.
    pub spawned: Instant,
    pub level: ContainmentLevel,
    pub pipes: Pipes,
    pub tree: T,
}

/// The host's ends of what the program reads and writes, made ready to be watched; `None` where there is nothing to be done.
#[derive(Default)]
pub(crate) struct Pipes {
    pub stdin: Option<PipeWriter>,
    pub stdout: Option<Pipe>,
    pub stderr: Option<Pipe>,
    pub terminal: Option<Arc<Terminal>>,
}

/// Why there is nothing to watch.
#[derive(Debug)]
pub(crate) enum NotLaunched {
    /// No byte of the program ran.
    Failed(Error),
    /// It was cut short while the system was at it (a program's file that doesn't come): nobody can say whether it ran. If it
    /// ever does, it is killed at once.
    Unknown,
}

impl From<Error> for NotLaunched {
    fn from(error: Error) -> NotLaunched {
        NotLaunched::Failed(error)
    }
}
