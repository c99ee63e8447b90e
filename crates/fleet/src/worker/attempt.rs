//! One job in a worker: claimed, run, committed. At each step the record decides whether the worker still holds the job.

mod claiming;
mod ending;

pub(super) use claiming::ALONE_DELAY;

use super::book::Book;
use super::gate::{Gate, Pass};
use super::job_run::{Files, JobFuture, JobHost, JobRun, Past, StopCause, StopSignal};
use super::keeper::{Keeper, Standing};
use super::log_writer::LogWriter;
use super::parking::Parking;
use crate::engine::{Announcement, Delivery, Kept, LeaseSlot, Shared};
use crate::fault::JobFault;
use crate::spec::JobSpec;
use crate::submitter::now;
use bytes::Bytes;
use ending::leaving;
use git::{Checkout, GitPlace};
use ground::error::{Error, ErrorCode};
use ground::random;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Somebody else is at the same record right now.
const CONFLICT_DELAY: Duration = Duration::from_millis(200);
const MAX_HOLD_DELAY: Duration = Duration::from_secs(30);
const MAX_LATER_DELAY: Duration = Duration::from_secs(3600);
/// Longest time that a stopped run may take to end. The harness bounds the end of its process tree.
const STOP_GRACE: Duration = Duration::from_secs(10);
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
        let (tell, mut heard) = watch::channel(Standing::Held);
        let keeper = Keeper {
            engine: self.engine.clone(),
            id: spec.id.as_str().into(),
            token: kept.record.token.clone().unwrap_or_default(),
            delivery: self.delivery.clone(),
            slot,
            tell,
        };
        let keeper = ground::task::spawn(keeper.run(begun));
        let (stop, stopped) = watch::channel(None);
        let run = self.run_of(spec.clone(), kept, last_worker, StopSignal(stopped));
        let ended = self.work_on(&run, &stop, &mut heard).await;
        let standing = *heard.borrow();
        let left = match standing {
            Standing::Fenced => None,
            _ => self.commit(&run, ended, standing).await,
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

    fn run_of(
        &self,
        spec: Arc<JobSpec>,
        kept: Kept,
        last_worker: Option<String>,
        stop: StopSignal,
    ) -> JobRun {
        let record = &kept.record;
        let past = Past {
            resume: record.session_to_resume().map(str::to_owned),
            session_object: record.session_object.clone(),
            usage: record.usage.unwrap_or_default(),
            budgeted: record.used(),
            last_worker,
        };
        let attempt = record.attempt;
        let token = record.token.clone().unwrap_or_default();
        JobRun {
            id: spec.id.as_str().into(),
            attempt,
            past: Arc::new(past),
            worker: self.worker.clone(),
            stop,
            log: LogWriter::open(self.engine.clone(), &spec.id, attempt),
            engine: self.engine.clone(),
            book: Arc::new(Book { engine: self.engine.clone(), token, kept: kept.into() }),
            files: Arc::new(Files::default()),
            spec,
        }
    }

    /// Works until the end, or until the worker has to stop it. `None`: the work did not end in time after it was stopped.
    async fn work_on(
        &mut self,
        run: &JobRun,
        stop: &watch::Sender<Option<StopCause>>,
        heard: &mut watch::Receiver<Standing>,
    ) -> Option<Result<Option<Value>, JobFault>> {
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
            () = drained(&mut self.drain) => StopCause::Closing,
        };
        stop.send_replace(Some(cause));
        // Wait for the stopped work. `commit` decides whether its result still counts.
        tokio::time::timeout(STOP_GRACE, work).await.ok()
    }
}

fn no_random() -> Error {
    Error::new(ErrorCode::FleetStorage, "the system provides no random numbers")
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

/// Delay until the job's start time, at most `MAX_LATER_DELAY`. The server holds a returned message back for that long. The limit
/// exists because a restarted server has forgotten the delay.
fn too_early(spec: &JobSpec) -> Option<Duration> {
    let left = spec.at?.checked_sub(now()).filter(|left| *left > 0)?;
    Some(Duration::from_millis(left).min(MAX_LATER_DELAY))
}
