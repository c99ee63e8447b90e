//! The program's three standard handles, and the host's ends of them.

use super::super::launched::Pipes;
use super::super::wires::{Source, Wires};
use crate::spec::Stdio;
use ground::os::windows::{output_pipe, stdin_pipe};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::io::{AsHandle, OwnedHandle};

/// The program's ends and the host's ends of the handles.
pub(super) struct Wiring {
    /// stdin, stdout, stderr: the program's.
    pub program: [OwnedHandle; 3],
    pub pipes: Pipes,
}

impl Wires {
    /// `file`: the one that the input names, opened. A terminal was refused before.
    pub(super) fn lay(self, file: Option<&File>) -> io::Result<Wiring> {
        if self.stdio == Stdio::Inherit {
            let program = [
                io::stdin().as_handle().try_clone_to_owned()?,
                io::stdout().as_handle().try_clone_to_owned()?,
                io::stderr().as_handle().try_clone_to_owned()?,
            ];
            return Ok(Wiring { program, pipes: Pipes::default() });
        }
        let mut pipes = Pipes::default();
        let stdin = match (self.stdin, file) {
            (Source::File, Some(file)) => file.try_clone()?.into(),
            (Source::Null | Source::File, _) => OpenOptions::new().read(true).open("NUL")?.into(),
            (Source::Pipe, _) => {
                let (writer, program) = stdin_pipe()?;
                pipes.stdin = Some(writer);
                program
            }
            (Source::Host, _) => io::stdin().as_handle().try_clone_to_owned()?,
        };
        let (stdout, program_stdout) = output_pipe(self.stdout_pipe_bytes)?;
        let (stderr, program_stderr) = output_pipe(None)?;
        pipes.stdout = Some(stdout);
        pipes.stderr = Some(stderr);
        Ok(Wiring { program: [stdin, program_stdout, program_stderr], pipes })
    }
}
