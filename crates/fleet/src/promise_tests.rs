//! The promises of a fleet, each checked over every engine.

use super::engine::test_server::{PATIENCE, TestServer};
use super::engine::{Announcement, Delivery, Refused, RetryFor, SettingKind, Shared, open_memory};
use super::follow::Follow;
use super::listed::Listed;
use super::listing::{Filter, JobList};
use super::operation::retry_many;
use super::prune::Prune;
use super::record::{JobRecord, JobState, LogEnd};
use super::schedule::{CatchUp, Schedule};
use super::scheduler::keep_schedules;
use super::spec::JobSpec;
use super::submitter::now;
use super::test_host::{Texts, all_listed, listed, settled, submit};
use super::transition::{Claim, JobEvent};
use super::watching::JobWatch;
use super::worker::{Gate, JobFuture, JobHost, JobRun, Worker, WorkerOptions};
use bytes::Bytes;
use ground::error::ErrorCode;
use serde_json::json;
use std::collections::HashSet;
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

over_every_engine!(
    a_silent_holder_loses_its_job_and_a_beating_one_keeps_it,
    a_job_that_is_given_back_comes_after_its_delay,
    a_job_that_was_given_back_can_be_taken_up_again_by_its_last_holder,
    a_record_is_written_over_the_revision_that_was_read_alone,
    a_fenced_worker_commits_nothing,
    a_log_keeps_its_order_and_has_a_repeated_batch_once,
    a_place_has_one_holder_until_it_expires,
    an_object_comes_back_whole,
    the_same_id_is_the_same_job,
    a_higher_priority_goes_first,
    jobs_of_a_key_run_one_after_another,
    a_job_whose_key_another_worker_frees_starts,
    jobs_of_many_keys_start_when_another_worker_frees_them,
    a_job_that_no_worker_can_run_waits_for_one_that_can,
    jobs_that_wait_for_their_key_start_by_priority_and_then_by_age,
    a_job_of_a_higher_priority_goes_before_those_that_wait_for_their_key,
    two_workers_run_as_many_jobs_of_a_key_as_it_has_places,
    a_cancelled_job_does_not_hold_up_the_next_one_of_its_key,
    jobs_of_a_paused_queue_wait_for_their_key_until_it_is_resumed,
    a_closing_worker_leaves_the_jobs_that_wait_in_it_to_others,
    a_job_is_tried_as_often_as_it_may_be,
    a_job_is_cancelled_while_it_waits_and_while_it_runs,
    what_is_pruned_is_gone,
    a_closing_worker_gives_its_job_to_another,
    a_list_has_each_job_once_by_its_filter_and_page_by_page,
    a_change_of_a_job_is_told,
    a_paused_queue_starts_nothing_until_it_is_resumed,
    a_worker_is_drained_from_anywhere,
    jobs_that_failed_are_tried_again_together,
    a_schedule_starts_each_run_once_however_many_keep_it,
    a_run_whose_owner_died_after_its_submit_is_not_started_again,
    a_schedule_keeps_to_its_policy_after_a_jump_of_the_clock,
    a_setting_is_written_over_the_revision_that_was_read_and_expires,
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

async fn a_silent_holder_loses_its_job_and_a_beating_one_keeps_it(engine: Shared) {
    submit(&engine, json!({ "id": "a", "priority": 4 })).await.unwrap();
    let first = next(&engine).await.unwrap();
    let begun = Instant::now();
    while begun.elapsed() < LEASE * 2 {
        first.beat().await;
        tokio::time::sleep(LEASE / 5).await;
    }
    assert!(given_out(&engine).await.is_none(), "its holder is there");
    let second = within(next(&engine)).await.expect("its holder is silent");
    assert_eq!((second.deliveries, second.sequence), (2, first.sequence));
    assert!(second.finish().await);
    assert_eq!(engine.message_of("a").await.unwrap(), None);
}

async fn a_job_that_is_given_back_comes_after_its_delay(engine: Shared) {
    submit(&engine, json!({ "id": "a", "priority": 4 })).await.unwrap();
    let delay = Duration::from_millis(400);
    next(&engine).await.unwrap().give_back(delay).await;
    let begun = Instant::now();
    let again = within(next(&engine)).await.unwrap();
    assert!(begun.elapsed() >= delay - Duration::from_millis(50), "{:?}", begun.elapsed());
    again.give_back(Duration::ZERO).await;
    assert_eq!(within(next(&engine)).await.unwrap().deliveries, 3);
}

async fn a_job_that_was_given_back_can_be_taken_up_again_by_its_last_holder(engine: Shared) {
    submit(&engine, json!({ "id": "a", "priority": 4 })).await.unwrap();
    let first = next(&engine).await.unwrap();
    first.give_back(Duration::from_secs(3600)).await;
    assert!(first.is_disposed());
    assert!(first.take_up().await && !first.is_disposed());
    assert!(given_out(&engine).await.is_none(), "its holder is there");
    let second = within(next(&engine)).await.expect("its holder is silent again");
    assert_eq!((second.deliveries, second.sequence), (2, first.sequence));
    assert!(second.finish().await);
}

async fn a_record_is_written_over_the_revision_that_was_read_alone(engine: Shared) {
    let spec = JobSpec { id: "a".into(), handler: Some("h".into()), ..JobSpec::new() };
    let queued = JobRecord::queued(&spec);
    let first = engine.write_record(&queued, 0, RetryFor::ASKED).await.unwrap();
    let next = claimed(&queued, "one");
    let second = engine.write_record(&next, first.revision, RetryFor::ASKED).await.unwrap();
    let other = claimed(&queued, "two");
    for stale in [0, first.revision] {
        let refused = engine.write_record(&other, stale, RetryFor::ASKED).await;
        assert!(matches!(refused, Err(Refused::Conflict)), "{refused:?}");
    }
    let read = engine.read_record("a", RetryFor::ASKED).await.unwrap().unwrap();
    assert_eq!((read.record, read.revision), (next, second.revision));
    assert!(!engine.drop_record(&first).await.unwrap(), "it was written since");
    let kept = engine.read_record("a", RetryFor::ASKED).await.unwrap();
    assert!(kept.is_some());
}

async fn a_fenced_worker_commits_nothing(engine: Shared) {
    let spec = JobSpec { id: "a".into(), handler: Some("h".into()), ..JobSpec::new() };
    let first = claimed(&JobRecord::queued(&spec), "late");
    let held = engine.write_record(&first, 0, RetryFor::ASKED).await.unwrap();
    let second = claimed(&first, "new");
    let taken = engine.write_record(&second, held.revision, RetryFor::ASKED).await.unwrap();
    let late = held.record.after(&done("late")).unwrap();
    let refused = engine.write_record(&late, held.revision, RetryFor::ASKED).await;
    assert!(matches!(refused, Err(Refused::Conflict)), "{refused:?}");
    let commit = second.after(&done("new")).unwrap();
    engine.write_record(&commit, taken.revision, RetryFor::ASKED).await.unwrap();
    assert_eq!(settled(&engine, "a").await.result, Some(json!("new")));
}

async fn a_log_keeps_its_order_and_has_a_repeated_batch_once(engine: Shared) {
    submit(&engine, json!({ "id": "a", "queue": "nobody" })).await.unwrap();
    let mut after = 0;
    for number in 1..=3 {
        let line = Bytes::from(format!("{{\"n\":{number}}}"));
        let sequence = engine.append_log("a", 1, number, after, line.clone()).await.unwrap();
        assert!(sequence > after);
        assert_eq!(engine.append_log("a", 1, number, after, line).await.unwrap(), sequence, "again");
        after = sequence;
    }
    assert_eq!(engine.last_of_logs("a").await.unwrap(), after);
    let mut follow = Follow::open(&engine, "a", None, false).await.unwrap();
    let mut lines = Vec::new();
    while let Some(batch) = within(follow.next()).await.unwrap() {
        lines.push(String::from_utf8_lossy(&batch.lines).into_owned());
    }
    assert_eq!(lines, ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}"]);
}

async fn a_place_has_one_holder_until_it_expires(engine: Shared) {
    let place = || Announcement::Place { key: "k".to_owned(), number: 0 };
    let job = || Bytes::from("job");
    let mut slot = engine.take_lease(place(), job(), "one", LEASE).await.unwrap().unwrap();
    assert!(engine.take_lease(place(), job(), "two", LEASE).await.unwrap().is_none());
    assert!(engine.hold_place(&mut slot, job()).await.unwrap());
    assert_eq!(engine.key_holders("k").await.unwrap(), [job()]);
    engine.drop_lease(&slot).await;
    let second = engine.take_lease(place(), job(), "two", LEASE).await.unwrap();
    assert!(second.is_some(), "free at once");
    assert!(!engine.hold_place(&mut slot, job()).await.unwrap(), "it is another's");
    let expired = async {
        while engine.take_lease(place(), job(), "three", LEASE).await.unwrap().is_none() {
            tokio::time::sleep(LEASE / 10).await;
        }
    };
    within(expired).await;
}

async fn an_object_comes_back_whole(engine: Shared) {
    let text: Bytes = (0..300_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>().into();
    engine.put_object("a/1/b c", text.clone()).await.unwrap();
    assert!(engine.object("a/1/b c").await.unwrap() == text);
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("deep/to"));
    std::fs::write(&from, &text).unwrap();
    let (length, _) = engine.put_file("a/1/d", std::fs::File::open(&from).unwrap()).await.unwrap();
    assert_eq!(length, text.len() as u64);
    engine.fetch_object("a/1/d", &to).await.unwrap();
    assert!(std::fs::read(&to).unwrap() == text);
    assert!(engine.object("a/1/none").await.is_err());
}

async fn the_same_id_is_the_same_job(engine: Shared) {
    let host = Texts::new(true);
    for _ in 0..2 {
        submit(&engine, json!({ "id": "a", "data": 1 })).await.unwrap();
    }
    let worker = worker(&engine, host.clone()).await;
    settled(&engine, "a").await;
    submit(&engine, json!({ "id": "a", "data": 2 })).await.unwrap();
    let spec = |id: &str| Ok(JobSpec { id: id.into(), handler: Some("text".into()), ..JobSpec::new() });
    let answers =
        engine.submit_many((0..40).map(|n| spec(&format!("j{n}"))).chain([spec("a")]).collect()).await;
    let known: Vec<usize> = (0..answers.len()).filter(|n| answers[*n].is_known).collect();
    assert_eq!(known, [40], "{answers:?}");
    for n in 0..40 {
        settled(&engine, &format!("j{n}")).await;
    }
    assert_eq!(settled(&engine, "a").await.result, Some(json!("x")));
    assert_eq!(host.runs(), 41);
    worker.close().await;
}

/// Notes the order of its jobs, and how many there were at once.
#[derive(Default)]
struct Noting {
    now: AtomicUsize,
    most: AtomicUsize,
    /// Number of times that a job was offered to it.
    offers: AtomicUsize,
    order: Mutex<Vec<String>>,
    /// The job `first` ends when it is let go.
    holds_first: bool,
    go: watch::Sender<bool>,
}

impl Noting {
    fn order(&self) -> Vec<String> {
        self.order.lock().unwrap().clone()
    }

    async fn until_offered(&self, count: usize) {
        while self.offers.load(Ordering::SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl JobHost for Arc<Noting> {
    fn accepts(&self, _spec: &JobSpec) -> bool {
        self.offers.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn handlers(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&self, run: JobRun) -> JobFuture {
        let noting = self.clone();
        Box::pin(async move {
            let now = noting.now.fetch_add(1, Ordering::SeqCst) + 1;
            noting.most.fetch_max(now, Ordering::SeqCst);
            noting.order.lock().unwrap().push(run.id.to_string());
            if noting.holds_first && &*run.id == "first" {
                let _ = noting.go.subscribe().wait_for(|go| *go).await;
            }
            let millis = if run.spec.data == Some("long".into()) { 3000 } else { 20 };
            tokio::time::sleep(Duration::from_millis(millis)).await;
            noting.now.fetch_sub(1, Ordering::SeqCst);
            Ok(None)
        })
    }
}

async fn a_higher_priority_goes_first(engine: Shared) {
    for priority in [0, 9, 4] {
        submit(&engine, json!({ "id": format!("p{priority}"), "priority": priority })).await.unwrap();
    }
    let noting = Arc::new(Noting::default());
    let mut options = WorkerOptions::new(Arc::new(noting.clone()));
    options.concurrency = 1;
    let worker = Worker::start(engine.clone(), options, Gate::new()).await.unwrap();
    settled(&engine, "p0").await;
    assert_eq!(*noting.order.lock().unwrap(), ["p9", "p4", "p0"]);
    worker.close().await;
}

async fn jobs_of_a_key_run_one_after_another(engine: Shared) {
    for n in 0..4 {
        submit(&engine, json!({ "id": format!("job-{n}"), "key": "k" })).await.unwrap();
    }
    let noting = Arc::new(Noting::default());
    let worker = worker(&engine, Arc::new(noting.clone())).await;
    for n in 0..4 {
        settled(&engine, &format!("job-{n}")).await;
    }
    assert_eq!(noting.most.load(Ordering::SeqCst), 1);
    worker.close().await;
}

async fn a_job_whose_key_another_worker_frees_starts(engine: Shared) {
    submit(&engine, json!({ "id": "first", "key": "k" })).await.unwrap();
    let (one, other) = (Texts::new(false), Texts::new(true));
    let first = worker(&engine, one.clone()).await;
    one.until_begun().await;
    let closing = ground::task::spawn({
        let first = first.clone();
        // It takes no further job from here on.
        async move { first.close().await }
    });
    let second = worker(&engine, other.clone()).await;
    submit(&engine, json!({ "id": "second", "key": "k" })).await.unwrap();
    other.until_offered(1).await;
    assert_eq!(other.runs(), 0);
    one.go.send_replace(true);
    settled(&engine, "second").await;
    within(closing).await.unwrap();
    second.close().await;
}

async fn jobs_of_many_keys_start_when_another_worker_frees_them(engine: Shared) {
    const KEYS: usize = 10;
    for n in 0..KEYS {
        submit(&engine, json!({ "id": format!("first-{n}"), "key": format!("k.{n}") })).await.unwrap();
    }
    let (one, other) = (Texts::new(false), Texts::new(true));
    let mut options = WorkerOptions::new(one.clone());
    options.concurrency = KEYS;
    let first = Worker::start(engine.clone(), options, Gate::new()).await.unwrap();
    one.until_offered(KEYS).await;
    let second = worker(&engine, other.clone()).await;
    for n in 0..KEYS {
        submit(&engine, json!({ "id": format!("second-{n}"), "key": format!("k.{n}") })).await.unwrap();
    }
    other.until_offered(KEYS).await;
    assert_eq!(other.runs(), 0);
    one.go.send_replace(true);
    for n in 0..KEYS {
        settled(&engine, &format!("second-{n}")).await;
    }
    first.close().await;
    second.close().await;
}

async fn a_job_that_no_worker_can_run_waits_for_one_that_can(engine: Shared) {
    let lacking = worker(&engine, Texts::named("other")).await;
    submit(&engine, json!({ "id": "a", "handler": "wanted" })).await.unwrap();
    submit(&engine, json!({ "id": "b", "handler": "other" })).await.unwrap();
    settled(&engine, "b").await;
    let able = worker(&engine, Texts::named("wanted")).await;
    assert_eq!(settled(&engine, "a").await.worker.as_deref(), Some(able.name()));
    able.close().await;
    lacking.close().await;
}

/// A worker of one more place than `free`, in which `first` runs and keeps the key `k` until its host is let go.
async fn busy_worker(engine: &Shared, free: usize) -> (Worker, Arc<Noting>) {
    let noting = Arc::new(Noting { holds_first: true, ..Noting::default() });
    let mut options = WorkerOptions::new(Arc::new(noting.clone()));
    options.concurrency = free + 1;
    let worker = Worker::start(engine.clone(), options, Gate::new()).await.unwrap();
    submit(engine, json!({ "id": "first", "key": "k" })).await.unwrap();
    within(noting.until_offered(1)).await;
    (worker, noting)
}

async fn jobs_that_wait_for_their_key_start_by_priority_and_then_by_age(engine: Shared) {
    let (worker, noting) = busy_worker(&engine, 1).await;
    for (n, priority) in [0, 4, 0, 9, 4].into_iter().enumerate() {
        let id = format!("p{priority}-{n}");
        submit(&engine, json!({ "id": id, "key": "k", "priority": priority })).await.unwrap();
        // One after the other, so that they are given back in this order.
        within(noting.until_offered(n + 2)).await;
    }
    noting.go.send_replace(true);
    settled(&engine, "p0-2").await;
    assert_eq!(noting.order(), ["first", "p9-3", "p4-1", "p4-4", "p0-0", "p0-2"]);
    worker.close().await;
}

async fn a_job_of_a_higher_priority_goes_before_those_that_wait_for_their_key(engine: Shared) {
    let (worker, noting) = busy_worker(&engine, 1).await;
    for n in 0..3 {
        submit(&engine, json!({ "id": format!("waits-{n}"), "key": "k" })).await.unwrap();
    }
    within(noting.until_offered(4)).await;
    // It takes the other place, so that everything else has one place.
    submit(&engine, json!({ "id": "long", "data": "long" })).await.unwrap();
    within(noting.until_offered(5)).await;
    submit(&engine, json!({ "id": "high", "priority": 9 })).await.unwrap();
    noting.go.send_replace(true);
    settled(&engine, "waits-2").await;
    let order = noting.order();
    let place = |id: &str| order.iter().position(|other| other == id).unwrap();
    assert!(place("high") < place("waits-1"), "{order:?}");
    worker.close().await;
}

async fn two_workers_run_as_many_jobs_of_a_key_as_it_has_places(engine: Shared) {
    const JOBS: usize = 40;
    let noting = Arc::new(Noting::default());
    let one = worker(&engine, Arc::new(noting.clone())).await;
    let other = worker(&engine, Arc::new(noting.clone())).await;
    for n in 0..JOBS {
        submit(&engine, json!({ "id": format!("job-{n}"), "key": "k", "keyLimit": 2 })).await.unwrap();
    }
    for n in 0..JOBS {
        assert_eq!(settled(&engine, &format!("job-{n}")).await.attempt, 1);
    }
    assert_eq!((noting.most.load(Ordering::SeqCst), noting.order().len()), (2, JOBS));
    one.close().await;
    other.close().await;
}

async fn a_cancelled_job_does_not_hold_up_the_next_one_of_its_key(engine: Shared) {
    let (worker, noting) = busy_worker(&engine, 1).await;
    for n in 0..20 {
        submit(&engine, json!({ "id": format!("job-{n:02}"), "key": "k" })).await.unwrap();
    }
    within(noting.until_offered(21)).await;
    for n in 0..19 {
        engine.cancel(&format!("job-{n:02}"), false).await.unwrap();
    }
    let begun = Instant::now();
    noting.go.send_replace(true);
    settled(&engine, "job-19").await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(noting.order(), ["first", "job-19"]);
    worker.close().await;
}

async fn jobs_of_a_paused_queue_wait_for_their_key_until_it_is_resumed(engine: Shared) {
    let (worker, noting) = busy_worker(&engine, 1).await;
    submit(&engine, json!({ "id": "waits", "key": "k" })).await.unwrap();
    within(noting.until_offered(2)).await;
    engine.pause("default").await.unwrap();
    let told = async {
        while engine.workers().await.unwrap()[0]["paused"] != json!(["default"]) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(told).await;
    noting.go.send_replace(true);
    settled(&engine, "first").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(noting.order(), ["first"]);
    engine.resume("default").await.unwrap();
    settled(&engine, "waits").await;
    worker.close().await;
}

async fn a_closing_worker_leaves_the_jobs_that_wait_in_it_to_others(engine: Shared) {
    let (first, noting) = busy_worker(&engine, 1).await;
    for n in 0..3 {
        submit(&engine, json!({ "id": format!("a-{n}"), "key": "k" })).await.unwrap();
    }
    within(noting.until_offered(4)).await;
    let closing = ground::task::spawn({
        let first = first.clone();
        async move { first.close().await }
    });
    let other = Texts::new(true);
    let second = worker(&engine, other.clone()).await;
    // Sooner than they would come back by themselves.
    let begun = Instant::now();
    other.until_offered(3).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    noting.go.send_replace(true);
    for n in 0..3 {
        settled(&engine, &format!("a-{n}")).await;
    }
    assert_eq!((noting.order().len(), other.runs()), (1, 3));
    within(closing).await.unwrap();
    second.close().await;
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
    // The host ends once it is let go, as one does that heeds its stop signal.
    let cancelled = async {
        let cancelled = engine.cancel("runs", false);
        let let_go = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            host.go.send_replace(true);
        };
        tokio::join!(cancelled, let_go).0
    };
    assert_eq!(within(cancelled).await.unwrap().state, JobState::Cancelled);
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
            .is_none_or(|worker| worker["running"] != json!(["runs"]))
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

async fn a_schedule_starts_each_run_once_however_many_keep_it(engine: Shared) {
    let job = JobSpec { handler: Some("text".into()), ..JobSpec::new() };
    let schedule = Schedule::new("tick", "* * * * * *", None, CatchUp::Skip, job, now()).unwrap();
    engine.write_schedule(&schedule, None).await.unwrap();
    let mut keepers: Vec<_> = (0..5).map(|_| ground::task::spawn(keep_schedules(engine.clone()))).collect();
    let host = Texts::new(true);
    let worker = worker(&engine, host.clone()).await;
    let until = async |runs: usize| {
        while host.runs() < runs {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(until(2)).await;
    // The first one to start a run may be gone: the others go on.
    keepers.drain(..4).for_each(|keeper| keeper.abort());
    let runs = host.runs();
    within(until(runs + 2)).await;
    assert!(engine.unset(&SettingKind::Schedule.of("tick")).await.unwrap());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let found = all_listed(&engine).await;
    let ids: HashSet<String> = found.iter().map(|record| record.id().to_owned()).collect();
    assert!(ids.iter().all(|id| id.starts_with("tick@20") && id.ends_with('Z')), "{ids:?}");
    assert_eq!((ids.len(), host.runs()), (found.len(), found.len()), "one job and one run each");
    let runs = host.runs();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(host.runs(), runs, "it was removed");
    keepers.drain(..).for_each(|keeper| keeper.abort());
    worker.close().await;
}

/// A schedule of each midnight, that was set two days ago.
fn nightly(id: &str, catch_up: CatchUp) -> Schedule {
    let job = JobSpec { handler: Some("text".into()), queue: "nobody".into(), ..JobSpec::new() };
    Schedule::new(id, "0 0 * * *", None, catch_up, job, now() - 2 * 24 * 3_600_000).unwrap()
}

/// Waits until a keeper has dealt with the last run of the schedule.
async fn dealt_with(engine: &Shared, id: &str) -> u64 {
    let dealt_with = async {
        loop {
            let found = engine.schedules().await.unwrap();
            if let Some(last) =
                found.iter().find(|(known, _)| known.id == id).and_then(|known| known.0.last_at)
            {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(dealt_with).await
}

async fn a_run_whose_owner_died_after_its_submit_is_not_started_again(engine: Shared) {
    let schedule = nightly("s", CatchUp::Once);
    engine.write_schedule(&schedule, None).await.unwrap();
    let due = schedule.plan(now()).unwrap().due.unwrap();
    let id = engine.submit(schedule.job_at(due)).await.unwrap();
    let keepers: Vec<_> = (0..3).map(|_| ground::task::spawn(keep_schedules(engine.clone()))).collect();
    assert_eq!(dealt_with(&engine, "s").await, due);
    let found = all_listed(&engine).await;
    assert_eq!(found.iter().map(Listed::id).collect::<Vec<_>>(), [id.as_str()]);
    keepers.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn a_schedule_keeps_to_its_policy_after_a_jump_of_the_clock(engine: Shared) {
    // It went ahead: these have missed runs. It went back: this one had a run that is in the future now.
    let (once, skip, mut back) =
        (nightly("once", CatchUp::Once), nightly("skip", CatchUp::Skip), nightly("back", CatchUp::Once));
    back.last_at = Some(now() + 24 * 3_600_000);
    for schedule in [&once, &skip, &back] {
        engine.write_schedule(schedule, None).await.unwrap();
    }
    let due = once.plan(now()).unwrap().due.unwrap();
    // A keeper goes through them by their names.
    let keeper = ground::task::spawn(keep_schedules(engine.clone()));
    assert_eq!((dealt_with(&engine, "once").await, dealt_with(&engine, "skip").await), (due, due));
    assert_eq!(dealt_with(&engine, "back").await, back.last_at.unwrap());
    let found = all_listed(&engine).await;
    assert_eq!(found.iter().map(Listed::id).collect::<Vec<_>>(), [once.job_at(due).id.as_str()]);
    keeper.abort();
}

async fn a_setting_is_written_over_the_revision_that_was_read_and_expires(engine: Shared) {
    let what = SettingKind::Schedule.of("a.b/c");
    let read = async || engine.setting(&what, RetryFor::ASKED).await.unwrap();
    assert!(read().await.is_none());
    let mut watch = engine.watch_settings(SettingKind::Schedule).await.unwrap();
    engine.set(&what, Bytes::from_static(b"one"), Some(0), None).await.unwrap();
    assert_eq!(within(watch.next()).await.unwrap(), "a.b/c");
    let first = read().await.unwrap();
    engine.set(&what, Bytes::from_static(b"two"), Some(first.revision), None).await.unwrap();
    let late = engine.set(&what, Bytes::from_static(b"three"), Some(first.revision), None).await;
    assert!(matches!(late, Err(Refused::Conflict)));
    let all = engine.settings(SettingKind::Schedule).await.unwrap();
    assert_eq!(
        all.into_iter().map(|(name, stored)| (name, stored.payload)).collect::<Vec<_>>(),
        [("a.b/c".to_owned(), Bytes::from_static(b"two"))]
    );
    assert!(engine.settings(SettingKind::Pause).await.unwrap().is_empty());
    assert!(engine.unset(&what).await.unwrap() && read().await.is_none());
    assert!(!engine.unset(&what).await.unwrap());
    engine.set(&what, Bytes::from_static(b"short"), None, Some(Duration::from_secs(1))).await.unwrap();
    let gone = async {
        while read().await.is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within(gone).await;
    // Settings are no jobs.
    assert!(all_listed(&engine).await.is_empty());
}
