//! One job in a worker: claimed, run, committed. At each step the record decides whether the worker still holds the job.

use super::book::Book;
use super::claim::{CONFLICT_DELAY, Candidate, Claimed, NotRun};
use super::job_run::{Files, JobFuture, JobHost, JobRun, Past, StopCause, StopSignal};
use super::keeper::{Keeper, Standing};
use super::log_writer::LogWriter;
use super::outcome::is_full;
use super::parking::Parking;
use crate::engine::{Delivery, Key, Place, RetryFor, is_too_long};
use crate::fault::{JobFault, no_random};
use crate::record::{JobRecord, JobState};
use crate::retry_table::Consequence;
use crate::spec::JobSpec;
use crate::submitter::now;
use crate::transition::JobEvent;
use git::{Checkout, GitPlace, Leaving};
use ground::error::Error;
use ground::random;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

const MAX_HOLD_DELAY: Duration = Duration::from_secs(30);
const MAX_LATER_DELAY: Duration = Duration::from_secs(3600);
/// Longest time that a stopped run may take to end. The harness bounds the end of its process tree.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Pause between two tries to write the end of a job to a full store.
const COMMIT_EVERY: Duration = Duration::from_secs(2);

/// One attempt on its way.
pub(super) struct Attempt {
    pub job: Candidate,
    pub host: Arc<dyn JobHost>,
    pub git: GitPlace,
    pub parking: Parking,
}

impl Attempt {
    /// Resolves when the job is out of this worker's hands.
    pub(super) async fn run(mut self) {
        if !self.take_up().await {
            return;
        }
        let delivery = self.job.delivery.borrow_and_update().clone();
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
        if self.job.until.is_none() && self.parking.has(&key) {
            return self.parking.wait_for_place(&key, delivery).await;
        }
        match self.take_place(&key, &spec).await {
            Ok(Some(place)) => {
                let held = self.hold(&delivery, spec, Some(place.clone())).await;
                self.job.engine.drop_place(&place).await;
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
        let delivery = self.job.delivery.borrow().clone();
        let Some(until) = self.job.until else {
            self.parking.on_returned(&delivery);
            return true;
        };
        // A message that came here meanwhile is ours in any case.
        let is_ours = (delivery.take_up().await && Instant::now() < until)
            || self.job.delivery.has_changed().unwrap_or(false);
        if !is_ours && let Some(key) = &delivery.spec.key {
            self.parking.on_free(key);
        }
        is_ours
    }

    /// Delay of a job whose provider is at its usage limit.
    async fn held_back(&self, spec: &JobSpec) -> Option<Duration> {
        let hold = Key::Hold(spec.provider.clone()?);
        let held = self.job.engine.present(&hold, RetryFor::ASKED).await.ok()??;
        let millis: u64 = std::str::from_utf8(&held.payload).ok()?.parse().ok()?;
        Some((Duration::from_millis(millis) / 4).clamp(Duration::from_millis(250), MAX_HOLD_DELAY))
    }

    /// A place of the job's key; `None` when none is free.
    async fn take_place(&self, key: &str, spec: &JobSpec) -> Result<Option<Place>, Error> {
        let holder = random::key::<12>().ok_or_else(no_random)?;
        // One question tells them all; a place that is taken costs two.
        let taken =
            if spec.key_limit > 2 { self.job.engine.places_taken(key).await? } else { HashSet::new() };
        for number in (0..spec.key_limit).filter(|number| !taken.contains(number)) {
            let place = Key::Place(key.to_owned(), number);
            let engine = &self.job.engine;
            let taken = engine.take_place(place, &holder, &spec.id, engine.lease()).await?;
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
        place: Option<Place>,
    ) -> Result<(), NotRun> {
        let begun = Instant::now();
        let claimed = self.job.claim(delivery, &spec).await?;
        let (stop, stopped) = watch::channel(None);
        let run = self.run_of(&claimed, spec, StopSignal(stopped));
        let (tell, heard) = watch::channel(Standing::Held);
        let keeper = Keeper {
            engine: self.job.engine.clone(),
            id: run.id.clone(),
            token: run.book.token.clone(),
            delivery: self.job.delivery.clone(),
            place,
            tell,
        };
        let keeper = ground::task::spawn(keeper.run(begun));
        let ended = self.work(&run, &stop, heard.clone()).await;
        let standing = *heard.borrow();
        let left = match standing {
            Standing::Fenced => None,
            _ => self.commit(&run, ended, standing).await,
        };
        if let Some(checkout) = run.files.checkout.get() {
            checkout.leave(leaving(&run.spec, left.as_ref())).await;
        }
        if let Some(record) = &left {
            self.hand_over(record).await;
        }
        keeper.abort();
        Ok(())
    }

    fn run_of(&self, claimed: &Claimed, spec: Arc<JobSpec>, stop: StopSignal) -> JobRun {
        let (engine, kept) = (self.job.engine.clone(), claimed.kept.clone());
        let (attempt, token) = (kept.record.attempt, kept.record.token.clone().unwrap_or_default());
        JobRun {
            id: spec.id.as_str().into(),
            attempt,
            past: Arc::new(Past::new(&kept.record, claimed.last_worker.clone())),
            worker: self.job.worker.clone(),
            stop,
            log: LogWriter::open(engine.clone(), &spec.id, attempt),
            book: Arc::new(Book { engine: engine.clone(), token, kept: kept.into() }),
            engine,
            files: Arc::new(Files::default()),
            spec,
        }
    }

    /// Runs the job, and stops it when it is cancelled, lost, or the worker closes. `None`: it did not end in time.
    async fn work(
        &mut self,
        run: &JobRun,
        stop: &watch::Sender<Option<StopCause>>,
        mut heard: watch::Receiver<Standing>,
    ) -> Option<Ended> {
        let mut work: JobFuture = Box::pin(work(self.host.clone(), self.git.clone(), run.clone()));
        let drained = async |drain: &mut watch::Receiver<bool>| {
            if drain.wait_for(|drain| *drain).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let cause = tokio::select! {
            ended = &mut work => return Some(ended),
            _ = heard.changed() => match *heard.borrow() {
                Standing::Cancelled => StopCause::Cancelled,
                Standing::Held | Standing::Fenced => StopCause::Lost,
            },
            () = drained(&mut self.job.drain) => StopCause::Closing,
        };
        stop.send_replace(Some(cause));
        // Wait for the stopped work. `commit` decides whether its result still counts.
        tokio::time::timeout(STOP_GRACE, work).await.ok()
    }

    /// Writes what came of it. `None`: it could not be written, we are fenced or the lease runs out and another attempt begins.
    async fn commit(&self, run: &JobRun, ended: Option<Ended>, standing: Standing) -> Option<JobRecord> {
        let token = run.book.token.clone();
        let log = run.log.end().await;
        let is_drain = *self.job.drain.borrow();
        let mut has_failed = false;
        let mut event = match ended {
            _ if standing == Standing::Cancelled => JobEvent::Stopped { token, log, now: now() },
            Some(Ok(value)) => run.done(value, log).await,
            _ if is_drain => JobEvent::Drained { token, now: now() },
            Some(Err(fault)) => run.failed(fault, log, None).await,
            // It was stopped for a standing that was taken back: nothing says so today.
            None => JobEvent::Drained { token, now: now() },
        };
        let may_need_burial = !matches!(event, JobEvent::Done { .. } | JobEvent::Drained { .. });
        if may_need_burial {
            // A spec that can't be kept makes a retry impossible. It does not undo what came of the job.
            let _ = self.job.engine.bury_job(&run.spec, RetryFor::WORK).await;
        }
        loop {
            match run.book.write(&event).await {
                Ok(record) => return Some(record),
                // The work is done, and is worth more than the place that it takes: `fleet.status()` says what is full.
                Err(Some(error)) if is_too_long(&error) && !has_failed => {
                    // Nothing that is waited for makes it shorter.
                    has_failed = true;
                    event = JobEvent::Failed {
                        token: run.book.token.clone(),
                        fault: JobFault::from(&error),
                        consequence: Consequence::Final,
                        log,
                        artifacts: Vec::new(),
                        now: now(),
                    };
                }
                Err(Some(error)) if is_full(&error) && !*self.job.drain.borrow() => {
                    tokio::time::sleep(COMMIT_EVERY).await;
                }
                Err(_) => return None,
            }
        }
    }

    /// Takes the job off the queue, or gives it back.
    async fn hand_over(&self, record: &JobRecord) {
        let delivery = self.job.delivery.borrow().clone();
        match record.state {
            JobState::Queued => delivery.give_back(record.delay(now())).await,
            state => {
                // A job that is done is never tried again. While its message may come back its spec has to be there.
                if delivery.finish().await && state == JobState::Done && delivery.is_object {
                    self.job.engine.free_spec(&record.id).await;
                }
            }
        }
    }
}

/// The result of the job's work.
type Ended = Result<Option<Value>, JobFault>;

/// The job's files first, where it has some; then the job.
async fn work(host: Arc<dyn JobHost>, place: GitPlace, run: JobRun) -> Ended {
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
