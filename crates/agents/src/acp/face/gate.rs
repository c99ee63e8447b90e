//! PURE: the judge between a client and its agent. Each message is read whole, judged, and written anew with ids of our own.
//!
//! | message | what happens |
//! |---|---|
//! | a line that is no message | the client gets a parse error; the agent's is dropped |
//! | an id that is open, a request as a notification, an answer to nothing | refused, or dropped |
//! | client: `initialize` | `fs` and `terminal` are offered as the level and the sandbox allow; refused a second time |
//! | agent: the answer to it | the version that it really speaks; an error if that is unknown, or newer than what the client asks for |
//! | client: `session/new`, `load`, `resume`, `fork` | the level's `_meta` is added; a folder outside of the sandbox's is refused |
//! | agent: the answer to it | it waits until the level's mode and the model are set, and tells that mode |
//! | client: anything of a session that is being opened | it waits; of a session that is not open here, it is refused |
//! | client: a mode above the level, or the option that is the mode | refused |
//! | client: `session/prompt` | its clock begins; refused when the budget is used up |
//! | client: `session/cancel` | open questions are cancelled; the agent is killed if it does not heed it |
//! | agent: a mode above the level | the level's is set again |
//! | agent: `session/request_permission` | answered where the rules or the level decide; else the client is asked |
//! | agent: `fs/*`, `terminal/*` that the level or the sandbox forbids | refused |
//! | agent: the end of a turn that a clock or a budget ended | the client gets the error instead |
//! | any other | it passes with all its members |
//!
//! `from_client` and `from_agent` judge what each side says, `opening` what waits for a session.

use super::begin::Beginning;
use super::halves::Halves;
use super::message::{Message, Shape};
use super::prompt::{Next, Prompts};
use super::requests::{Asked, Looking, Purpose, Questions, Requests};
use super::rules::Rules;
use super::seat::Seat;
use crate::acp::question::Question;
use crate::acp::question::place::Places;
use crate::acp::question::policy::Policy;
use crate::acp::turn::turn_state::Version;
use crate::harness::budget::allowance::{Accounts, Allowance};
use crate::harness::{AgentEvent, Usage};
use ground::error::{Error, ErrorCode};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

/// The work for the loop.
#[derive(Default)]
pub(super) struct Outs {
    /// Whole lines.
    pub(super) client: Vec<u8>,
    pub(super) agent: Vec<u8>,
    /// Lines for the log of the client, beside what the agent itself writes there.
    pub(super) log: Vec<u8>,
    pub(super) events: Vec<AgentEvent>,
    pub(super) looks: Vec<(u64, Look)>,
    /// The agent has to be killed.
    pub(super) kill: Option<Error>,
}

/// A look at the disk.
pub(super) enum Look {
    Folders(Vec<PathBuf>),
    Files(Box<Question>, Policy, PathBuf),
}

/// The result of a [`Look`].
pub(super) enum Found {
    /// The real path of each folder; `None` if it is not known.
    Folders(Vec<Option<PathBuf>>),
    Files(Places),
}

/// Messages that wait for a session.
#[derive(Default)]
pub(super) struct Waiting {
    /// The way to its level; `None`: the agent has not opened it yet.
    pub(super) beginning: Option<Beginning>,
    /// The client's messages.
    pub(super) held: Vec<Message>,
    /// Updates of a session that the client does not know yet.
    pub(super) early: Vec<Message>,
    /// Bytes of both.
    pub(super) bytes: usize,
}

/// The sums that the budgets count.
struct Money {
    allowance: Allowance,
    accounts: Accounts,
    /// Usage of sessions that were closed.
    gone: Usage,
}

/// The agreement on a version of the protocol, once in a connection: what ends a turn depends on it.
#[derive(Clone, Copy)]
pub(super) enum Greeting {
    None,
    Asked,
    Agreed(Version),
}

pub(super) struct Gate {
    pub(super) rules: Rules,
    pub(super) greeting: Greeting,
    pub(super) requests: Requests,
    pub(super) questions: Questions,
    pub(super) looking: HashMap<u64, Looking>,
    pub(super) looks: u64,
    /// Sessions that were opened here.
    pub(super) seats: HashMap<String, Seat>,
    pub(super) waiting: HashMap<String, Waiting>,
    pub(super) prompts: Prompts,
    pub(super) halves: Halves,
    money: Money,
    pub(super) out: Outs,
}

impl Gate {
    pub(super) fn new(rules: Rules, allowance: Allowance) -> Gate {
        let accounts = allowance.open();
        Gate {
            rules,
            greeting: Greeting::None,
            requests: Requests::new(),
            questions: Questions::new(),
            looking: HashMap::new(),
            looks: 0,
            seats: HashMap::new(),
            waiting: HashMap::new(),
            prompts: Prompts::default(),
            halves: Halves::default(),
            money: Money { allowance, accounts, gone: Usage::default() },
            out: Outs::default(),
        }
    }

    pub(super) fn agent_name(&self) -> &'static str {
        self.rules.agent.as_str()
    }

    pub(super) fn version(&self) -> Version {
        match self.greeting {
            Greeting::Agreed(version) => version,
            Greeting::None | Greeting::Asked => Version::One,
        }
    }

    pub(super) fn is_prompting(&self) -> bool {
        self.prompts.running().next().is_some()
    }

    // Answers and requests of ours.

    /// Answers a request of the client, once.
    pub(super) fn answer(&mut self, id: &Value, answer: Message) {
        if self.requests.close(id) {
            answer.write(Some(id.clone()), &mut self.out.client);
        }
    }

    /// Answers a request of the agent, once.
    pub(super) fn answer_agent(&mut self, id: &Value, answer: Message) {
        if self.questions.close(id) {
            answer.write(Some(id.clone()), &mut self.out.agent);
        }
    }

    pub(super) fn refuse(&mut self, id: &Value, error: &Error) {
        self.answer(id, Message::refusal(error));
    }

    /// Sends a request to the agent: the client's, or one of our own.
    pub(super) fn send(
        &mut self,
        message: Message,
        session: Option<String>,
        purpose: Purpose,
        now: Instant,
    ) -> u64 {
        let limit = match purpose {
            Purpose::Own => None,
            _ => self.rules.limit_of(message.method()),
        };
        let until = limit.and_then(|limit| now.checked_add(limit));
        let (id, method) = (message.id().clone(), message.method().to_owned());
        let ours = self.requests.send(message.id(), Asked { id, method, session, purpose, until });
        message.write(Some(ours.into()), &mut self.out.agent);
        ours
    }

    /// Tells the agent to close a session that is not used.
    pub(super) fn close_at_agent(&mut self, session: &str, now: Instant) {
        let close = Message::new(Shape::Request, "session/close", json!({ "sessionId": session }));
        self.send(close, None, Purpose::Own, now);
    }

    pub(super) fn look(&mut self, looking: Looking, look: Look) {
        self.looks += 1;
        self.looking.insert(self.looks, looking);
        self.out.looks.push((self.looks, look));
    }

    /// Whether the session was opened here, and not closed.
    pub(super) fn is_open(&self, session: &str) -> bool {
        self.seats.get(session).is_some_and(|seat| !seat.is_closed)
    }

    /// The session is not open any more. What it used stays used.
    pub(super) fn leave(&mut self, session: &str) {
        self.halves.end(session);
        let Some(seat) = self.seats.get_mut(session) else { return };
        seat.is_closed = true;
        if self.prompts.of(session).next().is_none()
            && let Some(seat) = self.seats.remove(session)
        {
            self.money.gone = self.money.gone.plus(seat.used());
        }
    }

    // Clocks and budgets.

    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        [self.prompts.deadline(now), self.requests.deadline()].into_iter().flatten().min()
    }

    /// Does what is due. Returns the prompt for which a sample of the tree is due.
    pub(super) fn on_clock(&mut self, now: Instant) -> Option<u64> {
        let name = self.rules.agent.as_str();
        loop {
            let seats = &self.seats;
            let open_tool = |session: &str| seats.get(session)?.book.open().next().map(str::to_owned);
            match self.prompts.due(name, open_tool, now) {
                None => break,
                Some(Next::Sample(prompt)) => return Some(prompt),
                Some(Next::Stop(prompt, error)) => self.stop(prompt, error, now),
                Some(Next::Kill(error)) => {
                    self.out.kill = Some(error);
                    return None;
                }
            }
        }
        while let Some(asked) = self.requests.overdue(now) {
            asked.until = None;
            let limit = self.rules.limits.start.unwrap_or_default().as_secs_f64();
            let message =
                format!("{name} did not answer {} within {limit} s (`startTimeoutMs`)", asked.method);
            let error = Error::new(ErrorCode::AgentIdle, message).with("startTimeoutMs", limit * 1e3);
            let (id, session) = (asked.id.clone(), asked.session.clone());
            let purpose = std::mem::replace(&mut asked.purpose, Purpose::Late);
            match (purpose, session) {
                (Purpose::Step, Some(session)) => self.fail(&session, &error, now),
                (Purpose::Opening { .. }, session) => {
                    self.refuse(&id, &error);
                    self.give_up(session.as_deref(), now);
                }
                (Purpose::Greeting { .. }, _) => {
                    self.greeting = Greeting::None;
                    self.refuse(&id, &error);
                }
                _ => self.refuse(&id, &error),
            }
        }
        None
    }

    /// More was used than is allowed.
    pub(super) fn on_budget(&mut self, now: Instant) {
        let error = self.money.allowance.exceeded();
        let running: Vec<u64> = self.prompts.running().map(|prompt| prompt.id).collect();
        for prompt in running {
            self.stop(prompt, error.clone(), now);
        }
    }

    /// `AGENT_BUDGET` when nothing is left to begin with.
    pub(super) fn check_budget(&self) -> Result<(), Error> {
        self.money.allowance.check()
    }

    /// Counts what all sessions have used.
    pub(super) fn charge(&mut self, now: Instant) {
        let used = self.seats.values().map(Seat::used).fold(self.money.gone, Usage::plus);
        if self.money.accounts.set(Some(used)) {
            self.on_budget(now);
        }
    }

    /// Cancels a prompt, which ends with this error.
    pub(super) fn stop(&mut self, prompt: u64, error: Error, now: Instant) {
        let kill_at = now + self.rules.kill_grace;
        let Some(prompt) = self.prompts.get(prompt).filter(|prompt| prompt.stop.is_none()) else { return };
        prompt.stop = Some(error);
        prompt.kill_at.get_or_insert(kill_at);
        let session = prompt.session.clone();
        let cancel = Message::new(Shape::Notice, "session/cancel", json!({ "sessionId": session }));
        cancel.write(None, &mut self.out.agent);
        self.cancel_questions(&session, now);
    }

    /// Nobody decides on the session's questions any more: the agent may wait for their answers before it heeds a cancel.
    pub(super) fn cancel_questions(&mut self, session: &str, now: Instant) {
        for (ours, put) in self.questions.cancel(session) {
            let cancelled = put.cancelled.unwrap_or_default();
            self.answer_agent(&put.id, Message::answer(cancelled));
            let withdrawn = Message::new(Shape::Notice, "$/cancel_request", json!({ "requestId": ours }));
            withdrawn.write(None, &mut self.out.client);
        }
        self.hold(session, now);
    }

    /// The agent's silence is not counted while it waits for the client.
    pub(super) fn hold(&mut self, session: &str, now: Instant) {
        let is_held = self.questions.has_open(session);
        self.prompts.hold(session, is_held, now);
    }

    /// Answers all requests that the agent will not answer any more, and ends its turns.
    pub(super) fn refuse_all(&mut self, error: &Error) {
        for id in self.requests.unanswered() {
            Message::refusal(error).write(Some(id), &mut self.out.client);
        }
        for prompt in self.prompts.end_those_in(None) {
            let error = prompt.stop.as_ref().unwrap_or(error);
            Message::failed_turn(&prompt.session, error).write(None, &mut self.out.client);
        }
    }
}
