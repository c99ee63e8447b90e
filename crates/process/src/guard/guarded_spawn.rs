//! The program that a guard is to start, and how.

use super::cgroup::ResourceLimits;
use super::plan::Plan;
use crate::spec::Containment;
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

/// A program to run under guard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardedSpawn<'a> {
    /// Path of the program, already resolved: the guard does not search for it.
    pub program: &'a Path,
    /// The mark of the run.
    pub mark: &'a str,
    /// Arguments, including the name that the program is called by.
    pub arguments: &'a [&'a OsStr],
    pub environment: &'a [(&'a OsStr, &'a OsStr)],
    /// The working directory, relative to `folder`; that folder itself when `None`.
    pub cwd: Option<&'a Path>,
    /// The folder that the guard begins in; the host's present one when `None`.
    pub folder: Option<BorrowedFd<'a>>,
    pub containment: Containment,
    pub limits: ResourceLimits,
    pub sandbox: Option<&'a Plan>,
    /// The program stays in this process's session and group, whose terminal it uses.
    pub lends_terminal: bool,
    /// Time between SIGTERM and SIGKILL when this process ends in order.
    pub grace: Duration,
}

impl<'a> GuardedSpawn<'a> {
    /// Without arguments, variables and limits, in the host's folder.
    pub(super) fn of(program: &'a Path) -> GuardedSpawn<'a> {
        GuardedSpawn {
            program,
            mark: "",
            arguments: &[],
            environment: &[],
            cwd: None,
            folder: None,
            containment: Containment::Auto,
            limits: ResourceLimits::default(),
            sandbox: None,
            lends_terminal: false,
            grace: Duration::ZERO,
        }
    }
}
