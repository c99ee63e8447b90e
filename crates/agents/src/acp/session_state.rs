//! The state of a session, in the parts that change together. The owner task (`owner`) holds one of each.

use super::account::SessionUsage;
use super::active::{Active, OwnTurn};
use super::order::{Prompt, Reply};
use super::question::{HostRequest, OpenQuestion};
use super::request::{OpenRequest, PromptTakes};
use super::tool_book::ToolBook;
use super::turn_state::{LAST_WORDS, Version};
use crate::harness::Provider;
use crate::harness::budget::allowance::{Accounts, Allowance};
use crate::harness::limit::usage_limit::HeldAccount;
use ground::mpsc::UnboundedSender;
use process::Metered;
use serde_json::Value;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Facts that do not change while the session is open.
pub(super) struct SessionFacts {
    /// Number of the session in the log.
    pub(super) number: u64,
    pub(super) request: OpenRequest,
    pub(super) agent: Provider,
    /// The agent's id of the session.
    pub(super) id: String,
    pub(super) version: Version,
    pub(super) cwd: std::path::PathBuf,
    pub(super) can_steer: bool,
    pub(super) takes: PromptTakes,
    pub(super) host: UnboundedSender<HostRequest>,
}

/// Usage of the session, and the limits on it.
pub(super) struct Spending {
    pub(super) usage: SessionUsage,
    /// The session's budgets; `accounts` holds its usage in them.
    pub(super) allowance: Allowance,
    pub(super) accounts: Accounts,
    /// Tokens that were metered until the end of the last turn.
    pub(super) metered: Metered,
    /// The agent's account. A usage limit of it holds its turns back.
    pub(super) account: HeldAccount,
}

/// The agent's tools and background work, as far as they are known.
pub(super) struct Work {
    pub(super) book: ToolBook,
    /// Background work behind the turns, as the agent reports it.
    pub(super) background: Vec<Value>,
    /// Calls of the host's own tools that run.
    pub(super) own_tools: usize,
    /// The agent has asked which tools the host has, or none has to.
    pub(super) knows_tools: bool,
    /// When the agent last did something.
    pub(super) acted: Instant,
    /// Background work was seen behind a turn, so the session waits for the settle time before it is idle.
    pub(super) seen_behind: bool,
}

/// The turn under way, and the prompts that wait.
pub(super) struct Turns {
    pub(super) count: u32,
    pub(super) active: Option<Active>,
    /// A turn that the agent began by itself.
    pub(super) own: Option<OwnTurn>,
    pub(super) queue: VecDeque<Box<Prompt>>,
    /// Put before the first prompt.
    pub(super) preamble: Option<String>,
    /// Warnings of the opening, which the first turn reports.
    pub(super) warnings: Vec<String>,
    pub(super) afterwords: Afterwords,
}

/// The time behind an opening or a cancelled turn in which an agent may still say something about it. Version 1 does not tell what
/// its words belong to, so the next prompt waits for a moment of silence.
pub(super) struct Afterwords {
    silent_at: Instant,
    latest: Instant,
}

impl Afterwords {
    const LONGEST: Duration = Duration::from_millis(500);

    /// The turn that may have afterwords has ended.
    pub(super) fn after(now: Instant, version: Version) -> Afterwords {
        match version {
            Version::One => Afterwords { silent_at: now + LAST_WORDS, latest: now + Self::LONGEST },
            Version::Two => Afterwords { silent_at: now, latest: now },
        }
    }

    pub(super) fn on_heard(&mut self, now: Instant) {
        if now < self.silent_at {
            self.silent_at = (now + LAST_WORDS).min(self.latest);
        }
    }

    /// When the next prompt may be sent, if that is later than now.
    pub(super) fn end(&self, now: Instant) -> Option<Instant> {
        Some(self.silent_at).filter(|at| *at > now)
    }
}

/// The questions that wait for an answer.
#[derive(Default)]
pub(super) struct Questions {
    pub(super) open: Vec<OpenQuestion>,
    /// Questions so far; the number of a question is its id for the host.
    pub(super) asked: u64,
}

/// Callers that wait for the session.
#[derive(Default)]
pub(super) struct Waiters {
    pub(super) idle: Vec<Reply<()>>,
    pub(super) cancel: Vec<CancelWaiter>,
}

impl Turns {
    pub(super) fn after_opening(
        preamble: Option<String>,
        warnings: Vec<String>,
        afterwords: Afterwords,
    ) -> Turns {
        Turns { count: 0, active: None, own: None, queue: VecDeque::new(), preamble, warnings, afterwords }
    }

    /// The number of the turn that begins.
    pub(super) fn next(&mut self) -> u32 {
        self.count += 1;
        self.count
    }

    /// Whether a turn was asked to end. What the agent says from then on is read whether there is room for it or not, because
    /// its answer could not come otherwise. Listeners without room miss text, but no boundary of a turn.
    pub(super) fn is_stopping(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.end.stop.is_some()) || self.is_own_stopping()
    }

    /// Whether the agent was asked to end a turn that it began by itself.
    pub(super) fn is_own_stopping(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.kill_at.is_some())
    }
}

impl Work {
    /// Whether something goes on that no turn of ours waits for.
    pub(super) fn is_behind(&self) -> bool {
        !self.background.is_empty() || self.book.in_progress().next().is_some()
    }
}

/// A caller that waits for the end of a cancelled turn.
pub(super) struct CancelWaiter {
    pub(super) kills_strays: bool,
    pub(super) reply: Reply<()>,
}
