//! Starts one guard by posix_spawn and hands it the request.

use super::cgroup::{self, Cgroup, ResourceLimits};
use super::execute::execute;
use super::failure::{GuardFailure, GuardStage};
use super::image::{image, is_scarcity};
use super::leash::{Leash, reap_unattended};
use super::lifeline::{Launch, Line};
use super::plan::Plan;
use super::wire::{Request, Unencodable};
use crate::launch::unix::wiring::Wiring;
use crate::spec::Containment;
use nix::errno::Errno;
use nix::libc;
use std::ffi::OsStr;
use std::io::{self, ErrorKind, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;

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
}

fn failed(stage: GuardStage) -> impl Fn(Errno) -> GuardFailure {
    move |errno| GuardFailure { stage, errno: errno as i32 }
}

fn failed_io(error: io::Error) -> GuardFailure {
    GuardFailure { stage: GuardStage::Spawn, errno: error.raw_os_error().unwrap_or(libc::EIO) }
}

/// Starts a guard; half a millisecond, on the calling thread. The host's memory is not copied: no fork.
pub(crate) fn launch(spawn: &GuardedSpawn<'_>, wiring: Wiring, line: Line) -> Result<Launch, GuardFailure> {
    launch_by(spawn, wiring, line, false)
}

/// `scan_proc`: as where the kernel keeps no list of children.
pub(super) fn launch_by(
    spawn: &GuardedSpawn<'_>,
    wiring: Wiring,
    line: Line,
    scan_proc: bool,
) -> Result<Launch, GuardFailure> {
    reap_unattended();
    // Scarcity passes: only a refusal by the system means that there will be no guard.
    let image = image().map_err(|errno| GuardFailure {
        stage: if is_scarcity(errno) { GuardStage::Spawn } else { GuardStage::Unavailable },
        errno: errno as i32,
    })?;
    let cgroup = cgroup::create(&spawn.limits).map_err(failed(GuardStage::Limits))?;
    let request = Request {
        program: spawn.program.as_os_str(),
        directory: spawn.cwd.map(Path::as_os_str),
        cgroup: cgroup.as_ref().map(Cgroup::path),
        cgroup_required: spawn.limits.are_asked_for(),
        arguments: spawn.arguments,
        variables: spawn.environment,
        sandbox: spawn.sandbox,
        pid_namespace: spawn.containment == Containment::Strict,
        has_terminal: wiring.ends.terminal.is_some(),
        scan_proc,
        host_pid: std::process::id(),
    };
    let mut unsent = request.encode().map_err(|problem| match problem {
        Unencodable::Nul => GuardFailure { stage: GuardStage::Nul, errno: libc::EINVAL },
        Unencodable::TooLong => GuardFailure { stage: GuardStage::Exec, errno: libc::E2BIG },
    })?;

    // Before the guard is there: it finds its orders at once.
    let sent = match line.host.as_ref().write(&unsent) {
        Ok(sent) => sent,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => return Err(failed_io(error)),
    };
    unsent.drain(..sent);

    let [stdin, stdout, stderr] = wiring.program;
    let pid = execute(image.path(), spawn.mark, [stdin, stdout, stderr, line.guard.into()], spawn.folder)
        .map_err(failed(GuardStage::Spawn))?;
    // Our copies of the guard's descriptors are closed by now.
    let guard = Leash::new(pid);
    let containment = spawn.containment;
    Ok(Launch { guard, unsent, containment, cgroup, ends: wiring.ends })
}

/// The version of Landlock that the kernel speaks; 0: none, or it may not be used.
pub(crate) fn landlock_abi() -> u32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel takes no structure: a null pointer and a length of 0.
    let abi =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<()>(), 0usize, VERSION) };
    u32::try_from(abi).unwrap_or(0)
}
