use super::super::test_server::{PATIENCE, TestEngine, TestServer};
use super::*;
use crate::follow::Follow;
use async_nats::jetstream::stream::Config;

async fn stream_config(engine: &TestEngine, stream: &str, change: impl FnOnce(&mut Config)) {
    let found = engine.nats.0.context.get_stream(stream).await.unwrap();
    let mut config = found.cached_info().config.clone();
    change(&mut config);
    engine.nats.0.context.update_stream(config).await.unwrap();
}

async fn consumers(engine: &TestEngine) -> usize {
    let stream = engine.nats.0.context.get_stream(engine.names().log_stream()).await.unwrap();
    stream.cached_info().state.consumer_count
}

async fn job_with_log(engine: &TestEngine, batches: u64) {
    let spec = serde_json::json!({ "id": "job", "handler": "none" });
    engine.submit(ground::json::typed(spec).unwrap()).await.unwrap();
    let mut after = 0;
    for number in 1..=batches {
        let line = Bytes::from(format!("{{\"n\":{number}}}"));
        after = engine.append_log("job", 1, number, after, line).await.unwrap();
    }
}

async fn told(follow: &mut Follow, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    while found.len() < count {
        let batch = tokio::time::timeout(PATIENCE, follow.next()).await.expect("it goes on").unwrap();
        let Some(batch) = batch else { break };
        found.extend(String::from_utf8_lossy(&batch.lines).lines().map(str::to_owned));
    }
    found
}

#[tokio::test]
async fn the_log_of_a_job_that_is_over_is_read_without_a_consumer() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    job_with_log(&engine, 3).await;
    engine.cancel("job", false).await.unwrap();
    for live in [true, false] {
        let mut follow = Follow::open(&engine, "job", None, live).await.unwrap();
        assert_eq!(told(&mut follow, 9).await.len(), 3, "live: {live}");
        assert_eq!(consumers(&engine).await, 0);
    }
}

#[tokio::test]
async fn a_reader_that_is_done_leaves_no_consumer_behind() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    job_with_log(&engine, 1).await;
    let mut readers = Vec::new();
    for _ in 0..3 {
        let mut follow = Follow::open(&engine, "job", None, true).await.unwrap();
        assert_eq!(told(&mut follow, 1).await.len(), 1);
        // It waits for the next one.
        let waited = tokio::time::timeout(Duration::from_millis(300), follow.next()).await;
        assert!(waited.is_err());
        readers.push(follow);
    }
    assert_eq!(consumers(&engine).await, 3);
    drop(readers);
    let gone = async {
        while consumers(&engine).await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(ABANDONED_AFTER / 3, gone).await.expect("they go before the server takes them");
}

#[tokio::test]
async fn a_server_without_room_for_a_consumer_stalls_no_reader_and_a_worker_is_told() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let (log, jobs) = (engine.names().log_stream(), engine.names().jobs_stream());
    job_with_log(&engine, 1).await;
    stream_config(&engine, &log, |config| config.max_consumers = 1).await;
    let mut first = Follow::open(&engine, "job", None, true).await.unwrap();
    assert_eq!(told(&mut first, 1).await.len(), 1);
    assert!(tokio::time::timeout(Duration::from_millis(300), first.next()).await.is_err());
    let mut second = Follow::open(&engine, "job", None, true).await.unwrap();
    assert_eq!(told(&mut second, 1).await.len(), 1);
    engine.append_log("job", 1, 2, 1, Bytes::from_static(b"{\"n\":2}")).await.unwrap();
    assert_eq!(told(&mut second, 1).await, ["{\"n\":2}"]);
    assert_eq!(told(&mut first, 1).await, ["{\"n\":2}"]);
    stream_config(&engine, &jobs, |config| config.max_consumers = 3).await;
    for class in 0..3 {
        engine.lane("default", class, RetryFor::WORK).await.unwrap();
    }
    let refused =
        tokio::time::timeout(Duration::from_secs(5), engine.lane("default", 3, RetryFor::WORK)).await;
    let error = refused.expect("it is told at once").err().expect("there is no room");
    assert_eq!((error.code(), error.facts()["stream"].as_str()), (ErrorCode::FleetFull, Some("SD_JOBS")));
}

#[tokio::test]
async fn a_log_that_was_purged_goes_on_and_its_readers_are_told_of_the_gap() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    job_with_log(&engine, 2).await;
    server.purge_logs().await;
    let next = engine.append_log("job", 1, 3, 2, Bytes::from_static(b"{\"n\":3}")).await.unwrap();
    // Its answer was lost: it is there once.
    assert_eq!(engine.append_log("job", 1, 3, 2, Bytes::from_static(b"{\"n\":3}")).await.unwrap(), next);
    let mut follow = Follow::open(&engine, "job", None, false).await.unwrap();
    let lines = told(&mut follow, 9).await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("log_gap") && lines[1] == "{\"n\":3}", "{lines:?}");
}
