//! A turn: queued, tried, tried again where that is worth it, asked once more for an answer that fits its schema.
//!
//! [`start`] spawns the owner task and gives a cloneable [`Turn`]. Aborting is a word to the owner, which stops the process
//! and waits until its tree is gone; dropping the last handle is an abort. The outcome is published once, after the run's
//! folder is removed and the slot is free.

use super::attempt::{Attempted, Plan, attempt, program_of, wanted_of};
use super::audience::Audience;
use super::event::{AgentEvent, Usage};
use super::event_sink::{EventReader, EventSink, event_channel};
use super::failure::retry_after_in;
use super::folder::{RunFolder, new_session_id};
use super::install::Program;
use super::launch::{Launch, path_text};
use super::ledger;
use super::provider::SessionPolicy;
use super::recent::{last_values, reread};
use super::replay::TurnResult;
use super::request::TurnRequest;
use super::scheduler::{ConcurrencyLimit, Waiting};
use super::structured::{ANSWER_FILE, Candidates, prompt_with_problems, prompt_with_schema, read_answer};
use super::turn_record::{Judged, TurnRecord};
use super::verdict::Fault;
use crate::error::{Error, ErrorCode};
use crate::model::{Reading, Schema};
use crate::retry::random_fraction;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

/// Longest answer that is read from a file: as long as one that is put together of deltas.
const MAX_ANSWER_FILE_BYTES: u64 = 16 << 20;

/// A word to the owner task.
pub enum Command {
    Abort,
    Listen(Box<dyn EventSink>),
    Leave,
}

/// How a turn ended, any way it ended.
#[derive(Clone, Debug)]
pub struct TurnOutcome {
    /// Secrets taken out; partial beside an error, `None` when nothing was tried.
    pub result: Option<TurnResult>,
    pub error: Option<Error>,
}

/// A turn under way. Cloneable; when the last handle is dropped before the end, it is aborted.
#[derive(Clone)]
pub struct Turn {
    commands: UnboundedSender<Command>,
    outcome: watch::Receiver<Option<Arc<TurnOutcome>>>,
}

/// Starts a turn under these limits and returns at once. Call it within tokio.
pub fn start(request: TurnRequest, limits: Vec<ConcurrencyLimit>) -> Turn {
    let (commands, received) = unbounded_channel();
    let (publish, outcome) = watch::channel(None);
    // Asked for here, not by the task: who starts first is first in the queue.
    let slot = Waiting::begin(limits);
    tokio::spawn(async move {
        let mut owner = Owner::new(request, received);
        let outcome = owner.run(slot).await;
        publish.send_replace(Some(Arc::new(outcome)));
        owner.serve_late_listener().await;
    });
    Turn { commands, outcome }
}

impl Turn {
    /// A turn that somebody else runs: its handle, the words that come for it, and where its outcome goes.
    pub(crate) fn run_elsewhere()
    -> (Turn, UnboundedReceiver<Command>, watch::Sender<Option<Arc<TurnOutcome>>>) {
        let (commands, received) = unbounded_channel();
        let (publish, outcome) = watch::channel(None);
        (Turn { commands, outcome }, received, publish)
    }

    /// How the turn ended; resolves when its tree is gone. May be awaited many times.
    pub async fn outcome(&self) -> Arc<TurnOutcome> {
        let mut outcome = self.outcome.clone();
        let value = outcome.wait_for(Option::is_some).await.map(|value| value.clone());
        value.ok().flatten().unwrap_or_else(|| {
            let error = Error::new(ErrorCode::AgentAborted, "the addon was shut down before the turn ended");
            Arc::new(TurnOutcome { result: None, error: Some(error) })
        })
    }

    /// Ends the turn; it is over when [`Turn::outcome`] resolves. After the end nothing happens.
    pub fn abort(&self) {
        let _ = self.commands.send(Command::Abort);
    }

    /// Gives the events to this sink, first those that were kept. A later sink takes over.
    pub fn listen(&self, sink: Box<dyn EventSink>) {
        // After the end the word comes back, and dropping it ends the sink.
        let _ = self.commands.send(Command::Listen(sink));
    }

    /// The events for a reader in Rust; see [`Turn::listen`]. The request has to say that somebody listens (`has_listener`).
    pub fn events(&self) -> EventReader {
        let (sink, reader) = event_channel();
        self.listen(Box::new(sink));
        reader
    }

    /// Nobody listens any more.
    pub fn leave(&self) {
        let _ = self.commands.send(Command::Leave);
    }

    /// A handle that does not keep the turn alive.
    pub fn downgrade(&self) -> WeakTurn {
        WeakTurn { commands: self.commands.downgrade() }
    }
}

/// See [`Turn::downgrade`].
#[derive(Clone)]
pub struct WeakTurn {
    commands: tokio::sync::mpsc::WeakUnboundedSender<Command>,
}

impl WeakTurn {
    pub fn abort(&self) {
        if let Some(commands) = self.commands.upgrade() {
            let _ = commands.send(Command::Abort);
        }
    }

    pub fn is_over(&self) -> bool {
        self.commands.upgrade().is_none_or(|commands| commands.is_closed())
    }
}

/// What all attempts of a turn came to.
#[derive(Default)]
struct Tally {
    attempts: u32,
    usage: Option<Usage>,
    turns: u64,
    tool_calls: u64,
    warnings: Vec<String>,
}

struct Owner {
    request: TurnRequest,
    commands: UnboundedReceiver<Command>,
    audience: Audience,
    started: Instant,
    queued: Duration,
    tally: Tally,
    /// What the harness said between attempts.
    retries: Vec<String>,
    last: Option<Attempted>,
    /// The harness knows the end without a verdict on the last attempt.
    is_told: bool,
}

/// What follows an attempt.
enum Next {
    Done { structured: Option<Value> },
    Failed(Error),
    Retry { delay: Duration, reason: String },
    Reask { session: String, problems: Vec<String> },
}

impl Owner {
    fn new(request: TurnRequest, commands: UnboundedReceiver<Command>) -> Self {
        Owner {
            audience: Audience::new(request.has_listener, &request.redact),
            request,
            commands,
            started: Instant::now(),
            queued: Duration::ZERO,
            tally: Tally::default(),
            retries: Vec::new(),
            last: None,
            is_told: true,
        }
    }

    async fn run(&mut self, slot: Waiting) -> TurnOutcome {
        let ended = match (self.request.check(), self.request.limits.passed()) {
            (Ok(()), None) => match self.open_record().await {
                Ok(()) => self.run_in_turn(slot).await,
                Err(error) => Err(error),
            },
            (Err(error), _) | (Ok(()), Some(error)) => Err(error),
        };
        if let Some(last) = &mut self.last {
            last.transcript.digest_mut().set_detail(self.audience.wants_events());
            last.transcript.digest_mut().close();
            self.audience.tell(last.transcript.take_events());
        }
        self.audience.end();
        let is_judged = self.last.as_ref().is_some_and(|last| last.error.is_none() && !self.is_told);
        let mut outcome = self.outcome(ended);
        self.close_record(&mut outcome, is_judged).await;
        outcome
    }

    fn label(&self) -> String {
        self.audience.redact(&self.request.label())
    }

    async fn open_record(&mut self) -> Result<(), Error> {
        let (request, label) = (self.request.clone(), self.label());
        let record = self.or_abort(TurnRecord::open(&request, &label)).await??;
        self.audience.keep(record);
        Ok(())
    }

    async fn close_record(&mut self, outcome: &mut TurnOutcome, is_judged: bool) {
        let Some(record) = self.audience.record().take() else { return };
        // What it printed is in files of its own.
        let process = outcome.result.as_mut().and_then(|result| result.facts.process.take());
        let facts = record.close(outcome.result.as_ref(), outcome.error.as_ref(), is_judged).await;
        if let Some(result) = &mut outcome.result {
            result.facts.process = process;
            result
                .facts
                .warnings
                .extend(facts.problem.iter().map(|problem| format!("the record is not whole: {problem}")));
            result.facts.record = Some(facts);
        }
    }

    /// Who asks for the events only after the end is given what was kept.
    async fn serve_late_listener(mut self) {
        while self.audience.is_waiting() {
            match self.commands.recv().await {
                Some(Command::Listen(sink)) => self.audience.listen(sink),
                Some(Command::Leave) | None => self.audience.leave(),
                Some(Command::Abort) => {}
            }
        }
        self.audience.end();
    }

    async fn run_in_turn(&mut self, slot: Waiting) -> Result<Option<Value>, Error> {
        let slot = self.or_abort(slot.end()).await;
        self.queued = self.started.elapsed();
        let _slot = slot?;
        let program = program_of(&self.request)?;
        let parent = self.request.variable("TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = blocking(move || RunFolder::create(&parent)).await?;
        let ended = self.run_attempts(&program, &folder).await;
        folder.remove().await;
        ended
    }

    async fn run_attempts(&mut self, program: &Program, folder: &RunFolder) -> Result<Option<Value>, Error> {
        let mut reasked = None;
        loop {
            let launch = prepare(&self.request, folder, reasked.as_ref()).await?;
            let resume = reasked
                .as_ref()
                .map(|(session, _): &(String, Vec<String>)| session.clone())
                .or(self.request.resume.clone());
            let plan = Plan {
                request: &self.request,
                launch: &launch,
                program,
                folder,
                resume: resume.as_deref(),
                before: resume.as_deref().and_then(|session| ledger::counted(self.request.provider, session)),
                record: self.audience.record().as_mut().map(|record| record.next_attempt(&self.request)),
                name: self.label(),
            };
            let mut attempted = attempt(&plan, &mut self.commands, &mut self.audience).await;
            self.count(&attempted);
            let file = read_answer_file(folder.path().join(ANSWER_FILE)).await;
            let next = self.next(&mut attempted, file.as_deref(), reasked.is_some());
            self.keep_judgement(&attempted, resume, file, &next);
            self.last = Some(attempted);
            match next {
                Next::Done { structured } => return Ok(structured),
                Next::Failed(error) => return Err(error),
                Next::Retry { delay, reason } => {
                    let message = format!(
                        "attempt {} failed ({reason}): the turn is tried again in {} ms",
                        self.tally.attempts,
                        delay.as_millis()
                    );
                    self.tell_retry(message);
                    self.or_abort(tokio::time::sleep(delay)).await?;
                }
                Next::Reask { session, problems } => {
                    self.tell_retry(
                        "the answer does not fit the schema: it is asked for once more".to_owned(),
                    );
                    reasked = Some((session, problems));
                }
            }
        }
    }

    /// What the attempt's verdict was made of, for whoever reads the record again.
    fn keep_judgement(
        &mut self,
        attempted: &Attempted,
        resume: Option<String>,
        answer: Option<String>,
        next: &Next,
    ) {
        self.is_told = match next {
            Next::Done { .. } => false,
            Next::Failed(_) => attempted.process.is_none(),
            // Until the next one is judged.
            Next::Retry { .. } | Next::Reask { .. } => true,
        };
        let retry = match next {
            Next::Retry { reason, .. } => Some(self.audience.redact(reason)),
            Next::Reask { .. } => Some("the answer does not fit the schema".to_owned()),
            Next::Done { .. } | Next::Failed(_) => None,
        };
        if let Some(record) = self.audience.record() {
            record.judge(&Judged { stop: attempted.stop, resume, before: attempted.before, answer, retry });
        }
    }

    fn count(&mut self, attempted: &Attempted) {
        let digest = attempted.transcript.digest();
        self.tally.attempts += 1;
        self.tally.turns = self.tally.turns.saturating_add(digest.turns());
        self.tally.tool_calls += digest.tool_calls();
        if let Some(usage) = digest.total_usage() {
            self.tally.usage = Some(self.tally.usage.unwrap_or_default().plus(usage));
        }
        for warning in digest.warnings() {
            if !self.tally.warnings.contains(warning) {
                self.tally.warnings.push(warning.clone());
            }
        }
        if let (Some(session), Some(counted)) = (digest.session_id(), attempted.transcript.reader().counted())
        {
            ledger::note(self.request.provider, session, counted);
        }
    }

    fn next(&self, attempted: &mut Attempted, file: Option<&str>, is_reasked: bool) -> Next {
        if let Some(error) = attempted.error.take() {
            return Next::Failed(error);
        }
        let fault = attempted.verdict.fault.clone();
        let Some(schema) = &self.request.schema else {
            return match fault {
                None => Next::Done { structured: None },
                Some(fault) => self.after_fault(&fault, attempted),
            };
        };
        if let Some(fault) = fault.as_ref().filter(|fault| !fault.is_misshapen) {
            return self.after_fault(fault, attempted);
        }
        let digest = attempted.transcript.digest();
        let candidates = Candidates { given: digest.structured_answer(), file, text: digest.final_text() };
        let problems = match read_answer(schema, &candidates) {
            Reading::Fits(value) => {
                attempted.verdict.fault = None;
                return Next::Done { structured: Some(value) };
            }
            reading => reading.problems(),
        };
        match digest.session_id() {
            Some(session) if !is_reasked && !attempted.is_aborted => {
                Next::Reask { session: session.to_owned(), problems }
            }
            _ => {
                let name = self.request.provider.as_str();
                // They quote the answer, which may hold anything.
                let problems: Vec<String> =
                    problems.iter().map(|problem| self.audience.redact(problem)).collect();
                let message =
                    format!("the answer of {name} does not fit the schema: {}", problems.join("; "));
                Next::Failed(Error::new(ErrorCode::AgentSchemaMismatch, message).with("problems", problems))
            }
        }
    }

    fn after_fault(&self, fault: &Fault, attempted: &Attempted) -> Next {
        let policy = self.request.retry;
        let is_worth_it = match fault.code {
            ErrorCode::AgentFailed | ErrorCode::AgentCrashed | ErrorCode::AgentTruncated => {
                fault.kind.is_some_and(|kind| kind.is_transient())
            }
            _ => false,
        };
        let may_repeat = self.request.retry_after_tools || self.tally.tool_calls == 0;
        if is_worth_it && may_repeat && self.tally.attempts < policy.attempts && !attempted.is_aborted {
            let delay = policy.delay(self.tally.attempts, retry_after_in(&fault.message), random_fraction());
            return Next::Retry { delay, reason: fault.message.clone() };
        }
        let mut error = Error::new(fault.code, self.audience.redact(&fault.message));
        if let Some(kind) = fault.kind {
            error = error.with("kind", kind.as_str());
        }
        Next::Failed(error)
    }

    fn tell_retry(&mut self, message: String) {
        if self.audience.wants_events() {
            self.audience.tell(vec![AgentEvent::Retry { message: message.clone() }]);
        }
        self.retries.push(message);
    }

    /// Waits for something, and for an abort meanwhile.
    async fn or_abort<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Error> {
        tokio::pin!(wait);
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    Some(Command::Listen(sink)) => self.audience.listen(sink),
                    Some(Command::Leave) => self.audience.leave(),
                    Some(Command::Abort) | None => {
                        let name = self.request.provider.as_str();
                        return Err(Error::new(ErrorCode::AgentAborted, format!("the {name} turn was aborted while it waited")));
                    }
                },
                value = &mut wait => return Ok(value),
            }
        }
    }

    fn outcome(&mut self, ended: Result<Option<Value>, Error>) -> TurnOutcome {
        let is_refused = matches!(&ended, Err(error) if error.code() == ErrorCode::InvalidOption);
        let (structured, mut error) = match ended {
            Ok(structured) => (structured, None),
            Err(error) => (None, Some(error)),
        };
        if is_refused {
            return TurnOutcome { result: None, error };
        }
        let mut result = self.result();
        if structured.is_some() {
            result.facts.structured = structured;
        }
        let stderr =
            result.facts.process.as_ref().map(|process| self.audience.redact(tail(&process.stderr, 4096)));
        error = error.map(|error| error.with("events", self.recent_events()));
        error = match (error, stderr) {
            (Some(error), Some(stderr)) => Some(error.with("stderr", stderr)),
            (error, _) => error,
        };
        if self.audience.has_secrets() {
            self.redact(&mut result);
        }
        TurnOutcome { result: Some(result), error }
    }

    fn redact(&self, result: &mut TurnResult) {
        let clean = |text: &mut String| *text = self.audience.redact(text);
        clean(&mut result.text);
        result.facts.warnings.iter_mut().for_each(clean);
        result.facts.session_id.iter_mut().chain(&mut result.facts.model).for_each(clean);
        if let Some(value) = &mut result.facts.structured {
            self.audience.redact_value(value);
        }
        if let Some(process) = &mut result.facts.process {
            // The events were read from it. What it says in pieces, over several lines, can't be searched for secrets.
            process.stdout.clear();
            process.args.iter_mut().for_each(clean);
            clean(&mut process.command);
            clean(&mut process.stderr);
        }
    }

    /// The last events, whether or not somebody listened to them.
    fn recent_events(&self) -> Vec<Value> {
        let retries = self.retries.iter().map(|message| AgentEvent::Retry { message: message.clone() });
        let mut events: Vec<AgentEvent> = retries.collect();
        if let Some((last, process)) =
            self.last.as_ref().and_then(|last| Some((last, last.process.as_ref()?)))
        {
            let warnings = last.transcript.digest().warnings();
            let provider = self.request.provider;
            events.extend(reread(provider, last.before, &process.stdout, process.truncated, warnings));
        }
        last_values(self.audience.redact_all(events))
    }

    fn result(&mut self) -> TurnResult {
        let provider = self.request.provider;
        let mut result = match &mut self.last {
            Some(last) => TurnResult::of(provider, last.transcript.digest_mut(), &last.verdict),
            None => TurnResult::empty(provider),
        };
        result.facts.process = self.last.as_ref().and_then(|last| last.process.clone());
        result.facts.attempts = self.tally.attempts;
        result.facts.usage = self.tally.usage;
        result.facts.turns = self.tally.turns;
        result.facts.tool_calls = self.tally.tool_calls;
        result.facts.warnings.clone_from(&self.tally.warnings);
        result.facts.queued_ms = self.queued.as_secs_f64() * 1e3;
        result.facts.duration_ms = self.started.elapsed().saturating_sub(self.queued).as_secs_f64() * 1e3;
        result
    }
}

/// Arguments, environment and files of the next attempt.
async fn prepare(
    request: &TurnRequest,
    folder: &RunFolder,
    reasked: Option<&(String, Vec<String>)>,
) -> Result<Launch, Error> {
    let provider = request.provider.descriptor();
    let mut wanted = wanted_of(request, folder);
    if matches!(provider.session, SessionPolicy::Chosen) && request.resume.is_none() {
        wanted.session_id = Some(new_session_id());
    }
    let mut files = Vec::new();
    if let Some(schema) = request.schema.as_deref().map(Schema::source) {
        let by_flag = (provider.takes_schema)(schema);
        if by_flag {
            let file = folder.path().join("schema.json");
            wanted.schema_file = Some(path_text(&file));
            wanted.schema = Some(schema.clone());
            files.push((file, schema.to_string()));
        }
        let answer = path_text(&folder.path().join(ANSWER_FILE));
        wanted.prompt = match (reasked, by_flag) {
            (Some((_, problems)), _) => prompt_with_problems(problems, schema, by_flag),
            (None, true) => wanted.prompt,
            (None, false) => prompt_with_schema(&wanted.prompt, schema, &answer, request.permission),
        };
    }
    if let Some((session, _)) = reasked {
        wanted.resume = Some(session.clone());
    }
    let launch = (provider.launch)(&wanted)?;
    files.extend(launch.files.iter().cloned());
    let stale = folder.path().join(ANSWER_FILE);
    blocking(move || {
        let _ = std::fs::remove_file(stale);
        for (path, text) in files {
            std::fs::write(&path, text).map_err(|error| {
                Error::new(
                    ErrorCode::ProcessSpawnFailed,
                    format!("{} could not be written: {error}", path.display()),
                )
            })?;
        }
        Ok(())
    })
    .await?;
    Ok(launch)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = crate::os::blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(Error::new(ErrorCode::ProcessSpawnFailed, "the addon's threads are shutting down"))
    })
}

/// What an agent wrote as its answer, if that is a file of a length that an answer may have.
async fn read_answer_file(path: PathBuf) -> Option<String> {
    let facts = tokio::fs::metadata(&path).await.ok()?;
    if !facts.is_file() || facts.len() > MAX_ANSWER_FILE_BYTES {
        return None;
    }
    tokio::fs::read_to_string(path).await.ok()
}

fn tail(text: &str, bytes: usize) -> &str {
    let mut at = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(at) {
        at += 1;
    }
    &text[at..]
}
