//! The errors of a command that can't be started. Each states what was seen, then what may be the cause.

use super::resolved_command::ResolvedCommand;
use ground::error::{Error, ErrorCode};
use ground::os::{Fault, Refusal, SCRIPT_START_BYTES, is_executable, may_execute, refusal_of};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Whether the error says that there is no such file. All other errors leave that open.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The error for a program that the system did not execute.
pub(crate) fn spawn_error(command: &ResolvedCommand, fault: &Fault) -> Error {
    let name = command.argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let reached = &command.reach();
    match refusal_of(fault.errno) {
        Refusal::Missing => match reached.metadata() {
            Ok(_) => missing_interpreter(&name, reached, fault),
            Err(error) if is_missing(&error) => no_such_file(&name, &command.named(), String::new()),
            Err(error) => program_refused(&name, &Fault::of("stat", Some(&command.named()), &error)),
        },
        Refusal::NotExecutable => forbidden(&name, reached, &command.named(), fault),
        Refusal::NoProgram => executable_error(
            &name,
            format!("{fault}: it is neither a program for this kind of machine nor a script"),
        ),
        Refusal::TooLong => {
            let bytes: usize = command.argv.iter().map(|arg| arg.len() + 1).sum::<usize>()
                + command.environment.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>();
            Error::new(
                ErrorCode::ProcessArgumentTooLong,
                format!("arguments and environment together are {bytes} bytes, more than the system allows: pass long texts by `input`"),
            )
            .with("bytes", bytes)
        }
        _ => start_refused(&name, fault),
    }
}

/// The error for a start that the system refused, whatever the program.
pub(crate) fn start_refused(name: &str, fault: &Fault) -> Error {
    let message = format!("{name} could not be started: {fault}{}", remedy(fault.errno));
    fault.mark(Error::new(ErrorCode::ProcessSpawnFailed, message)).with("command", name)
}

/// Advice for a lack of descriptors, processes or memory; empty for other errors.
fn remedy(errno: i32) -> &'static str {
    match refusal_of(errno) {
        Refusal::NoDescriptors => {
            ": run fewer at once, or raise the limit of open files (`ulimit -n`); a run takes three descriptors"
        }
        Refusal::NoProcesses => {
            ": run fewer at once, or raise the limit of processes (`ulimit -u`); a run takes three processes at least"
        }
        Refusal::NoMemory => ": there is no memory left for another process",
        _ => "",
    }
}

/// The error for a working directory that can't be looked at or entered.
pub(crate) fn cwd_refused(reached: &Path, cwd: &Path, fault: &Fault) -> Error {
    match refusal_of(fault.errno) {
        Refusal::Missing if !reached.exists() => cwd_missing(cwd, "does not exist"),
        Refusal::Missing => cwd_missing(cwd, "is not a directory"),
        refusal => {
            let cause = match refusal {
                Refusal::NotExecutable => {
                    ": this user may not enter it, or not pass through a folder above it"
                }
                _ => "",
            };
            let message = format!("the working directory {}: {fault}{cause}", cwd.display());
            fault
                .mark(Error::new(ErrorCode::ProcessSpawnFailed, message))
                .with("cwd", cwd.to_string_lossy().into_owned())
        }
    }
}

pub(super) fn cwd_missing(cwd: &Path, problem: &str) -> Error {
    Error::new(
        ErrorCode::ProcessCwdMissing,
        format!("the working directory {} {problem}: create it, or pass another `cwd`", cwd.display()),
    )
    .with("cwd", cwd.to_string_lossy().into_owned())
}

/// The error for a path that leads to no file.
pub(super) fn no_such_file(command: &str, program: &Path, hint: String) -> Error {
    not_found(command, &format!(": {} does not exist{hint}", program.display()))
}

pub(super) fn not_found(command: &str, tried: &str) -> Error {
    Error::new(ErrorCode::ProcessNotFound, format!("{command}: program not found{tried}"))
        .with("command", command)
}

/// The error for a program that can't be looked at.
pub(super) fn program_refused(command: &str, fault: &Fault) -> Error {
    match refusal_of(fault.errno) {
        Refusal::NotExecutable => executable_error(
            command,
            format!("{fault}: this user may not pass through a folder above the program"),
        ),
        _ => start_refused(command, fault),
    }
}

/// The error for a file that is there and no program for this user. `reached`: the file as this process reaches it.
pub(super) fn not_executable(command: &str, reached: &Path, program: &Path) -> Error {
    let shown = program.display();
    let problem = match reached.metadata() {
        Ok(facts) if facts.is_dir() => format!("{shown} is a directory"),
        Ok(facts) if !facts.is_file() => format!("{shown} is not a regular file"),
        _ if is_executable(reached) => format!(
            "{shown} may not be executed by this user: its permissions, or a file system that is mounted with \"noexec\", forbid it"
        ),
        _ => format!("{shown} has no execute permission"),
    };
    executable_error(command, problem)
}

fn executable_error(command: &str, problem: String) -> Error {
    Error::new(ErrorCode::ProcessNotExecutable, format!("{command}: {problem}")).with("command", command)
}

/// The program is there, so what it needs first is not.
fn missing_interpreter(command: &str, program: &Path, fault: &Fault) -> Error {
    let cause = match interpreter_of(program) {
        Some(interpreter) if interpreter.exists() => {
            format!(
                "what the first line of its interpreter {} names, or its loader, is missing",
                interpreter.display()
            )
        }
        Some(interpreter) => {
            format!("the interpreter in its first line, {}, is missing", interpreter.display())
        }
        None => "the file is there, so the loader that it names is missing".to_owned(),
    };
    Error::new(ErrorCode::ProcessNotFound, format!("{command}: {fault}: {cause}")).with("command", command)
}

/// The system denied the execution: of the program, or of its interpreter.
fn forbidden(command: &str, reached: &Path, program: &Path, fault: &Fault) -> Error {
    if !is_program(reached) {
        return not_executable(command, reached, program);
    }
    let cause = match interpreter_of(reached) {
        Some(interpreter) if !is_program(&interpreter) => {
            format!("the interpreter in its first line, {}, may not be executed", interpreter.display())
        }
        _ => "its interpreter or loader, its file system (\"noexec\") or a security module forbids it"
            .to_owned(),
    };
    executable_error(command, format!("{fault}: {cause}"))
}

fn is_program(file: &Path) -> bool {
    file.is_file() && may_execute(file).is_ok()
}

/// The interpreter that the first line of a script names.
fn interpreter_of(program: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(program).ok()?.take(SCRIPT_START_BYTES).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    line.split_whitespace().next().map(PathBuf::from)
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
