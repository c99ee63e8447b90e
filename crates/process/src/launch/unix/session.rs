//! Starts a program without a guard as the leader of a session: in a terminal of its own, or with the host's own descriptors.
//! In the host's session it would be a background group, which the host's terminal stops when it reads.
//!
//! The first terminal that a session's leader opens becomes its controlling one.

use crate::command::ResolvedCommand;
use ground::os::Terminal;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use nix::sys::stat::Mode;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[cfg(target_os = "linux")]
const SETSID: libc::c_int = libc::POSIX_SPAWN_SETSID as libc::c_int;
#[cfg(not(target_os = "linux"))]
const SETSID: libc::c_int = 0x400;

const SHELL: &str = "/bin/sh";
/// posix_spawn can't change the working directory everywhere; a shell can, and then becomes the program.
const ENTER_AND_BECOME: &str = r#"cd -- "$1" && shift && exec "$@""#;

/// The program's three standard descriptors.
#[derive(Clone, Copy)]
pub(super) enum Wires<'a> {
    Terminal(&'a Terminal),
    Descriptors(&'a [OwnedFd; 3]),
}

/// Spawns the program. Returns its pid, which is also the id of its session and group.
pub(super) fn spawn(wires: Wires<'_>, command: &ResolvedCommand) -> io::Result<u32> {
    let is_here = match &command.cwd {
        Some(cwd) => std::env::current_dir().is_ok_and(|own| own == *cwd),
        None => command.folder.is_present(),
    };
    if !is_here {
        // The shell has none of this process's descriptors.
        let cwd = command.folder.named(command.cwd.as_deref().unwrap_or(Path::new(".")));
        let mut argv = ["sh", "-c", ENTER_AND_BECOME, "sh"].map(OsString::from).to_vec();
        argv.extend([cwd.into(), command.program.clone().into()]);
        argv.extend(command.argv.iter().skip(1).cloned());
        return execute(wires, Path::new(SHELL), &argv, &command.environment);
    }
    match execute(wires, &command.program, &command.argv, &command.environment) {
        Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            let mut argv = vec![OsString::from("sh"), command.program.clone().into()];
            argv.extend(command.argv.iter().skip(1).cloned());
            execute(wires, Path::new(SHELL), &argv, &command.environment)
        }
        other => other,
    }
}

fn execute(
    wires: Wires<'_>,
    program: &Path,
    argv: &[OsString],
    environment: &[(OsString, OsString)],
) -> io::Result<u32> {
    let mut actions = PosixSpawnFileActions::init()?;
    match wires {
        Wires::Terminal(terminal) => {
            actions.add_open(0, terminal.path()?.as_c_str(), OFlag::O_RDWR, Mode::empty())?;
            actions.add_dup2(0, 1)?;
            actions.add_dup2(0, 2)?;
        }
        // No source is among the targets: a copied descriptor is 3 or higher.
        Wires::Descriptors(descriptors) => {
            for (target, source) in (0..).zip(descriptors) {
                actions.add_dup2(source.as_raw_fd(), target)?;
            }
        }
    }
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
            | PosixSpawnFlags::from_bits_retain(SETSID),
    )?;
    attributes.set_sigdefault(&SigSet::all())?;
    attributes.set_sigmask(&SigSet::empty())?;
    let argv: Vec<CString> = argv.iter().map(|argument| text(&[argument])).collect::<io::Result<_>>()?;
    let variables: Vec<CString> = environment
        .iter()
        .map(|(name, value)| text(&[name, OsStr::new("="), value]))
        .collect::<io::Result<_>>()?;
    let pid =
        posix_spawn(text(&[program.as_os_str()])?.as_c_str(), &actions, &attributes, &argv, &variables)?;
    u32::try_from(pid.as_raw()).map_err(io::Error::other)
}

fn text(parts: &[&OsStr]) -> io::Result<CString> {
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.as_bytes()).copied().collect();
    CString::new(bytes).map_err(|_| io::Error::from(Errno::EINVAL))
}
