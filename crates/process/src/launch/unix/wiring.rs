//! The program's three standard descriptors, and the host's ends of them.

use super::super::launched::Pipes;
use super::super::wires::{Source, Wires};
use crate::spec::Stdio;
use ground::error::{Error, ErrorCode, Result};
use ground::os::unix::{LentTerminal, widen};
use ground::os::{Fault, Pipe, PipeWriter, Terminal, TerminalSize};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::File;
use std::io::{self, pipe};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
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
    /// The terminal of this process, if it is among the program's.
    pub lent: Option<LentTerminal>,
}

impl Wires {
    /// Whether some of the three may be the host's terminal.
    pub(crate) fn are_hosts(&self) -> bool {
        self.stdio == Stdio::Inherit || matches!(self.stdin, Source::Host)
    }

    /// `file`: the one that the input names, opened.
    pub(crate) fn lay(&self, file: Option<&File>) -> Result<Wiring, Fault> {
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
    pub(crate) fn piped(stdin: Source, file: Option<&File>) -> Result<Wiring, Fault> {
        let pipe = || pipe().map_err(Fault::in_call("pipe2"));
        let null = Path::new("/dev/null");
        let (host_stdin, program_stdin) = match (stdin, file) {
            (Source::File, Some(file)) => (None, file.try_clone().map_err(copy_refused)?.into()),
            (Source::Null | Source::File, _) => {
                (None, File::open(null).map_err(Fault::on("open", null))?.into())
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
            lent: None,
        };
        let mut wiring =
            Wiring { program: [program_stdin, program_stdout.into(), program_stderr.into()], ends };
        if matches!(stdin, Source::Host) {
            wiring.ends.lent = LentTerminal::among(&wiring.program);
        }
        Ok(wiring)
    }

    fn inherited() -> Result<Wiring, Fault> {
        let program = [
            host_copy(io::stdin().as_fd())?,
            host_copy(io::stdout().as_fd())?,
            host_copy(io::stderr().as_fd())?,
        ];
        let lent = LentTerminal::among(&program);
        Ok(Wiring { program, ends: Ends { lent, ..Ends::default() } })
    }

    /// The host writes to it whatever the input is: a terminal's end of input is typed.
    fn terminal(size: TerminalSize) -> Result<Wiring, Fault> {
        let (terminal, program) = Terminal::open(size)?;
        let copy = || program.try_clone().map_err(copy_refused);
        let ends = Ends {
            stdin: Some(terminal.try_clone().map_err(copy_refused)?),
            stdout: Some(terminal.try_clone().map_err(copy_refused)?),
            stderr: None,
            terminal: Some(terminal),
            lent: None,
        };
        Ok(Wiring { program: [copy()?, copy()?, program], ends })
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
    watch().map_err(Fault::in_call("epoll_ctl")).map_err(|fault| {
        let message = format!("cannot watch the pipes of the program: {fault}");
        fault.mark(Error::new(ErrorCode::ProcessSpawnFailed, message))
    })
}

/// One of the host's own. The JavaScript engine may have made it non-blocking, which programs do not expect.
fn host_copy(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, Fault> {
    let copy = || -> io::Result<OwnedFd> {
        let copy = descriptor.try_clone_to_owned()?;
        let flags = OFlag::from_bits_retain(fcntl(&copy, FcntlArg::F_GETFL)?);
        if flags.contains(OFlag::O_NONBLOCK) {
            fcntl(&copy, FcntlArg::F_SETFL(flags & !OFlag::O_NONBLOCK))?;
        }
        Ok(copy)
    };
    // A host may have closed its own stdin, stdout or stderr.
    let name = match descriptor.as_raw_fd() {
        0 => "/dev/stdin",
        1 => "/dev/stdout",
        _ => "/dev/stderr",
    };
    copy().map_err(Fault::on("fcntl", Path::new(name)))
}

fn copy_refused(error: io::Error) -> Fault {
    Fault::of("fcntl", None, &error)
}
