//! Makes the outcome of a run when it is over.

use super::end::End;
use super::launch::sandbox_report;
use super::refusals::Refused;
use super::sandbox::report::SandboxReport;
use super::spec::{ContainmentLevel, Encoding, Outcome, ProcessSpec, RunResult, StopReason};
use super::stop::{failure, stop_error};
use ground::keep::Keep;
use ground::lock::lock;
use ground::os::blocking;
use ground::redaction::Redactor;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// More text than this is decoded on another thread, because the owner tasks of all runs share this one.
const MUCH_TEXT: u64 = 1 << 20;

/// Everything that an outcome is made of.
pub(super) struct Report<'a> {
    /// Command and arguments are taken out of it.
    pub spec: &'a mut ProcessSpec,
    pub pid: u32,
    pub level: ContainmentLevel,
    pub started: Instant,
    pub exited: Instant,
    pub first_output: Option<Instant>,
    pub last_output: Option<Instant>,
    pub kept: [Keep; 2],
    pub pipes_held_open: bool,
    pub end: End,
    pub reason: Option<StopReason>,
    /// Attempts that the sandbox refused.
    pub refused: Vec<Refused>,
}

impl<'a> Report<'a> {
    /// It may have run, and if it does it is killed: nobody saw it.
    pub(super) fn of_nobody(spec: &'a mut ProcessSpec, reason: StopReason) -> Self {
        let now = Instant::now();
        Report {
            spec,
            pid: 0,
            level: ContainmentLevel::Group,
            started: now,
            exited: now,
            first_output: None,
            last_output: None,
            kept: [Keep::new(1), Keep::new(1)],
            pipes_held_open: false,
            end: End::UNKNOWN,
            reason: Some(reason),
            refused: Vec::new(),
        }
    }

    pub(super) async fn outcome(self) -> Outcome {
        let Report { spec, end, kept, started, .. } = self;
        let since = |at: Instant| at.saturating_duration_since(started).as_secs_f64() * 1e3;
        let [stdout_bytes, stderr_bytes] = [kept[0].total(), kept[1].total()];
        let dropped = [kept[0].dropped(), kept[1].dropped()];
        let [(stdout, raw_stdout), (stderr, raw_stderr)] = texts_of(kept, spec.encoding).await;
        let status = end.status.unwrap_or_default();
        let result = RunResult {
            command: std::mem::take(&mut spec.command),
            args: shown_arguments(spec),
            pid: self.pid,
            exit_code: status.code,
            signal: status.signal_name(),
            stdout,
            stderr,
            raw: [raw_stdout, raw_stderr],
            trims: spec.trim,
            stdout_bytes,
            stderr_bytes,
            dropped,
            truncated: dropped.iter().any(|bytes| *bytes > 0),
            duration_ms: since(self.exited),
            first_output_ms: self.first_output.map(since),
            last_output_ms: self.last_output.map(since),
            pipes_held_open: self.pipes_held_open,
            strays_killed: end.strays_killed,
            strays_left: end.strays_left,
            containment: self.level,
            usage: end.usage,
            record: None,
            sandbox: sandbox_report(spec).map(|report| SandboxReport { refused: self.refused, ..report }),
        };
        let error = self
            .reason
            .and_then(|reason| stop_error(reason, spec, &result))
            .or_else(|| failure(spec, &result));
        Outcome { result: Some(result), error }
    }
}

/// The kept output of a stream: its text, and its bytes if they differ from the text.
type Text = (String, Option<Vec<u8>>);

/// The kept output of both streams. Much text is converted on a thread that may block, so as not to take time from other runs.
/// The arguments for the result. An error that nobody catches is printed with its result, so they show no secret of the sandbox.
fn shown_arguments(spec: &mut ProcessSpec) -> Vec<String> {
    let (secrets, args) = (spec.secrets(), std::mem::take(&mut spec.args));
    if secrets.is_empty() { args } else { Redactor::new(secrets).redact_pieces(&args) }
}

async fn texts_of(kept: [Keep; 2], encoding: Encoding) -> [Text; 2] {
    if encoding == Encoding::Bytes {
        return kept.map(|kept| (String::new(), Some(kept.into_bytes())));
    }
    if kept.iter().all(|kept| kept.total() <= MUCH_TEXT) {
        return kept.map(Keep::into_text);
    }
    let kept = Arc::new(Mutex::new(Some(kept)));
    let take = move |kept: &Mutex<Option<[Keep; 2]>>| lock(kept).take();
    let lent = kept.clone();
    let texts = blocking(move || take(&lent).map(|kept| kept.map(Keep::into_text))).await;
    match texts {
        Ok(Some(texts)) => texts,
        _ => take(&kept).map(|kept| kept.map(Keep::into_text)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::error::ErrorCode;

    #[tokio::test]
    async fn a_run_that_nobody_saw_is_told_in_the_shape_that_was_asked_for() {
        let mut spec = ProcessSpec::new("program", ["argument"]);
        spec.encoding = Encoding::Bytes;
        let outcome = Report::of_nobody(&mut spec, StopReason::Lost).outcome().await;
        let result = outcome.result.unwrap();
        assert_eq!((result.command.as_str(), result.pid, result.strays_left), ("program", 0, 1));
        assert_eq!((result.raw, result.duration_ms), ([Some(Vec::new()), Some(Vec::new())], 0.0));
        assert_eq!(outcome.error.unwrap().code(), ErrorCode::ProcessLost);
    }
}
