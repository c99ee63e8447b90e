//! Handles the agent's messages, and assigns each to a turn: the one under way, or one that the agent began by itself.
//!
//! | | version 1 | version 2 |
//! |---|---|---|
//! | belongs to the turn under way | all from its prompt to its end | all from the time that the prompt is in |
//! | a turn of the agent's own begins | with words or a tool between prompts | with `running`, or words, between prompts |
//! | such a turn ends | when nothing came for the settle time, or our next prompt is sent | with `idle` and a stop reason |

use crate::acp::owner::Owner;
use crate::acp::state::active::{OwnTurn, digest_of};
use crate::acp::turn::heard::hear;
use crate::acp::turn::tool_book::ToolBook;
use crate::acp::turn::turn_state::Version;
use crate::acp::wire::connection::Said;
use crate::acp::wire::update::{AgentFault, SessionState, StateUpdate, Update};
use crate::harness::clip::torn;
use crate::harness::provider::protocol::Aside;
use crate::harness::verdict::Stop;
use crate::harness::{AgentEvent, Digest, Usage};
use ground::error::{Error, ErrorCode};
use ground::trace::{SESSION, debug};
use serde_json::Value;
use std::time::{Duration, Instant};

impl Owner {
    pub(super) async fn on_said(&mut self, said: Said) {
        let now = self.now();
        self.turns.afterwords.on_heard(now);
        match said {
            Said::Update { session, update, raw, .. } if session == self.session.id => {
                self.on_update(update, raw)
            }
            // The update is for another session, such as a sub-agent's.
            Said::Update { .. } => self.heard(),
            Said::Asked { id, method, params } => {
                self.heard();
                self.on_asked(&id, &method, &params).await;
            }
            Said::Withdrawn { id } => self.on_withdrawn(&id),
            Said::Noise(line) => {
                if let Some(warning) = torn(line.as_bytes()) {
                    self.warn(warning);
                }
                self.note(|digest, _| digest.noise(line.as_bytes()));
            }
            Said::Other | Said::Answered { .. } | Said::Ended(_) => {}
        }
    }

    fn on_update(&mut self, update: Update, raw: Option<String>) {
        match &update {
            Update::Text { text, .. } => {
                if let Some(aside) = self.session.agent.protocol().aside(text) {
                    self.on_aside(text, aside);
                    return self.heard();
                }
                self.acts(!text.is_empty());
            }
            Update::Thought { text } => self.acts(!text.is_empty()),
            // A late word on a tool of a turn that is over begins no other.
            Update::Tool(tool) => self.acts(self.work.book.known(&tool.id).is_none()),
            Update::Used { cost: Some(cost), .. } => self.spending.usage.on_cost(*cost),
            Update::Title(title) => self.lock().title = Some(title.clone()),
            _ => {}
        }
        match self.note(|digest, book| hear(update, digest, book)) {
            Some(Update::State(state)) => self.on_state(&state),
            // The words of our prompt, repeated: it is in. Others come when somebody else prompts the same session.
            Some(Update::Prompt { .. }) => {
                if let Some(active) = self.turns.active.as_mut().filter(|_| self.turns.own.is_none()) {
                    active.state.on_repeated();
                }
            }
            Some(Update::Mode(mode)) => self.on_mode(mode),
            Some(Update::Options(options)) => {
                let before = self.settings.mode();
                self.settings.on_options(&options);
                match self.settings.mode() {
                    Some(mode) if before.as_ref() != Some(&mode) => self.on_mode(mode),
                    _ => self.show(),
                }
            }
            Some(Update::Unknown) => self.tell(AgentEvent::Noise { line: raw.unwrap_or_default() }),
            _ => {}
        }
        self.charge();
        self.heard();
    }

    /// Notes something in the turn to which the agent's messages belong now, and tells the events of that.
    pub(super) fn note<T>(&mut self, note: impl FnOnce(&mut Digest, &mut ToolBook) -> T) -> T {
        let mut between = Digest::new(true);
        let digest = self.turns.digest().unwrap_or(&mut between);
        let noted = note(digest, &mut self.work.book);
        for event in digest.take_events() {
            self.tell(event);
        }
        noted
    }

    fn on_aside(&mut self, text: &str, aside: &Aside) {
        let line = text.to_owned();
        if aside.is_retry {
            self.note(|digest, _| digest.asked_again(line));
        } else {
            self.tell(AgentEvent::Noise { line });
        }
    }

    /// A sign of life.
    fn heard(&mut self) {
        let now = self.now();
        let in_tool = self.work.book.has_open();
        if let Some(active) = &mut self.turns.active {
            active.heard(in_tool, now);
        }
        self.work.seen_behind |= self.turns.active.is_none() && self.work.is_behind();
    }

    /// The agent works: on the turn under way, or on one of its own, which begins if `begins`.
    fn acts(&mut self, begins: bool) {
        self.work.acted = self.now();
        match &mut self.turns.active {
            Some(active) if active.state.is_in() => active.state.on_activity(),
            _ if begins && self.turns.own.is_none() => self.begin_own_turn(),
            _ => {}
        }
    }

    fn on_mode(&mut self, mode: String) {
        self.settings.on_mode(&mode);
        self.show();
        self.tell(AgentEvent::Mode { mode });
        self.hold_level();
    }

    fn on_state(&mut self, update: &StateUpdate) {
        self.work.acted = self.now();
        if let Some(items) = &update.background
            && *items != self.work.background
        {
            self.work.background.clone_from(items);
            self.tell(AgentEvent::Background { items: items.clone() });
        }
        let end = match &update.state {
            SessionState::Idle { end } => end.as_ref(),
            _ => None,
        };
        let tokens =
            end.and_then(|end| self.spending.usage.of_turn(end, self.session.agent.protocol().counts_on));
        let cost = end.and_then(|_| self.spending.usage.cost_of_turn());
        let is_ours = self.turns.active.as_ref().is_some_and(|active| active.state.is_in());
        match (&update.state, is_ours) {
            // Our prompt may be what makes it run.
            (SessionState::Running, false) if self.turns.active.is_none() && self.turns.own.is_none() => {
                self.begin_own_turn()
            }
            (SessionState::Idle { end: Some(_) }, _) => self.on_usage(tokens, cost),
            _ => {}
        }
        if is_ours {
            if let Some(active) = &mut self.turns.active {
                active.state.on_state(update);
            }
        } else if end.is_some() {
            self.end_own_turn();
        }
    }

    fn on_usage(&mut self, tokens: Option<Usage>, cost: Option<f64>) {
        if self.turns.digest().is_some() {
            self.note(|digest, _| digest.part_ends(tokens, cost));
        }
        self.charge();
    }

    /// Sets the usage so far in the budgets. A turn that crosses one is ended.
    fn charge(&mut self) {
        let turn = self.turns.digest().and_then(|digest| digest.usage.total());
        if self.spending.accounts.set(Some(self.spending.usage.so_far(turn))) {
            self.stop(Stop::OverBudget);
        }
    }

    pub(super) fn on_prompt_answered(&mut self, answer: Result<Value, Error>) {
        // In version 2, messages before this answer were a turn of the agent's own.
        self.end_own_turn();
        self.heard();
        let answer = answer.map_err(|error| match error.code() {
            ErrorCode::RpcError => AgentFault::of(&error),
            _ => AgentFault { message: error.message().to_owned(), ..AgentFault::default() },
        });
        let Some(active) = &mut self.turns.active else { return };
        let end = active.state.on_answer(answer.as_ref().map_err(Clone::clone));
        if let Some(end) = end {
            let tokens = self.spending.usage.of_turn(&end, self.session.agent.protocol().counts_on);
            let cost = self.spending.usage.cost_of_turn();
            self.on_usage(tokens, cost);
        } else if self.session.version == Version::One {
            self.on_usage(None, None);
        }
    }

    fn begin_own_turn(&mut self) {
        let turn = self.turns.next();
        debug!(target: SESSION, id = self.session.number, turn, "heard that the agent began a turn of its own");
        self.turns.own = Some(OwnTurn { turn, digest: digest_of(self.session.agent), kill_at: None });
        self.listeners.tell_all(&AgentEvent::TurnStart { turn, by: "agent" });
    }

    pub(super) fn end_own_turn(&mut self) {
        if let Some(own) = self.turns.own.take() {
            debug!(target: SESSION, id = self.session.number, turn = own.turn, "the agent's own turn is over");
            self.spending.usage.on_turn(own.digest.usage.total());
            self.work.seen_behind = true;
            self.listeners.tell_all(&AgentEvent::TurnEnd { turn: own.turn });
        }
    }

    /// How long a turn of the agent's own is silent before it is over. After a cancel this is less than the time after which the
    /// agent is killed: silence is how a version 1 agent obeys.
    pub(super) fn own_settle(&self) -> Duration {
        let is_ending = self.turns.is_own_stopping();
        let settle = self.session.request.settle;
        if is_ending { settle.min(self.session.request.agent.kill_grace / 2) } else { settle }
    }

    /// Version 1 has no word for the end of a turn that was not asked for.
    pub(super) fn settle_own_turn(&mut self, now: Instant) {
        let is_quiet = now.saturating_duration_since(self.work.acted) >= self.own_settle();
        if self.session.version == Version::One && is_quiet && !self.work.book.has_open() {
            self.end_own_turn();
        }
    }
}
