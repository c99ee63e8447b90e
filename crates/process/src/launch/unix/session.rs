//! Starts a program without a guard by posix_spawn: as the leader of a session, in a terminal of its own or with the host's own
//! descriptors, or as the leader of a process group. In the host's session it would be a background group, which the host's terminal stops
//! when it reads.
//!
//! The first terminal that a session's leader opens becomes its controlling one.

use crate::resolved_command::ResolvedCommand;
use ground::os::{SCRIPT_START_BYTES, Terminal};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use std::ffi::{CString, OsStr, OsString, c_char, c_int};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[cfg(target_os = "linux")]
const SETSID: c_int = libc::POSIX_SPAWN_SETSID as c_int;
#[cfg(not(target_os = "linux"))]
const SETSID: c_int = 0x400;

const SHELL: &str = "/bin/sh";
/// C libraries before glibc 2.29 can't change the working directory here; a shell can, and then becomes the program.
const ENTER_AND_BECOME: &str = r#"cd -- "$1" && shift && exec "$@""#;
/// The program's own are 0 to 2.
const LOWEST_SOURCE: i32 = 3;

/// The program's three standard descriptors, and what it leads.
#[derive(Clone, Copy)]
pub(super) enum Wires<'a> {
    /// A session, with this terminal.
    Terminal(&'a Terminal),
    /// A session.
    Hosts(&'a [OwnedFd; 3]),
    /// A process group.
    Own(&'a [OwnedFd; 3]),
}

/// Spawns the program. Returns its pid, which is also the id of its session or group.
pub(super) fn spawn(wires: Wires<'_>, command: &ResolvedCommand) -> io::Result<u32> {
    let cwd = match &command.cwd {
        Some(cwd) => Some(cwd.as_path()),
        None if command.folder.is_present() => None,
        None => Some(Path::new(".")),
    };
    if let (Some(cwd), None) = (cwd, change_of_folder()) {
        // The shell has none of this process's descriptors.
        let cwd = command.folder.named(cwd);
        let mut argv = ["sh", "-c", ENTER_AND_BECOME, "sh"].map(OsString::from).to_vec();
        argv.extend([cwd.into(), command.program.clone().into()]);
        argv.extend(command.argv.iter().skip(1).cloned());
        return execute(wires, Path::new(SHELL), &argv, &command.environment, None);
    }
    let cwd = cwd.map(|cwd| command.folder.reach(cwd));
    let cwd = cwd.as_deref();
    match execute(wires, &command.program, &command.argv, &command.environment, cwd) {
        Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) && is_script(command) => {
            let mut argv = vec![OsString::from("sh"), command.program.clone().into()];
            argv.extend(command.argv.iter().skip(1).cloned());
            execute(wires, Path::new(SHELL), &argv, &command.environment, cwd)
        }
        other => other,
    }
}

/// Whether a file that the kernel can't execute is text for a shell, by the rule of bash: a NUL in the first line is no text. A script
/// without a first line that names its interpreter is the shell's, as execvp and the guard have it.
fn is_script(command: &ResolvedCommand) -> bool {
    let mut start = Vec::new();
    let read =
        File::open(command.reach()).and_then(|file| file.take(SCRIPT_START_BYTES).read_to_end(&mut start));
    // A file that may be executed and not read is left to the shell.
    read.is_err() || start.split(|&byte| byte == b'\n').next().is_none_or(|line| !line.contains(&0))
}

type ChangeOfFolder = unsafe extern "C" fn(*mut libc::posix_spawn_file_actions_t, *const c_char) -> c_int;

/// A function of newer C libraries: the addon must load with older ones too.
fn change_of_folder() -> Option<ChangeOfFolder> {
    // SAFETY: the name ends in NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"posix_spawn_file_actions_addchdir_np".as_ptr()) };
    // SAFETY: what has this name in a C library has this type; a null pointer is `None`.
    unsafe { std::mem::transmute::<*mut libc::c_void, Option<ChangeOfFolder>>(found) }
}

fn execute(
    wires: Wires<'_>,
    program: &Path,
    argv: &[OsString],
    environment: &[(OsString, OsString)],
    cwd: Option<&Path>,
) -> io::Result<u32> {
    let mut actions = PosixSpawnFileActions::init()?;
    // A source among the targets would be overwritten before its turn.
    let mut sources = Vec::new();
    match wires {
        Wires::Terminal(terminal) => {
            actions.add_open(0, terminal.path()?.as_c_str(), OFlag::O_RDWR, Mode::empty())?;
            actions.add_dup2(0, 1)?;
            actions.add_dup2(0, 2)?;
        }
        Wires::Hosts(descriptors) | Wires::Own(descriptors) => {
            for (target, source) in (0..).zip(descriptors) {
                let high = fcntl(source, FcntlArg::F_DUPFD_CLOEXEC(LOWEST_SOURCE))?;
                // SAFETY: fcntl has just made this descriptor; nobody else knows it.
                sources.push(unsafe { OwnedFd::from_raw_fd(high) });
                actions.add_dup2(high, target)?;
            }
        }
    }
    if let (Some(cwd), Some(change)) = (cwd, change_of_folder()) {
        let cwd = text(&[cwd.as_os_str()])?;
        // SAFETY: the type is a transparent wrapper of C's, and both live for the call, which copies the path.
        let added = unsafe { change((&raw mut actions).cast(), cwd.as_ptr()) };
        if added != 0 {
            return Err(io::Error::from_raw_os_error(added));
        }
    }
    let leads = match wires {
        Wires::Terminal(_) | Wires::Hosts(_) => PosixSpawnFlags::from_bits_retain(SETSID),
        Wires::Own(_) => PosixSpawnFlags::POSIX_SPAWN_SETPGROUP,
    };
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | leads,
    )?;
    attributes.set_pgroup(Pid::from_raw(0))?;
    attributes.set_sigdefault(&every_signal())?;
    attributes.set_sigmask(&SigSet::empty())?;
    let argv: Vec<CString> = argv.iter().map(|argument| text(&[argument])).collect::<io::Result<_>>()?;
    let variables: Vec<CString> = environment
        .iter()
        .map(|(name, value)| text(&[name, OsStr::new("="), value]))
        .collect::<io::Result<_>>()?;
    let program = text(&[program.as_os_str()])?;
    let pid = posix_spawn(program.as_c_str(), &actions, &attributes, &argv, &variables)?;
    u32::try_from(pid.as_raw()).map_err(io::Error::other)
}

/// All signals, the C library's own two included, which sigfillset(3) leaves out. A C library ignores those in a new program unless they
/// are in the set.
fn every_signal() -> SigSet {
    // SAFETY: a set of signals is an array of integers, of which any bits are valid.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        std::ptr::write_bytes(&raw mut set, 0xff, 1);
        SigSet::from_sigset_t_unchecked(set)
    }
}

fn text(parts: &[&OsStr]) -> io::Result<CString> {
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.as_bytes()).copied().collect();
    CString::new(bytes).map_err(|_| io::Error::from(Errno::EINVAL))
}
