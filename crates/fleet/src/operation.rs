//! The calls for operators of a whole fleet: pause queues, drain workers, try many jobs again.

use super::engine::{Engine, Group, Key, RetryFor, Shared};
use super::filter::Filter;
use super::listing::JobList;
use super::name::{DEFAULT_QUEUE, check_name};
use super::presence::Presence;
use super::record::JobState;
use bytes::Bytes;
use futures_util::future::try_join3;
use futures_util::{StreamExt, stream};
use ground::error::{Error, ErrorCode};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// Workers hear of a pause at once. One that says nothing for so long is not waited for.
const HEARD_WITHIN: Duration = Duration::from_secs(3);
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LAST_LOOK: Duration = Duration::from_millis(250);
/// Queues that a message names.
const MAX_NAMED: usize = 10;
/// Jobs that are tried again at once.
const AT_ONCE: usize = 16;

impl dyn Engine {
    /// Resolves when no worker starts a job of the queue any more.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a queue that nobody knows: a slip of the pen would pause nothing.
    pub(crate) async fn pause(&self, queue: &str) -> Result<(), Error> {
        check_name("queue", queue)?;
        let known = self.known_queues().await?;
        if !known.contains(queue) {
            let names: Vec<_> = known.iter().take(MAX_NAMED).map(|name| format!("{name:?}")).collect();
            let more = if known.len() > MAX_NAMED { ", ..." } else { "" };
            let problem = format!(
                "no worker serves the queue {queue:?}, and no job or schedule is in it; there are {}{more}",
                names.join(", ")
            );
            return Err(Error::invalid_option("queue", problem));
        }
        let paused = Key::Pause(queue.to_owned());
        self.put_entry(&paused, Bytes::from_static(b"{}"), None, None, RetryFor::ASKED).await?;
        let has_heard = |worker: &Presence| !worker.serves(queue) || worker.paused.contains(queue);
        self.until_workers(HEARD_WITHIN, |workers| workers.iter().all(has_heard)).await.map(drop)
    }

    /// Names of the queues that are paused, that a worker serves, or that hold a job or a schedule.
    async fn known_queues(&self) -> Result<BTreeSet<String>, Error> {
        let (workers, pauses, schedules) =
            try_join3(self.workers(), self.settings(&Group::Pauses), self.schedules()).await?;
        let mut known: BTreeSet<String> = pauses.into_keys().collect();
        known.extend(workers.into_iter().flat_map(|worker| worker.queues));
        known.extend(schedules.into_iter().map(|(schedule, _)| schedule.job.queue));
        known.extend(self.queues(&known, 1).await?.into_keys());
        known.insert(DEFAULT_QUEUE.to_owned());
        Ok(known)
    }

    /// True when it was paused.
    pub(crate) async fn resume(&self, queue: &str) -> Result<bool, Error> {
        check_name("queue", queue)?;
        self.unset(&Key::Pause(queue.to_owned())).await
    }

    /// Resolves when the worker starts no more jobs; when it runs none, once it is gone.
    pub(crate) async fn drain(&self, name: &str) -> Result<(), Error> {
        check_name("worker", name)?;
        let workers = self.workers().await?;
        // Several workers may have one name.
        let named = workers.iter().filter(|worker| worker.name == name);
        let instances: Vec<&str> = named.map(|worker| worker.instance.as_str()).collect();
        if instances.is_empty() {
            return Err(Error::invalid_option("worker", format!("the fleet has no worker {name:?}")));
        }
        // A worker that is silent for a lease is gone.
        let within = self.lease() + HEARD_WITHIN;
        let order = Bytes::from(instances.join(" "));
        let drained = Key::Drain(name.to_owned());
        self.put_entry(&drained, order, None, Some(within * 2), RetryFor::ASKED).await?;
        let has_heard = |workers: &[Presence]| {
            let is_meant = |worker: &&Presence| instances.contains(&worker.instance.as_str());
            workers.iter().filter(is_meant).all(|worker| worker.closing && !worker.running.is_empty())
        };
        if self.until_workers(within, has_heard).await? {
            return Ok(());
        }
        let message = format!("the worker {name} does not answer: it is given up when its lease is over");
        Err(Error::new(ErrorCode::FleetUnreachable, message))
    }

    /// Whether the workers became so in time.
    async fn until_workers(
        &self,
        within: Duration,
        are_so: impl Fn(&[Presence]) -> bool,
    ) -> Result<bool, Error> {
        let (late, mut look) = (Instant::now() + within, FIRST_LOOK);
        loop {
            if are_so(&self.workers().await?) {
                return Ok(true);
            }
            if Instant::now() >= late {
                return Ok(false);
            }
            tokio::time::sleep(look).await;
            look = (look * 2).min(LAST_LOOK);
        }
    }

    pub(crate) async fn workers(&self) -> Result<Vec<Presence>, Error> {
        let said = self.announced_workers().await?;
        Ok(said.iter().filter_map(|said| ground::json::read_own(said).ok()).collect())
    }
}

/// Tries jobs again. Returns their number.
pub(crate) async fn retry_many(engine: &Shared, mut filter: Filter) -> Result<u64, Error> {
    let may_be_tried = [JobState::Failed, JobState::Dead, JobState::Cancelled];
    if filter.states.is_empty() {
        filter.states = may_be_tried.to_vec();
    }
    if let Some(other) = filter.states.iter().find(|state| !may_be_tried.contains(state)) {
        let problem = format!(
            "expected failed, dead or cancelled, got {}: other jobs are not tried again",
            other.as_str()
        );
        return Err(Error::invalid_option("filter.state", problem));
    }
    // Listed first: a job that fails again at once is not tried again for ever.
    let mut list = JobList::open(engine, filter, None, None).await?;
    let mut ids = Vec::new();
    loop {
        let page = list.next().await?;
        if page.is_empty() {
            break;
        }
        ids.extend(page.iter().map(|record| record.id().to_owned()));
    }
    let tried = ids.into_iter().map(|id| {
        let engine = engine.clone();
        async move {
            match engine.retry(&id).await {
                Ok(()) => Ok(1),
                // It was removed, or somebody else has tried it again and it is done.
                Err(error) if matches!(error.code(), ErrorCode::JobNotFound | ErrorCode::InvalidOption) => {
                    Ok(0)
                }
                Err(error) => Err(error),
            }
        }
    });
    let mut tried = stream::iter(tried).buffer_unordered(AT_ONCE);
    let mut count = 0;
    while let Some(one) = tried.next().await {
        count += one?;
    }
    Ok(count)
}
