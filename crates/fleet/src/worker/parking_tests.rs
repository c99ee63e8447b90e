use crate::engine::Shared;
use crate::engine::test_server::{PATIENCE, Road, TestServer, connect};
use crate::test_host::{Texts, settled, submit};
use crate::worker::{Gate, Worker, WorkerOptions};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::time::Duration;

const JOBS: usize = 100;
/// Shorter than the shortest delay of a job that waits.
const QUIET: Duration = Duration::from_secs(3);

async fn submit_all(engine: &Shared, spec: impl Fn(usize) -> Value) {
    stream::iter((0..JOBS).map(spec))
        .for_each_concurrent(32, async |spec| drop(submit(engine, spec).await.unwrap()))
        .await;
}

async fn worker(engine: &Shared, host: std::sync::Arc<Texts>) -> Worker {
    Worker::start(engine.clone(), WorkerOptions::new(host), Gate::new()).await.unwrap()
}

async fn all_settled(engine: &Shared) {
    let all = async {
        for n in 0..JOBS {
            assert_eq!(settled(engine, &format!("job-{n}")).await.attempt, 1);
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("they are run");
}

/// A worker that runs the first job of a key, with the others waiting in it.
async fn with_waiting_jobs(road: &Road, submitter: &Shared) -> (Worker, std::sync::Arc<Texts>) {
    let (engine, host) = (connect(&road.url).await, Texts::new(false));
    submit(submitter, json!({ "id": "job-0", "key": "k" })).await.unwrap();
    let worker = worker(&engine, host.clone()).await;
    host.until_begun().await;
    submit_all(submitter, |n| json!({ "id": format!("job-{n}"), "key": "k" })).await;
    // All of them were given back once.
    road.until(JOBS - 1).await;
    (worker, host)
}

#[tokio::test]
async fn many_jobs_of_one_key_wait_without_being_asked_about_and_go_on_one_after_another() {
    let Some(server) = TestServer::start().await else { return };
    let road = Road::to(&server, "PUB $JS.ACK.").await;
    let submitter = server.engine().await;
    let (worker, host) = with_waiting_jobs(&road, &submitter).await;
    let before = road.seen();
    tokio::time::sleep(QUIET).await;
    let acknowledged = road.seen() - before;
    assert!(acknowledged < 5, "{acknowledged} acknowledgements for jobs that wait");
    host.go.send_replace(true);
    all_settled(&submitter).await;
    assert_eq!(host.runs(), JOBS);
    // Each is taken up once and acknowledged once. Some came back meanwhile.
    let acknowledged = road.seen() - before;
    assert!(acknowledged < JOBS * 4, "{acknowledged} acknowledgements for {JOBS} jobs");
    worker.close().await;
}

#[tokio::test]
async fn jobs_that_wait_for_their_key_are_not_lost_with_the_connection() {
    let Some(server) = TestServer::start().await else { return };
    let road = Road::to(&server, "PUB $JS.ACK.").await;
    let submitter = server.engine().await;
    let (worker, host) = with_waiting_jobs(&road, &submitter).await;
    road.cut();
    host.go.send_replace(true);
    all_settled(&submitter).await;
    assert_eq!(host.runs(), JOBS);
    worker.close().await;
}

#[tokio::test]
async fn many_jobs_without_a_worker_for_them_wait_quietly_and_go_on_once_there_is_one() {
    let Some(server) = TestServer::start().await else { return };
    let road = Road::to(&server, "PUB $JS.ACK.").await;
    let (engine, submitter) = (connect(&road.url).await, server.engine().await);
    let lacking = worker(&engine, Texts::named("other")).await;
    submit_all(&submitter, |n| json!({ "id": format!("job-{n}"), "handler": "wanted" })).await;
    road.until(JOBS).await;
    let before = road.seen();
    tokio::time::sleep(QUIET).await;
    let acknowledged = road.seen() - before;
    assert!(acknowledged < 5, "{acknowledged} acknowledgements for jobs that wait");
    let able = worker(&submitter, Texts::named("wanted")).await;
    all_settled(&submitter).await;
    able.close().await;
    lacking.close().await;
}
