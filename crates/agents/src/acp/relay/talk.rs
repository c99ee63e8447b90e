//! PURE: one session as it is seen from between client and agent: its tools, its settings, and the prompt under way.

use crate::acp::account::{Account, SessionUsage};
use crate::acp::settings::Settings;
use crate::acp::tool_book::ToolBook;
use crate::acp::turn_state::Version;
use crate::acp::update::{SessionState, StopReason, TurnEnd, Update};
use crate::harness::turn::clock::{Clock, ClockLimits, Due, Heard, Sample};
use crate::harness::{AgentEvent, Usage};
use ground::error::{Error, ErrorCode};
use serde_json::Value;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A session of the client's.
pub(super) struct Talk {
    pub(super) cwd: PathBuf,
    pub(super) settings: Settings,
    pub(super) book: ToolBook,
    account: Account,
    usage: SessionUsage,
    pub(super) prompt: Option<Prompting>,
    /// Ids of the agent's requests that the client has not answered.
    pub(super) asked: HashSet<String>,
    /// Background work that goes on behind an end of turn.
    has_background: bool,
}

/// A prompt that the agent works on.
pub(super) struct Prompting {
    /// JSON-RPC id of the client's request, as JSON text.
    pub(super) id: String,
    pub(super) clock: Clock,
    /// The error that the client gets in place of the agent's end of turn.
    pub(super) stop: Option<Error>,
    /// When the agent is killed, if it has not ended its turn by then.
    pub(super) kill_at: Option<Instant>,
}

/// The meaning of one message of the agent for its session.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) events: Vec<AgentEvent>,
    /// The usage of all the session's turns, where it has changed.
    pub(super) used: Option<Usage>,
    /// The prompt has ended; in version 2 only.
    pub(super) has_ended: bool,
}

impl Talk {
    pub(super) fn new(cwd: PathBuf, opened: &Value) -> Talk {
        Talk {
            cwd,
            settings: Settings::read(opened),
            book: ToolBook::default(),
            account: Account::default(),
            usage: SessionUsage::default(),
            prompt: None,
            asked: HashSet::new(),
            has_background: false,
        }
    }

    pub(super) fn begin(&mut self, id: String, limits: ClockLimits, now: Instant) {
        // The program has started long ago: silence before the first word is silence.
        let mut clock = Clock::new(ClockLimits { start: None, ..limits }, now);
        clock.on_heard(Heard { progressed: true, has_events: true, ..Heard::default() }, now);
        self.account = Account::default();
        self.prompt = Some(Prompting { id, clock, stop: None, kill_at: None });
    }

    /// A sign of life of the agent.
    pub(super) fn heard(&mut self, now: Instant) {
        let in_tool = self.book.has_open() || self.has_background;
        if let Some(prompt) = &mut self.prompt {
            prompt.clock.on_heard(Heard { in_tool, progressed: true, ended: false, has_events: true }, now);
        }
    }

    /// The agent's silence is not counted while it waits for the client.
    pub(super) fn hold(&mut self, now: Instant) {
        let is_held = !self.asked.is_empty();
        if let Some(prompt) = &mut self.prompt {
            prompt.clock.on_held(is_held, now);
        }
    }

    /// Reads an update that the client gets as it is. `counts_on`: the tokens of a turn are those of the session so far.
    pub(super) fn on_update(&mut self, update: Update, counts_on: bool) -> Seen {
        let mut seen = Seen::default();
        match update {
            Update::Text { text, message, whole, usage } => {
                if let Some(usage) = usage {
                    self.account.on_passing_usage(usage);
                    seen.used = Some(self.used());
                }
                seen.events.extend(self.account.on_text(&text, message.as_deref(), whole));
            }
            Update::Thought { text } => seen.events.extend(self.account.on_thought(&text)),
            Update::Tool(tool) => {
                let (events, is_new) = self.book.on_update(tool);
                if is_new {
                    self.account.on_tool();
                }
                seen.events = events;
            }
            Update::Terminal { id, data, whole, exit_code } => {
                self.book.on_terminal(&id, data.as_deref(), whole, exit_code);
            }
            Update::State(state) => {
                if let Some(items) = state.background {
                    self.has_background = !items.is_empty();
                    seen.events.push(AgentEvent::Background { items });
                }
                if let SessionState::Idle { end: Some(end) } = state.state {
                    seen.events.extend(self.on_end(&end, counts_on));
                    seen.used = Some(self.used());
                    seen.has_ended = self.prompt.is_some();
                }
            }
            Update::Plan(entries) => seen.events.push(AgentEvent::Plan { entries }),
            Update::Mode(mode) => {
                self.settings.on_mode(&mode);
                seen.events.push(AgentEvent::Mode { mode });
            }
            Update::Options(options) => self.settings.on_options(&options),
            Update::Used { cost, context, .. } => {
                if let Some(cost) = cost {
                    self.usage.on_cost(cost);
                    seen.used = Some(self.used());
                }
                let told =
                    context.map(|(used_tokens, max_tokens)| AgentEvent::Context { used_tokens, max_tokens });
                seen.events.extend(told);
            }
            Update::Title(title) => seen.events.push(AgentEvent::Title { title }),
            Update::Commands(commands) => seen.events.push(AgentEvent::Commands { commands }),
            Update::Retry { message } => seen.events.push(AgentEvent::Retry { message, until: None }),
            Update::Warning { message } => seen.events.push(AgentEvent::Warning { message }),
            Update::Prompt { .. } | Update::Quiet | Update::Unknown => {}
        }
        seen
    }

    /// The agent's end of a turn.
    pub(super) fn on_end(&mut self, end: &TurnEnd, counts_on: bool) -> Vec<AgentEvent> {
        let tokens = self.usage.of_turn(end, counts_on);
        let cost = self.usage.cost_of_turn();
        let mut events: Vec<AgentEvent> = self.account.on_end(tokens, cost).into_iter().collect();
        events.extend(self.book.close_refused());
        let is_good = end.reason == StopReason::EndTurn;
        events.push(AgentEvent::End {
            ok: is_good && self.prompt.as_ref().is_none_or(|prompt| prompt.stop.is_none()),
        });
        events
    }

    /// The usage of all turns so far.
    pub(super) fn used(&self) -> Usage {
        self.usage.so_far(self.account.usage())
    }

    /// The prompt is over.
    pub(super) fn finish(&mut self) -> Option<Prompting> {
        self.usage.on_turn(self.account.usage());
        self.account = Account::default();
        self.prompt.take()
    }

    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let prompt = self.prompt.as_ref()?;
        match prompt.stop {
            Some(_) => prompt.kill_at,
            None => prompt.clock.deadline(now),
        }
    }

    /// Finds out what is due: an error that ends the prompt, or a sample of the tree (`Err`).
    pub(super) fn due(&mut self, name: &str, now: Instant) -> Result<Option<Error>, ()> {
        let open = self.book.open().next().map(str::to_owned);
        let Some(prompt) = self.prompt.as_mut().filter(|prompt| prompt.stop.is_none()) else {
            return Ok(None);
        };
        match prompt.clock.due(now, 0, 0) {
            Due::Sample => Err(()),
            Due::Idle { limit } => Ok(Some(silent(name, limit, open.as_deref()))),
            Due::TimedOut { limit } => Ok(Some(Error::new(
                ErrorCode::AgentTimedOut,
                format!(
                    "{name} was ended: its turn took more than {} s in all (`timeoutMs`)",
                    seconds(limit)
                ),
            ))),
            Due::Nothing | Due::Extend { .. } | Due::Lingers | Due::NoProgress => Ok(None),
        }
    }

    pub(super) fn on_sample(&mut self, sample: Sample) {
        if let Some(prompt) = &mut self.prompt {
            prompt.clock.on_sample(sample);
        }
    }

    /// Whether the agent ends the turn of this request by its answer.
    pub(super) fn ends_by_answer(&self, version: Version, id: &str) -> bool {
        version == Version::One && self.prompt.as_ref().is_some_and(|prompt| prompt.id == id)
    }
}

fn seconds(limit: Duration) -> f64 {
    limit.as_secs_f64()
}

fn silent(name: &str, limit: Duration, open: Option<&str>) -> Error {
    let (place, option) = match open {
        Some(tool) => (format!(" while {tool} ran"), "toolIdleTimeoutMs"),
        None => (String::new(), "idleTimeoutMs"),
    };
    let message = format!("{name} was ended: it was silent for {} s{place} (`{option}`)", seconds(limit));
    Error::new(ErrorCode::AgentIdle, message)
}
