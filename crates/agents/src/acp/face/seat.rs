//! PURE: one open session of the client's: its tools, its settings, and what it used.

use crate::acp::opening::settings::Settings;
use crate::acp::turn::heard::hear;
use crate::acp::turn::session_usage::SessionUsage;
use crate::acp::turn::tool_book::ToolBook;
use crate::acp::wire::update::{SessionState, StopReason, TurnEnd, Update};
use crate::harness::{AgentEvent, Digest, Usage};
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
    digest: Digest,
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
            digest: Digest::new(true),
            usage: SessionUsage::default(),
            has_background: false,
            unread: HashSet::new(),
            left: 0,
            is_closed: false,
        }
    }

    /// The session is opened once more: what it used stays.
    pub(super) fn take_over(&mut self, before: Seat) {
        self.digest = before.digest;
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
        match &update {
            Update::Text { usage: Some(_), .. } => seen.has_used = true,
            Update::Used { cost: Some(cost), .. } => {
                self.usage.on_cost(*cost);
                seen.has_used = true;
            }
            _ => {}
        }
        match hear(update, &mut self.digest, &mut self.book) {
            Some(Update::State(state)) => {
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
            Some(Update::Mode(mode)) => {
                self.on_mode(&mode);
                seen.has_settings = true;
                seen.events.push(AgentEvent::Mode { mode });
            }
            Some(Update::Options(options)) => {
                self.on_options(&options);
                seen.has_settings = true;
            }
            _ => seen.events = self.digest.take_events(),
        }
        seen
    }

    /// The agent's end of a turn.
    pub(super) fn on_end(&mut self, end: &TurnEnd, counts_on: bool) -> Vec<AgentEvent> {
        let tokens = self.usage.of_turn(end, counts_on);
        let cost = self.usage.cost_of_turn();
        self.digest.part_ends(tokens, cost);
        let mut events = self.digest.take_events();
        events.extend(self.book.close_refused());
        events.push(AgentEvent::End { ok: end.reason == StopReason::EndTurn });
        events
    }

    /// A turn is over: the next one's sums begin.
    pub(super) fn finish(&mut self) {
        self.usage.on_turn(self.digest.usage.total());
        self.digest = Digest::new(true);
    }

    /// The usage of all turns so far.
    pub(super) fn used(&self) -> Usage {
        self.usage.so_far(self.digest.usage.total())
    }
}
