//! Answers the agent's questions, each exactly once: by the rules, by the handler, or by the timeout. A question is about a
//! permission, or about input of the user.

use crate::acp::owner::Owner;
use crate::acp::question::elicitation::{Elicitation, Elicited};
use crate::acp::question::permission::{Ruling, rule};
use crate::acp::question::place::Places;
use crate::acp::question::{
    Answer, Decider, HostRequest, OpenQuestion, Question, QuestionOption, Subject, outcome,
};
use crate::acp::turn::heard::hear_question;
use crate::acp::wire::connection::{unknown_method, unknown_session};
use crate::acp::wire::update::ToolUpdate;
use crate::harness::AgentEvent;
use ground::trace::{SESSION, debug};
use serde_json::{Value, json};
use std::time::Instant;
use wires::jsonrpc::Refusal;

/// Questions that wait for the handler at one time.
const MAX_OPEN: usize = 256;

impl Owner {
    /// The agent asks for something.
    pub(super) async fn on_asked(&mut self, id: &str, method: &str, params: &Value) {
        match method {
            "session/request_permission" => {}
            "elicitation/create" if self.session.request.has_elicitation_handler => {}
            _ => return self.link.connection.client.respond(id, Err(&unknown_method(method))),
        }
        // A permission for another session is not ours to give: its tools are not those of this one.
        if let Some(other) = params["sessionId"].as_str().filter(|asked| *asked != self.session.id) {
            debug!(target: SESSION, id = self.session.number, "refuses a question of another session");
            return self.link.connection.client.respond(id, Err(&unknown_session(other)));
        }
        if method == "elicitation/create" {
            return self.on_elicitation(id, params);
        }
        let number = self.next_question();
        // Earlier messages about the tool count beside the request itself.
        let question = Question::read(&number, params, |tool| self.work.book.known(tool))
            .among(&self.session.request.tools);
        let call =
            [&params["toolCall"], &params["subject"]["toolCall"]].into_iter().find(|call| call.is_object());
        if let Some(update) = call.and_then(ToolUpdate::read) {
            self.note(|digest, book| hear_question(update, digest, book));
        }
        if self.turns.is_stopping() {
            return self.respond(id, &outcome(None));
        }
        if self.is_second(id) {
            self.warn(format!(
                "{} asked two questions under one id: both were refused",
                self.session.agent.as_str()
            ));
            return self.on_withdrawn(id);
        }
        let level = self.session.request.agent.level;
        let places = Places::find(&question, &self.session.request.policy, &self.session.cwd).await;
        match rule(&self.session.request.policy, level, &question, &places) {
            Ruling::Allow => self.decide(id, &question, &Answer::Allow, Decider::Policy, ""),
            Ruling::Reject(why) => self.decide(id, &question, &Answer::Reject, Decider::Policy, &why),
            Ruling::Open if !self.session.request.has_handler => {
                let why = format!("at {:?} it is asked for, and there is no onPermission", level.as_str());
                self.decide(id, &question, &Answer::Reject, Decider::Policy, &why)
            }
            Ruling::Open if self.questions.open.len() >= MAX_OPEN => {
                let why = format!("more than {MAX_OPEN} questions were open");
                self.decide(id, &question, &Answer::Reject, Decider::Policy, &why)
            }
            Ruling::Open => {
                debug!(target: SESSION, id = self.session.number, "asks its handler for a permission");
                let _ = self.session.host.send(HostRequest::Question(question.clone()));
                self.keep(id, Subject::Permission(question));
            }
        }
    }

    /// The agent asks for input of the user.
    fn on_elicitation(&mut self, id: &str, params: &Value) {
        let number = self.next_question();
        let Some(elicitation) = Elicitation::read(&number, params) else {
            let message = format!(
                "elicitation/create: expected mode \"form\" with requestedSchema, or mode \"url\" with url, got {}",
                params["mode"]
            );
            let refusal = Refusal { code: -32_602, message, data: None };
            return self.link.connection.client.respond(id, Err(&refusal));
        };
        if self.turns.is_stopping() || self.questions.open.len() >= MAX_OPEN {
            return self.respond(id, &Elicited::Cancel.to_json());
        }
        if self.is_second(id) {
            return self.on_withdrawn(id);
        }
        debug!(target: SESSION, id = self.session.number, "asks its handler for input of the user");
        let _ = self.session.host.send(HostRequest::Elicitation(elicitation.clone()));
        self.keep(id, Subject::Elicitation(elicitation));
    }

    /// Whether an open question has this id. The agent could take an answer to either of the two for the answer to the other one.
    fn is_second(&self, id: &str) -> bool {
        self.questions.open.iter().any(|open| open.asked == id)
    }

    fn next_question(&mut self) -> String {
        self.questions.asked += 1;
        self.questions.asked.to_string()
    }

    /// Keeps a question until its handler answers, or the time for that is up.
    fn keep(&mut self, id: &str, subject: Subject) {
        let limit = self.session.request.permission_timeout;
        let reject_at = limit.and_then(|limit| self.awake.now().checked_add(limit));
        self.questions.open.push(OpenQuestion { asked: id.to_owned(), subject, reject_at });
    }

    /// The handler has answered, or failed.
    pub(super) fn on_answer(&mut self, id: &str, answer: Result<Answer, String>) {
        let Some(OpenQuestion { asked, subject: Subject::Permission(question), .. }) = self.take(id) else {
            return;
        };
        match answer {
            Ok(answer) => self.decide(&asked, &question, &answer, Decider::Handler, ""),
            Err(problem) => {
                self.warn(format!("onPermission failed, so the tool was refused: {problem}"));
                self.decide(&asked, &question, &Answer::Reject, Decider::Handler, "");
            }
        }
    }

    /// The handler has given the user's input, or failed.
    pub(super) fn on_elicited(&mut self, id: &str, reply: Result<Elicited, String>) {
        let Some(OpenQuestion { asked, subject: Subject::Elicitation(elicitation), .. }) = self.take(id)
        else {
            return;
        };
        let reply = reply.unwrap_or_else(|problem| {
            self.warn(format!("onElicitation failed, so the agent got no input: {problem}"));
            Elicited::Cancel
        });
        self.reply(&asked, &elicitation, &reply, Decider::Handler);
    }

    /// The agent gives its question up.
    pub(super) fn on_withdrawn(&mut self, asked: &str) {
        let at = self.questions.open.iter().position(|open| open.asked == asked);
        if let Some(at) = at {
            let open = self.questions.open.remove(at);
            self.forget(open);
        }
    }

    pub(super) fn withdraw_all(&mut self) {
        for question in std::mem::take(&mut self.questions.open) {
            self.forget(question);
        }
    }

    /// The time for an answer is up: that refuses this tool, it does not cancel the turn.
    pub(super) fn reject_overdue(&mut self, now: Instant) {
        while let Some(at) =
            self.questions.open.iter().position(|question| question.reject_at.is_some_and(|at| at <= now))
        {
            let open = self.questions.open.remove(at);
            let _ = self.session.host.send(HostRequest::Withdrawn { id: open.id().to_owned() });
            match open.subject {
                Subject::Permission(question) => {
                    let limit = self.session.request.permission_timeout.unwrap_or_default().as_millis();
                    let why = format!("onPermission gave no answer within {limit} ms (permissionTimeoutMs)");
                    self.decide(&open.asked, &question, &Answer::Reject, Decider::Timeout, &why)
                }
                Subject::Elicitation(elicitation) => {
                    self.reply(&open.asked, &elicitation, &Elicited::Cancel, Decider::Timeout)
                }
            }
        }
    }

    /// The question needs no answer any more; the agent is told so, for it may wait.
    pub(super) fn forget(&mut self, open: OpenQuestion) {
        self.respond(&open.asked, &open.cancelled());
        let _ = self.session.host.send(HostRequest::Withdrawn { id: open.id().to_owned() });
    }

    fn take(&mut self, id: &str) -> Option<OpenQuestion> {
        let at = self.questions.open.iter().position(|open| open.id() == id)?;
        Some(self.questions.open.remove(at))
    }

    /// `why`: the reason of a refusal that the handler did not give.
    fn decide(&mut self, asked: &str, question: &Question, answer: &Answer, by: Decider, why: &str) {
        let mut answer = answer;
        let mut chosen = question.choose(answer);
        if chosen.is_none() && *answer != Answer::Reject {
            self.warn(format!("no option of the agent's says {}, so the tool was refused", answer.to_json()));
            answer = &Answer::Reject;
            chosen = question.choose(answer);
        }
        let is_refused = chosen.is_none_or(|id| {
            question.options.iter().any(|option| option.id == id && option.kind.starts_with("reject"))
        });
        debug!(target: SESSION, id = self.session.number, ?by, is_refused, "decided on a permission");
        if is_refused {
            self.work.book.on_refused(&question.tool.id);
            if let Some(active) = &mut self.turns.active {
                active.refused = Some(question.shown().to_owned());
            }
        }
        let grants = |option: &QuestionOption| {
            option.kind == "allow_always" || option.id.to_ascii_lowercase().contains("switch")
        };
        let is_granted = chosen.is_some_and(|id| {
            question.tool.kind == "switch_mode"
                || question.options.iter().any(|option| option.id == id && grants(option))
        });
        if by == Decider::Handler && !is_refused && is_granted {
            self.settings.let_go();
        }
        self.respond(asked, &outcome(chosen));
        if is_refused && by != Decider::Handler {
            let why = if why.is_empty() { "the agent offers no option that allows it" } else { why };
            self.warn(format!("{} was refused: {why}", question.shown()));
        }
        self.hold_clock(false);
        self.tell(AgentEvent::Permission {
            request: json!(question),
            answer: answer.to_json(),
            by: by.as_str(),
        });
    }

    /// Gives the agent the user's input. The event has none of it: it may be a password.
    fn reply(&mut self, asked: &str, elicitation: &Elicitation, reply: &Elicited, by: Decider) {
        debug!(target: SESSION, id = self.session.number, ?by, action = reply.action(), "answered an elicitation");
        self.respond(asked, &reply.to_json());
        self.hold_clock(false);
        let (request, action) = (json!(elicitation), reply.action());
        self.tell(AgentEvent::Elicitation { request, action, by: by.as_str() });
    }

    fn respond(&self, id: &str, answer: &Value) {
        self.link.connection.client.respond(id, Ok(&answer.to_string()));
    }

    pub(super) fn warn(&mut self, message: String) {
        if let Some(active) = &mut self.turns.active {
            active.digest.note(&message);
        }
        self.tell(AgentEvent::Warning { message });
    }
}
