//! Starts one guard by posix_spawn and hands it the request.

use super::cgroup::{self, Cgroup, ResourceLimits};
use super::image::{Image, image, is_scarcity};
use super::leash::{Leash, reap_unattended};
use super::lifeline::{GuardedProcess, Lifeline};
use super::wire::{Request, Stage, Unencodable};
use crate::process::Containment;
use crate::process::sandbox::Plan;
use crate::process::wiring::{Ends, Wiring};
use nix::errno::Errno;
use nix::libc;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use tokio::sync::Notify;

/// Where the guard finds its end of the lifeline.
const LIFELINE: RawFd = 3;

/// A program to run under guard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardedSpawn<'a> {
    /// Found already: the guard looks nowhere else.
    pub program: &'a Path,
    /// The name that the program is called by included.
    pub arguments: &'a [&'a OsStr],
    pub environment: &'a [(&'a OsStr, &'a OsStr)],
    /// The host's when `None`.
    pub cwd: Option<&'a Path>,
    pub containment: Containment,
    pub limits: ResourceLimits,
    pub sandbox: Option<&'a Plan>,
}

/// Why nothing runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GuardFailure {
    pub stage: GuardStage,
    /// What the system said; 0 when it said nothing.
    pub errno: i32,
}

/// At which step it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardStage {
    /// No guard can be executed on this system: only the group level is left.
    Unavailable,
    /// An argument, a variable or a path has a NUL in it.
    Nul,
    /// The guard could not be started: no descriptors, processes or memory left.
    Spawn,
    /// The request did not reach the guard whole.
    Request,
    /// The guard could not watch.
    Supervise,
    /// The namespaces that `strict` needs.
    Namespace,
    /// The limits that were asked for: no cgroup that could enforce them can be made.
    ResourceLimits,
    /// The run's cgroup, which could be made but not joined.
    Cgroup,
    /// The program's own process.
    Fork,
    /// The working directory.
    Chdir,
    /// The rules of the sandbox.
    Sandbox,
    /// One of the sandbox's paths, by its number.
    SandboxPath(u32),
    /// The program's own terminal.
    Terminal,
    /// The program. E2BIG: arguments and environment are too long.
    Exec,
    /// A guard was killed meanwhile.
    Lost,
}

impl From<Stage> for GuardStage {
    fn from(stage: Stage) -> GuardStage {
        match stage {
            Stage::Request => GuardStage::Request,
            Stage::Supervise => GuardStage::Supervise,
            Stage::Namespace => GuardStage::Namespace,
            Stage::Cgroup => GuardStage::Cgroup,
            Stage::Fork => GuardStage::Fork,
            Stage::Chdir => GuardStage::Chdir,
            Stage::Exec => GuardStage::Exec,
            Stage::Sandbox => GuardStage::Sandbox,
            Stage::SandboxPath(index) => GuardStage::SandboxPath(index),
            Stage::Terminal => GuardStage::Terminal,
        }
    }
}

fn failed(stage: GuardStage) -> impl Fn(Errno) -> GuardFailure {
    move |errno| GuardFailure { stage, errno: errno as i32 }
}

fn failed_io(error: io::Error) -> GuardFailure {
    GuardFailure { stage: GuardStage::Spawn, errno: error.raw_os_error().unwrap_or(libc::EIO) }
}

/// A guard that has been started and is starting the program. Dropping it ends both.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(super) lifeline: UnixStream,
    pub(super) guard: Leash,
    /// The part of the request that the socket did not take at once.
    pub(super) unsent: Vec<u8>,
    pub(super) containment: Containment,
    pub(super) cgroup: Option<Cgroup>,
    pub(super) ends: Ends,
}

impl Launch {
    /// Waits until the program has been executed, or says why not. Needs tokio. `cut_short`: as in [`Lifeline::start`].
    pub(crate) async fn started(self, cut_short: &Notify) -> Result<GuardedProcess, GuardFailure> {
        Lifeline::start(self, cut_short).await
    }
}

/// Starts a guard; half a millisecond, on the calling thread. The host's memory is not copied: no fork.
pub(crate) fn launch(spawn: &GuardedSpawn<'_>, wiring: Wiring) -> Result<Launch, GuardFailure> {
    launch_by(spawn, wiring, false)
}

/// `scan_proc`: as where the kernel keeps no list of children.
pub(super) fn launch_by(
    spawn: &GuardedSpawn<'_>,
    wiring: Wiring,
    scan_proc: bool,
) -> Result<Launch, GuardFailure> {
    reap_unattended();
    // Scarcity passes: only a refusal by the system means that there will be no guard.
    let image = image().map_err(|errno| GuardFailure {
        stage: if is_scarcity(errno) { GuardStage::Spawn } else { GuardStage::Unavailable },
        errno: errno as i32,
    })?;
    let cgroup = cgroup::create(&spawn.limits).map_err(failed(GuardStage::ResourceLimits))?;
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

    let (mut lifeline, guards_end) = UnixStream::pair().map_err(failed_io)?;
    lifeline.set_nonblocking(true).map_err(failed_io)?;
    // Before the guard is there: it finds its orders at once.
    let sent = match lifeline.write(&unsent) {
        Ok(sent) => sent,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => return Err(failed_io(error)),
    };
    unsent.drain(..sent);

    let [stdin, stdout, stderr] = wiring.program;
    let pid =
        execute(image, [stdin, stdout, stderr, guards_end.into()]).map_err(failed(GuardStage::Spawn))?;
    // Our copies of the guard's descriptors are closed by now.
    let guard = Leash::new(pid).map_err(failed(GuardStage::Spawn))?;
    let containment = spawn.containment;
    Ok(Launch { lifeline, guard, unsent, containment, cgroup, ends: wiring.ends })
}

/// The guard gets these four as 0 to 3, an empty environment, default signals, and a mask that blocks all of them, so that
/// no signal can end it before it is ready.
pub(super) fn execute(image: &Image, descriptors: [OwnedFd; 4]) -> Result<i32, Errno> {
    // A source among the targets would be overwritten before its turn.
    let descriptors = descriptors.map(|descriptor| {
        if descriptor.as_raw_fd() > LIFELINE {
            return Ok(descriptor);
        }
        let high = nix::fcntl::fcntl(&descriptor, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(LIFELINE + 1))?;
        // SAFETY: fcntl has just made this descriptor; nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(high) })
    });
    let mut actions = PosixSpawnFileActions::init()?;
    let mut sources = Vec::with_capacity(descriptors.len());
    for (target, source) in (0..).zip(descriptors) {
        let source: OwnedFd = source?;
        actions.add_dup2(source.as_raw_fd(), target)?;
        sources.push(source);
    }
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK)?;
    attributes.set_sigdefault(&SigSet::all())?;
    attributes.set_sigmask(&SigSet::all())?;
    let environment: [&CStr; 0] = [];
    let pid = posix_spawn(image.path(), &actions, &attributes, &[c"sheepdog-guard"], &environment)?;
    Ok(pid.as_raw())
}

/// Executes an image once without anything to do.
pub(super) fn probe(image: &Image) -> Result<(), Errno> {
    let null = || -> Result<OwnedFd, Errno> {
        let file = File::open("/dev/null")
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
        Ok(file.into())
    };
    let mut attempts = 0;
    loop {
        match execute(image, [null()?, null()?, null()?, null()?]) {
            Ok(pid) => {
                let status = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None);
                // It says that nobody is there and ends with 1; anything else is not our guard.
                let is_guard =
                    matches!(status, Ok(nix::sys::wait::WaitStatus::Exited(_, 1)) | Err(Errno::ECHILD));
                return if is_guard { Ok(()) } else { Err(Errno::ENOEXEC) };
            }
            // A process that the host forked meanwhile still has the file open for writing, until it executes something.
            Err(Errno::ETXTBSY) if attempts < 20 => {
                attempts += 1;
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// The version of Landlock that the kernel speaks; 0: none, or it may not be used.
pub(crate) fn landlock_abi() -> u32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel takes no structure: a null pointer and a length of 0.
    let abi =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<()>(), 0usize, VERSION) };
    u32::try_from(abi).unwrap_or(0)
}
