//! PURE: whether a turn succeeded. Neither the agent's word nor the exit status is believed alone.
//!
//! | agent's end of turn | process end                      | verdict |
//! |---------------------|----------------------------------|---------|
//! | good                | 0, or unknown                    | success |
//! | good                | killed (by us for lingering, or by somebody else) | success, `recovered` |
//! | good, but work goes on behind | stopped by us                 | the stop's code |
//! | good                | a crash signal, another exit code | `AGENT_CRASHED` |
//! | bad                 | any                              | `AGENT_FAILED` + kind |
//! | none                | 0, or unknown                    | `AGENT_TRUNCATED` |
//! | none                | an exit code that something explains | `AGENT_FAILED` + kind |
//! | none                | a signal, another exit code      | `AGENT_CRASHED` |
//!
//! A turn that used more than it may is `AGENT_BUDGET`, whatever its end. Without a good end of turn, a stop of ours decides the
//! fault. An unknown session is always `AGENT_RESUME_FAILED`, and so is a session id other than the requested one.
//!
//! A [`Transcript`](transcript::Transcript) hands whole lines of stdout to the provider's reader, and so collects the evidence. A
//! `tally` sums up the attempts of a turn, and [`result`] is what its caller gets.

pub(crate) mod recent;
pub mod result;
pub mod stop;
pub(crate) mod tally;
pub mod transcript;

use crate::harness::clip::clip;
use crate::harness::event::AgentErrorKind;
use crate::harness::evidence::digest::Digest;
use crate::harness::evidence::failure::Failure;
use crate::harness::evidence::last_lines::LastLines;
use crate::harness::evidence::reason_line::reason_line;
use crate::harness::evidence::reset::Reset;
use crate::harness::provider::Provider;
use ground::error::{Error, ErrorCode};
use stop::Silence;
pub use stop::Stop;

/// How the process ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    Exited(i32),
    /// The signal's name, for example "SIGKILL".
    Signalled(String),
    Unknown,
}

/// The evidence for a verdict.
pub struct Evidence<'a> {
    pub provider: Provider,
    pub digest: &'a Digest,
    pub ending: &'a Ending,
    pub stop: Option<Stop>,
    pub stderr: &'a str,
    /// The host that was asked last and did not answer, where traffic was seen.
    pub unanswered: Option<String>,
    /// The session that was asked for.
    pub resume: Option<&'a str>,
    /// Whether a session was to be continued, or that is not known: only then may the reason be an unknown session.
    pub may_resume: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// It had to be killed after its good end of turn.
    pub recovered: bool,
    pub fault: Option<Fault>,
}

/// Why a turn did not succeed.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub error: Error,
    /// The answer was refused by the CLI itself for its shape: the answer may be there all the same.
    pub is_misshapen: bool,
    /// When the limit ends that it ran into, where somebody says so.
    pub reset: Option<Reset>,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault { error, is_misshapen: false, reset: None }
    }
}

impl Fault {
    pub(crate) fn new(code: ErrorCode, kind: Option<AgentErrorKind>, message: &str) -> Fault {
        // A line may be of 64 MiB, and so what an agent says in it; or it says nothing, and a fault has a reason all the same.
        let is_silent = message.trim().is_empty();
        let message = if is_silent { "the agent failed, and gave no reason".into() } else { clip(message) };
        let error = Error::new(code, message);
        match kind {
            Some(kind) => error.with("kind", kind.as_str()).into(),
            None => error.into(),
        }
    }

    pub fn kind(&self) -> Option<AgentErrorKind> {
        AgentErrorKind::of(&self.error)
    }

    /// The fault with the end of its limit. `told`: a reset time in a field of the output is exact; one in a message is rounded for
    /// people.
    pub(crate) fn resetting(mut self, told: Option<&Reset>) -> Fault {
        if self.kind().is_some_and(AgentErrorKind::may_reset) {
            self.reset = told.cloned().or_else(|| Reset::parse(self.error.message()));
        }
        self
    }
}

impl Verdict {
    fn success(recovered: bool) -> Self {
        Verdict { recovered, fault: None }
    }

    fn fault(code: ErrorCode, kind: Option<AgentErrorKind>, message: impl AsRef<str>) -> Self {
        Verdict { recovered: false, fault: Some(Fault::new(code, kind, message.as_ref())) }
    }

    fn failed(failure: &Failure, may_resume: bool) -> Self {
        if failure.is_resume && may_resume {
            return Verdict::fault(ErrorCode::AgentResumeFailed, None, &failure.message);
        }
        let fault = Fault::new(ErrorCode::AgentFailed, Some(failure.kind), &failure.message);
        let fault = Fault { is_misshapen: failure.is_misshapen, ..fault };
        Verdict { recovered: false, fault: Some(fault) }
    }
}

/// See the table above.
pub fn verdict(evidence: &Evidence) -> Verdict {
    let Verdict { recovered, fault } = weigh(evidence);
    Verdict { recovered, fault: fault.map(|fault| fault.resetting(evidence.digest.trouble.reset.as_ref())) }
}

fn weigh(evidence: &Evidence) -> Verdict {
    let Evidence { provider, digest, ending, stop, resume, .. } = *evidence;
    let name = provider.as_str();
    if stop == Some(Stop::Aborted) {
        return stopped(evidence, Stop::Aborted);
    }
    if let (Some(asked), Some(reported)) = (resume, digest.session.as_deref())
        && !provider.is_same_session(asked, reported)
    {
        let message = format!("{name} was asked to continue session {asked} but began {reported}");
        return Verdict::fault(ErrorCode::AgentResumeFailed, None, message);
    }
    if stop == Some(Stop::OverBudget) {
        // Whatever its end was, and whether it came before it was stopped: that is a matter of moments.
        return stopped(evidence, Stop::OverBudget);
    }
    match digest.end.terminal.as_ref() {
        Some(terminal) if terminal.ok => {
            // A stop cut off the work that was to follow, so the answer is not final.
            let is_cut_off = !digest.end.is_answered() && !matches!(stop, None | Some(Stop::Lingered));
            match is_cut_off {
                true => no_end(evidence),
                false if is_empty(digest) => Verdict::fault(
                    ErrorCode::AgentTruncated,
                    None,
                    format!(
                        "{name} ended its turn without a word and without a tool call: its model may have failed"
                    ),
                ),
                false => good_end(name, ending, stop),
            }
        }
        Some(terminal) => {
            let unknown =
                Failure::new(AgentErrorKind::Unknown, format!("{name} reported that its turn failed"));
            Verdict::failed(terminal.failure.as_ref().unwrap_or(&unknown), evidence.may_resume)
        }
        None => no_end(evidence),
    }
}

/// Whether the agent did nothing at all.
fn is_empty(digest: &Digest) -> bool {
    digest.final_text().trim().is_empty()
        && digest.answer.structured.is_none()
        && digest.steps.tool_calls == 0
}

fn good_end(name: &str, ending: &Ending, stop: Option<Stop>) -> Verdict {
    match ending {
        _ if stop.is_some() => Verdict::success(true),
        Ending::Exited(0) | Ending::Unknown => Verdict::success(false),
        _ if is_kill(ending) => Verdict::success(true),
        Ending::Signalled(signal) => Verdict::fault(
            ErrorCode::AgentCrashed,
            None,
            format!("{name} reported a good end of turn, then died of {signal}"),
        ),
        Ending::Exited(code) => Verdict::fault(
            ErrorCode::AgentCrashed,
            None,
            format!("{name} reported a good end of turn but exited with {code}"),
        ),
    }
}

/// Whether somebody ended the process, rather than a fault of its own: the signal itself, or a shell's way to tell of it.
fn is_kill(ending: &Ending) -> bool {
    match ending {
        Ending::Signalled(signal) => matches!(&**signal, "SIGTERM" | "SIGKILL" | "SIGINT" | "SIGHUP"),
        Ending::Exited(code) => matches!(code, 129 | 130 | 137 | 143),
        Ending::Unknown => false,
    }
}

fn no_end(evidence: &Evidence) -> Verdict {
    let Evidence { provider, digest, stop, stderr, may_resume, .. } = *evidence;
    if let Some(stop) = stop.filter(|stop| *stop != Stop::Lingered) {
        return stopped(evidence, stop);
    }
    let kind = hint(digest).map(|failure| failure.kind);
    let said = provider.descriptor().words.reason_in(stderr, may_resume);
    match said {
        Some(failure) if failure.is_resume => Verdict::failed(&failure, may_resume),
        said => ended_alone(evidence, kind, said),
    }
}

/// The verdict on a turn that we stopped.
fn stopped(evidence: &Evidence, stop: Stop) -> Verdict {
    let Evidence { provider, digest, stderr, .. } = *evidence;
    let running = match (digest.open_tool(), digest.end.names().next()) {
        (None, Some(what)) => Some(format!("{what} in the background")),
        (tool, _) => tool.map(|tool| format!("its tool {tool}")),
    };
    let printed = digest.events.other_lines.told().or_else(|| LastLines::of(stderr).told());
    let silence = Silence { runs: running, printed, unanswered: evidence.unanswered.clone() };
    let mut error = stop.error(provider.as_str(), &silence);
    let is_its_fault = matches!(stop, Stop::Idle { .. } | Stop::TimedOut { .. } | Stop::NoProgress);
    if let Some(failure) = hint(digest).filter(|_| is_its_fault) {
        let last = format!("The last error was: {}", clip(&failure.message));
        error = error.adding(&last).with("kind", failure.kind.as_str());
    }
    Verdict { recovered: false, fault: Some(error.into()) }
}

/// The verdict on a turn whose process ended by itself, without an end of the turn. `said`: the reason in its stderr.
fn ended_alone(evidence: &Evidence, kind: Option<AgentErrorKind>, said: Option<Failure>) -> Verdict {
    let Evidence { provider, digest, ending, stderr, resume, may_resume, .. } = *evidence;
    let name = provider.as_str();
    let last_words = last_words(digest);
    let is_silent = digest.session.is_none() && digest.steps.turns == 0 && digest.final_text().is_empty();
    let tail = || reason_line(stderr).map(|line| format!(": {line}")).unwrap_or_default();
    let (code, kind, message) = match ending {
        Ending::Exited(0) if resume.is_some() && is_silent => {
            let asked = resume.unwrap_or_default();
            let message = format!("{name} printed nothing when asked to continue session {asked}");
            (ErrorCode::AgentResumeFailed, None, message)
        }
        Ending::Exited(0) => {
            let message = format!(
                "{name} exited with 0 but never reported the end of its turn: its output was cut{}{last_words}",
                tail()
            );
            (ErrorCode::AgentTruncated, kind, message)
        }
        Ending::Unknown => {
            let message = format!("the output of {name} contains no end of turn{last_words}");
            (ErrorCode::AgentTruncated, kind, message)
        }
        Ending::Signalled(signal) => {
            let message = format!("{name} died of {signal} before its turn ended{last_words}");
            (ErrorCode::AgentCrashed, kind, message)
        }
        Ending::Exited(code) if is_kill(ending) => {
            let message = format!("{name} was killed (exit code {code}) before its turn ended{last_words}");
            (ErrorCode::AgentCrashed, kind, message)
        }
        Ending::Exited(code) => {
            let coded = explained(provider, *code, said.as_ref());
            if let Some(failure) = digest.trouble.failure.clone().or(coded).or(said) {
                return Verdict::failed(&failure, may_resume);
            }
            let message = format!("{name} exited with {code} before its turn ended{}{last_words}", tail());
            (ErrorCode::AgentCrashed, kind, message)
        }
    };
    Verdict::fault(code, kind, message)
}

/// The meaning of an exit code, with the CLI's own words before it.
fn explained(provider: Provider, code: i32, said: Option<&Failure>) -> Option<Failure> {
    let mut failure = provider.descriptor().words.explain(provider.as_str(), code)?;
    if let Some(said) = said.filter(|said| !said.message.is_empty()) {
        failure.message = format!("{} ({})", said.message, failure.message);
        // gemini exits as for wrong settings where it is not signed in.
        if failure.kind == AgentErrorKind::InvalidRequest && said.kind != AgentErrorKind::Unknown {
            failure.kind = said.kind;
        }
    }
    Some(failure)
}

/// The last thing that the agent said went wrong.
fn hint(digest: &Digest) -> Option<&Failure> {
    digest.trouble.failure.as_ref().or(digest.trouble.retrying.as_ref())
}

fn last_words(digest: &Digest) -> String {
    hint(digest).map(|failure| format!(" (last error: {})", failure.message)).unwrap_or_default()
}
