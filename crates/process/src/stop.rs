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
        StopReason::Idle => idle_error(millis(spec.idle_timeout), spec, result),
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
        StopReason::HostClosing | StopReason::Abandoned => {
            Error::new(ErrorCode::ProcessKilled, format!("{name} was stopped because its host thread ended"))
        }
    };
    Some(error)
}

fn idle_error(limit: f64, spec: &ProcessSpec, result: &RunResult) -> Error {
    let likely = if result.stdout_bytes + result.stderr_bytes == 0 && spec.stdio == Stdio::Piped {
        ". It has printed nothing at all: many programs hold their output back when they have no terminal; give it one \
         (`pty: true`), or its own switch for that (`PYTHONUNBUFFERED=1` in the environment of Python)"
    } else {
        ""
    };
    let message = format!(
        "{} was silent for {limit} ms and was killed: raise `idleTimeoutMs` if it needs longer{likely}",
        result.command
    );
    Error::new(ErrorCode::ProcessIdle, message).with("idleTimeoutMs", limit)
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
    // Some programs (pnpm, tsc) report errors on stdout.
    let last =
        [Stream::Stderr, Stream::Stdout].into_iter().find_map(|stream| last_line(result.shown_bytes(stream)));
    let said = last.map_or_else(String::new, |line| format!(": {line}"));
    let message = format!("{} {how}: its output is in `error.result`{said}", result.command);
    let mut error = Error::new(ErrorCode::ProcessFailed, message);
    if let Some(code) = result.exit_code {
        error = error.with("exitCode", code);
    }
    if let Some(signal) = &result.signal {
        error = error.with("signal", signal.clone());
    }
    Some(error)
}

/// Most characters of a line that a message quotes.
const MAX_QUOTED: usize = 200;

/// The last line of an output that says something, for a message: without control characters and sequences of a terminal, and cut.
fn last_line(output: &[u8]) -> Option<String> {
    let end = &output[output.len().saturating_sub(MAX_LAST_BYTES)..];
    let text = String::from_utf8_lossy(end);
    let mut lines = text.split(['\n', '\r']).map(without_controls);
    let line = lines.rfind(|line| !line.trim().is_empty())?;
    let line = line.trim();
    let cut: String = line.chars().take(MAX_QUOTED).collect();
    Some(if cut.len() < line.len() { format!("{cut}...") } else { cut })
}

/// The end of an output that is looked at.
const MAX_LAST_BYTES: usize = 16 << 10;

/// Without the sequences that colour text and move the cursor, and without other control characters.
fn without_controls(line: &str) -> String {
    const ESCAPE: char = '\u{1b}';
    let mut shown = String::new();
    let mut rest = line.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            ESCAPE if rest.next_if_eq(&'[').is_some() => {
                // Parameters, up to the letter that ends the sequence.
                rest.by_ref().find(|character| ('\u{40}'..='\u{7e}').contains(character));
            }
            ESCAPE if rest.next_if_eq(&']').is_some() => {
                // A title or a link, up to its terminator.
                while let Some(character) = rest.next() {
                    if character == '\u{7}' || (character == ESCAPE && rest.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            '\t' => shown.push(' '),
            character if character.is_control() || is_format(character) => {}
            character => shown.push(character),
        }
    }
    shown
}

/// Characters that change the direction or the lines of the text around them.
fn is_format(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_says_something_is_quoted() {
        let long = "x".repeat(300);
        for (output, expected) in [
            ("", None),
            ("\n \n\t\n", None),
            ("warning\nfatal: no\n\n", Some("fatal: no")),
            ("\u{1b}[1;31merror\u{1b}[0m: it\u{7} broke\u{1b}[K\n\u{1b}[0m\n", Some("error: it broke")),
            ("10 %\r20 %\rdone\r\n", Some("done")),
            ("\u{1b}]0;title\u{7}text\u{1b}]8;;http://x\u{1b}\\link", Some("textlink")),
            ("a\u{202e}b\0c", Some("abc")),
            ("é\u{fffd}", Some("é\u{fffd}")),
        ] {
            assert_eq!(last_line(output.as_bytes()).as_deref(), expected, "{output:?}");
        }
        assert_eq!(last_line(long.as_bytes()), Some(format!("{}...", "x".repeat(MAX_QUOTED))));
        assert_eq!(last_line(b"a\xff\n").as_deref(), Some("a\u{fffd}"));
        assert_eq!(last_line(&[b'\n'; 1 << 20]), None);
    }
}
