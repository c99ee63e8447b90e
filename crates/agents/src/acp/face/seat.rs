//! PURE: one open session of the client's: its tools, its settings, and what it used.

use crate::acp::opening::settings::Settings;
use crate::acp::turn::account::{Account, SessionUsage};
use crate::acp::turn::tool_book::ToolBook;
use crate::acp::wire::update::{SessionState, StopReason, TurnEnd, Update};
use crate::harness::{AgentEvent, Usage};
use serde_json::Value;
use std::collections::HashSet;
use std::path::PathBuf;

/// Most calls that are remembered as unread. Behind them every call is.
const MAX_UNREAD: usize = 1024;

/// A session that was opened here.
pub(super) struct Seat {
    pub(super) cwd: PathBuf,
    pub(super) settings: Settings,
    /// The mode that was set or told last, also by an agent that has told no modes.
    pub(super) told: Option<String>,
    pub(super) book: ToolBook,
    account: Account,
    usage: SessionUsage,
    /// Background work that goes on behind an end of turn.
    has_background: bool,
    /// Calls of tools of which not all could be looked at.
    unread: HashSet<String>,
    /// How often the agent has left the level's mode by itself.
    pub(super) left: u32,
    /// The client has closed it while a prompt was under way, whose usage still counts.
    pub(super) is_closed: bool,
}

/// The meaning of one update for its session.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) events: Vec<AgentEvent>,
    /// The usage of the session may have changed.
    pub(super) has_used: bool,
    /// The mode or the options may have changed.
    pub(super) has_settings: bool,
    /// The turns that are in have ended; in version 2 only.
    pub(super) has_ended: bool,
}

impl Seat {
    pub(super) fn new(cwd: PathBuf, opened: &Value) -> Seat {
        Seat {
            cwd,
            settings: Settings::read(opened),
            told: None,
            book: ToolBook::default(),
            account: Account::default(),
            usage: SessionUsage::default(),
            has_background: false,
            unread: HashSet::new(),
            left: 0,
            is_closed: false,
        }
    }

    /// The session is opened once more: what it used stays.
    pub(super) fn take_over(&mut self, before: Seat) {
        self.account = before.account;
        self.usage = before.usage;
    }

    pub(super) fn on_mode(&mut self, mode: &str) {
        self.settings.on_mode(mode);
        self.told = Some(mode.to_owned());
    }

    pub(super) fn on_options(&mut self, options: &Value) {
        self.settings.on_options(options);
        if options.is_array() && self.settings.modes().iter().any(|mode| mode.is_current) {
            self.told = self.settings.mode();
        }
    }

    pub(super) fn is_in_tool(&self) -> bool {
        self.book.has_open() || self.has_background
    }

    /// `is_large`: parts of the update are left out.
    pub(super) fn look_at(&mut self, update: &Update, is_large: bool) {
        if let (Update::Tool(tool), true) = (update, is_large && self.unread.len() < MAX_UNREAD) {
            self.unread.insert(tool.id.clone());
        }
    }

    /// Whether not all that was told of a call could be looked at.
    pub(super) fn is_unread(&self, call: &str) -> bool {
        self.unread.len() >= MAX_UNREAD || self.unread.contains(call)
    }

    /// Reads an update that the client gets as it is. `counts_on`: the tokens of a turn are those of the session so far.
    pub(super) fn on_update(&mut self, update: Update, counts_on: bool) -> Seen {
        let mut seen = Seen::default();
        match update {
            Update::Text { text, message, whole, usage } => {
                if let Some(usage) = usage {
                    self.account.on_passing_usage(usage);
                    seen.has_used = true;
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
                    seen.has_used = true;
                    seen.has_ended = true;
                }
            }
            Update::Plan(entries) => seen.events.push(AgentEvent::Plan { entries }),
            Update::Mode(mode) => {
                self.on_mode(&mode);
                seen.has_settings = true;
                seen.events.push(AgentEvent::Mode { mode });
            }
            Update::Options(options) => {
                self.on_options(&options);
                seen.has_settings = true;
            }
            Update::Used { cost, context, .. } => {
                if let Some(cost) = cost {
                    self.usage.on_cost(cost);
                    seen.has_used = true;
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
        events.push(AgentEvent::End { ok: end.reason == StopReason::EndTurn });
        events
    }

    /// A turn is over: the next one's sums begin.
    pub(super) fn finish(&mut self) {
        self.usage.on_turn(self.account.usage());
        self.account = Account::default();
    }

    /// The usage of all turns so far.
    pub(super) fn used(&self) -> Usage {
        self.usage.so_far(self.account.usage())
    }
}
