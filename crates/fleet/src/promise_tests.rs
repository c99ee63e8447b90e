//! The promises of a fleet, each checked over every engine.

use super::engine::test_server::{PATIENCE, TestServer};
use super::engine::{Delivery, Group, Key, Refused, RetryFor, Shared, open_memory};
use super::filter::Filter;
use super::follow::Follow;
use super::listed::Listed;
use super::listing::JobList;
use super::operation::retry_many;
use super::prune::Prune;
use super::record::{JobRecord, JobState, LogEnd};
use super::schedule::{CatchUp, Schedule};
use super::scheduler::keep_schedules;
use super::spec::JobSpec;
use super::submitter::now;
use super::test_host::{Texts, all_listed, listed, pass, settled, submit};
use super::transition::{Claim, JobEvent};
use super::watching::JobWatch;
use super::worker::{Gate, JobFuture, JobHost, JobRun, Worker, WorkerOptions};
use bytes::Bytes;
use futures_util::StreamExt;
use ground::error::ErrorCode;
use serde_json::json;
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;

const LEASE: Duration = Duration::from_secs(1);

macro_rules! over_every_engine {
    ($($promise:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(super::open_memory(super::LEASE)).await;
            })+
        }
        mod nats {
            $(#[tokio::test]
            async fn $promise() {
                let Some(server) = super::TestServer::start().await else { return };
                super::$promise(server.leased(super::LEASE).await).await;
            })+
        }
    };
}

mod order_tests;
mod schedule_tests;
mod store_tests;

over_every_engine!(
    a_job_is_tried_as_often_as_it_may_be,
    a_job_is_cancelled_while_it_waits_and_while_it_runs,
    what_is_pruned_is_gone,
    a_closing_worker_gives_its_job_to_another,
    a_list_has_each_job_once_by_its_filter_and_page_by_page,
    a_change_of_a_job_is_told,
    a_paused_queue_starts_nothing_until_it_is_resumed,
    a_worker_is_drained_from_anywhere,
    jobs_that_failed_are_tried_again_together,
);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it ends")
}

async fn next(engine: &Shared) -> Option<Delivery> {
    let begun = Instant::now();
    while begun.elapsed() < LEASE * 4 {
        if let Some(delivery) = given_out(engine).await {
            return Some(delivery);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    None
}

/// A job that is given out at once.
async fn given_out(engine: &Shared) -> Option<Delivery> {
    for lane in [engine.lane("default", 4, RetryFor::ASKED).await.unwrap()] {
        if let Some(delivery) = lane.pull(1).await.unwrap().pop() {
            return Some(delivery);
        }
    }
    None
}

async fn worker(engine: &Shared, host: Arc<dyn JobHost>) -> Worker {
    Worker::start(engine.clone(), WorkerOptions::new(host), Gate::new()).await.unwrap()
}

fn done(token: &str) -> JobEvent {
    JobEvent::Done {
        token: token.to_owned(),
        result: Some(json!(token)),
        result_object: None,
        log: LogEnd::default(),
        artifacts: Vec::new(),
        artifacts_error: None,
        now: 1,
    }
}

fn claimed(record: &JobRecord, token: &str) -> JobRecord {
    match record.claim("w", token, true, 1) {
        Claim::Run(next) => *next,
        other => panic!("expected a run, got {other:?}"),
    }
}

async fn a_job_is_tried_as_often_as_it_may_be(engine: Shared) {
    let host = Texts::new(true);
    let worker = worker(&engine, host.clone()).await;
    submit(&engine, json!({ "id": "a", "data": "fails", "attempts": 1 })).await.unwrap();
    let record = settled(&engine, "a").await;
    assert_eq!((record.state, record.attempt), (JobState::Failed, 1));
    engine.retry("a").await.unwrap();
    let again = async {
        loop {
            let record = settled(&engine, "a").await;
            if record.attempt == 2 {
                return record;
            }
        }
    };
    assert_eq!(within(again).await.state, JobState::Failed);
    assert_eq!(host.runs(), 2);
    worker.close().await;
}

async fn a_job_is_cancelled_while_it_waits_and_while_it_runs(engine: Shared) {
    submit(&engine, json!({ "id": "waits", "queue": "nobody" })).await.unwrap();
    assert_eq!(engine.cancel("waits", false).await.unwrap().state, JobState::Cancelled);
    assert_eq!(engine.message_of("waits").await.unwrap(), None);
    let host = Texts::new(false);
    let worker = worker(&engine, host.clone()).await;
    submit(&engine, json!({ "id": "runs" })).await.unwrap();
    host.until_begun().await;
    assert_eq!(within(engine.cancel("runs", false)).await.unwrap().state, JobState::Cancelled);
    worker.close().await;
}

async fn what_is_pruned_is_gone(engine: Shared) {
    let worker = worker(&engine, Texts::new(true)).await;
    submit(&engine, json!({ "id": "a", "data": 20_000 })).await.unwrap();
    let name = settled(&engine, "a").await.result_object.unwrap();
    worker.close().await;
    let all = Prune { older_than: Duration::ZERO, states: Vec::new(), queue: None, is_trial: false };
    let pruned = engine.prune(&all).await.unwrap();
    assert_eq!((pruned.jobs, pruned.objects), (1, 1));
    assert!(engine.look_up("a").await.is_err() && engine.object(&name).await.is_err());
    assert_eq!(engine.last_of_logs("a").await.unwrap(), 0);
}

async fn a_closing_worker_gives_its_job_to_another(engine: Shared) {
    let (slow, quick) = (Texts::new(false), Texts::new(true));
    let mut options = WorkerOptions::new(slow.clone());
    options.drain_timeout = Some(Duration::ZERO);
    let first = Worker::start(engine.clone(), options, Gate::new()).await.unwrap();
    submit(&engine, json!({ "id": "a" })).await.unwrap();
    slow.until_begun().await;
    let second = worker(&engine, quick.clone()).await;
    let closed = ground::task::spawn(async move { first.close().await });
    // The job does not end within the 10 s that a stopped run has.
    slow.until_closing().await;
    pass(Duration::from_secs(10)).await;
    let record = settled(&engine, "a").await;
    assert_eq!((record.state, record.attempt, record.spent), (JobState::Done, 2, 1));
    slow.go.send_replace(true);
    within(closed).await.unwrap();
    second.close().await;
}

async fn a_list_has_each_job_once_by_its_filter_and_page_by_page(engine: Shared) {
    let worker = worker(&engine, Texts::new(true)).await;
    for n in 0..3 {
        let spec = json!({ "id": format!("done-{n}"), "title": format!("Part {n}"), "tags": ["t", "odd"] });
        submit(&engine, spec).await.unwrap();
        settled(&engine, &format!("done-{n}")).await;
    }
    submit(&engine, json!({ "id": "fails", "data": "fails", "attempts": 1, "tags": ["t"] })).await.unwrap();
    settled(&engine, "fails").await;
    for n in 0..3 {
        submit(&engine, json!({ "id": format!("waits-{n}"), "queue": "other" })).await.unwrap();
    }
    let ids = async |filter: Filter, after: Option<&str>, limit| {
        let found = listed(&engine, filter, after, limit).await;
        found.iter().map(|record| record.id().to_owned()).collect::<Vec<_>>()
    };
    let everything = ["done-0", "done-1", "done-2", "fails", "waits-0", "waits-1", "waits-2"];
    assert_eq!(ids(Filter::default(), None, None).await, everything);
    for limit in [1, 2, 3] {
        let (mut paged, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = ids(Filter::default(), after.as_deref(), Some(limit)).await;
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.clone());
            paged.extend(page);
        }
        assert_eq!(paged, everything, "pages of {limit}");
    }
    let of = |change: fn(&mut Filter)| {
        let mut filter = Filter::default();
        change(&mut filter);
        filter
    };
    let over = of(|filter| filter.states = vec![JobState::Done, JobState::Failed]);
    assert_eq!(ids(over, None, None).await, everything[..4]);
    assert_eq!(ids(of(|filter| filter.states = vec![JobState::Queued]), None, None).await, everything[4..]);
    assert_eq!(ids(of(|filter| filter.queue = Some("other".into())), None, None).await, everything[4..]);
    assert_eq!(ids(of(|filter| filter.tag = Some("odd".into())), None, None).await, everything[..3]);
    assert_eq!(ids(of(|filter| filter.title = Some("part 1".into())), None, None).await, ["done-1"]);
    let problem = JobList::open(&engine, Filter::default(), Some("nobody"), None).await.err().unwrap();
    assert_eq!(problem.code(), ErrorCode::JobNotFound);
    worker.close().await;
}

async fn a_change_of_a_job_is_told(engine: Shared) {
    submit(&engine, json!({ "id": "before", "queue": "nobody" })).await.unwrap();
    let mut watch = JobWatch::open(&engine, Filter::default()).await.unwrap();
    let mut told = async |wanted: &str| {
        loop {
            for record in within(watch.next()).await.unwrap() {
                let shown = record.shown();
                if format!("{} {}", record.id(), shown["state"].as_str().unwrap()) == wanted {
                    return;
                }
            }
        }
    };
    submit(&engine, json!({ "id": "a" })).await.unwrap();
    told("a queued").await;
    let worker = worker(&engine, Texts::new(true)).await;
    told("a done").await;
    engine.cancel("before", false).await.unwrap();
    told("before cancelled").await;
    worker.close().await;
}

async fn a_paused_queue_starts_nothing_until_it_is_resumed(engine: Shared) {
    let host = Texts::new(true);
    let worker = worker(&engine, host.clone()).await;
    submit(&engine, json!({ "id": "first" })).await.unwrap();
    settled(&engine, "first").await;
    engine.pause("default").await.unwrap();
    for n in 0..20 {
        submit(&engine, json!({ "id": format!("paused-{n}"), "priority": n % 10 })).await.unwrap();
    }
    // A worker that starts meanwhile finds the queue paused.
    let second = self::worker(&engine, host.clone()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(host.runs(), 1);
    let status = engine.status().await.unwrap();
    let queue = &status.queues["default"];
    assert!(queue.is_paused && queue.queued == 20, "{queue:?}");
    assert!(status.stuck[0].why.contains("paused"), "{:?}", status.stuck);
    assert!(engine.resume("default").await.unwrap());
    for n in 0..20 {
        settled(&engine, &format!("paused-{n}")).await;
    }
    assert!(!engine.resume("default").await.unwrap());
    let begun = Instant::now();
    worker.close().await;
    second.close().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "closing takes {:?}", begun.elapsed());
}

async fn a_worker_is_drained_from_anywhere(engine: Shared) {
    let host = Texts::new(false);
    let named = |name: &str, host: &Arc<Texts>| {
        let mut options = WorkerOptions::new(host.clone());
        options.name = Some(name.to_owned());
        Worker::start(engine.clone(), options, Gate::new())
    };
    let worker = named("w", &host).await.unwrap();
    submit(&engine, json!({ "id": "runs" })).await.unwrap();
    host.until_begun().await;
    let until_told = async {
        while engine
            .workers()
            .await
            .unwrap()
            .first()
            .is_none_or(|worker| worker.running != BTreeSet::from(["runs".to_owned()]))
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(until_told).await;
    within(engine.drain("w")).await.unwrap();
    submit(&engine, json!({ "id": "later" })).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(host.runs(), 1, "it takes nothing new");
    assert!(!worker.is_closed(), "what runs goes on");
    host.go.send_replace(true);
    within(worker.closed()).await;
    assert_eq!(settled(&engine, "runs").await.state, JobState::Done);
    assert_eq!(engine.drain("w").await.unwrap_err().code(), ErrorCode::InvalidOption);
    // Another one of that name is another worker.
    let second = named("w", &host).await.unwrap();
    assert_eq!(settled(&engine, "later").await.state, JobState::Done);
    within(engine.drain("w")).await.unwrap();
    within(second.closed()).await;
}

async fn jobs_that_failed_are_tried_again_together(engine: Shared) {
    let worker = worker(&engine, Texts::new(true)).await;
    for n in 0..5 {
        let spec = json!({ "id": format!("job-{n}"), "data": "fails", "attempts": 1, "tags": [format!("t{}", n % 2)] });
        submit(&engine, spec).await.unwrap();
        settled(&engine, &format!("job-{n}")).await;
    }
    let filter = Filter { tag: Some("t1".into()), ..Filter::default() };
    assert_eq!(within(retry_many(&engine, filter)).await.unwrap(), 2);
    let again = async {
        for (n, attempts) in [(0, 1), (1, 2), (2, 1), (3, 2), (4, 1)] {
            while settled(&engine, &format!("job-{n}")).await.attempt < attempts {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    within(again).await;
    let wrong = Filter { states: vec![JobState::Done], ..Filter::default() };
    assert_eq!(retry_many(&engine, wrong).await.unwrap_err().code(), ErrorCode::InvalidOption);
    worker.close().await;
}
