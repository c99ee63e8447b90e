//! PURE: sessions on their way to their level. What the client says of such a session waits until it is there.

use super::begin::{Beginning, Next};
use super::from_client::cancelled;
use super::gate::{Found, Gate};
use super::message::{Message, Shape};
use super::requests::{Asked, Looking, Purpose};
use super::seat::Seat;
use crate::acp::opening::fault::is_resume;
use crate::acp::turn::turn_state::Version;
use crate::acp::wire::update::owned;
use crate::harness::AgentEvent;
use ground::error::{Error, ErrorCode};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

/// In place of a session's name while the agent has not told it. No session has it.
const UNBORN: &str = "";
/// Most bytes that wait for a session.
const MAX_WAITING_BYTES: usize = 8 << 20;
/// How often an agent may leave the level's mode by itself before its session ends.
const MOST_LEFT: u32 = 8;

impl Gate {
    // Messages that wait.

    /// Keeps a message of the client until the session is open.
    pub(super) fn wait(&mut self, session: &str, message: Message) {
        let Some(waiting) = self.waiting.get_mut(session) else { return };
        if waiting.bytes + message.size > MAX_WAITING_BYTES {
            if message.shape == Shape::Request {
                self.answer(&message.id().clone(), Message::fault(-32_603, "the session is not open yet"));
            }
            return;
        }
        waiting.bytes += message.size;
        waiting.held.push(message);
    }

    /// Whether a session is being made whose name is not known yet.
    pub(super) fn may_be_born(&self) -> bool {
        let is_new =
            |looking: &Looking| matches!(looking, Looking::Opening(message, _) if resumed(message).is_none());
        self.requests.has_unborn() || self.looking.values().any(is_new)
    }

    /// Keeps a message about a session that may be the one that is being made.
    pub(super) fn wait_for_birth(&mut self, message: Message) {
        self.waiting.entry(UNBORN.to_owned()).or_default();
        self.wait(UNBORN, message);
    }

    /// Answers the prompts that wait for the session, as those of a cancelled turn.
    pub(super) fn cancel_held(&mut self, session: &str) {
        let is_meant = |message: &mut Message| {
            message.method() == "session/prompt" && message.session() == Ok(Some(session))
        };
        let held = self.waiting.values_mut().map(|waiting| &mut waiting.held);
        let prompts: Vec<Message> =
            held.flat_map(|held| held.extract_if(.., is_meant).collect::<Vec<_>>()).collect();
        for prompt in prompts {
            let answer = match self.version() {
                Version::One => Message::answer(cancelled()),
                Version::Two => Message::fault(-32_800, "Request cancelled"),
            };
            self.answer(prompt.id(), answer);
        }
    }

    /// Forgets a request that waits; false if there is none with this id.
    pub(super) fn forget_held(&mut self, id: &Value) -> bool {
        self.waiting.values_mut().any(|waiting| {
            let before = waiting.held.len();
            waiting.held.retain(|message| message.shape != Shape::Request || message.id() != id);
            waiting.held.len() < before
        })
    }

    /// Judges what waited.
    pub(super) fn release(&mut self, session: &str, now: Instant) {
        let Some(waiting) = self.waiting.remove(session) else { return };
        for message in waiting.held {
            match message.shape {
                Shape::Request => self.judge(message, now),
                Shape::Notice | Shape::Answer => self.on_notice(message, false, now),
            }
        }
    }

    // The way to the level.

    /// The disk was looked at.
    pub(super) fn on_looked(&mut self, ticket: u64, found: Found, now: Instant) {
        match (self.looking.remove(&ticket), found) {
            (Some(Looking::Opening(message, named)), Found::Folders(real)) => {
                match self.rules.check_folders(&named, &real) {
                    Ok(()) => self.open(message, now),
                    Err(error) => {
                        self.refuse(message.id(), &error);
                        self.release(resumed(&message).as_deref().unwrap_or(UNBORN), now);
                    }
                }
            }
            (Some(Looking::Question(message, question)), Found::Files(places)) => {
                self.decide(message, &question, &places, now);
            }
            _ => {}
        }
    }

    /// Sends a request that begins a session.
    pub(super) fn open(&mut self, mut message: Message, now: Instant) {
        let cwd = message.params()["cwd"].as_str().map_or_else(|| self.rules.cwd.clone(), PathBuf::from);
        let session = resumed(&message);
        if let Some(session) = &session {
            self.waiting.entry(session.clone()).or_default();
        }
        self.rules.add_meta(&mut message);
        self.send(message, session, Purpose::Opening { cwd }, now);
    }

    /// The agent has answered a request that begins a session, or does not answer it.
    pub(super) fn on_opened(&mut self, asked: Asked, cwd: PathBuf, message: Message, now: Instant) {
        self.seat(asked, cwd, message, now);
        self.release(UNBORN, now);
    }

    fn seat(&mut self, asked: Asked, cwd: PathBuf, message: Message, now: Instant) {
        let opened = match message.outcome() {
            Ok(opened) => opened,
            Err(_) => {
                self.answer(&asked.id, message);
                return self.give_up(asked.session.as_deref(), now);
            }
        };
        let told = owned(&opened["sessionId"]);
        let session = match (&asked.session, told) {
            _ if message.is_large() => Err("gave an answer of more than 1 MiB".to_owned()),
            (Some(asked), Some(told)) if *asked != told => Err(format!("began the session {told}")),
            (Some(asked), _) => Ok(asked.clone()),
            (None, Some(told)) if self.waiting.contains_key(&told) => {
                Err(format!("began the session {told}, which is being opened"))
            }
            (None, Some(told)) => Ok(told),
            (None, None) => Err("told no session".to_owned()),
        };
        let session = match session {
            Ok(session) => session,
            Err(what) => {
                let message = format!("{} was asked for {} and {what}", self.agent_name(), asked.method);
                let error = Error::new(ErrorCode::AgentFailed, message).with("kind", "unknown");
                self.refuse(&asked.id, &error);
                return self.give_up(asked.session.as_deref(), now);
            }
        };
        let mut seat = Seat::new(cwd, opened);
        if let Some(before) = self.seats.remove(&session) {
            seat.take_over(before);
        }
        self.seats.insert(session.clone(), seat);
        let beginning = Beginning::new((asked.id, message), &self.rules);
        self.waiting.entry(session.clone()).or_default().beginning = Some(beginning);
        self.next_step(&session, now);
    }

    /// A session could not be opened. If it was open before, nobody knows in which mode it is now.
    pub(super) fn give_up(&mut self, session: Option<&str>, now: Instant) {
        let session = session.unwrap_or(UNBORN);
        match self.rules.modes.first().filter(|_| self.is_open(session)).cloned() {
            Some(mode) => self.set(session, mode, now),
            None => self.release(session, now),
        }
    }

    fn next_step(&mut self, session: &str, now: Instant) {
        let version = self.version();
        let Some(waiting) = self.waiting.get_mut(session) else { return };
        let (Some(beginning), Some(seat)) = (&mut waiting.beginning, self.seats.get_mut(session)) else {
            return;
        };
        match beginning.next(&self.rules, &seat.settings, version, session) {
            Err(error) => self.fail(session, &error, now),
            Ok(Next::Ask(method, params)) => {
                let request = Message::new(Shape::Request, method, params);
                self.send(request, Some(session.to_owned()), Purpose::Step, now);
            }
            Ok(Next::Done) => self.finish(session, now),
        }
    }

    /// The agent has answered a step.
    pub(super) fn on_step(&mut self, session: &str, message: &Message, now: Instant) {
        let Some(waiting) = self.waiting.get_mut(session) else { return };
        let (Some(beginning), Some(seat)) = (&mut waiting.beginning, self.seats.get_mut(session)) else {
            return;
        };
        match beginning.on_answer(message.outcome(), &self.rules, &mut seat.settings) {
            Ok(()) => {
                seat.told = beginning.mode().map(str::to_owned).or(seat.told.take());
                self.next_step(session, now);
            }
            Err(error) => self.fail(session, &error, now),
        }
    }

    /// The session is at its level: the client hears of it, and what waited goes on.
    fn finish(&mut self, session: &str, now: Instant) {
        let Some(waiting) = self.waiting.get_mut(session) else { return };
        let (beginning, early) = (waiting.beginning.take(), std::mem::take(&mut waiting.early));
        let Some(beginning) = beginning else { return };
        match (beginning.mode().map(str::to_owned), beginning.finish()) {
            (_, Some((id, answer))) => self.answer(&id, answer),
            (Some(mode), None) => self.tell_mode(session, &mode),
            (None, None) => {}
        }
        for update in early {
            update.write(None, &mut self.out.client);
        }
        self.release(session, now);
        self.hold_mode(session, now);
    }

    /// The client is told that the level's mode is set again.
    fn tell_mode(&mut self, session: &str, mode: &str) {
        if self.version() == Version::One {
            let update = json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode });
            let params = json!({ "sessionId": session, "update": update });
            Message::new(Shape::Notice, "session/update", params).write(None, &mut self.out.client);
        }
    }

    /// The level can't be set: the session is closed, and nothing of it goes on.
    pub(super) fn fail(&mut self, session: &str, error: &Error, now: Instant) {
        let waiting = self.waiting.remove(session).unwrap_or_default();
        if let Some((id, _)) = waiting.beginning.and_then(Beginning::finish) {
            self.refuse(&id, error);
        }
        for message in waiting.held {
            if message.shape == Shape::Request {
                self.refuse(message.id(), error);
            }
        }
        self.leave(session);
        let prompts: Vec<u64> = self.prompts.of(session).map(|prompt| prompt.id).collect();
        for prompt in prompts {
            self.stop(prompt, error.clone(), now);
        }
        self.close_at_agent(session, now);
    }

    /// Sets the level's mode again if the agent has left it by itself.
    pub(super) fn hold_mode(&mut self, session: &str, now: Instant) {
        let Some(seat) = self.seats.get_mut(session).filter(|_| !self.waiting.contains_key(session)) else {
            return;
        };
        let told = seat.told.clone().or_else(|| seat.settings.mode());
        let Some(mode) = told.filter(|mode| !self.rules.allows_mode(mode)) else { return };
        let wanted = seat.settings.left().or(self.rules.modes.first().map(String::as_str)).map(str::to_owned);
        let Some(wanted) = wanted else { return };
        seat.left += 1;
        let level = self.rules.level.as_str();
        if seat.left > MOST_LEFT {
            let problem = format!("{} leaves the mode of {level:?} again and again", self.agent_name());
            return self.fail(session, &Error::invalid_option("permission", problem), now);
        }
        let message = format!("the agent chose the mode {mode}, above {level:?}: {wanted} is set again");
        self.out.events.push(AgentEvent::Warning { message });
        self.set(session, wanted, now);
    }

    /// Sets the level's mode once more in a session that is open.
    fn set_again(&mut self, session: &str, now: Instant) {
        let Some(mode) = self.rules.modes.first().filter(|_| !self.waiting.contains_key(session)) else {
            return;
        };
        self.set(session, mode.clone(), now);
    }

    fn set(&mut self, session: &str, mode: String, now: Instant) {
        self.waiting.entry(session.to_owned()).or_default().beginning = Some(Beginning::again(mode));
        self.next_step(session, now);
    }

    /// A session that opened too late is closed.
    pub(super) fn on_late(&mut self, asked: &Asked, message: &Message, now: Instant) {
        let Ok(opened) = message.outcome() else { return };
        let session = asked.session.clone().or_else(|| owned(&opened["sessionId"]));
        let is_opening = crate::acp::opening::fault::is_opening(&asked.method);
        match session.filter(|_| is_opening) {
            Some(session) if !self.is_open(&session) => self.close_at_agent(&session, now),
            // It is open here: nobody knows in which mode it is now.
            Some(session) => self.set_again(&session, now),
            None => {}
        }
    }

    /// Whether the client does not know the session yet.
    pub(super) fn is_untold(&self, session: &str) -> bool {
        let beginning = self.waiting.get(session).and_then(|waiting| waiting.beginning.as_ref());
        beginning.is_some_and(|beginning| beginning.answer.is_some())
    }

    /// Keeps an update until the client knows its session. Returns it if there is no room.
    pub(super) fn keep_early(&mut self, session: &str, message: Message) -> Option<Message> {
        let waiting = self.waiting.get_mut(session)?;
        if waiting.bytes + message.size > MAX_WAITING_BYTES {
            return Some(message);
        }
        waiting.bytes += message.size;
        waiting.early.push(message);
        None
    }
}

/// The session that a request takes up.
fn resumed(message: &Message) -> Option<String> {
    message.session().ok().flatten().filter(|_| is_resume(message.method())).map(str::to_owned)
}
