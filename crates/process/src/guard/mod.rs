//! A program under two guards: the host's side of `crates/guard` at the root of this repository.
//!
//! The guard is a program of a few kilobytes that the addon carries ([`image`]). For each run the host starts one by
//! posix_spawn ([`launch`]): the host itself is never forked. The spawn request goes over a socket pair, the lifeline
//! (`wire`); what the guard reports comes back on it ([`lifeline`]). docs/internals/guard.md has the format,
//! docs/guard.md says what is covered.
//!
//! [`GuardedProcess`] owns the lifeline, and with it the run. Dropping it, or the end of the host for any reason, closes the
//! lifeline, and the guards kill the tree. The outer guard is the host's child: [`leash::Leash`] waits for it by pidfd, and for
//! no other child, so neither SIGCHLD nor the host's other children are touched and no zombie stays.
//!
//! Nothing here blocks but [`launch::launch`] (half a millisecond); waiting is async.
#![cfg(target_os = "linux")]

mod cgroup;
mod execute;
mod failure;
mod guarded_spawn;
mod image;
mod launch;
mod leash;
mod lifeline;
mod plan;
mod receive;
mod trial;
mod wire;

pub(crate) use cgroup::ResourceLimits;
pub(crate) use failure::{GuardFailure, GuardStage};
pub(crate) use guarded_spawn::GuardedSpawn;
pub(crate) use launch::{landlock_abi, launch, try_sandbox};
pub(crate) use lifeline::{GuardEvent, HostEnd, Launch, Lifeline, Line};
pub(crate) use plan::{Grant, Links, OWN_TERMINAL, Plan, Shortfall};
pub use wire::fuzz as fuzz_lifeline;

#[cfg(test)]
mod tests;
