//! The wiring that a run asks for. Each system lays it in its own way.

use crate::spec::{Input, ProcessSpec, Stdio};

/// The requested wiring of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wires {
    pub stdio: Stdio,
    pub stdin: Source,
    pub stdout_pipe_bytes: Option<usize>,
}

/// The source of the program's stdin, unless it is a terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Null,
    Pipe,
    Host,
    File,
}

impl Wires {
    pub(crate) fn of(spec: &ProcessSpec) -> Wires {
        let stdin = match spec.input {
            Input::Null => Source::Null,
            Input::Bytes(_) | Input::Pipe => Source::Pipe,
            Input::File(_) => Source::File,
            Input::Inherit => Source::Host,
        };
        Wires { stdio: spec.stdio, stdin, stdout_pipe_bytes: spec.stdout_pipe_bytes }
    }
}
