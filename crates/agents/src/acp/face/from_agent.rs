//! PURE: judges what the agent says.

use super::from_client::unknown_session;
use super::gate::{Gate, Greeting, Look};
use super::message::{Message, Shape, write_line};
use super::piece::Piece;
use super::requests::{Asked, Looking, Purpose, Put};
use super::rules::Rules;
use crate::acp::opening::handshake::spoken;
use crate::acp::question::elicitation::Elicited;
use crate::acp::question::permission::{Ruling, rule};
use crate::acp::question::place::Places;
use crate::acp::question::{Answer, Question, outcome};
use crate::acp::turn::turn_state::Version;
use crate::acp::wire::update::{TurnEnd, Update};
use crate::harness::AgentEvent;
use ground::json::object::put;
use serde_json::{Value, json};
use std::time::Instant;

impl Gate {
    /// Judges a line of the agent. One that can't be read is dropped.
    pub(super) fn on_agent(&mut self, line: &[u8], now: Instant) {
        if let Some(Piece { session, update, message }) = self.halves.whole_piece(line) {
            return self.on_update(&session, update, message, now);
        }
        let mut message = match Message::read(line) {
            Ok(message) => message,
            Err(unread) if unread.id.is_null() => return,
            Err(unread) => return write_line(&unread.answer(), &mut self.out.agent),
        };
        match (message.shape, message.method()) {
            (Shape::Notice, "session/update") => {
                let session = message.session().ok().flatten().unwrap_or_default().to_owned();
                self.halves.join(&session, &mut message, line);
                let update = Update::read(&message.params()["update"]);
                self.on_update(&session, update, message, now);
            }
            (Shape::Notice, "$/cancel_request") => self.on_agent_withdraws(message, now),
            // A client that acts on it would do what no rule was asked about.
            (Shape::Notice, method) if Rules::asks(method) => {}
            (Shape::Notice, _) => message.write(None, &mut self.out.client),
            (Shape::Request, _) => self.on_question(message, now),
            (Shape::Answer, _) => self.on_agent_answer(message, now),
        }
    }

    fn on_update(&mut self, session: &str, update: Update, message: Message, now: Instant) {
        self.requests.extend(session, self.rules.limits.start.and_then(|limit| now.checked_add(limit)));
        let Some(seat) = self.seats.get_mut(session) else {
            return message.write(None, &mut self.out.client);
        };
        let counts_on = self.rules.agent.protocol().counts_on;
        seat.look_at(&update, message.is_large());
        let seen = seat.on_update(update, counts_on);
        let in_tool = seat.is_in_tool();
        self.out.events.extend(seen.events);
        self.prompts.heard(session, in_tool, now);
        let mut message = Some(message);
        if seen.has_ended {
            self.halves.end(session);
            let ended = self.prompts.end_those_in(Some(session));
            if !ended.is_empty()
                && let Some(seat) = self.seats.get_mut(session)
            {
                seat.finish();
            }
            if !self.is_open(session) {
                self.leave(session);
            }
            if let Some(error) = ended.into_iter().find_map(|prompt| prompt.stop) {
                message = Some(Message::failed_turn(session, &error));
            }
        }
        if self.is_untold(session) {
            message = message.and_then(|message| self.keep_early(session, message));
        }
        if let Some(message) = message {
            message.write(None, &mut self.out.client);
        }
        if seen.has_used {
            self.charge(now);
        }
        if seen.has_settings {
            self.hold_mode(session, now);
        }
    }

    /// A request of the agent.
    fn on_question(&mut self, message: Message, now: Instant) {
        let id = message.id().clone();
        if let Err(why) = self.questions.take(&id) {
            return Message::fault(-32_600, why).write(Some(id), &mut self.out.agent);
        }
        let (method, session) = (message.method(), message.session().ok().flatten().map(str::to_owned));
        let is_known = session.as_ref().is_some_and(|session| self.is_open(session));
        let is_of_session =
            ["session/", "fs/", "terminal/"].iter().any(|beginning| method.starts_with(beginning));
        let refusal = match method {
            _ if !self.rules.may_ask(method) => {
                Some(Message::fault(-32_601, &format!("Method not found: {method}")))
            }
            // An update that no rule looks at would tell another mode.
            "session/update" => Some(Message::fault(-32_600, "session/update is a notification")),
            _ if message.is_large() && method.starts_with("session/") => {
                Some(Message::fault(-32_602, "the request is too large"))
            }
            _ if is_of_session && !is_known => Some(unknown_session(session.as_deref().unwrap_or_default())),
            _ => None,
        };
        if let Some(refusal) = refusal {
            return self.answer_agent(&id, refusal);
        }
        if let Some(session) = &session {
            let in_tool = self.seats.get(session).is_some_and(super::seat::Seat::is_in_tool);
            self.prompts.heard(session, in_tool, now);
        }
        let is_act = Rules::acts(method) && !self.rules.policy.deny.is_empty();
        match (method, session) {
            (method, Some(session)) if is_act || method == "session/request_permission" => {
                self.on_permission(message, &session, now);
            }
            (method, session) => {
                let cancelled = (method == "elicitation/create").then(|| Elicited::Cancel.to_json());
                self.put(message, session, cancelled, None, now);
            }
        }
    }

    fn on_permission(&mut self, message: Message, session: &str, now: Instant) {
        let Some(seat) = self.seats.get(session) else { return };
        let id = message.id().to_string();
        let question = match message.method() {
            "session/request_permission" => {
                Question::read(&id, message.params(), |call| seat.book.known(call))
            }
            method => Question::of_act(&id, method, message.params()),
        };
        let has_places = question.files().next().is_some() || question.command_folders().next().is_some();
        if !has_places {
            return self.decide(message, &question, &Places::default(), now);
        }
        let look = Look::Files(Box::new(question.clone()), self.rules.policy.clone(), seat.cwd.clone());
        self.look(Looking::Question(message, Box::new(question)), look);
    }

    /// Answers a permission request by the rules or the level, or asks the client. What the client is to do itself is refused if a
    /// rule denies it.
    pub(super) fn decide(&mut self, message: Message, question: &Question, places: &Places, now: Instant) {
        let session = message.session().ok().flatten().unwrap_or_default().to_owned();
        let is_unread = self.seats.get(&session).is_some_and(|seat| seat.is_unread(&question.tool.id));
        let ruling = rule(&self.rules.policy, self.rules.level, question, places);
        if Rules::acts(message.method()) {
            let is_named = question.files().next().is_some() || !question.commands().is_empty();
            let why = match ruling {
                Ruling::Reject(why) => why,
                _ if message.is_large() && !is_named => "it is too large to be looked at".to_owned(),
                _ => return self.put(message, Some(session), None, None, now),
            };
            let refusal = Message::fault(-32_603, &format!("{}: {why}", message.method()));
            return self.answer_agent(message.id(), refusal);
        }
        let told = match ruling {
            Ruling::Reject(_) => Some(Answer::Reject),
            // A part of the call could not be looked at, so a rule that denies it can't be ruled out.
            _ if is_unread && !self.rules.policy.deny.is_empty() => Some(Answer::Reject),
            // The client decides if the agent offers no option that allows it once.
            Ruling::Allow if question.choose(&Answer::Allow).is_some() => Some(Answer::Allow),
            // A client that does not know the session can't be asked.
            Ruling::Allow | Ruling::Open if self.is_untold(&session) => Some(Answer::Reject),
            Ruling::Allow | Ruling::Open => None,
        };
        let Some(told) = told else {
            let permission = Some(Box::new(question.clone()));
            return self.put(message, Some(session), Some(outcome(None)), permission, now);
        };
        if told == Answer::Reject
            && let Some(seat) = self.seats.get_mut(&session)
        {
            seat.book.on_refused(&question.tool.id);
        }
        self.answer_agent(message.id(), Message::answer(outcome(question.choose(&told))));
        let event = AgentEvent::Permission { request: json!(question), answer: told.to_json(), by: "policy" };
        self.out.events.push(event);
    }

    /// Asks the client.
    fn put(
        &mut self,
        message: Message,
        session: Option<String>,
        cancelled: Option<Value>,
        permission: Option<Box<Question>>,
        now: Instant,
    ) {
        let id = message.id().clone();
        let put = Put { id, session: session.clone(), cancelled, permission, is_withdrawn: false };
        let ours = self.questions.send(message.id(), put);
        message.write(Some(ours.into()), &mut self.out.client);
        if let Some(session) = session {
            self.hold(&session, now);
        }
    }

    fn on_agent_withdraws(&mut self, mut message: Message, now: Instant) {
        let id = message.params()["requestId"].clone();
        if let Some((ours, asked)) = self.questions.withdrawn(&id) {
            asked.is_withdrawn = true;
            let session = asked.session.clone();
            if let Some(params) = message.params_mut() {
                put(params, "requestId", ours);
            }
            message.write(None, &mut self.out.client);
            if let Some(session) = session {
                self.hold(&session, now);
            }
        }
    }

    fn on_agent_answer(&mut self, message: Message, now: Instant) {
        let Some((ours, asked)) = self.requests.answered(message.id()) else { return };
        let message = message.settle();
        match asked.purpose {
            Purpose::Own => {}
            Purpose::Greeting { asked: version } => self.on_greeted(&asked, version, message),
            Purpose::Late => self.on_late(&asked, &message, now),
            Purpose::Step => {
                if let Some(session) = &asked.session {
                    self.on_step(session, &message, now);
                }
            }
            Purpose::Opening { ref cwd } => {
                let cwd = cwd.clone();
                self.on_opened(asked, cwd, message, now);
            }
            Purpose::Passed { .. } if asked.method == "session/prompt" => {
                self.on_prompt_answered(ours, &asked, message, now);
            }
            Purpose::Passed { .. } => self.on_passed_answer(&asked, message, now),
        }
    }

    /// `wanted`: the version that the client asks for. It may take an older one.
    fn on_greeted(&mut self, asked: &Asked, wanted: Option<u64>, mut message: Message) {
        self.greeting = Greeting::None;
        let Ok(hello) = message.outcome() else { return self.answer(&asked.id, message) };
        let version = match spoken(self.rules.agent, hello, wanted) {
            Ok(version) => version,
            Err(error) => return self.refuse(&asked.id, &error),
        };
        self.greeting = Greeting::Agreed(version);
        if let Some(hello) = message.result_mut() {
            put(hello, "protocolVersion", version.number());
        }
        self.answer(&asked.id, message);
    }

    fn on_passed_answer(&mut self, asked: &Asked, message: Message, now: Instant) {
        if let Ok(result) = message.outcome() {
            let seat = asked.session.as_ref().and_then(|session| self.seats.get_mut(session));
            if let Some(seat) = seat {
                seat.on_options(&result["configOptions"]);
                if let Purpose::Passed { mode: Some(mode) } = &asked.purpose {
                    seat.on_mode(mode);
                    seat.settings.choose(mode);
                }
            }
        }
        let is_closed = asked.method == "session/close" && message.outcome().is_ok();
        self.answer(&asked.id, message);
        if let Some(session) = &asked.session {
            if is_closed {
                self.leave(session);
            }
            self.hold_mode(session, now);
        }
    }

    fn on_prompt_answered(&mut self, ours: u64, asked: &Asked, message: Message, now: Instant) {
        let session = asked.session.as_deref().unwrap_or_default();
        let end = message.outcome().ok().and_then(TurnEnd::read);
        let has_ended = self.version() == Version::One || end.is_some() || message.outcome().is_err();
        if !has_ended {
            if let Some(prompt) = self.prompts.get(ours) {
                prompt.is_in = true;
            }
            return self.answer(&asked.id, message);
        }
        self.halves.end(session);
        let counts_on = self.rules.agent.protocol().counts_on;
        if let Some(seat) = self.seats.get_mut(session) {
            match end {
                Some(end) => self.out.events.extend(seat.on_end(&end, counts_on)),
                None => self.out.events.push(AgentEvent::End { ok: false }),
            }
            seat.finish();
        }
        match self.prompts.end(ours).and_then(|prompt| prompt.stop) {
            Some(error) => self.refuse(&asked.id, &error),
            None => self.answer(&asked.id, message),
        }
        if !self.is_open(session) {
            self.leave(session);
        }
        self.charge(now);
    }
}
