//! PURE: the reasons for which we end a turn, whichever way it runs, and their errors.

use crate::harness::clock::{Clock, Due};
use ground::error::{Error, ErrorCode};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Why we stopped an agent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Stop {
    /// It did not end by itself after its good end of turn.
    Lingered,
    /// No output for so many milliseconds, with or without a tool open.
    Idle {
        ms: f64,
        in_tool: bool,
        before_first_byte: bool,
    },
    TimedOut {
        ms: f64,
    },
    Aborted,
    NoProgress,
    /// The CLI continued another session than the requested one.
    OtherSession,
    /// This turn, or the turns that share a budget with it, used more than allowed.
    OverBudget,
    /// The session of the turn is being closed.
    Closed,
}

/// Facts that may explain an agent's silence.
#[derive(Default)]
pub(crate) struct Silence {
    /// The tool or the background work that ran meanwhile.
    pub runs: Option<String>,
    /// The last lines that it printed besides its events.
    pub printed: Option<String>,
    /// The host that was asked last and did not answer.
    pub unanswered: Option<String>,
}

impl Stop {
    /// The stop that is due by this clock.
    pub(crate) fn due(due: Due, clock: &Clock) -> Option<Stop> {
        let ms = |limit: Duration| limit.as_secs_f64() * 1e3;
        match due {
            Due::Nothing | Due::Sample | Due::Extend { .. } => None,
            Due::Idle { limit } => Some(Stop::Idle {
                ms: ms(limit),
                in_tool: clock.in_tool,
                before_first_byte: !clock.has_heard,
            }),
            Due::TimedOut { limit } => Some(Stop::TimedOut { ms: ms(limit) }),
            Due::Lingers => Some(Stop::Lingered),
            Due::NoProgress => Some(Stop::NoProgress),
        }
    }

    /// The error of a turn that this ended.
    pub(crate) fn error(self, name: &str, silence: &Silence) -> Error {
        let (code, message) = match self {
            Stop::Idle { ms, in_tool, before_first_byte } => {
                let (option, words) = silence.words(name, ms / 1e3, in_tool, before_first_byte);
                return Error::new(ErrorCode::AgentIdle, words).with(option, ms);
            }
            Stop::TimedOut { ms } => {
                let message = format!("{name} had not finished after {} s (timeoutMs)", ms / 1e3);
                return Error::new(ErrorCode::AgentTimedOut, message).with("timeoutMs", ms);
            }
            Stop::Aborted => (ErrorCode::AgentAborted, format!("the {name} turn was aborted")),
            Stop::Closed => (ErrorCode::AgentAborted, format!("the {name} session was closed in its turn")),
            Stop::OverBudget => (ErrorCode::AgentBudget, format!("the {name} turn used more than its limit")),
            Stop::NoProgress => {
                (ErrorCode::AgentNoProgress, format!("{name} kept printing without any progress"))
            }
            Stop::OtherSession => (
                ErrorCode::AgentResumeFailed,
                format!("{name} began another session than the one that it was asked to continue"),
            ),
            Stop::Lingered => (ErrorCode::AgentCrashed, format!("{name} did not exit after its turn")),
        };
        Error::new(code, message)
    }
}

impl Silence {
    /// The option whose limit the silence has reached, and the words for it.
    fn words(&self, name: &str, seconds: f64, in_tool: bool, is_start: bool) -> (&'static str, String) {
        let Silence { runs, printed, unanswered } = self;
        let (option, mut words) = match (is_start, in_tool) {
            (true, _) => {
                let what = if printed.is_some() { "began no turn" } else { "printed nothing" };
                ("startTimeoutMs", format!("{name} {what} for {seconds} s after its start"))
            }
            (_, true) => {
                let runs = runs.as_deref().unwrap_or("its tool");
                ("toolIdleTimeoutMs", format!("{name} was silent for {seconds} s while {runs} ran"))
            }
            _ => ("idleTimeoutMs", format!("{name} was silent for {seconds} s")),
        };
        words += &format!(" ({option})");
        if let Some(host) = unanswered {
            words += &format!("; {host}, which was asked last, did not answer");
        }
        if let Some(lines) = printed {
            words += &format!(". Before that it printed {lines}");
        }
        (option, words)
    }
}

/// The warning of a silence that may last as long again.
pub(crate) fn extended(limit: Duration) -> String {
    format!(
        "silent for {} s, but its processes are busy: waiting for the same time once more",
        limit.as_secs_f64()
    )
}
