//! The program's three standard descriptors, and the host's ends of them.

use super::super::launched::Pipes;
use super::super::wires::{Source, Wires};
use crate::spec::Stdio;
use ground::error::{Error, ErrorCode, Result};
use ground::os::unix::widen;
use ground::os::{Pipe, PipeWriter, Terminal, TerminalSize};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::{File, OpenOptions};
use std::io::{self, pipe};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The program's ends and the host's ends of the descriptors.
#[derive(Debug)]
pub(crate) struct Wiring {
    /// stdin, stdout, stderr: the program's.
    pub program: [OwnedFd; 3],
    pub ends: Ends,
}

/// The host's ends; `None` where nothing is written or read by the host.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    /// The terminal behind `stdin` and `stdout`, if they are one.
    pub terminal: Option<Terminal>,
}

impl Wires {
    /// Whether some of the three may be the host's terminal.
    pub(crate) fn are_hosts(&self) -> bool {
        self.stdio == Stdio::Inherit || matches!(self.stdin, Source::Host)
    }

    /// `file`: the one that the input names, opened.
    pub(crate) fn lay(&self, file: Option<&File>) -> io::Result<Wiring> {
        match self.stdio {
            Stdio::Piped => {
                let wiring = Wiring::piped(self.stdin, file)?;
                if let (Some(bytes), Some(stdout)) = (self.stdout_pipe_bytes, &wiring.ends.stdout) {
                    widen(stdout, bytes);
                }
                Ok(wiring)
            }
            Stdio::Inherit => Wiring::inherited(),
            Stdio::Terminal(size) => Wiring::terminal(size),
        }
    }
}

impl Wiring {
    pub(crate) fn piped(stdin: Source, file: Option<&File>) -> io::Result<Wiring> {
        let (host_stdin, program_stdin) = match (stdin, file) {
            (Source::File, Some(file)) => (None, file.try_clone()?.into()),
            (Source::Null | Source::File, _) => {
                (None, OpenOptions::new().read(true).open("/dev/null")?.into())
            }
            (Source::Pipe, _) => {
                let (reader, writer) = pipe()?;
                (Some(OwnedFd::from(writer)), OwnedFd::from(reader))
            }
            (Source::Host, _) => (None, host_copy(io::stdin().as_fd())?),
        };
        let (stdout, program_stdout) = pipe()?;
        let (stderr, program_stderr) = pipe()?;
        let ends = Ends {
            stdin: host_stdin,
            stdout: Some(stdout.into()),
            stderr: Some(stderr.into()),
            terminal: None,
        };
        Ok(Wiring { program: [program_stdin, program_stdout.into(), program_stderr.into()], ends })
    }

    fn inherited() -> io::Result<Wiring> {
        let program = [
            host_copy(io::stdin().as_fd())?,
            host_copy(io::stdout().as_fd())?,
            host_copy(io::stderr().as_fd())?,
        ];
        Ok(Wiring { program, ends: Ends::default() })
    }

    /// The host writes to it whatever the input is: a terminal's end of input is typed.
    fn terminal(size: TerminalSize) -> io::Result<Wiring> {
        let (terminal, program) = Terminal::open(size)?;
        let ends = Ends {
            stdin: Some(terminal.try_clone()?),
            stdout: Some(terminal.try_clone()?),
            stderr: None,
            terminal: Some(terminal),
        };
        Ok(Wiring { program: [program.try_clone()?, program.try_clone()?, program], ends })
    }
}

/// Makes the host's ends ready to be watched.
pub(super) fn watch_pipes(ends: Ends) -> Result<Pipes> {
    let watch = || -> io::Result<Pipes> {
        Ok(Pipes {
            stdin: ends.stdin.map(PipeWriter::from_owned_fd).transpose()?,
            stdout: ends.stdout.map(Pipe::from_owned_fd).transpose()?,
            stderr: ends.stderr.map(Pipe::from_owned_fd).transpose()?,
            terminal: ends.terminal.map(Arc::new),
        })
    };
    watch().map_err(|error| {
        Error::new(ErrorCode::ProcessSpawnFailed, format!("cannot watch the pipes of the program: {error}"))
            .with("errno", error.raw_os_error().unwrap_or(0))
            .with("syscall", "epoll_ctl")
    })
}

/// One of the host's own. The JavaScript engine may have made it non-blocking, which programs do not expect.
fn host_copy(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let copy = descriptor.try_clone_to_owned()?;
    let flags = OFlag::from_bits_retain(fcntl(&copy, FcntlArg::F_GETFL)?);
    if flags.contains(OFlag::O_NONBLOCK) {
        fcntl(&copy, FcntlArg::F_SETFL(flags & !OFlag::O_NONBLOCK))?;
    }
    Ok(copy)
}
