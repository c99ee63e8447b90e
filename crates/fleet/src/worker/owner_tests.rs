use super::super::{Gate, JobFuture, JobHost, JobRun, Worker};
use super::*;
use crate::engine::test_server::{PATIENCE, Road, TestServer, connect};
use crate::spec::JobSpec;
use futures_util::{StreamExt, stream};

/// Has nothing to do.
struct Idle;

impl JobHost for Idle {
    fn accepts(&self, _spec: &JobSpec) -> bool {
        true
    }

    fn handlers(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&self, _run: JobRun) -> JobFuture {
        Box::pin(async { Ok(None) })
    }
}

#[tokio::test]
async fn a_long_lane_is_asked_once_for_a_job_at_most_and_empty_ones_are_not_asked_again() {
    const JOBS: usize = 200;
    let Some(server) = TestServer::start().await else { return };
    let road = Road::to(&server, "PUB $JS.API.CONSUMER.MSG.NEXT.").await;
    let engine = connect(&road.url).await;
    let submits = (0..JOBS).map(|n| {
        let spec = serde_json::json!({ "id": format!("job-{n}"), "handler": "none" });
        async { engine.submit(ground::json::typed(spec).unwrap()).await.unwrap() }
    });
    let ids: Vec<String> = stream::iter(submits).buffered(32).collect().await;
    let worker =
        Worker::start(engine.shared.clone(), WorkerOptions::new(Arc::new(Idle)), Gate::new()).await.unwrap();
    for id in &ids {
        tokio::time::timeout(PATIENCE, engine.settled(id)).await.unwrap().unwrap();
    }
    let asked = road.seen();
    assert!(asked <= JOBS + 40, "{asked} questions for {JOBS} jobs");
    worker.close().await;
}

#[tokio::test]
async fn a_worker_whose_consumers_are_gone_makes_them_anew() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let worker =
        Worker::start(engine.shared.clone(), WorkerOptions::new(Arc::new(Idle)), Gate::new()).await.unwrap();
    let run = async |id: &str| {
        let spec = serde_json::json!({ "id": id, "handler": "none" });
        engine.submit(ground::json::typed(spec).unwrap()).await.unwrap();
        tokio::time::timeout(PATIENCE, engine.settled(id)).await.expect("it is run").unwrap();
    };
    run("before").await;
    server.delete_lanes().await;
    run("after").await;
    worker.close().await;
}

#[tokio::test]
async fn a_worker_on_a_long_link_is_up_after_a_few_round_trips() {
    const LATENCY: Duration = Duration::from_millis(200);
    let Some(server) = TestServer::start().await else { return };
    // The fleet is there; this worker joins it.
    server.engine().await;
    let road = Road::to(&server, "PUB $JS.API.CONSUMER.").await;
    road.lengthen(LATENCY);
    let begun = Instant::now();
    let engine = connect(&road.url).await;
    let connected = begun.elapsed();
    let worker =
        Worker::start(engine.shared.clone(), WorkerOptions::new(Arc::new(Idle)), Gate::new()).await.unwrap();
    let trips = begun.elapsed().as_secs_f64() / (2.0 * LATENCY.as_secs_f64());
    assert!(trips < 8.5, "{trips:.1} round trips, connected after {connected:?}");
    road.lengthen(Duration::ZERO);
    worker.close().await;
}

#[tokio::test]
async fn a_first_job_on_a_long_link_starts_after_a_few_round_trips() {
    const LATENCY: Duration = Duration::from_millis(200);
    let Some(server) = TestServer::start().await else { return };
    let other = server.engine().await;
    let road = Road::to(&server, "PUB $JS.API.CONSUMER.").await;
    let engine = connect(&road.url).await;
    // The lanes before the lowest class have nothing.
    let spec = serde_json::json!({ "id": "a", "handler": "none", "priority": 0 });
    other.submit(ground::json::typed(spec).unwrap()).await.unwrap();
    road.lengthen(LATENCY);
    let begun = Instant::now();
    let worker =
        Worker::start(engine.shared.clone(), WorkerOptions::new(Arc::new(Idle)), Gate::new()).await.unwrap();
    tokio::time::timeout(PATIENCE, other.settled("a")).await.unwrap().unwrap();
    let trips = begun.elapsed().as_secs_f64() / (2.0 * LATENCY.as_secs_f64());
    assert!(trips < 6.5, "{trips:.1} round trips");
    road.lengthen(Duration::ZERO);
    worker.close().await;
}
