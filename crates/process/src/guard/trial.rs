//! The trial of a guard: it is executed, proves what its level rests on, and installs a sandbox if one is asked for. What a run needs is
//! asked by doing it, never by a version.

use super::execute::execute;
use super::failure::{GuardFailure, GuardStage};
use super::guarded_spawn::GuardedSpawn;
use super::plan::Plan;
use super::receive::receive;
use super::wire::{FLAG_TRIAL, Report, Reports, Request};
use ground::os::Fault;
use ground::os::unix::proc_folder;
use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The longest wait for a report of the guard, which mostly comes within a millisecond.
const REPORTED_WITHIN: Duration = Duration::from_secs(10);
/// A process that the host forked meanwhile still has the file open for writing, until it executes something.
const BUSY_ATTEMPTS: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Starts the guard at this path for nothing but its proof. Blocks.
pub(super) fn try_out(program: &Path, sandbox: Option<&Plan>) -> Result<(), GuardFailure> {
    let spawn = GuardFailure::at(GuardStage::Spawn);
    let (mut host, guard) = UnixStream::pair().map_err(Fault::in_call("socketpair")).map_err(&spawn)?;
    host.set_read_timeout(Some(REPORTED_WITHIN)).map_err(Fault::in_call("setsockopt")).map_err(&spawn)?;
    let arguments = [OsStr::new("trial")];
    let trial = GuardedSpawn { arguments: &arguments, sandbox, ..GuardedSpawn::of(Path::new("")) };
    let (host_pid, proc) = (std::process::id(), proc_folder());
    let request = Request { spawn: &trial, cgroup: None, flags: FLAG_TRIAL, host_pid, proc };
    let too_long = || Fault::of_errno("execve", Some(program), libc::E2BIG);
    let bytes = request.encode().map_err(|_| spawn(too_long()))?;
    // It fits into the socket: neither side waits for the other.
    host.write_all(&bytes).map_err(Fault::in_call("write")).map_err(&spawn)?;
    let pid = execute_when_free(program, guard.into()).map_err(&spawn)?;
    let proven = proof(&host);
    // Its end is all that is left of the guard: by itself, or because it does not answer.
    drop(host);
    let ended = waitpid(Pid::from_raw(pid), None);
    match proven {
        Ok(()) => Ok(()),
        Err(Some(failure)) => Err(failure),
        Err(None) => {
            let reason = match ended {
                Ok(WaitStatus::Signaled(_, signal, _)) => format!("the guard was ended by {signal}"),
                _ => "the guard ended without a report".to_owned(),
            };
            Err(spawn(Fault::of("execve", Some(program), &io::Error::other(reason))))
        }
    }
}

/// The guard's descriptors 0 to 2 are nothing.
fn execute_when_free(program: &Path, lifeline: OwnedFd) -> Result<i32, Fault> {
    let null = || -> Result<OwnedFd, Fault> {
        let path = Path::new("/dev/null");
        Ok(File::options().read(true).write(true).open(path).map_err(Fault::on("open", path))?.into())
    };
    let mut attempts = 0;
    loop {
        let copy = lifeline.try_clone().map_err(Fault::in_call("fcntl"))?;
        match execute(program, "", [null()?, null()?, null()?, copy], None) {
            Err(Errno::ETXTBSY) if attempts < BUSY_ATTEMPTS => {
                attempts += 1;
                std::thread::sleep(BUSY_PAUSE);
            }
            result => return result.map_err(|errno| Fault::of_errno("execve", Some(program), errno as i32)),
        }
    }
}

/// Reads the reports up to the one that says whether the start succeeded. `None`: there was none.
fn proof(host: &UnixStream) -> Result<(), Option<GuardFailure>> {
    let (mut reports, mut listener) = (Reports::default(), None);
    loop {
        match reports.next() {
            Ok(Some(Report::Started { .. })) => return Ok(()),
            Ok(Some(Report::SpawnError { stage, errno, call: (call, file) })) => {
                let file = Some(Path::new(file)).filter(|file| !file.as_os_str().is_empty());
                let fault = Fault::of_errno(call, file, errno);
                return Err(Some(GuardFailure { stage, fault }));
            }
            Ok(Some(_)) => continue,
            Ok(None) => {}
            Err(_) => return Err(None),
        }
        let mut bytes = [0; 256];
        match receive(host, &mut bytes, &mut listener) {
            Ok(length @ 1..) => reports.push(&bytes[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return Err(None),
        }
    }
}
