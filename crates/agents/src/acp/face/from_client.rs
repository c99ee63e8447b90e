//! PURE: judges what the client says.

use super::gate::{Gate, Greeting, Look};
use super::message::{Message, Shape, write_line};
use super::requests::{Looking, Purpose};
use super::rules::Rules;
use crate::acp::opening::fault::{is_opening, is_resume};
use crate::acp::question::outcome;
use crate::harness::AgentEvent;
use ground::json::object::put;
use serde_json::{Value, json};
use std::time::Instant;

/// The agent does not read, so that nothing can be passed on.
const NOT_READ: &str = "the agent takes no messages, or the client no answers";

impl Gate {
    /// Judges a line of the client. `is_shut`: too much waits for a side that does not read, so that nothing passes.
    pub(super) fn on_client(&mut self, line: &[u8], is_shut: bool, now: Instant) {
        let message = match Message::read(line) {
            Ok(message) => message,
            Err(unread) => return write_line(&unread.answer(), &mut self.out.client),
        };
        match message.shape {
            Shape::Request => {
                let id = message.id().clone();
                let taken = match is_shut {
                    true => Err(NOT_READ),
                    false => self.requests.take(&id),
                };
                match taken {
                    Ok(()) => self.judge(message, now),
                    Err(why) => Message::fault(-32_600, why).write(Some(id), &mut self.out.client),
                }
            }
            Shape::Notice => self.on_notice(message, is_shut, now),
            Shape::Answer => self.on_client_answer(message, is_shut, now),
        }
    }

    /// Judges a request whose id is open.
    pub(super) fn judge(&mut self, message: Message, now: Instant) {
        let id = message.id().clone();
        if let Some(error) = Rules::misshapen(&message) {
            return self.refuse(&id, &error);
        }
        let method = message.method().to_owned();
        let is_judged =
            method == "initialize" || (method.starts_with("session/") && method != "session/prompt");
        if message.is_large() && is_judged {
            return self.answer(&id, Message::fault(-32_602, "the request is too large"));
        }
        let session = message.session().ok().flatten().map(str::to_owned);
        if let Some(session) = &session {
            if self.waiting.contains_key(session) {
                return self.wait(session, message);
            }
            if Rules::needs_open_session(&method) && !self.is_open(session) {
                return match self.may_be_born() {
                    true => self.wait_for_birth(message),
                    false => self.answer(&id, unknown_session(session)),
                };
            }
        }
        if method == "initialize" {
            return self.greet(message, now);
        }
        if is_opening(&method) {
            return self.begin(message, now);
        }
        let seat = session.as_ref().and_then(|session| self.seats.get(session));
        let chosen = seat.map(|seat| self.rules.chosen_mode(&method, message.params(), &seat.settings));
        let mode = match chosen.transpose() {
            Ok(mode) => mode.flatten(),
            Err(error) => return self.refuse(&id, &error),
        };
        match (method.as_str(), session) {
            ("session/prompt", Some(session)) => self.prompt(message, &session, now),
            (_, session) => _ = self.send(message, session, Purpose::Passed { mode }, now),
        }
    }

    fn greet(&mut self, mut message: Message, now: Instant) {
        if !matches!(self.greeting, Greeting::None) {
            let fault = Message::fault(-32_600, "the connection is initialized already");
            return self.answer(&message.id().clone(), fault);
        }
        self.greeting = Greeting::Asked;
        let asked = message.params()["protocolVersion"].as_u64();
        if let Some(params) = message.params_mut() {
            self.rules.limit_capabilities(params);
        }
        self.send(message, None, Purpose::Greeting { asked }, now);
    }

    fn prompt(&mut self, message: Message, session: &str, now: Instant) {
        if let Err(error) = self.check_budget() {
            let id = message.id().clone();
            return self.refuse(&id, &error);
        }
        let text = prompt_text(&message.params()["prompt"]);
        self.out.events.push(AgentEvent::Prompt { text });
        if let Some(seat) = self.seats.get_mut(session) {
            seat.left = 0;
        }
        let ours = self.send(message, Some(session.to_owned()), Purpose::Passed { mode: None }, now);
        self.prompts.begin(ours, session, self.rules.limits, now);
        self.hold(session, now);
    }

    /// A request that begins a session, or takes one up.
    fn begin(&mut self, message: Message, now: Instant) {
        let id = message.id().clone();
        self.out.log.extend(self.rules.lost_programs(message.params()).unwrap_or_default().into_bytes());
        match self.rules.folders(message.params()) {
            Err(error) => self.refuse(&id, &error),
            Ok(folders) if folders.is_empty() => self.open(message, now),
            Ok(folders) => {
                if is_resume(message.method())
                    && let Ok(Some(session)) = message.session()
                {
                    self.waiting.entry(session.to_owned()).or_default();
                }
                self.look(Looking::Opening(message, folders.clone()), Look::Folders(folders));
            }
        }
    }

    pub(super) fn on_notice(&mut self, message: Message, is_shut: bool, now: Instant) {
        if let Some(error) = Rules::misshapen(&message) {
            return Message::refusal(&error).write(Some(Value::Null), &mut self.out.client);
        }
        let session = message.session().ok().flatten().map(str::to_owned);
        match (message.method(), session) {
            ("$/cancel_request", _) => self.on_withdrawn(message, is_shut),
            ("session/cancel", Some(session)) => {
                self.cancel_held(&session);
                if !self.is_open(&session) {
                    return;
                }
                self.prompts.on_cancel(&session, now + self.rules.kill_grace);
                self.cancel_questions(&session, now);
                if !is_shut {
                    message.write(None, &mut self.out.agent);
                }
            }
            (_, Some(session)) if self.waiting.contains_key(&session) => self.wait(&session, message),
            (_, Some(session)) if !self.is_open(&session) => {
                if self.may_be_born() {
                    self.wait_for_birth(message);
                }
            }
            _ if is_shut => {}
            _ => message.write(None, &mut self.out.agent),
        }
    }

    /// The client does not want an answer any more.
    fn on_withdrawn(&mut self, mut message: Message, is_shut: bool) {
        let id = message.params()["requestId"].clone();
        match self.requests.sent_as(&id) {
            Some(Some(ours)) if !is_shut => {
                if let Some(params) = message.params_mut() {
                    put(params, "requestId", ours);
                }
                message.write(None, &mut self.out.agent);
            }
            Some(None) if self.forget_held(&id) => {
                self.answer(&id, Message::fault(-32_800, "Request cancelled"))
            }
            _ => {}
        }
    }

    fn on_client_answer(&mut self, message: Message, is_shut: bool, now: Instant) {
        let Some((_, asked)) = self.questions.answered(message.id()) else { return };
        let mut answer = message.settle();
        if is_shut {
            answer = Message::fault(-32_603, NOT_READ);
        }
        if let (Some(question), Ok(result)) = (&asked.permission, answer.outcome()) {
            let chosen = result["outcome"]["optionId"].as_str();
            let option = question.options.iter().find(|option| Some(option.id.as_str()) == chosen);
            if result["outcome"]["outcome"] == "selected" && option.is_none() {
                answer = Message::answer(outcome(None));
            }
            let seat = asked.session.as_ref().and_then(|session| self.seats.get_mut(session));
            if let Some(seat) =
                seat.filter(|_| option.is_some_and(|option| option.kind.starts_with("reject")))
            {
                seat.book.on_refused(&question.tool.id);
            }
        }
        self.answer_agent(&asked.id, answer);
        if let Some(session) = asked.session {
            self.hold(&session, now);
        }
    }
}

pub(super) fn unknown_session(session: &str) -> Message {
    Message::fault(-32_602, &format!("Unknown session: {session}"))
}

/// The answer to a prompt that the client has cancelled before the agent got it.
pub(super) fn cancelled() -> Value {
    json!({ "stopReason": "cancelled" })
}

/// The words of a prompt.
fn prompt_text(prompt: &Value) -> String {
    let blocks = prompt.as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str().or_else(|| block["resource"]["uri"].as_str())).collect()
}
