//! Executes the guard's program by posix_spawn: the host is not forked.

use crate::command::GUARD;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// Descriptor number of the guard's end of the lifeline.
const LIFELINE: RawFd = 3;
/// Descriptor number of the folder that the guard begins in.
const FOLDER: RawFd = 4;

/// The guard gets these four as 0 to 3, the folder that it changes to as 4 (without one, it stays in the host's), the mark of its run as its argument (`/proc` shows that to whoever looks for the run's
/// processes), an empty environment, default signals, and a mask that blocks all of them, so that no signal can end it before it
/// is ready.
pub(super) fn execute(
    program: &Path,
    mark: &str,
    descriptors: [OwnedFd; 4],
    folder: Option<BorrowedFd<'_>>,
) -> Result<i32, Errno> {
    // A source among the targets would be overwritten before its turn.
    let above = |descriptor: BorrowedFd<'_>| {
        let high = fcntl(descriptor, FcntlArg::F_DUPFD_CLOEXEC(FOLDER + 1))?;
        // SAFETY: fcntl has just made this descriptor; nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(high) })
    };
    let descriptors = descriptors.map(|descriptor| {
        if descriptor.as_raw_fd() > FOLDER { Ok(descriptor) } else { above(descriptor.as_fd()) }
    });
    let low = folder.filter(|folder| folder.as_raw_fd() <= FOLDER).map(above).transpose()?;
    let mut actions = PosixSpawnFileActions::init()?;
    let mut sources = Vec::with_capacity(descriptors.len());
    for (target, source) in (0..).zip(descriptors) {
        let source: OwnedFd = source?;
        actions.add_dup2(source.as_raw_fd(), target)?;
        sources.push(source);
    }
    // The guard changes to no socket.
    let none = sources.last().map_or(LIFELINE, AsRawFd::as_raw_fd);
    let folder =
        low.as_ref().map_or_else(|| folder.map_or(none, |folder| folder.as_raw_fd()), AsRawFd::as_raw_fd);
    actions.add_dup2(folder, FOLDER)?;
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK)?;
    attributes.set_sigdefault(&SigSet::all())?;
    attributes.set_sigmask(&SigSet::all())?;
    let environment: [&CStr; 0] = [];
    let arguments = [CString::new(GUARD), CString::new(mark)].map(|word| word.map_err(|_| Errno::EINVAL));
    let [name, mark] = arguments;
    let pid = posix_spawn(program, &actions, &attributes, &[name?, mark?], &environment)?;
    Ok(pid.as_raw())
}
