//! Promises about the order of jobs: by their priority, their key, and the queue.

use super::*;

over_every_engine!(
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
);

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
        while engine.workers().await.unwrap()[0].paused != BTreeSet::from(["default".to_owned()]) {
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
