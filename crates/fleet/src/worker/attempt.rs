//! One job in a worker: claimed, run, committed. At each step the record decides whether the worker still holds the job.

use super::artifacts;
use super::book::Book;
use super::gate::{Gate, Pass};
use super::job_run::{Files, JobFuture, JobHost, JobRun, Past, StopCause, StopSignal};
use super::keeper::{Keeper, Standing};
use super::log_writer::LogWriter;
use super::parking::Parking;
use crate::engine::{Announcement, Delivery, Kept, LeaseSlot, Refused, RetryFor, Shared, is_too_long};
use crate::fault::JobFault;
use crate::name::artifact_object;
use crate::record::{Artifact, JobRecord, JobState, LogEnd};
use crate::retry_table::{Consequence, consequence_of, refusal_delay};
use crate::spec::JobSpec;
use crate::submitter::now;
use crate::transition::{Claim, JobEvent};
use bytes::Bytes;
use git::{Checkout, GitPlace, Leaving};
use ground::error::{Error, ErrorCode};
use ground::random;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Somebody else is at the same record right now.
const CONFLICT_DELAY: Duration = Duration::from_millis(200);
/// Delay with which jobs are returned to other workers while a job has to be alone in this one.
pub(super) const ALONE_DELAY: Duration = Duration::from_secs(1);
const MAX_HOLD_DELAY: Duration = Duration::from_secs(30);
const MAX_LATER_DELAY: Duration = Duration::from_secs(3600);
/// Longest time that a stopped run may take to end. The harness bounds the end of its process tree.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// A longer result is stored beside the record: records have room for many jobs, not for long texts.
const MAX_RESULT_BYTES: usize = 8 << 10;
/// The longest result that a record takes if there is no room beside the record.
const MOST_RESULT_BYTES: usize = 256 << 10;
/// Delay of a job while the store has no room for new records.
const FULL_DELAY: Duration = Duration::from_secs(5);
/// Pause between two tries to write the end of a job to a full store.
const COMMIT_EVERY: Duration = Duration::from_secs(2);

/// One attempt on its way.
pub(super) struct Attempt {
    pub engine: Shared,
    pub worker: Arc<str>,
    pub host: Arc<dyn JobHost>,
    pub git: GitPlace,
    pub delivery: watch::Receiver<Arc<Delivery>>,
    /// True when the worker has to give it up.
    pub drain: watch::Receiver<bool>,
    pub gate: Gate,
    pub parking: Parking,
    /// The job was given back and waited here: the server returns it then.
    pub until: Option<Instant>,
    /// The worker has one place only, and its process no other worker.
    pub is_only: bool,
}

/// The record of the job may exist, and has to be read.
struct MayHaveRecord;

/// Why a job was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotRun {
    /// It is over, another worker has it, or it has to wait.
    Itself,
    /// Something that other jobs would meet as well: no room in the store or in the worker, or no answer.
    Anything,
}

/// A claimed job: its record, the worker of the attempt before, and the pass through the gate.
type Claimed = (Kept, Option<String>, Pass);

impl Attempt {
    /// Resolves when the job is out of this worker's hands.
    pub(super) async fn run(mut self) {
        if !self.take_up().await {
            return;
        }
        let delivery = self.delivery.borrow_and_update().clone();
        let spec = Arc::new(delivery.spec.clone());
        if !self.host.accepts(&spec) {
            return self.parking.wait_for_worker(&delivery).await;
        }
        if let Some(delay) = too_early(&spec) {
            return delivery.give_back(delay).await;
        }
        if let Some(delay) = self.held_back(&spec).await {
            return delivery.give_back(delay).await;
        }
        let Some(key) = spec.key.clone() else {
            let _ = self.hold(&delivery, spec, None).await;
            return;
        };
        // A job that comes now is behind those that wait.
        if self.until.is_none() && self.parking.has(&key) {
            return self.parking.wait_for_place(&key, delivery).await;
        }
        match self.take_slot(&key, &spec).await {
            Ok(Some(slot)) => {
                let held = self.hold(&delivery, spec, Some(slot.clone())).await;
                self.engine.drop_lease(&slot).await;
                if held != Err(NotRun::Anything) {
                    self.parking.on_free(&key);
                }
            }
            Ok(None) => {
                self.parking.on_full(&key);
                self.parking.wait_for_place(&key, delivery).await;
            }
            Err(_) => delivery.give_back(CONFLICT_DELAY).await,
        }
    }

    /// Takes a job up that waited here. False: it may be in the hands of another worker by now, so nothing is said about it.
    async fn take_up(&mut self) -> bool {
        let delivery = self.delivery.borrow().clone();
        let Some(until) = self.until else {
            self.parking.on_returned(&delivery);
            return true;
        };
        // A message that came here meanwhile is ours in any case.
        let is_ours = (delivery.take_up().await && Instant::now() < until)
            || self.delivery.has_changed().unwrap_or(false);
        if !is_ours && let Some(key) = &delivery.spec.key {
            self.parking.on_free(key);
        }
        is_ours
    }

    /// Whether the job that waited here runs in another worker: it has a place of its key there. The server returned it early,
    /// for example because it lost its delay.
    async fn is_run_elsewhere(&self, spec: &JobSpec) -> bool {
        let Some(key) = spec.key.as_ref().filter(|_| self.until.is_some()) else { return false };
        let holders = self.engine.key_holders(key).await;
        holders.map_or(true, |holders| holders.iter().filter(|id| **id == spec.id.as_bytes()).count() > 1)
    }

    /// Delay of a job whose provider is at its usage limit.
    async fn held_back(&self, spec: &JobSpec) -> Option<Duration> {
        let hold = Announcement::Hold(spec.provider.clone()?);
        let held = self.engine.announced(&hold).await.ok()??;
        let millis: u64 = std::str::from_utf8(&held).ok()?.parse().ok()?;
        Some((Duration::from_millis(millis) / 4).clamp(Duration::from_millis(250), MAX_HOLD_DELAY))
    }

    /// A place of the job's key; `None` when none is free.
    async fn take_slot(&self, key: &str, spec: &JobSpec) -> Result<Option<LeaseSlot>, Error> {
        let holder = random::key::<12>().ok_or_else(no_random)?;
        // One question tells them all; a place that is taken costs two.
        let taken = if spec.key_limit > 2 { self.engine.places_taken(key).await? } else { HashSet::new() };
        for number in (0..spec.key_limit).filter(|number| !taken.contains(number)) {
            let place = Announcement::Place { key: key.to_owned(), number };
            let payload = Bytes::from(spec.id.clone());
            let taken = self.engine.take_lease(place, payload, &holder, self.engine.lease()).await?;
            if taken.is_some() {
                return Ok(taken);
            }
        }
        Ok(None)
    }

    async fn hold(
        &mut self,
        delivery: &Arc<Delivery>,
        spec: Arc<JobSpec>,
        slot: Option<LeaseSlot>,
    ) -> Result<(), NotRun> {
        let begun = Instant::now();
        let (kept, last_worker, _pass) = self.claim(delivery, &spec).await?;
        let token = kept.record.token.clone().unwrap_or_default();
        let past = Past {
            resume: kept.record.session_to_resume().map(str::to_owned),
            session_object: kept.record.session_object.clone(),
            usage: kept.record.usage.unwrap_or_default(),
            budgeted: kept.record.used(),
            last_worker,
        };
        let attempt = kept.record.attempt;
        let book = Arc::new(Book { engine: self.engine.clone(), token: token.clone(), kept: kept.into() });
        let (tell, mut heard) = watch::channel(Standing::Held);
        let keeper = Keeper {
            engine: self.engine.clone(),
            id: spec.id.as_str().into(),
            token: token.clone(),
            delivery: self.delivery.clone(),
            slot,
            tell,
        };
        let keeper = ground::task::spawn(keeper.run(begun));
        let (stop, stopped) = watch::channel(None);
        let run = JobRun {
            id: spec.id.as_str().into(),
            attempt,
            past: Arc::new(past),
            worker: self.worker.clone(),
            stop: StopSignal(stopped),
            log: LogWriter::open(self.engine.clone(), &spec.id, attempt),
            engine: self.engine.clone(),
            book,
            files: Arc::new(Files::default()),
            spec: spec.clone(),
        };
        let mut work: JobFuture = Box::pin(work(self.host.clone(), self.git.clone(), run.clone()));
        let drained = async |drain: &mut watch::Receiver<bool>| {
            if drain.wait_for(|drain| *drain).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let ended = tokio::select! {
            ended = &mut work => Ok(ended),
            _ = heard.changed() => Err(match *heard.borrow() {
                Standing::Cancelled => StopCause::Cancelled,
                Standing::Held | Standing::Fenced => StopCause::Lost,
            }),
            () = drained(&mut self.drain) => Err(StopCause::Closing),
        };
        let ended = match ended {
            Ok(ended) => Some(ended),
            Err(cause) => {
                stop.send_replace(Some(cause));
                // Wait for the stopped work. `commit` decides whether its result still counts.
                tokio::time::timeout(STOP_GRACE, work).await.ok()
            }
        };
        let standing = *heard.borrow();
        let left = match standing {
            Standing::Fenced => None,
            _ => self.commit(&run, &token, ended, standing).await,
        };
        if let Some(checkout) = run.files.checkout.get() {
            checkout.leave(leaving(&spec, left.as_ref())).await;
        }
        if let Some(record) = &left {
            self.hand_over(record).await;
        }
        keeper.abort();
        Ok(())
    }

    async fn claim(&mut self, delivery: &Delivery, spec: &JobSpec) -> Result<Claimed, NotRun> {
        let Some(token) = random::key::<12>() else {
            delivery.give_back(CONFLICT_DELAY).await;
            return Err(NotRun::Anything);
        };
        // It has a record all the same if it was tried again, or cancelled before anybody had it.
        if delivery.deliveries == 1
            && let Ok(claimed) = self.claim_new(delivery, spec, &token).await
        {
            return claimed;
        }
        // Both at once: on a slow link that is one round trip.
        let (read, room) =
            futures_util::future::join(self.read(delivery, spec), self.engine.check_room()).await;
        let (mut record, mut revision) = read?;
        if record.state == JobState::Running && self.is_run_elsewhere(spec).await {
            return Err(NotRun::Itself);
        }
        // Only what is about to run has to be alone; what its loss comes to is written first.
        let must_be_alone = record.state == JobState::Queued && record.must_run_alone();
        let pass = if must_be_alone { self.gate.enter_alone() } else { self.gate.enter() };
        let Some(pass) = pass else {
            delivery.give_back(ALONE_DELAY).await;
            return Err(NotRun::Anything);
        };
        if must_be_alone {
            if !self.wait_until_alone(&pass).await {
                delivery.give_back(Duration::ZERO).await;
                return Err(NotRun::Anything);
            }
            // Read the record again, because the step before may have taken long.
            (record, revision) = self.read(delivery, spec).await?;
        }
        if revision == 0 && room.is_err() {
            delivery.give_back(FULL_DELAY).await;
            return Err(NotRun::Anything);
        }
        match record.claim(&self.worker, &token, must_be_alone || self.is_only, now()) {
            Claim::Over => {
                delivery.finish().await;
                Err(NotRun::Itself)
            }
            Claim::Bury(next) => {
                let buried = self.engine.bury_job(spec, RetryFor::ASKED).await.is_ok()
                    && self.engine.write_record(&next, revision, RetryFor::ASKED).await.is_ok();
                if buried {
                    delivery.finish().await;
                } else {
                    delivery.give_back(CONFLICT_DELAY).await;
                }
                Err(NotRun::Itself)
            }
            Claim::Later(next) => {
                let written = self.engine.write_record(&next, revision, RetryFor::ASKED).await;
                delivery.give_back(if written.is_ok() { next.delay(now()) } else { CONFLICT_DELAY }).await;
                Err(NotRun::Itself)
            }
            Claim::Run(next) => match self.engine.write_record(&next, revision, RetryFor::ASKED).await {
                Ok(kept) => Ok((kept, record.worker, pass)),
                Err(_) => {
                    delivery.give_back(CONFLICT_DELAY).await;
                    Err(NotRun::Anything)
                }
            },
        }
    }

    /// Claims a job whose message was never delivered before. As a rule it has no record, so that none is read: the store
    /// refuses the claim if there is one.
    async fn claim_new(
        &self,
        delivery: &Delivery,
        spec: &JobSpec,
        token: &str,
    ) -> Result<Result<Claimed, NotRun>, MayHaveRecord> {
        let record = JobRecord::queued(spec).of_message(delivery.sequence).ok_or(MayHaveRecord)?;
        let Some(pass) = self.gate.enter() else {
            delivery.give_back(ALONE_DELAY).await;
            return Ok(Err(NotRun::Anything));
        };
        if self.engine.check_room().await.is_err() {
            return Err(MayHaveRecord);
        }
        let Claim::Run(next) = record.claim(&self.worker, token, self.is_only, now()) else {
            return Err(MayHaveRecord);
        };
        match self.engine.write_record(&next, 0, RetryFor::ASKED).await {
            Ok(kept) => Ok(Ok((kept, None, pass))),
            Err(Refused::Conflict) => Err(MayHaveRecord),
            Err(_) => {
                delivery.give_back(CONFLICT_DELAY).await;
                Ok(Err(NotRun::Anything))
            }
        }
    }

    /// The job's record and its revision; 0: there is none yet.
    async fn read(&self, delivery: &Delivery, spec: &JobSpec) -> Result<(JobRecord, u64), NotRun> {
        match self.engine.read_record(&spec.id, RetryFor::ASKED).await {
            Ok(found) => {
                let (record, revision) =
                    found.map_or_else(|| (JobRecord::queued(spec), 0), |kept| (kept.record, kept.revision));
                let is_over = record.state.is_over();
                match record.of_message(delivery.sequence).filter(|_| !is_over) {
                    Some(record) => Ok((record, revision)),
                    None => {
                        delivery.finish().await;
                        Err(NotRun::Itself)
                    }
                }
            }
            Err(_) => {
                // A newer version may have written it; others can read it then.
                delivery.give_back(delay_of_refused(delivery).max(CONFLICT_DELAY)).await;
                Err(NotRun::Anything)
            }
        }
    }

    /// Holds the job until nothing else runs here. False: the worker closes.
    async fn wait_until_alone(&mut self, pass: &Pass) -> bool {
        let beat_every = self.engine.lease() / 3;
        loop {
            let delivery = self.delivery.borrow_and_update().clone();
            delivery.beat().await;
            tokio::select! {
                () = pass.alone() => return true,
                () = tokio::time::sleep(beat_every) => {}
                Ok(()) = self.delivery.changed() => {}
                drained = self.drain.wait_for(|drain| *drain) => return drained.is_err(),
            }
        }
    }

    /// Writes what came of it. `None`: it could not be written, we are fenced or the lease runs out and another attempt begins.
    async fn commit(
        &self,
        run: &JobRun,
        token: &str,
        ended: Option<Result<Option<Value>, JobFault>>,
        standing: Standing,
    ) -> Option<JobRecord> {
        let token = token.to_owned();
        let log = run.log.end().await;
        let is_drain = *self.drain.borrow();
        let mut has_failed = false;
        let mut event = match ended {
            _ if standing == Standing::Cancelled => {
                JobEvent::Stopped { token: token.clone(), log, now: now() }
            }
            Some(Ok(value)) => self.done(run, token.clone(), value, log).await,
            _ if is_drain => JobEvent::Drained { token: token.clone(), now: now() },
            Some(Err(fault)) => self.failed(run, token.clone(), fault, log, None).await,
            // It was stopped for a standing that was taken back: nothing says so today.
            None => JobEvent::Drained { token: token.clone(), now: now() },
        };
        let may_need_burial = !matches!(event, JobEvent::Done { .. } | JobEvent::Drained { .. });
        if may_need_burial {
            // A spec that can't be kept makes a retry impossible. It does not undo what came of the job.
            let _ = self.engine.bury_job(&run.spec, RetryFor::WORK).await;
        }
        loop {
            match run.book.write(&event).await {
                Ok(record) => return Some(record),
                // The work is done, and is worth more than the place that it takes: `fleet.status()` says what is full.
                Err(Some(error)) if is_too_long(&error) && !has_failed => {
                    // Nothing that is waited for makes it shorter.
                    has_failed = true;
                    event = JobEvent::Failed {
                        token: token.clone(),
                        fault: JobFault::from(&error),
                        consequence: Consequence::Final,
                        log,
                        artifacts: Vec::new(),
                        now: now(),
                    };
                }
                Err(Some(error)) if is_full(&error) && !*self.drain.borrow() => {
                    tokio::time::sleep(COMMIT_EVERY).await;
                }
                Err(_) => return None,
            }
        }
    }

    /// Takes the job off the queue, or gives it back.
    async fn hand_over(&self, record: &JobRecord) {
        let delivery = self.delivery.borrow().clone();
        match record.state {
            JobState::Queued => delivery.give_back(record.delay(now())).await,
            state => {
                // A job that is done is never tried again. While its message may come back its spec has to be there.
                if delivery.finish().await && state == JobState::Done && delivery.is_object {
                    self.engine.free_spec(&record.id).await;
                }
            }
        }
    }

    async fn done(&self, run: &JobRun, token: String, value: Option<Value>, log: LogEnd) -> JobEvent {
        let (artifacts, artifacts_error) = match self.collect(run).await {
            Ok(artifacts) => (artifacts, None),
            // A store without room does not undo what the job came to.
            Err(error) if is_full(&error) => (run.kept_artifacts(), Some(JobFault::from(&error))),
            Err(error) => return self.failed(run, token, JobFault::from(&error), log, None).await,
        };
        let (artifacts, unlisted) = artifacts::listed(artifacts, self.engine.max_message_bytes() / 2);
        let artifacts_error = artifacts_error.or(unlisted.as_ref().map(JobFault::from));
        let done = |result, result_object| JobEvent::Done {
            token: token.clone(),
            result,
            result_object,
            log,
            artifacts: artifacts.clone(),
            artifacts_error: artifacts_error.clone(),
            now: now(),
        };
        let text = value.as_ref().map(Value::to_string).unwrap_or_default();
        if text.len() <= MAX_RESULT_BYTES {
            return done(value, None);
        }
        let length = text.len();
        let name = artifact_object(&run.id, run.attempt, "/result");
        match self.engine.put_object(&name, text.into()).await {
            Ok(()) => done(None, Some(name)),
            Err(error) if is_full(&error) && length <= MOST_RESULT_BYTES => done(value, None),
            Err(error) => {
                // Another run would have the same result.
                let consequence = is_full(&error).then_some(Consequence::Final);
                self.failed(run, token, JobFault::from(&error), log, consequence).await
            }
        }
    }

    /// `consequence`: `None`: what the fault's reason says.
    async fn failed(
        &self,
        run: &JobRun,
        token: String,
        fault: JobFault,
        log: LogEnd,
        consequence: Option<Consequence>,
    ) -> JobEvent {
        let record = run.book.record().await;
        let consequence = consequence.unwrap_or_else(|| consequence_of(&fault, record.spent, record.waits));
        if let (Consequence::Wait(length), Some(provider)) = (&consequence, &run.spec.provider) {
            let hold = Announcement::Hold(provider.clone());
            let payload = Bytes::from(length.as_millis().to_string());
            // When it can't be told, each worker finds out for itself.
            let _ = self.engine.announce(&hold, payload, *length).await;
        }
        let mut fault = fault;
        let keeps = run.spec.git.as_ref().is_some_and(|git| git.keep_on_failure);
        if let Some(checkout) = run.files.checkout.get().filter(|_| keeps) {
            fault.facts.insert("checkout".to_owned(), json!(checkout.path()));
        }
        // The user may need the artifacts of a failed attempt. If they can't be stored, the attempt's own failure is still
        // reported.
        let artifacts = self.collect(run).await.unwrap_or_else(|_| run.kept_artifacts());
        let (artifacts, _) = artifacts::listed(artifacts, self.engine.max_message_bytes() / 2);
        JobEvent::Failed { token, fault, consequence, log, artifacts, now: now() }
    }

    /// Artifacts that were stored during the run, and those that the job's globs match now.
    async fn collect(&self, run: &JobRun) -> Result<Vec<Artifact>, Error> {
        let root = run.cwd();
        if !run.spec.artifacts.is_empty() {
            for path in artifacts::find(root.clone(), &run.spec.artifacts).await? {
                run.artifact(&path.to_string_lossy()).await?;
            }
        }
        Ok(run.kept_artifacts())
    }
}

/// Whether a stream or the whole server has no room, which is nothing that another run of the job would change.
fn is_full(error: &Error) -> bool {
    !is_too_long(error) && matches!(error.code(), ErrorCode::FleetFull | ErrorCode::FleetStorage)
}

fn no_random() -> Error {
    Error::new(ErrorCode::FleetStorage, "the system provides no random numbers")
}

fn delay_of_refused(delivery: &Delivery) -> Duration {
    refusal_delay(delivery.deliveries, &delivery.spec.id)
}

/// The job's files first, where it has some; then the job.
async fn work(host: Arc<dyn JobHost>, place: GitPlace, run: JobRun) -> Result<Option<Value>, JobFault> {
    if let Some(source) = &run.spec.git {
        let made = Checkout::make(&place, &run.id, source, run.past.resume.is_some()).await;
        let checkout = made.map_err(|error| JobFault::from(&error))?;
        let event = json!({ "type": "checkout", "commit": checkout.commit(), "path": checkout.path() });
        let _ = run.files.checkout.set(checkout);
        run.emit(event.to_string()).await.map_err(|error| JobFault::from(&error))?;
    }
    host.run(run).await
}

/// Decides whether the job's files are kept. Without a record the job belongs to another worker.
fn leaving(spec: &JobSpec, left: Option<&JobRecord>) -> Leaving {
    let keeps = spec.git.as_ref().is_some_and(|git| git.keep_on_failure);
    match left {
        Some(record) if record.state == JobState::Queued && record.session_to_resume().is_some() => {
            Leaving::GoesOn
        }
        Some(record) if keeps && matches!(record.state, JobState::Failed | JobState::Dead) => Leaving::Kept,
        _ => Leaving::Over,
    }
}

/// Delay until the job's start time, at most `MAX_LATER_DELAY`. The server holds a returned message back for that long. The limit
/// exists because a restarted server has forgotten the delay.
fn too_early(spec: &JobSpec) -> Option<Duration> {
    let left = spec.at?.checked_sub(now()).filter(|left| *left > 0)?;
    Some(Duration::from_millis(left).min(MAX_LATER_DELAY))
}
