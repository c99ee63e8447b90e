//! PURE: the prompts under way, each with a clock of its own until its own end. Sessions may be closed, opened again or prompted
//! again meanwhile.

use crate::harness::clock::{Clock, ClockLimits, Due, Heard, Sample};
use crate::harness::verdict::stop::{Silence, Stop};
use ground::error::{Error, ErrorCode};
use std::time::{Duration, Instant};

/// A prompt that the agent works on.
pub(super) struct Prompt {
    /// The id of the request to the agent.
    pub(super) id: u64,
    pub(super) session: String,
    pub(super) clock: Clock,
    /// The agent has answered that the prompt is in; in version 2 the end follows.
    pub(super) is_in: bool,
    /// The error that the client gets in place of the agent's end of turn.
    pub(super) stop: Option<Error>,
    /// When the agent is killed, if it has not ended its turn by then.
    pub(super) kill_at: Option<Instant>,
}

/// The deadline that has passed.
pub(super) enum Next {
    /// This prompt is to be stopped.
    Stop(u64, Error),
    /// A sample of the tree, for this prompt.
    Sample(u64),
    /// The agent is to be killed.
    Kill(Error),
}

#[derive(Default)]
pub(super) struct Prompts(Vec<Prompt>);

impl Prompts {
    pub(super) fn begin(&mut self, id: u64, session: &str, limits: ClockLimits, now: Instant) {
        // The program has started long ago: silence before the first word is silence.
        let clock = Clock::running(limits, now);
        let session = session.to_owned();
        self.0.push(Prompt { id, session, clock, is_in: false, stop: None, kill_at: None });
    }

    pub(super) fn of<'a>(&'a mut self, session: &'a str) -> impl Iterator<Item = &'a mut Prompt> {
        self.0.iter_mut().filter(move |prompt| prompt.session == session)
    }

    pub(super) fn get(&mut self, id: u64) -> Option<&mut Prompt> {
        self.0.iter_mut().find(|prompt| prompt.id == id)
    }

    pub(super) fn end(&mut self, id: u64) -> Option<Prompt> {
        let index = self.0.iter().position(|prompt| prompt.id == id)?;
        Some(self.0.remove(index))
    }

    /// Ends the prompts that are in, of one session or of all. Returns them.
    pub(super) fn end_those_in(&mut self, session: Option<&str>) -> Vec<Prompt> {
        let is_meant = |prompt: &Prompt| session.is_none_or(|session| prompt.session == session);
        self.0.extract_if(.., |prompt| prompt.is_in && is_meant(prompt)).collect()
    }

    /// The prompts that nothing has stopped yet.
    pub(super) fn running(&self) -> impl Iterator<Item = &Prompt> {
        self.0.iter().filter(|prompt| prompt.stop.is_none())
    }

    /// A sign of life of the agent.
    pub(super) fn heard(&mut self, session: &str, in_tool: bool, now: Instant) {
        for prompt in self.of(session) {
            prompt.clock.on_heard(Heard { in_tool, progressed: true, ended: false, has_events: true }, now);
        }
    }

    /// The agent's silence is not counted while it waits for the client.
    pub(super) fn hold(&mut self, session: &str, is_held: bool, now: Instant) {
        for prompt in self.of(session) {
            prompt.clock.on_held(is_held, now);
        }
    }

    /// See [`Clock::on_stopped`].
    pub(super) fn on_stopped(&mut self, gap: Duration, now: Instant) {
        for prompt in &mut self.0 {
            prompt.clock.on_stopped(gap, now);
        }
    }

    /// The client has cancelled the session's turns.
    pub(super) fn on_cancel(&mut self, session: &str, kill_at: Instant) {
        for prompt in self.of(session) {
            prompt.kill_at.get_or_insert(kill_at);
        }
    }

    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let due = self.0.iter().flat_map(|prompt| {
            let clock = prompt.stop.is_none().then(|| prompt.clock.deadline(now)).flatten();
            [prompt.kill_at, clock].into_iter().flatten()
        });
        due.min()
    }

    pub(super) fn due(
        &mut self,
        name: &str,
        open_tool: impl Fn(&str) -> Option<String>,
        now: Instant,
    ) -> Option<Next> {
        for prompt in &mut self.0 {
            if prompt.kill_at.is_some_and(|at| at <= now) {
                return Some(Next::Kill(prompt.stop.clone().unwrap_or_else(|| unheeded(name))));
            }
            if prompt.stop.is_some() {
                continue;
            }
            match prompt.clock.due(now, 0, 0) {
                Due::Sample => return Some(Next::Sample(prompt.id)),
                due => {
                    let Some(stop) = Stop::due(due, &prompt.clock) else { continue };
                    let runs = open_tool(&prompt.session).map(|tool| format!("its tool {tool}"));
                    let error = stop.error(name, &Silence { runs, ..Silence::default() });
                    return Some(Next::Stop(prompt.id, error));
                }
            }
        }
        None
    }

    pub(super) fn on_sample(&mut self, id: u64, sample: Sample) {
        if let Some(prompt) = self.get(id) {
            prompt.clock.on_sample(sample);
        }
    }
}

fn unheeded(name: &str) -> Error {
    let message =
        format!("{name} was ended: it did not end its turn after the client's cancel (`killGraceMs`)");
    Error::new(ErrorCode::AgentAborted, message)
}
