//! Lists jobs, one page after another: first those that are over, in the order of their ends; then the others, in the order of
//! their submission. Pages are read as they are asked for, so that a long list takes no memory.

use super::engine::{Found, JobPage, RetryFor, Shared, Waiting};
use super::filter::Filter;
use super::listed::Listed;
use super::record::JobRecord;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, Stream, StreamExt, TryStreamExt};
use ground::error::{Error, ErrorCode};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

/// Jobs of the queue that are read at once; of the first page, so that the first job is there soon.
const PAGE: usize = 1000;
const FIRST_PAGE: usize = 50;
/// Records that are checked at once for jobs without a message.
const CHECKED: usize = 256;
/// Records in one answer to a reader.
const MOST_TOGETHER: usize = 256;

/// A list that is being read.
pub struct JobList {
    jobs: BoxStream<'static, Result<Listed, Error>>,
    left: usize,
}

impl JobList {
    /// `after`: the list begins behind the job of this id. `limit`: most jobs that are listed.
    pub(crate) async fn open(
        engine: &Shared,
        filter: Filter,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<JobList, Error> {
        let begin = match after {
            Some(id) => begin_behind(engine, id).await?,
            None => Begin { records: Some(0), jobs: 0 },
        };
        let jobs = all(engine.clone(), Arc::new(filter), begin).boxed();
        Ok(JobList { jobs, left: limit.unwrap_or(usize::MAX) })
    }

    /// Some jobs; empty when all were told.
    pub async fn next(&mut self) -> Result<Vec<Listed>, Error> {
        let mut page = Vec::new();
        while page.len() < MOST_TOGETHER.min(self.left) {
            // More than one only if they are there: the first ones are not held back.
            let next = if page.is_empty() {
                self.jobs.next().await
            } else {
                match self.jobs.next().now_or_never() {
                    Some(next) => next,
                    None => break,
                }
            };
            match next {
                Some(record) => page.push(record?),
                None => break,
            }
        }
        self.left -= page.len();
        Ok(page)
    }
}

/// The beginning of a list.
#[derive(Clone, Debug)]
struct Begin {
    /// Revision of the first record; `None`: behind all jobs that are over.
    records: Option<u64>,
    /// Sequence of the first message.
    jobs: u64,
}

async fn begin_behind(engine: &Shared, id: &str) -> Result<Begin, Error> {
    // A job that changes between two looks is looked at again.
    for _ in 0..3 {
        if let Some(kept) = engine.read_record(id, RetryFor::ASKED).await?
            && kept.record.state.is_over()
        {
            return Ok(Begin { records: Some(kept.revision + 1), jobs: 0 });
        }
        if let Some(sequence) = engine.message_of(id).await? {
            return Ok(Begin { records: None, jobs: sequence + 1 });
        }
    }
    Err(Error::new(
        ErrorCode::JobNotFound,
        format!("the fleet has no job {id} that a list could begin after; it may have been removed"),
    ))
}

/// Facts that the parts of a list share.
struct Told {
    /// The revision after that of the last record that was read.
    records: u64,
    /// Hashes of the ids of jobs that were listed before they were over.
    ids: HashSet<u64>,
    hasher: RandomState,
}

impl Told {
    fn add(&mut self, id: &str) {
        self.ids.insert(self.hasher.hash_one(id));
    }

    fn has(&self, id: &str) -> bool {
        self.ids.contains(&self.hasher.hash_one(id))
    }
}

fn all(
    engine: Shared,
    filter: Arc<Filter>,
    begin: Begin,
) -> impl Stream<Item = Result<Listed, Error>> + Send + use<> {
    let Begin { records: from, jobs } = begin;
    let told = Told { records: from.unwrap_or_default(), ids: HashSet::new(), hasher: RandomState::new() };
    let told = Arc::new(Mutex::new(told));
    let (wants_over, wants_others) = (filter.takes_any(true), filter.takes_any(false));
    let from = from.filter(|_| wants_over || wants_others);
    let over = from.is_some();
    let first = from.map(|from| records(engine.clone(), filter.clone(), from, told.clone()));
    let second = wants_others.then(|| waiting(engine.clone(), filter.clone(), jobs, told.clone()));
    // Those that ended while the second part was read.
    let third = (over && wants_over && wants_others).then(|| {
        stream::once(async move {
            let from = ground::lock::lock(&told).records;
            let seen = told.clone();
            records(engine, filter, from, told)
                .try_filter(move |record| std::future::ready(!ground::lock::lock(&seen).has(record.id())))
        })
        .flatten()
    });
    let parts = [first.map(StreamExt::boxed), second.map(StreamExt::boxed), third.map(StreamExt::boxed)];
    stream::iter(parts.into_iter().flatten()).flatten()
}

/// Jobs that are over, from a revision on; and those that are not, if they have no message.
fn records(
    engine: Shared,
    filter: Arc<Filter>,
    from: u64,
    told: Arc<Mutex<Told>>,
) -> impl Stream<Item = Result<Listed, Error>> + Send + use<> {
    let meant = engine.records_from(from).try_filter_map(move |Found { record, revision, .. }| {
        ground::lock::lock(&told).records = revision + 1;
        std::future::ready(Ok(filter.matches_listed(&record).then_some(record)))
    });
    meant.ready_chunks(CHECKED).then(move |page| without_waiting(engine.clone(), page)).flatten()
}

/// Leaves out the jobs that have a message: they come with the queue.
async fn without_waiting(
    engine: Shared,
    page: Vec<Result<Listed, Error>>,
) -> impl Stream<Item = Result<Listed, Error>> {
    let is_open = |record: &Listed| matches!(record, Listed::Known(record) if !record.state.is_over());
    let open = page.iter().filter_map(|record| record.as_ref().ok().filter(|record| is_open(record)));
    let open: Vec<&str> = open.map(Listed::id).collect();
    let mut others: HashSet<String> = HashSet::new();
    let mut problem = None;
    if !open.is_empty() {
        match lost(&engine, &open).await {
            Ok(lost) => others = lost,
            Err(error) => problem = Some(error),
        }
    }
    let kept = page.into_iter().filter(move |record| match record {
        Ok(record) => !is_open(record) || others.contains(record.id()),
        Err(_) => true,
    });
    stream::iter(problem.map(Err).into_iter().chain(kept))
}

/// The jobs that have no message, though they go on.
async fn lost(engine: &Shared, ids: &[&str]) -> Result<HashSet<String>, Error> {
    let waiting = engine.jobs_with_message(ids).await?;
    let rest: Vec<&str> = ids.iter().copied().filter(|id| !waiting.contains(*id)).collect();
    if rest.is_empty() {
        return Ok(HashSet::new());
    }
    // Those that ended a moment ago have another record by now, which comes later.
    let records = engine.records_of(&rest).await?;
    let open = records.into_values().filter_map(|record| match record {
        Listed::Known(record) if !record.state.is_over() => Some(record.id),
        _ => None,
    });
    Ok(open.collect())
}

/// Jobs that are not over, from a sequence on.
fn waiting(
    engine: Shared,
    filter: Arc<Filter>,
    from: u64,
    told: Arc<Mutex<Told>>,
) -> impl Stream<Item = Result<Listed, Error>> + Send + use<> {
    let pages = stream::try_unfold(Some((from, FIRST_PAGE)), move |next| {
        let (engine, filter, told) = (engine.clone(), filter.clone(), told.clone());
        async move {
            let Some((from, most)) = next else { return Ok::<_, Error>(None) };
            let JobPage { jobs: page, next } = engine.jobs_from(&filter, from, most).await?;
            let ids: Vec<&str> = page.iter().map(|waiting| waiting.spec.id.as_str()).collect();
            let mut records =
                if ids.is_empty() { Default::default() } else { engine.records_of(&ids).await? };
            let mut found = Vec::with_capacity(page.len());
            for Waiting { spec, .. } in page {
                let record = match records.remove(&spec.id) {
                    Some(Listed::Known(record)) if !record.state.is_over() => *record,
                    // It is over, or can't be read: it is among the records.
                    Some(_) => continue,
                    None => JobRecord::queued(&spec),
                };
                if filter.matches(&record) {
                    ground::lock::lock(&told).add(&record.id);
                    found.push(Ok(Listed::Known(Box::new(record))));
                }
            }
            Ok(Some((stream::iter(found), next.map(|next| (next, PAGE)))))
        }
    });
    pages.try_flatten()
}
