//! One process of a turn: started, read, watched, and gone.
//!
//! One `select!` receives all events: an order of the handle, output, room in a slow listener, the clock. The output is read in
//! the [`output`](super::output); [`Clock`] decides the next step. The attempt is over when the process tree is gone; then the
//! verdict is made.

use super::Order;
use super::audience::Audience;
use super::end_warning::{left_behind, warn_of_tree, warn_of_usage};
use super::output::{OutputReader, output};
use super::preparation::not_found;
use super::record::Judged;
use super::request::Background;
use super::traffic::{TrafficNews, TurnTraffic};
use super::way::{Attempted, Task};
use crate::harness::budget::allowance::Accounts;
use crate::harness::clock::{Clock, Due, Heard, Sample};
use crate::harness::event::Usage;
use crate::harness::evidence::digest::{Digest, Idle};
use crate::harness::evidence::metered::usage_of;
use crate::harness::evidence::refused::refused_words;
use crate::harness::folder::RunFolder;
use crate::harness::launch::Launch;
use crate::harness::launch::package::Program;
use crate::harness::limit::ledger;
use crate::harness::verdict::result::TurnResult;
use crate::harness::verdict::stop::{Silence, extended};
use crate::harness::verdict::transcript::Transcript;
use crate::harness::verdict::{Ending, Evidence, Stop, Verdict, verdict};
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use ground::mpsc::UnboundedReceiver;
use ground::os::Awake;
use ground::record::RecordSpec;
use ground::trace::{TURN, debug, trace};
use process::{self, Input, Outcome, Process, ProcessSpec, RunResult, StopReason};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of stdout and of stderr that are kept for the result. The events have been read from the output by then.
const KEPT_OUTPUT_BYTES: usize = 1 << 20;

/// For CLIs that exit before what they printed is read. A user that may not have so much is given 1 MiB.
const WIDE_PIPE_BYTES: usize = 8 << 20;

/// Everything that an attempt needs to run.
pub(crate) struct Plan<'a> {
    pub task: &'a Task<'a>,
    pub launch: &'a Launch,
    pub program: &'a Program,
    pub folder: &'a RunFolder,
    /// The session that has to be reported.
    pub resume: Option<&'a str>,
    pub before: Option<Usage>,
    /// The folder and bounds of the process record, if one is kept.
    pub record: Option<RecordSpec>,
}

/// Runs the plan to its end.
pub(crate) async fn attempt(
    plan: &Plan<'_>,
    orders: &mut UnboundedReceiver<Order>,
    audience: &mut Audience,
) -> Attempted {
    let spec = spec_of(plan);
    let traffic = TurnTraffic::of(&spec.traffic);
    let process = process::spawn(spec);
    let mut transcript =
        Transcript::new(plan.task.request.agent.provider, audience.wants_events(), plan.before);
    transcript.digest.usage.pricing = plan.task.allowance.pricing();
    let (writer, reader) = output(transcript);
    process.subscribe(Box::new(writer));
    debug!(target: TURN, id = plan.task.number, run = process.number(), resumes = plan.resume.is_some(), "begins an attempt");
    let awake = Awake::new();
    let mut watch = Watch {
        reader,
        clock: Clock::new(plan.task.request.agent.limits, awake.now()),
        awake,
        stop: None,
        is_aborted: false,
        is_deaf: false,
        accounts: plan.task.allowance.open(),
        left: Vec::new(),
        traffic,
        plan,
        process,
    };
    for warning in &plan.launch.warnings {
        watch.reader.heard().transcript.digest.warning(warning);
    }
    let outcome = watch.run(orders, audience).await;
    watch.finish(outcome, audience)
}

fn spec_of(plan: &Plan<'_>) -> ProcessSpec {
    let Plan { task: Task { request, name, .. }, launch, program, folder, .. } = plan;
    let mut spec = request.agent.process(program, launch.args.clone(), launch, folder.scratch());
    spec.max_output_bytes = KEPT_OUTPUT_BYTES;
    spec.stdout_pipe_bytes = request.agent.provider.descriptor().exits_early.then_some(WIDE_PIPE_BYTES);
    if let Some(text) = &launch.stdin {
        spec.input = Input::Bytes(Bytes::from(text.clone()));
    }
    spec.record.clone_from(&plan.record);
    spec.name = Some(name.clone());
    spec
}

struct Watch<'a> {
    plan: &'a Plan<'a>,
    process: Process,
    reader: OutputReader,
    /// Its time rests while this process is stopped.
    clock: Clock,
    awake: Awake,
    stop: Option<Stop>,
    is_aborted: bool,
    /// The last handle was dropped, so no more orders come.
    is_deaf: bool,
    accounts: Accounts,
    /// Background work that was running when the attempt was stopped. It is noted before the stop signal, because a CLI that is
    /// told to end reports all of its background work as done.
    left: Vec<String>,
    traffic: TurnTraffic,
}

impl Watch<'_> {
    /// Watches the attempt until both streams have ended and the process tree is gone.
    async fn run(&mut self, orders: &mut UnboundedReceiver<Order>, audience: &mut Audience) -> Arc<Outcome> {
        let process = self.process.clone();
        let mut outcome = std::pin::pin!(process.outcome());
        let mut is_read = false;
        loop {
            let now = self.now();
            let deadline = if self.stop.is_none() { self.clock.deadline(now) } else { None };
            let rung = self.awake.clone();
            let is_held = self.reader.is_held();
            tokio::select! {
                biased;
                order = orders.recv(), if !self.is_deaf => self.on_order(order, audience),
                () = audience.room(), if is_held => self.on_room(),
                has_more = self.reader.news(), if !is_read && !is_held => match has_more {
                    true => self.on_news(audience),
                    false => is_read = true,
                },
                outcome = &mut outcome, if is_read => return outcome,
                news = self.traffic.news() => self.on_traffic(news, audience),
                () = self.plan.task.allowance.crossed(), if self.stop.is_none() => self.stop_for(Stop::OverBudget),
                () = rung.sleep_until(deadline) => self.on_clock(audience).await,
            }
        }
    }

    /// Now, on the clock that rests while this process is stopped.
    fn now(&mut self) -> Instant {
        let (now, gap) = self.awake.tick();
        self.clock.on_stopped(gap, now);
        now
    }

    fn on_traffic(&mut self, news: TrafficNews, audience: &mut Audience) {
        match news {
            TrafficNews::Refused(refused) => {
                self.reader.heard().transcript.digest.refused(refused);
                self.tell(audience);
            }
            TrafficNews::Metered(usage) => {
                if self.accounts.meter(usage) {
                    self.stop_for(Stop::OverBudget);
                }
            }
        }
    }

    fn on_order(&mut self, order: Option<Order>, audience: &mut Audience) {
        self.is_deaf |= order.is_none();
        if !audience.heed(order) {
            self.is_aborted = true;
            return self.stop_for(Stop::Aborted);
        }
        self.on_room();
        self.tell(audience);
    }

    fn on_room(&mut self) {
        self.reader.hold(false);
        let now = self.now();
        self.clock.on_held(false, now);
    }

    fn on_news(&mut self, audience: &mut Audience) {
        let mut heard = self.reader.heard();
        let progressed = std::mem::take(&mut heard.has_progressed);
        if let (Some(session), None) = (&self.plan.launch.session, heard.transcript.digest.session.as_deref())
        {
            // It lives, and goes by the id that it was given; it says so itself only at its end.
            heard.transcript.digest.session(session);
        }
        let digest = &heard.transcript.digest;
        let news = Heard {
            in_tool: digest.open_tool().is_some() || digest.end.names().next().is_some(),
            progressed,
            ended: self.is_over(digest),
            has_events: digest.events.are_read,
        };
        let is_stuck = digest.trouble.is_stuck;
        let (turns, tool_calls) = (digest.steps.turns, digest.steps.tool_calls);
        let usage = digest.usage.total();
        if let Some(in_passing) = &self.plan.task.request.in_passing {
            in_passing.send_replace(digest.usage.untold());
        }
        drop(heard);
        if self.accounts.set(usage) {
            self.stop_for(Stop::OverBudget);
        }
        let Heard { in_tool, progressed, ended, .. } = news;
        trace!(target: TURN, id = self.plan.task.number, progressed, in_tool, ended, turns, tool_calls, "heard something");
        let now = self.now();
        if self.clock.on_heard(news, now) {
            debug!(target: TURN, id = self.plan.task.number, in_tool, ended, turns, tool_calls, "heard where the agent is");
        }
        self.check_session();
        if is_stuck {
            self.stop_for(Stop::NoProgress);
        }
        let due = self.clock_due();
        self.on_due(due, audience);
        self.tell(audience);
    }

    /// Whether only the process's own end is waited for.
    fn is_over(&self, digest: &Digest) -> bool {
        match self.plan.task.request.background {
            Background::Wait => digest.end.is_settled(),
            Background::Leave => digest.end.terminal.is_some(),
        }
    }

    fn idle(&self) -> Idle {
        self.reader.heard().transcript.digest.idle
    }

    fn clock_due(&mut self) -> Due {
        let Idle { lines, steps } = self.idle();
        let now = self.now();
        self.clock.due_in_flood(now, lines, steps)
    }

    /// A CLI that began another session than the one it was to go on with answers a question that it was not asked.
    fn check_session(&mut self) {
        let Some(asked) = self.plan.resume else { return };
        let provider = self.plan.task.request.agent.provider;
        let heard = self.reader.heard();
        let reported = heard.transcript.digest.session.as_deref();
        let is_other = reported.is_some_and(|reported| !provider.is_same_session(asked, reported));
        drop(heard);
        if is_other {
            self.stop_for(Stop::OtherSession);
        }
    }

    async fn on_clock(&mut self, audience: &mut Audience) {
        let Idle { lines, steps } = self.idle();
        let now = self.now();
        let mut due = self.clock.due(now, lines, steps);
        if due == Due::Sample {
            let usage = self.process.tree_usage().await;
            let now = self.now();
            self.clock.on_sample(Sample { at: now, cpu: usage.cpu, io_bytes: usage.io_bytes });
            due = self.clock.due(now, lines, steps);
        }
        self.on_due(due, audience);
        self.tell(audience);
    }

    fn on_due(&mut self, due: Due, audience: &mut Audience) {
        if !matches!(due, Due::Nothing | Due::Sample) {
            debug!(target: TURN, id = self.plan.task.number, ?due, "heard the clock");
        }
        if let Due::Extend { limit } = due {
            self.reader.heard().transcript.digest.warning(&extended(limit));
            self.tell(audience);
        }
        if let Some(stop) = Stop::due(due, &self.clock) {
            self.stop_for(stop);
        }
    }

    /// The first reason wins.
    fn stop_for(&mut self, stop: Stop) {
        if self.stop.is_some() {
            return;
        }
        self.stop = Some(stop);
        debug!(target: TURN, id = self.plan.task.number, ?stop, "decided: the attempt is stopped");
        if stop == Stop::OverBudget {
            self.traffic.run.cut();
        }
        self.left = left_behind(&self.reader.heard().transcript.digest);
        // From here on the output is read to its end, even if a listener is slow.
        self.reader.hold(false);
        self.process.stop(match stop {
            Stop::Aborted => StopReason::Aborted,
            Stop::Idle { .. } => StopReason::Idle,
            Stop::TimedOut { .. } => StopReason::TimedOut,
            _ => StopReason::Killed,
        });
    }

    fn tell(&mut self, audience: &mut Audience) {
        let events = self.reader.heard().transcript.digest.take_events();
        audience.tell(events);
        self.reader.heard().transcript.digest.events.are_built = audience.wants_events();
        // Once the attempt is being stopped, its output is read to its end, even if a listener is slow.
        let is_held = self.stop.is_none() && audience.is_full();
        self.reader.hold(is_held);
        if is_held {
            let now = self.now();
            self.clock.on_held(true, now);
        }
    }

    fn finish(mut self, outcome: Arc<Outcome>, audience: &mut Audience) -> Attempted {
        let Plan { task: Task { number, request, .. }, resume, before, .. } = *self.plan;
        let provider = request.agent.provider;
        let (mut transcript, stderr) = self.reader.end(provider);
        transcript.digest.events.are_built = audience.wants_events();
        let (verdict, error) = match (&outcome.result, &outcome.error) {
            (None, Some(error)) => (Verdict { recovered: false, fault: None }, Some(self.not_run(error))),
            _ => {
                let stderr = String::from_utf8_lossy(&stderr);
                self.note_end(&mut transcript, &outcome, &stderr);
                let evidence = Evidence {
                    provider,
                    digest: &transcript.digest,
                    ending: &ending_of(&outcome),
                    stop: self.stop,
                    stderr: &stderr,
                    unanswered: self.traffic.run.requests.unanswered(),
                    resume,
                    may_resume: resume.is_some(),
                };
                (verdict(&evidence), None)
            }
        };
        let digest = &transcript.digest;
        if let (Some(session), Some(counted)) = (digest.session.as_deref(), transcript.reader.counted()) {
            ledger::note(provider, session, counted);
        }
        let fault = verdict.fault.as_ref().map(|fault| fault.error.code());
        let code = error.as_ref().map(Error::code).or(fault).map_or("none", ErrorCode::as_str);
        let (turns, tool_calls, recovered) = (digest.steps.turns, digest.steps.tool_calls, verdict.recovered);
        let exit_code = outcome.result.as_ref().and_then(|result| result.exit_code);
        debug!(target: TURN, id = number, error = code, exit_code, recovered, turns, tool_calls, "judged the attempt");
        let digest = &mut transcript.digest;
        audience.tell(digest.take_events());
        digest.events.are_built = true;
        digest.close();
        let (has_worked, last_events) = (digest.has_worked(), digest.take_events());
        let mut result = TurnResult::of(provider, digest, recovered);
        result.facts.process.clone_from(&outcome.result);
        Attempted {
            result,
            fault: verdict.fault,
            error,
            reading: None,
            has_worked,
            is_aborted: self.is_aborted,
            last_events,
            refused: self.traffic.refusals.all(),
            metered: self.traffic.metered(),
            judged: Judged {
                stop: self.stop,
                resume: resume.map(str::to_owned),
                before,
                ..Judged::default()
            },
        }
    }

    /// Reads the rest of the output, and notes how the process ended.
    fn note_end(&mut self, transcript: &mut Transcript, outcome: &Outcome, stderr: &str) {
        let Task { request, allowance, .. } = *self.plan.task;
        transcript.read_rest();
        let digest = &mut transcript.digest;
        if self.stop.is_none() {
            self.left = left_behind(digest);
        }
        warn_of_tree(digest, outcome, &self.left, self.stop.is_some());
        digest.refused(self.traffic.refusals.take());
        let refusals = request.agent.provider.descriptor().words.refusals_in(stderr);
        for message in refused_words(&self.traffic.refusals.all()).into_iter().chain(refusals) {
            digest.warning(&message);
        }
        let metered = self.traffic.metered();
        // Usage that came with the last lines counts as well: a turn that used too much has failed, however it ended.
        let has_crossed = self.accounts.meter(usage_of(&metered));
        if (self.accounts.set(digest.usage.total()) || has_crossed) && self.stop != Some(Stop::Aborted) {
            self.stop = Some(Stop::OverBudget);
        }
        if !allowance.is_unlimited() {
            warn_of_usage(digest, allowance, &metered);
        }
    }

    /// The error of a process that could not be run.
    fn not_run(&self, error: &Error) -> Error {
        let agent = &self.plan.task.request.agent;
        match error.code() {
            ErrorCode::ProcessNotFound => {
                not_found(agent, &self.plan.program.command).caused_by(error.clone())
            }
            ErrorCode::ProcessAborted | ErrorCode::ProcessKilled if self.is_aborted => {
                Stop::Aborted.error(agent.provider.as_str(), &Silence::default())
            }
            _ => error.clone(),
        }
    }
}

fn ending_of(outcome: &Outcome) -> Ending {
    match &outcome.result {
        Some(RunResult { exit_code: Some(code), .. }) => Ending::Exited(*code),
        Some(RunResult { signal: Some(signal), .. }) => Ending::Signalled(signal.clone()),
        _ => Ending::Signalled("an unknown cause".to_owned()),
    }
}
