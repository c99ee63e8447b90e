//! Handles the orders of a session's users, and the agent's answers to requests that were made for them.

use crate::acp::opening::settings::set_option;
use crate::acp::owner::Owner;
use crate::acp::state::link::{Change, PendingRequest};
use crate::acp::state::order::{Order, Reply};
use crate::acp::state::search::CancelWaiter;
use crate::acp::wire::update::AgentFault;
use crate::harness::turn::audience::Audience;
use crate::harness::verdict::Stop;
use crate::harness::{AgentEvent, EventSink};
use ground::error::{Error, ErrorCode};
use process::Strays;
use serde_json::{Value, json};

impl Owner {
    pub(super) fn on_order(&mut self, order: Order) {
        match order {
            Order::Prompt(prompt) => self.turns.queue.push_back(prompt),
            Order::Listen(sink) => self.on_listen(sink),
            Order::Answer { id, answer } => self.on_answer(&id, answer),
            Order::Elicited { id, elicited } => self.on_elicited(&id, elicited),
            Order::Steer { text, reply } => self.on_steer(&text, reply),
            Order::SetMode { mode, reply } => self.on_set_mode(mode, reply),
            Order::SetOption { id, value, reply } => self.on_set_option(id, value, reply),
            Order::Cancel { strays, reply } => {
                self.leftovers.waiters.push(CancelWaiter { kills_strays: strays == Strays::Kill, reply });
                self.abort_next();
                match (&self.turns.active, &self.turns.own) {
                    (Some(_), _) => self.stop(Stop::Aborted),
                    (None, Some(_)) => self.stop_own_turn(),
                    (None, None) if strays == Strays::Kill => self.search_strays(),
                    (None, None) => self.tell_cancelled(),
                }
            }
            Order::OwnTool { begins: true } => {
                self.work.own_tools += 1;
                self.work.knows_tools = true;
            }
            Order::OwnTool { begins: false } => self.work.own_tools = self.work.own_tools.saturating_sub(1),
            Order::Idle { reply } => self.work.waiters.push(reply),
            Order::Close { reply } => {
                self.abort_next();
                self.held.closers.push(reply);
            }
        }
    }

    /// A prompt that waits for nothing but the agent's afterwords is the one that runs, as its caller sees it.
    pub(super) fn abort_next(&mut self) {
        if self.turns.active.is_none() && self.turns.own.is_none() {
            self.abort_queued(0);
        }
    }

    /// A prompt is to be aborted, or its audience has changed, so that there may be room again.
    pub(super) fn on_word(&mut self, aborted: Option<usize>) {
        match (aborted, usize::from(self.turns.active.is_some())) {
            (None, _) => {}
            (Some(0), 1) => self.stop(Stop::Aborted),
            (Some(place), before) => self.abort_queued(place - before),
        }
    }

    fn abort_queued(&mut self, at: usize) {
        if let Some(prompt) = self.turns.queue.remove(at) {
            let message =
                format!("the {} turn was aborted before its prompt was sent", self.session.agent.as_str());
            prompt.refuse(Error::new(ErrorCode::AgentAborted, message));
        }
    }

    /// Adds a listener. One that comes in the middle of a turn first gets the start of that turn.
    pub(super) fn on_listen(&mut self, sink: Box<dyn EventSink>) {
        let mut audience = Audience::new(true, self.session.request.agent.redact.clone());
        audience.listen(sink);
        if let Some(active) = &self.turns.active {
            audience.tell(vec![AgentEvent::TurnStart { turn: active.turn, by: "prompt" }]);
        } else if let Some(own) = &self.turns.own {
            audience.tell(vec![AgentEvent::TurnStart { turn: own.turn, by: "agent" }]);
        }
        self.listeners.all.push(audience);
    }

    pub(super) fn on_steer(&mut self, text: &str, reply: Reply<()>) {
        let asked = if self.session.can_steer {
            // A prompt that waits for the agent's afterwords is under way, as its caller sees it: the agent hears of it first.
            self.begin_next();
            let prompt = [json!({ "type": "text", "text": text })];
            Ok(("_session/steering", json!({ "sessionId": self.session.id, "prompt": prompt })))
        } else {
            let message = format!(
                "{} cannot receive messages during a turn over this protocol: cancel the turn and send a new prompt",
                self.session.agent.as_str()
            );
            Err(Error::invalid_option("steer", message))
        };
        self.ask(asked, Change::Steer, reply);
    }

    pub(super) fn on_set_mode(&mut self, mode: String, reply: Reply<()>) {
        let (name, modes) = (self.session.agent.as_str(), self.settings.modes());
        let asked = if modes.iter().any(|known| known.id == mode) {
            let set = self.settings.set_mode(self.session.version, &self.session.id, &mode);
            set.ok_or_else(|| format!("{name} has no modes"))
        } else {
            let names = modes.iter().map(|known| known.id.as_str()).collect::<Vec<_>>().join(", ");
            Err(format!("{name} has no mode {mode:?}; there are: {names}"))
        };
        self.ask(asked.map_err(|problem| Error::invalid_option("mode", problem)), Change::Mode(mode), reply);
    }

    pub(super) fn on_set_option(&mut self, id: String, value: Value, reply: Reply<()>) {
        let (name, options) = (self.session.agent.as_str(), &self.settings.options);
        let asked = match options.iter().find(|option| option.id == id) {
            None => {
                let names: Vec<&str> = options.iter().map(|option| option.id.as_str()).collect();
                Err(format!("{name} has no option {id:?}; there are: {}", names.join(", ")))
            }
            Some(option)
                if !option.choices.is_empty()
                    && !option.choices.iter().any(|choice| value == choice.value.as_str()) =>
            {
                Err(format!("{id} has no choice {value}"))
            }
            Some(_) => Ok(set_option(self.session.version, &self.session.id, &id, &value)),
        };
        let asked = asked.map_err(|problem| Error::invalid_option("option", problem));
        self.ask(asked, Change::Option(id, value), reply);
    }

    /// Sends a request for a user, or tells the user why there is none.
    fn ask(&mut self, asked: Result<(&'static str, Value), Error>, change: Change, reply: Reply<()>) {
        match asked {
            Ok((method, params)) => self.send(method, &params, change, Some(reply)),
            Err(error) => _ = reply.send(Err(error)),
        }
    }

    fn send(&mut self, method: &str, params: &Value, change: Change, reply: Option<Reply<()>>) {
        let limit = self.session.request.agent.limits.start;
        self.link.send(method, params, limit, PendingRequest { change, reply });
    }

    pub(super) fn on_answered(&mut self, tag: u64, answer: Result<Value, Error>) {
        if self.turns.active.as_ref().is_some_and(|active| active.tries.tag == tag) {
            return self.on_prompt_answered(answer);
        }
        // Without one it is the answer to a prompt that was given up.
        let Some(PendingRequest { change, reply }) = self.link.pending.remove(&tag) else { return };
        let what = match &change {
            Change::Mode(_) if reply.is_none() => "permission",
            Change::Mode(_) => "mode",
            Change::Option(..) => "option",
            Change::Steer => "steer",
        };
        let changed = answer.map(|answer| self.on_changed(change, &answer));
        match (reply, changed.map_err(|error| self.refused(what, &error))) {
            (Some(reply), changed) => _ = reply.send(changed),
            (None, Ok(())) => {}
            // No prompt runs in a mode that was not chosen.
            (None, Err(error)) => {
                for prompt in std::mem::take(&mut self.turns.queue) {
                    prompt.refuse(error.clone());
                }
            }
        }
    }

    /// The agent has taken a setting.
    fn on_changed(&mut self, change: Change, answer: &Value) {
        match change {
            Change::Mode(mode) => {
                self.settings.on_options(&answer["configOptions"]);
                self.settings.choose(&mode);
                self.settings.on_mode(&mode);
                self.show();
                self.tell(AgentEvent::Mode { mode });
            }
            Change::Option(id, value) => {
                if let Some(mode) = value.as_str().filter(|_| self.settings.is_mode_option(&id)) {
                    self.settings.choose(mode);
                }
                if let Some(option) = self.settings.options.iter_mut().find(|option| option.id == id) {
                    option.value = value;
                }
                self.settings.on_options(&answer["configOptions"]);
                self.show();
            }
            Change::Steer => {}
        }
    }

    /// Sets the caller's mode again, if the agent has left it. Not while the caller changes a setting: what the agent tells then is its
    /// answer.
    pub(super) fn hold_level(&mut self) {
        let Some(mode) = self.settings.left().map(str::to_owned) else { return };
        if !self.link.pending.is_empty() {
            return;
        }
        let now = self.settings.mode().unwrap_or_default();
        self.warn_of_session(format!(
            "{} left the mode {mode:?}, which was chosen for it, and went to {now:?} by itself: {mode:?} is set again",
            self.session.agent.as_str()
        ));
        let set = self.settings.set_mode(self.session.version, &self.session.id, &mode);
        if let Some((method, params)) = set {
            self.send(method, &params, Change::Mode(mode), None);
        }
    }

    /// A warning of the turn under way, or of the next one.
    fn warn_of_session(&mut self, message: String) {
        if self.turns.active.is_none() {
            self.turns.warnings.push(message.clone());
        }
        self.warn(message);
    }

    pub(super) fn refused(&self, what: &str, error: &Error) -> Error {
        match error.code() {
            ErrorCode::RpcError => Error::invalid_option(
                what,
                format!("{} refused: {}", self.session.agent.as_str(), AgentFault::of(error).words()),
            ),
            ErrorCode::ConnectionTimedOut => {
                let limit = self.session.request.agent.limits.start.unwrap_or_default();
                let message = format!("{} did not answer within startTimeoutMs", self.session.agent.as_str());
                Error::new(ErrorCode::AgentIdle, message).with("startTimeoutMs", limit.as_secs_f64() * 1e3)
            }
            _ => self.gone(),
        }
    }
}
