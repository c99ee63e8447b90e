//! Starts one guard by posix_spawn and hands it the request.

use super::cgroup::{self, Cgroup};
use super::execute::execute;
use super::failure::{GuardFailure, GuardStage};
use super::guarded_spawn::GuardedSpawn;
use super::image::image;
use super::leash::{Leash, reap_unattended};
use super::lifeline::{Launch, Line};
use super::plan::Plan;
use super::wire::{FLAG_TERMINAL, Request, Unencodable};
use crate::launch::unix::wiring::Wiring;
use ground::os::Fault;
use ground::os::unix::proc_folder;
use nix::errno::Errno;
use nix::libc;
use std::io::{ErrorKind, Write};

/// Starts a guard; half a millisecond, on the calling thread. The host's memory is not copied: no fork.
pub(crate) fn launch(spawn: &GuardedSpawn<'_>, wiring: Wiring, line: Line) -> Result<Launch, GuardFailure> {
    launch_by(spawn, wiring, line, 0)
}

/// `flags`: of the protocol, for a test.
pub(super) fn launch_by(
    spawn: &GuardedSpawn<'_>,
    wiring: Wiring,
    line: Line,
    flags: u32,
) -> Result<Launch, GuardFailure> {
    reap_unattended();
    let image = image()?;
    let cgroup = cgroup::create(&spawn.limits).map_err(GuardFailure::at(GuardStage::Limits))?;
    let terminal = if wiring.ends.terminal.is_some() { FLAG_TERMINAL } else { 0 };
    let request = Request {
        spawn,
        cgroup: cgroup.as_ref().map(Cgroup::path),
        flags: flags | terminal,
        host_pid: std::process::id(),
        proc: proc_folder(),
    };
    let mut unsent = request.encode().map_err(|problem| {
        let (stage, errno) = match problem {
            Unencodable::Nul => (GuardStage::Nul, libc::EINVAL),
            Unencodable::TooLong => (GuardStage::Exec, libc::E2BIG),
        };
        GuardFailure { stage, fault: Fault::of_errno("execve", Some(spawn.program), errno) }
    })?;

    // Before the guard is there: it finds its orders at once.
    let sent = match line.host.as_ref().write(&unsent) {
        Ok(sent) => sent,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => return Err(GuardFailure::at(GuardStage::Spawn)(Fault::in_call("write")(error))),
    };
    unsent.drain(..sent);

    let [stdin, stdout, stderr] = wiring.program;
    let refused = |errno: Errno| Fault::of_errno("posix_spawn", None, errno as i32);
    let pid = execute(image.path(), spawn.mark, [stdin, stdout, stderr, line.guard.into()], spawn.folder)
        .map_err(|errno| GuardFailure { stage: GuardStage::Spawn, fault: refused(errno) })?;
    // Our copies of the guard's descriptors are closed by now.
    let guard = Leash::new(pid);
    let containment = spawn.containment;
    let ends = wiring.ends;
    Ok(Launch { guard, unsent, containment, cgroup, ends })
}

/// Whether a guard can be had, and hold this sandbox; asked by doing it. Blocks.
pub(crate) fn try_sandbox(plan: &Plan) -> Result<(), GuardFailure> {
    image()?.try_sandbox(plan)
}

/// The version of Landlock that the kernel speaks. `Err`: it may not be used.
pub(crate) fn landlock_abi() -> Result<u32, Fault> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel takes no structure: a null pointer and a length of 0.
    let abi =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<()>(), 0usize, VERSION) };
    let abi =
        Errno::result(abi).map_err(|errno| Fault::of_errno("landlock_create_ruleset", None, errno as i32))?;
    Ok(u32::try_from(abi).unwrap_or(0))
}
