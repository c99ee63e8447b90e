//! The state of a session, in the parts that change together. The owner task (`owner`) holds one of each.

use crate::acp::opening::request::{OpenRequest, PromptTakes};
use crate::acp::question::{HostRequest, OpenQuestion};
use crate::acp::state::active::{Active, OwnTurn};
use crate::acp::state::order::{Prompt, Reply};
use crate::acp::turn::session_usage::SessionUsage;
use crate::acp::turn::tool_book::ToolBook;
use crate::acp::turn::turn_state::{LAST_WORDS, LONGEST_WORDS, Version};
use crate::harness::budget::allowance::{Accounts, Allowance};
use crate::harness::limit::ledger;
use crate::harness::limit::usage_limit::HeldAccount;
use crate::harness::{AgentRequest, Digest, Provider};
use ground::mpsc::UnboundedSender;
use process::Metered;
use serde_json::Value;
use std::collections::VecDeque;
use std::task::{Context, Poll};
use std::time::Instant;

/// Facts that do not change while the session is open.
pub(crate) struct SessionFacts {
    /// Number of the session in the log.
    pub(crate) number: u64,
    pub(crate) request: OpenRequest,
    pub(crate) agent: Provider,
    /// The agent's id of the session.
    pub(crate) id: String,
    pub(crate) version: Version,
    pub(crate) cwd: std::path::PathBuf,
    pub(crate) can_steer: bool,
    pub(crate) takes: PromptTakes,
    pub(crate) host: UnboundedSender<HostRequest>,
}

/// Usage of the session, and the limits on it.
pub(crate) struct Spending {
    pub(crate) usage: SessionUsage,
    /// The session's budgets; `accounts` holds its usage in them.
    pub(crate) allowance: Allowance,
    pub(crate) accounts: Accounts,
    /// Tokens that were metered until the end of the last turn.
    pub(crate) metered: Metered,
    /// The agent's account. A usage limit of it holds its turns back.
    pub(crate) account: HeldAccount,
}

impl Spending {
    /// A session that was opened just now. An agent tells the money of a resumed one from its beginning on.
    pub(crate) fn of(agent: &AgentRequest, allowance: Allowance, account: HeldAccount) -> Spending {
        let before = agent.resume.as_deref().and_then(|session| ledger::counted(agent.provider, session));
        Spending {
            usage: SessionUsage::after(before.and_then(|usage| usage.cost_usd)),
            accounts: allowance.open(),
            metered: Metered::default(),
            account,
            allowance,
        }
    }
}

/// The agent's tools and background work, as far as they are known.
pub(crate) struct Work {
    pub(crate) book: ToolBook,
    /// Background work behind the turns, as the agent reports it.
    pub(crate) background: Vec<Value>,
    /// Calls of the host's own tools that run.
    pub(crate) own_tools: usize,
    /// The agent has asked which tools the host has, or none has to.
    pub(crate) knows_tools: bool,
    /// When the agent last did something.
    pub(crate) acted: Instant,
    /// Background work was seen behind a turn, so the session waits for the settle time before it is idle.
    pub(crate) seen_behind: bool,
    /// Callers that wait until nothing runs.
    pub(crate) waiters: Vec<Reply<()>>,
}

/// The turn under way, and the prompts that wait.
pub(crate) struct Turns {
    pub(crate) count: u32,
    pub(crate) active: Option<Active>,
    /// A turn that the agent began by itself.
    pub(crate) own: Option<OwnTurn>,
    pub(crate) queue: VecDeque<Box<Prompt>>,
    /// Put before the first prompt.
    pub(crate) preamble: Option<String>,
    /// Warnings of the opening, which the first turn reports.
    pub(crate) warnings: Vec<String>,
    pub(crate) afterwords: Afterwords,
}

/// The time behind an opening or a cancelled turn in which an agent may still say something about it. Version 1 does not tell what
/// its words belong to, so the next prompt waits for a moment of silence.
pub(crate) struct Afterwords {
    silent_at: Instant,
    latest: Instant,
}

impl Afterwords {
    /// The turn that may have afterwords has ended.
    pub(crate) fn after(now: Instant, version: Version) -> Afterwords {
        match version {
            Version::One => Afterwords { silent_at: now + LAST_WORDS, latest: now + LONGEST_WORDS },
            Version::Two => Afterwords { silent_at: now, latest: now },
        }
    }

    pub(crate) fn on_heard(&mut self, now: Instant) {
        if now < self.silent_at {
            self.silent_at = (now + LAST_WORDS).min(self.latest);
        }
    }

    /// When the next prompt may be sent, if that is later than now.
    pub(crate) fn end(&self, now: Instant) -> Option<Instant> {
        Some(self.silent_at).filter(|at| *at > now)
    }
}

/// The questions that wait for an answer.
#[derive(Default)]
pub(crate) struct Questions {
    pub(crate) open: Vec<OpenQuestion>,
    /// Questions so far; the number of a question is its id for the host.
    pub(crate) asked: u64,
}

impl Turns {
    pub(crate) fn after_opening(
        preamble: Option<String>,
        warnings: Vec<String>,
        afterwords: Afterwords,
    ) -> Turns {
        Turns { count: 0, active: None, own: None, queue: VecDeque::new(), preamble, warnings, afterwords }
    }

    /// The digest of the turn to which the agent's messages belong now.
    pub(crate) fn digest(&mut self) -> Option<&mut Digest> {
        match (&mut self.own, &mut self.active) {
            (Some(own), _) => Some(&mut own.digest),
            (None, Some(active)) => Some(&mut active.digest),
            (None, None) => None,
        }
    }

    /// The next word of the handles of a prompt. An abort names the place of the prompt: the one under way is before the queue.
    pub(crate) fn poll_word(&mut self, context: &mut Context<'_>) -> Poll<Option<usize>> {
        let active = self.active.iter_mut().map(|active| &mut active.prompt);
        let prompts = active.chain(self.queue.iter_mut().map(Box::as_mut));
        for (place, prompt) in prompts.enumerate() {
            if let Poll::Ready(aborts) = prompt.poll_word(context) {
                return Poll::Ready(aborts.then_some(place));
            }
        }
        Poll::Pending
    }

    /// The number of the turn that begins.
    pub(crate) fn next(&mut self) -> u32 {
        self.count += 1;
        self.count
    }

    /// Whether a turn was asked to end. What the agent says from then on is read whether there is room for it or not, because
    /// its answer could not come otherwise. Listeners without room miss text, but no boundary of a turn.
    pub(crate) fn is_stopping(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.end.stop.is_some()) || self.is_own_stopping()
    }

    /// Whether the agent was asked to end a turn that it began by itself.
    pub(crate) fn is_own_stopping(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.kill_at.is_some())
    }
}

impl Work {
    /// Whether something goes on that no turn of ours waits for.
    pub(crate) fn is_behind(&self) -> bool {
        !self.background.is_empty() || self.book.in_progress().next().is_some()
    }
}
