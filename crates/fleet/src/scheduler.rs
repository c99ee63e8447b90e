//! Starts the runs of schedules. Every member that runs jobs or sets schedules does this, without a leader: a run's job has one
//! id, whoever submits it. A member that sees that another one was faster submits nothing.

use super::engine::{CLOSED, Engine, Entry, Group, Key, Refused, RetryFor, Shared, away};
use super::schedule::{Plan, Schedule};
use super::submitter::now;
use bytes::Bytes;
use futures_util::StreamExt;
use ground::error::{Error, ErrorCode};
use ground::random;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest sleep: the wall clock may jump meanwhile.
const MAX_SLEEP: Duration = Duration::from_secs(10);
/// All schedules are read again by themselves this often: a watch keeps nothing.
const REREAD_EVERY: Duration = Duration::from_secs(60);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(5);
/// Members start a run at different times within this span, so that most of them see that it was started.
const SPREAD: Duration = Duration::from_millis(250);

/// The schedules as they were last read.
type Known = BTreeMap<String, (Schedule, u64)>;

/// Runs until it is dropped, or this user may not submit jobs.
pub(crate) async fn keep_schedules(engine: Shared) {
    loop {
        match follow(&engine).await {
            Err(error) if error.code() == ErrorCode::FleetUnauthorized => return,
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn follow(engine: &Shared) -> Result<(), Error> {
    let mut watch = engine.changes(&Group::Schedules).await?;
    let mut connections = engine.connections();
    connections.mark_unchanged();
    let mut known = read_all(engine).await?;
    let mut reread = tokio::time::Instant::now() + REREAD_EVERY;
    loop {
        let mut sleep = MAX_SLEEP;
        let ids: Vec<String> = known.keys().cloned().collect();
        for id in ids {
            let plan = start_due(engine, &mut known, &id).await?;
            if plan.due.is_some() {
                sleep = Duration::ZERO;
            } else if let Some(next) = plan.next {
                sleep = sleep.min(Duration::from_millis(next.saturating_sub(now())));
            }
        }
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            told = watch.next() => {
                let (key, _) = told.ok_or_else(|| away(CLOSED))?;
                reread_one(engine, &mut known, key.name()).await?;
            }
            changed = connections.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                known = read_all(engine).await?;
            }
            () = tokio::time::sleep_until(reread) => {
                known = read_all(engine).await?;
                reread = tokio::time::Instant::now() + REREAD_EVERY;
            }
        }
    }
}

/// Starts the schedule's due run, if there is one.
async fn start_due(engine: &Shared, known: &mut Known, id: &str) -> Result<Plan, Error> {
    let plan = |known: &Known| known.get(id).and_then(|(schedule, _)| schedule.plan(now()).ok());
    let first = plan(known).unwrap_or_default();
    if first.due.is_none() {
        return Ok(first);
    }
    if first.is_start {
        tokio::time::sleep(SPREAD.mul_f64(random::fraction())).await;
        reread_one(engine, known, id).await?;
    }
    if let Some((schedule, revision)) = known.get(id)
        && let Ok(Plan { due: Some(due), is_start, .. }) = schedule.plan(now())
    {
        if is_start {
            engine.submit(schedule.job_at(due)).await?;
        }
        // Another member may have been as fast, or somebody has set the schedule anew.
        let after = Schedule { last_at: Some(due), ..schedule.clone() };
        match engine.write_schedule(&after, Some(*revision)).await {
            Ok(()) | Err(Refused::Conflict) => {}
            Err(refused) => return Err(refused.into()),
        }
        reread_one(engine, known, id).await?;
    }
    Ok(plan(known).unwrap_or_default())
}

async fn reread_one(engine: &Shared, known: &mut Known, id: &str) -> Result<(), Error> {
    match engine.present(&Key::Schedule(id.to_owned()), RetryFor::ASKED).await? {
        Some(stored) => known.extend(parsed(id.to_owned(), &stored)),
        None => drop(known.remove(id)),
    }
    Ok(())
}

async fn read_all(engine: &Shared) -> Result<Known, Error> {
    let found = engine.settings(&Group::Schedules).await?;
    Ok(found.into_iter().filter_map(|(id, stored)| parsed(id, &stored)).collect())
}

/// `None`: a newer version wrote it.
fn parsed(id: String, stored: &Entry) -> Option<(String, (Schedule, u64))> {
    let schedule: Schedule = ground::json::read_own(&stored.payload).ok()?;
    Some((id, (schedule, stored.revision)))
}

impl dyn Engine {
    /// `over`: `None`: over whatever there is.
    pub(crate) async fn write_schedule(&self, schedule: &Schedule, over: Option<u64>) -> Result<(), Refused> {
        let payload = serde_json::to_vec(schedule)
            .map_err(|error| Error::invalid_option("job", format!("can't be written as JSON: {error}")))?;
        let key = Key::Schedule(schedule.id.clone());
        self.put_entry(&key, Bytes::from(payload), over, None, RetryFor::ASKED).await.map(drop)
    }

    /// All schedules, and when each runs next.
    pub(crate) async fn schedules(&self) -> Result<Vec<(Schedule, Option<u64>)>, Error> {
        let found = self.settings(&Group::Schedules).await?;
        let schedules = found.into_iter().filter_map(|(id, stored)| parsed(id, &stored));
        Ok(schedules
            .map(|(_, (schedule, _))| {
                let next = schedule.plan(now()).ok().and_then(|plan| plan.next);
                (schedule, next)
            })
            .collect())
    }
}
