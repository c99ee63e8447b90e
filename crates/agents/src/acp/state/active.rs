//! PURE: the prompt under way: its state, its account, its clock, and its result.

use crate::acp::opening::request::OpenRequest;
use crate::acp::state::order::Prompt;
use crate::acp::turn::turn_state::{Ending, TurnState, Version};
use crate::acp::turn::verdict::{Evidence, may_be_crash, outlives_exit, verdict};
use crate::harness::Provider;
use crate::harness::TurnRequest;
use crate::harness::clock::{Clock, Heard};
use crate::harness::evidence::NO_MODEL;
use crate::harness::limit::hold::Rest;
use crate::harness::limit::usage_limit::prompt_to_go_on;
use crate::harness::provider::protocol::Logged;
use crate::harness::turn::next::{Ended, Next, Past, Wait, next};
use crate::harness::turn::structured::{Candidates, prompt_with_problems, prompt_with_schema, read_answer};
use crate::harness::verdict::Fault;
use crate::harness::verdict::result::TurnResult;
use crate::harness::verdict::stop::{Silence, Stop};
use crate::harness::{Digest, Level, Usage};
use ground::random;
use process::Moment;
use serde_json::Value;
use std::time::{Duration, Instant, SystemTime};

/// Longest wait for the news that the process is gone, after an end of turn that may be a crash.
const EXIT_NEWS: Duration = Duration::from_secs(2);

pub(crate) struct Active {
    /// The prompt that the turn answers.
    pub prompt: Prompt,
    /// Turn number in the events.
    pub turn: u32,
    pub state: TurnState,
    pub digest: Digest,
    pub clock: Clock,
    /// The last tool that was refused.
    pub refused: Option<String>,
    /// Nothing is sent until then, because of a usage limit.
    pub resting: Option<Rest>,
    pub tries: Tries,
    pub end: RequestedEnd,
    pub times: Times,
}

/// The texts sent to the agent during the turn.
#[derive(Default)]
pub(crate) struct Tries {
    /// Tag of the outstanding session/prompt request.
    pub tag: u64,
    /// Text of the prompt that was sent last, or is about to be sent.
    text: String,
    /// [`Active::work`] when the prompt was sent.
    work_before: (u64, u64),
    /// Tries so far; one that only met a usage limit does not count.
    attempts: u32,
    /// Waits for the end of a usage limit since the agent last did any work.
    waits: u32,
    is_reasked: bool,
    /// Result of the turn in the agent's log, for agents that report it only there.
    pub logged: Option<Logged>,
}

/// How far an end of the turn that was not the agent's own decision has come.
#[derive(Default)]
pub(crate) struct RequestedEnd {
    pub stop: Option<Stop>,
    /// When the agent is killed if it has not obeyed the cancel.
    pub kill_at: Option<Instant>,
    /// When an end of turn that may be a crash counts, if the process has not ended by then.
    pub believed_at: Option<Instant>,
    /// The tools that the turn waits for behind its end were told.
    pub is_wait_told: bool,
}

pub(crate) struct Times {
    begun: Instant,
    /// Start of the turn, to be compared with the start times of processes.
    pub begun_at: Moment,
}

/// A turn that the agent began by itself.
pub(crate) struct OwnTurn {
    pub(crate) turn: u32,
    pub(crate) digest: Digest,
    /// When the agent is killed if the turn has not ended by then; set when it was asked to end.
    pub(crate) kill_at: Option<Instant>,
}

impl Active {
    pub(crate) fn new(
        prompt: Prompt,
        turn: u32,
        tag: u64,
        now: Instant,
        version: Version,
        session: &OpenRequest,
    ) -> Active {
        Active {
            turn,
            state: TurnState::new(version, !prompt.request.leaves, session.settle),
            digest: digest_of(session.agent.provider),
            clock: Clock::running(prompt.request.limits(&session.agent.limits), now),
            refused: None,
            resting: None,
            tries: Tries { tag, attempts: 1, ..Tries::default() },
            end: RequestedEnd::default(),
            times: Times { begun: now, begun_at: Moment::now() },
            prompt,
        }
    }

    /// Makes the first text to send. `preamble` goes before the prompt.
    pub(crate) fn first(&mut self, preamble: Option<&str>) {
        let text = self.with_schema(&self.prompt.request.text);
        self.tries.text = match preamble {
            Some(preamble) => format!("{preamble}\n\n---\n\n{text}"),
            None => text,
        };
    }

    /// The text to send.
    pub(crate) fn text(&self) -> &str {
        &self.tries.text
    }

    fn with_schema(&self, prompt: &str) -> String {
        match &self.prompt.request.schema {
            // No file is offered: the answer crosses whole.
            Some(schema) => prompt_with_schema(prompt, schema.source(), "", Level::Plan),
            None => prompt.to_owned(),
        }
    }

    /// Takes note of a sign of life from the agent.
    pub(crate) fn heard(&mut self, in_tool: bool, now: Instant) {
        // Work that continues after an end of turn counts as a tool's work.
        let in_tool = in_tool || self.state.has_ended();
        self.clock.on_heard(Heard { in_tool, progressed: true, ended: false, has_events: true }, now);
    }

    /// Whether this end of turn is held back because the process may be gone.
    pub(crate) fn doubts(&mut self, ending: &Ending, now: Instant) -> bool {
        may_be_crash(ending, self.end.stop, self.refused.as_deref())
            && now < *self.end.believed_at.get_or_insert(now + EXIT_NEWS)
    }

    /// The end of turn that was held back and still counts after this end of the process.
    pub(crate) fn end_despite(&mut self, signal: Option<&str>, now: Instant) -> Option<Ending> {
        self.end.believed_at.filter(|_| outlives_exit(signal))?;
        self.state.due(now, false).cloned()
    }

    /// Why the turn that ended so did not succeed.
    pub(crate) fn fault(&mut self, agent: Provider, ending: &Ending, silence: &Silence) -> Option<Fault> {
        let fault = verdict(&Evidence {
            agent,
            ending,
            stop: self.end.stop,
            text: self.digest.final_text(),
            last_piece: self.digest.answer.last_piece(),
            tool_calls: self.digest.steps.tool_calls,
            // Only tokens since the prompt was sent count: those of an earlier try say nothing about this one.
            has_usage: self.work().1 > self.tries.work_before.1,
            silence,
            refused: self.refused.as_deref(),
            logged: self.tries.logged.as_ref(),
            reset: self.digest.trouble.reset.as_ref(),
        });
        if fault.is_none() && self.tries.logged == Some(Logged::Cut) {
            self.digest.note("the answer was cut at the longest that the model may give");
        }
        let is_free = |usage: Usage| usage.input_tokens == 0 && usage.output_tokens == 0;
        if fault.is_none()
            && self.digest.usage.total().is_some_and(is_free)
            && self.digest.steps.tool_calls == 0
        {
            self.digest.note(NO_MODEL);
        }
        fault
    }

    /// The step that follows an end. `reset_in`, `longest`: until the end of the usage limit that it ran into, and the longest wait.
    pub(crate) fn next(
        &self,
        fault: Option<&Fault>,
        session: &str,
        reset_in: Option<Duration>,
        longest: Duration,
    ) -> Next {
        let candidates = Candidates { given: None, file: None, text: self.digest.final_text() };
        let schema = self.prompt.request.schema.as_deref().filter(|_| fault.is_none());
        let reading = schema.map(|schema| read_answer(schema, &candidates));
        let ended = Ended {
            fault,
            session: Some(session),
            is_aborted: self.end.stop.is_some(),
            reset_in,
            has_worked: self.work() != self.tries.work_before,
            reading: reading.as_ref(),
        };
        let past = Past {
            attempts: self.tries.attempts,
            is_reasked: self.tries.is_reasked,
            policy: TurnRequest::RETRY,
            may_repeat: false,
            wait_for_reset: longest,
            may_begin_anew: false,
            waits: self.tries.waits,
            random: random::fraction(),
        };
        next(&ended, &past)
    }

    /// The answer does not fit: makes the text that asks for another one.
    pub(crate) fn reask(&mut self, problems: &[String]) {
        self.tries.is_reasked = true;
        self.tries.attempts += 1;
        if let Some(schema) = &self.prompt.request.schema {
            self.tries.text = prompt_with_problems(problems, schema.source(), false);
        }
    }

    /// It goes on in its session when the limit is over that it has met: with what it was asked, once nothing was done yet.
    pub(crate) fn meet_limit(&mut self, wait: Wait, until: SystemTime) {
        if self.work() != self.tries.work_before {
            self.tries.waits = 0;
        }
        self.tries.waits += 1;
        if wait.counts {
            self.tries.attempts += 1;
        }
        let has_begun = self.work() != (0, 0);
        if has_begun && !self.tries.is_reasked {
            self.tries.text = self.with_schema(&prompt_to_go_on(&self.prompt.request.text));
        }
        self.rest(until);
    }

    /// Nothing is sent until then.
    pub(crate) fn rest(&mut self, until: SystemTime) {
        self.resting = Some(Rest::until(until));
        self.state.rest();
    }

    /// The turn goes on with another prompt, whose request has this tag. The clocks count anew, as those of an attempt.
    pub(crate) fn ask_again(&mut self, tag: u64, now: Instant, version: Version, session: &OpenRequest) {
        self.tries.tag = tag;
        self.resting = None;
        self.state = TurnState::new(version, !self.prompt.request.leaves, session.settle);
        self.tries.work_before = self.work();
        self.tries.logged = None;
        self.digest.begin_answer();
        self.clock = Clock::running(self.prompt.request.limits(&session.agent.limits), now);
    }

    /// The work done so far, in figures that only grow: tool calls, and tokens of a model that answered.
    fn work(&self) -> (u64, u64) {
        let tokens = self.digest.usage.total().map_or(0, |usage| usage.tokens());
        (self.digest.steps.tool_calls, tokens)
    }

    /// The result of the turn.
    pub(crate) fn result(&mut self, agent: Provider, structured: Option<Value>, now: Instant) -> TurnResult {
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        let mut result = TurnResult::of(agent, &mut self.digest, false);
        let facts = &mut result.facts;
        facts.structured = structured;
        facts.attempts = self.tries.attempts;
        facts.queued_ms = millis(self.times.begun.saturating_duration_since(self.prompt.asked));
        facts.duration_ms = millis(now.saturating_duration_since(self.times.begun));
        result
    }
}

/// The digest of a turn that begins.
pub(crate) fn digest_of(agent: Provider) -> Digest {
    Digest::new(true).knowing(agent.descriptor().words)
}
