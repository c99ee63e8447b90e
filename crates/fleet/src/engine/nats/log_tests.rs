use super::super::test_server::{PATIENCE, Road, TestEngine, TestServer, connect};
use super::*;
use crate::follow::Follow;
use async_nats::jetstream::stream::Config;
use ground::error::ErrorCode;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

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
async fn a_reader_is_told_at_once_and_leaves_nothing_on_the_server() {
    let Some(server) = TestServer::start().await else { return };
    let road = Road::to(&server, "PUB $JS.API.DIRECT.GET.SD_LOG").await;
    let (engine, other) = (connect(&road.url).await, server.engine().await);
    job_with_log(&other, 1).await;
    let mut follow = Follow::open(&engine, "job", None, true).await.unwrap();
    assert_eq!(told(&mut follow, 1).await, ["{\"n\":1}"]);
    assert!(tokio::time::timeout(Duration::from_millis(300), follow.next()).await.is_err());
    let mut after = 1;
    for number in 2..=4 {
        let before = road.seen();
        let line = format!("{{\"n\":{number}}}");
        after = other.append_log("job", 1, number, after, Bytes::from(line.clone())).await.unwrap();
        let begun = std::time::Instant::now();
        assert_eq!(told(&mut follow, 1).await, [line]);
        assert!(begun.elapsed() < PAGE_PAUSE, "it was told of it: {:?}", begun.elapsed());
        assert_eq!(road.seen() - before, 1, "one question for one batch");
    }
    // A word that is lost is made good by the next one, and by the end of the connection.
    road.cut();
    other.append_log("job", 1, 5, after, Bytes::from_static(b"{\"n\":5}")).await.unwrap();
    assert_eq!(told(&mut follow, 1).await, ["{\"n\":5}"]);
    other.cancel("job", false).await.unwrap();
    assert!(told(&mut follow, 9).await.is_empty());
    for live in [true, false] {
        let mut follow = Follow::open(&engine, "job", None, live).await.unwrap();
        assert_eq!(told(&mut follow, 9).await.len(), 5, "live: {live}");
    }
    assert_eq!(consumers(&engine).await, 0);
}

/// Answers questions for pages of the log in place of the server, as a copy that has not received anything yet.
async fn copy_that_is_behind(server: &TestServer) {
    let engine = server.engine().await;
    stream_config(&engine, engine.names().log_stream().as_str(), |config| config.allow_direct = false).await;
    let stream = TcpStream::connect(server.url.trim_start_matches("nats://")).await.unwrap();
    let (from, mut to) = stream.into_split();
    let begin = "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB $JS.API.DIRECT.GET.SD_LOG 1\r\nPING\r\n";
    to.write_all(begin.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(from).lines();
    while lines.next_line().await.unwrap().unwrap() != "PONG" {}
    ground::task::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["MSG", _, _, inbox, _] = words[..] {
                let answer = format!("HPUB {inbox} 16 16\r\nNATS/1.0 404\r\n\r\n\r\n");
                to.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
}

#[tokio::test]
async fn what_the_copy_that_answers_lacks_is_read_at_the_leader() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    job_with_log(&engine, 2).await;
    let mut follow = Follow::open(&engine, "job", None, true).await.unwrap();
    assert_eq!(told(&mut follow, 2).await.len(), 2);
    assert!(tokio::time::timeout(Duration::from_millis(300), follow.next()).await.is_err());
    copy_that_is_behind(&server).await;
    let begun = std::time::Instant::now();
    let mut after = 2;
    for number in 3..=5 {
        let line = Bytes::from(format!("{{\"n\":{number}}}"));
        after = engine.append_log("job", 1, number, after, line).await.unwrap();
    }
    assert_eq!(told(&mut follow, 3).await, ["{\"n\":3}", "{\"n\":4}", "{\"n\":5}"]);
    assert!(begun.elapsed() < REREAD_EVERY, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_worker_is_told_that_there_is_no_room_for_its_consumers() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let jobs = engine.names().jobs_stream();
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
