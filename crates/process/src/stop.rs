//! PURE. The error that a user gets for each reason to stop a run.

use super::spec::{ProcessSpec, RunResult, Stdio, StopReason};
use super::stream::Stream;
use ground::error::{Error, ErrorCode};

/// The error of a run that was stopped.
pub(super) fn stop_error(reason: StopReason, spec: &ProcessSpec, result: &RunResult) -> Option<Error> {
    let name = &result.command;
    let millis = |limit: Option<std::time::Duration>| limit.unwrap_or_default().as_secs_f64() * 1e3;
    let error = match reason {
        StopReason::Exited => return None,
        // The clocks of a turn are those of its harness, which knows the limits.
        StopReason::Idle if spec.idle_timeout.is_none() => {
            Error::new(ErrorCode::ProcessIdle, format!("{name} was silent for too long and was killed"))
        }
        StopReason::TimedOut if spec.timeout.is_none() => {
            Error::new(ErrorCode::ProcessTimedOut, format!("{name} ran for too long and was stopped"))
        }
        StopReason::Idle => {
            let limit = millis(spec.idle_timeout);
            let likely = if result.stdout_bytes + result.stderr_bytes == 0 && spec.stdio == Stdio::Piped {
                ". It has printed nothing at all: many programs hold their output back when they have no terminal; give it one \
                 (`pty: true`), or its own switch for that (`PYTHONUNBUFFERED=1` in the environment of Python)"
            } else {
                ""
            };
            let message = format!(
                "{name} was silent for {limit} ms and was killed: raise `idleTimeoutMs` if it needs longer{likely}"
            );
            Error::new(ErrorCode::ProcessIdle, message).with("idleTimeoutMs", limit)
        }
        StopReason::TimedOut => {
            let limit = millis(spec.timeout);
            let message = format!(
                "{name} was still running after {limit} ms and was stopped: raise `timeoutMs` if it needs longer"
            );
            Error::new(ErrorCode::ProcessTimedOut, message).with("timeoutMs", limit)
        }
        StopReason::Aborted => {
            Error::new(ErrorCode::ProcessAborted, format!("{name} was stopped by its abort signal"))
        }
        StopReason::Killed => Error::new(ErrorCode::ProcessKilled, format!("{name} was stopped by kill()")),
        StopReason::LineTooLong(stream) => {
            let limit = spec.max_line_bytes;
            let message = format!(
                "{name} printed a line of more than {limit} bytes and was killed: raise `maxLineBytes`"
            );
            let stream = if stream == Stream::Stdout { "stdout" } else { "stderr" };
            Error::new(ErrorCode::ProcessLineTooLong, message)
                .with("maxLineBytes", limit)
                .with("stream", stream)
        }
        StopReason::InputFailed => Error::new(
            ErrorCode::ProcessInputFailed,
            format!(
                "the source of the `input` of {name} failed, so {name} was killed before it could mistake a part of its input for all of it"
            ),
        ),
        StopReason::Lost => Error::new(
            ErrorCode::ProcessLost,
            format!("the guard of {name} was killed: its processes are gone, its exit status is unknown"),
        ),
        StopReason::HostClosing => {
            Error::new(ErrorCode::ProcessKilled, format!("{name} was stopped because its host thread ended"))
        }
    };
    Some(error)
}

/// The error of a program that ended by itself and failed, for those who want one.
pub(super) fn failure(spec: &ProcessSpec, result: &RunResult) -> Option<Error> {
    if !spec.reject || result.is_ok() {
        return None;
    }
    let how = match (result.exit_code, &result.signal) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was ended by {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    };
    let message = format!("{} {how}: its output is in `error.result`", result.command);
    let mut error = Error::new(ErrorCode::ProcessFailed, message);
    if let Some(code) = result.exit_code {
        error = error.with("exitCode", code);
    }
    if let Some(signal) = &result.signal {
        error = error.with("signal", signal.clone());
    }
    Some(error)
}

/// The error of a run that was stopped before anything was started.
pub(super) fn stopped_before_start(reason: StopReason, spec: &ProcessSpec) -> Error {
    let millis = |limit: Option<std::time::Duration>| limit.unwrap_or_default().as_secs_f64() * 1e3;
    let error =
        |code| Error::new(code, format!("{} was stopped before it started: nothing ran", spec.command));
    match reason {
        StopReason::Aborted => error(ErrorCode::ProcessAborted),
        StopReason::TimedOut => error(ErrorCode::ProcessTimedOut).with("timeoutMs", millis(spec.timeout)),
        StopReason::InputFailed => error(ErrorCode::ProcessInputFailed),
        StopReason::Idle => error(ErrorCode::ProcessIdle).with("idleTimeoutMs", millis(spec.idle_timeout)),
        _ => error(ErrorCode::ProcessKilled),
    }
}
