//! Answers the agent's permission questions, each exactly once: by the rules, by the handler, or by the timeout.

use super::opening::{unknown_method, unknown_session};
use super::owner::Owner;
use super::permission::{Ruling, rule};
use super::question::{Answer, Decider, HostRequest, OpenQuestion, Question, outcome};
use super::update::ToolUpdate;
use crate::harness::AgentEvent;
use ground::trace::{SESSION, debug};
use serde_json::{Value, json};
use std::time::Instant;

/// Questions that wait for the handler at one time.
const MAX_OPEN: usize = 256;

impl Owner {
    /// The agent asks for something.
    pub(super) fn on_asked(&mut self, id: &str, method: &str, params: &Value) {
        if method != "session/request_permission" {
            return self.link.connection.client.respond(id, Err(&unknown_method(method)));
        }
        // A permission for another session is not ours to give: its tools are not those of this one.
        if let Some(other) = params["sessionId"].as_str().filter(|asked| *asked != self.session.id) {
            debug!(target: SESSION, id = self.session.number, "refuses a question of another session");
            return self.link.connection.client.respond(id, Err(&unknown_session(other)));
        }
        let call =
            [&params["toolCall"], &params["subject"]["toolCall"]].into_iter().find(|call| call.is_object());
        if let Some(update) = call.and_then(ToolUpdate::read) {
            let (events, is_new) = self.work.book.on_asked(update);
            self.on_tool_events(events, is_new);
        }
        self.questions.asked += 1;
        let number = self.questions.asked.to_string();
        let question = Question::read(&number, params, |tool| self.work.book.known(tool));
        let mut open = OpenQuestion { asked: id.to_owned(), question, reject_at: None };
        if self.turns.active.as_ref().is_some_and(|active| active.end.stop.is_some()) {
            return self.respond(id, None);
        }
        // The agent could take an answer to either question for the answer to the other one.
        if self.questions.open.iter().any(|open| open.asked == id) {
            self.warn(format!(
                "{} asked two questions under one id: both were refused",
                self.session.agent.as_str()
            ));
            return self.on_withdrawn(id);
        }
        match rule(
            &self.session.request.policy,
            self.session.request.agent.level,
            &open.question,
            &self.session.cwd,
        ) {
            Ruling::Allow => self.decide(&open, &Answer::Allow, Decider::Policy),
            Ruling::Reject => self.decide(&open, &Answer::Reject, Decider::Policy),
            Ruling::Open if !self.session.request.has_handler => {
                self.decide(&open, &Answer::Reject, Decider::Policy)
            }
            Ruling::Open if self.questions.open.len() >= MAX_OPEN => {
                self.warn(format!("more than {MAX_OPEN} questions were open, so this one was refused"));
                self.decide(&open, &Answer::Reject, Decider::Policy)
            }
            Ruling::Open => {
                debug!(target: SESSION, id = self.session.number, "asks its handler for a permission");
                open.reject_at = self
                    .session
                    .request
                    .permission_timeout
                    .and_then(|limit| Instant::now().checked_add(limit));
                let _ = self.session.host.send(HostRequest::Question(open.question.clone()));
                self.questions.open.push(open);
            }
        }
    }

    /// The handler has answered, or failed.
    pub(super) fn on_answer(&mut self, id: &str, answer: Result<Answer, String>) {
        let Some(open) = self.take(id) else { return };
        match answer {
            Ok(answer) => self.decide(&open, &answer, Decider::Handler),
            Err(problem) => {
                self.warn(format!("onPermission failed, so the tool was refused: {problem}"));
                self.decide(&open, &Answer::Reject, Decider::Handler);
            }
        }
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
            let _ = self.session.host.send(HostRequest::Withdrawn { id: open.question.id.clone() });
            self.decide(&open, &Answer::Reject, Decider::Timeout);
        }
    }

    /// The question needs no answer any more; the agent is told so, for it may wait.
    pub(super) fn forget(&mut self, open: OpenQuestion) {
        self.respond(&open.asked, None);
        let _ = self.session.host.send(HostRequest::Withdrawn { id: open.question.id });
    }

    fn take(&mut self, id: &str) -> Option<OpenQuestion> {
        let at = self.questions.open.iter().position(|question| question.question.id == id)?;
        Some(self.questions.open.remove(at))
    }

    fn decide(&mut self, open: &OpenQuestion, answer: &Answer, by: Decider) {
        let question = &open.question;
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
                active.refused = Some(question.tool.title.clone());
            }
        }
        self.respond(&open.asked, chosen);
        if is_refused && by != Decider::Handler {
            self.warn(format!("{} was refused: nothing allows it at this level", question.tool.title));
        }
        self.hold_clock(false);
        self.tell(AgentEvent::Permission {
            request: json!(question),
            answer: answer.to_json(),
            by: match by {
                Decider::Policy => "policy",
                Decider::Handler => "handler",
                Decider::Timeout => "timeout",
            },
        });
    }

    fn respond(&self, id: &str, option: Option<&str>) {
        self.link.connection.client.respond(id, Ok(&outcome(option).to_string()));
    }

    pub(super) fn warn(&mut self, message: String) {
        if let Some(active) = &mut self.turns.active {
            active.account.warn(&message);
        }
        self.tell(AgentEvent::Warning { message });
    }
}
