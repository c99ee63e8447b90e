//! The guarantees of a fleet when a stream is full, a consumer is gone, or an answer is lost. Slow links are tested in
//! `engine/nats/blob_tests`, places of keys in `engine/nats/entries`, full records, objects and logs in `prune_tests`.

use super::engine::test_server::{PATIENCE, Road, TestServer, connect};
use super::engine::{Key, RetryFor, is_too_long};
use super::record::JobState;
use super::test_host::{Texts, settled, submit, unfinished};
use super::worker::{Gate, Worker, WorkerOptions};
use ground::error::{Error, ErrorCode};
use serde_json::json;
use std::time::Duration;

/// Longer than the time after which an unanswered message is sent again.
const HELD_FOR: Duration = Duration::from_secs(7);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    AtSubmit,
    AfterSubmit,
    AtEnd,
    AtCancel,
}

/// Every answer to what goes to these subjects, once: the job is run once and comes to one result all the same.
#[tokio::test]
async fn a_lost_answer_loses_no_job_and_repeats_none() {
    let Some(server) = TestServer::start().await else { return };
    let cases = [
        ("PUB sd.job.", Lost::AtSubmit),
        ("PUB $KV.SD_RUN.", Lost::AfterSubmit),
        ("PUB $KV.SD_LEASE.key.", Lost::AfterSubmit),
        ("PUB sd.log.", Lost::AfterSubmit),
        ("PUB $O.SD_ART.C.", Lost::AtEnd),
        ("PUB $O.SD_ART.M.", Lost::AtEnd),
        ("PUB $KV.SD_RUN.", Lost::AtEnd),
        ("PUB $JS.ACK.", Lost::AtEnd),
        ("PUB sd.dead.", Lost::AtCancel),
        ("PUB $KV.SD_RUN.", Lost::AtCancel),
        ("PUB $JS.API.STREAM.PURGE.", Lost::AtCancel),
    ];
    let cases = cases.into_iter().enumerate().map(async |(n, (text, lost))| {
        let road = Road::to(&server, text).await;
        let (engine, watcher) = (connect(&road.url).await, server.engine().await);
        let host = Texts::new(false);
        let mut options = WorkerOptions::new(host.clone());
        options.queues = vec![format!("q{n}")];
        let worker = Worker::start(engine.shared.clone(), options, Gate::new()).await.unwrap();
        let lose = async || {
            let seen = road.seen();
            road.hold_until(seen + 2);
            seen
        };
        let id = format!("job-{n}");
        let queue = if lost == Lost::AtCancel { "nobody".to_owned() } else { format!("q{n}") };
        let spec = json!({ "id": id, "queue": queue, "data": 20_000, "key": id, "attempts": 3 });
        let before = if lost == Lost::AtSubmit { lose().await } else { 0 };
        submit(&engine, spec.clone()).await.unwrap();
        // The same spec submitted twice is one job.
        submit(&engine, spec).await.unwrap();
        let seen = road.seen();
        let released = async {
            tokio::time::sleep(HELD_FOR).await;
            road.hold_until(0);
        };
        match lost {
            Lost::AtCancel => {
                let before = lose().await;
                let cancel = async { engine.cancel(&id, false).await.unwrap().state };
                let (state, ()) = tokio::join!(cancel, released);
                assert_eq!(state, JobState::Cancelled, "{text} {lost:?}");
                assert!(road.seen() > before, "{text} was not sent");
            }
            _ => {
                let before = match lost {
                    Lost::AtSubmit => before,
                    Lost::AfterSubmit => {
                        // Hold answers back from now on, unless that happened already.
                        road.hold_until(seen + 2);
                        0
                    }
                    _ => {
                        host.until_begun().await;
                        lose().await
                    }
                };
                host.go.send_replace(true);
                let ((), record) = tokio::join!(released, settled(&watcher, &id));
                assert_eq!((record.state, record.attempt), (JobState::Done, 1), "{text} {lost:?}");
                assert!(record.result_object.is_some() && road.seen() > before, "{text} {lost:?}");
                let result = watcher.object(&record.result_object.unwrap()).await.unwrap();
                assert_eq!(result.len(), 20_002);
                assert_eq!(host.runs(), 1, "{text} {lost:?}");
            }
        }
        worker.close().await;
    });
    let all = futures_util::future::join_all(cases);
    tokio::time::timeout(PATIENCE * 2, all).await.expect("each comes to its end");
    let left = unfinished(&server.engine().await.shared).await;
    assert_eq!(left, 0, "what is over has left the queue");
}

#[tokio::test]
async fn a_full_queue_refuses_new_jobs_and_what_runs_commits() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let host = Texts::new(false);
    let worker =
        Worker::start(engine.shared.clone(), WorkerOptions::new(host.clone()), Gate::new()).await.unwrap();
    submit(&engine, json!({ "id": "runs" })).await.unwrap();
    host.until_begun().await;
    server.fill(&engine.names().jobs_stream()).await;
    let error = submit(&engine, json!({ "id": "new" })).await.unwrap_err();
    assert_eq!((error.code(), error.facts()["stream"].as_str()), (ErrorCode::FleetFull, Some("SD_JOBS")));
    assert!(error.message().contains("wait until jobs are done"), "{error}");
    assert!(engine.status().await.unwrap().storage["SD_JOBS"].is_full);
    host.go.send_replace(true);
    assert_eq!(settled(&engine, "runs").await.state, JobState::Done);
    worker.close().await;
}

#[tokio::test]
async fn a_spec_that_can_not_be_kept_undoes_no_failure_and_no_cancel() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let host = Texts::new(true);
    let worker =
        Worker::start(engine.shared.clone(), WorkerOptions::new(host.clone()), Gate::new()).await.unwrap();
    server.seal(&engine.names().dead_stream()).await;
    submit(&engine, json!({ "id": "fails", "data": "fails", "attempts": 1 })).await.unwrap();
    let record = settled(&engine, "fails").await;
    assert_eq!((record.state, record.attempt, host.runs()), (JobState::Failed, 1, 1));
    submit(&engine, json!({ "id": "waits", "queue": "nobody" })).await.unwrap();
    assert_eq!(engine.cancel("waits", false).await.unwrap().state, JobState::Cancelled);
    worker.close().await;
}

#[tokio::test]
async fn a_store_of_leases_without_room_holds_back_jobs_of_keys_alone() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let host = Texts::new(true);
    let other = Key::Worker("other".to_owned());
    engine.announce(&other, "{}".into(), Duration::from_secs(300)).await.unwrap();
    server.fill(&engine.names().lease_stream()).await;
    let worker =
        Worker::start(engine.shared.clone(), WorkerOptions::new(host.clone()), Gate::new()).await.unwrap();
    submit(&engine, json!({ "id": "keyed", "key": "k" })).await.unwrap();
    submit(&engine, json!({ "id": "plain" })).await.unwrap();
    assert_eq!(settled(&engine, "plain").await.state, JobState::Done);
    let status = engine.status().await.unwrap();
    assert!(status.storage["KV_SD_LEASE"].is_full);
    let why = status.stuck.iter().find(|stuck| stuck.id == "keyed").map(|stuck| stuck.why.as_str());
    assert!(why.is_some_and(|why| why.contains("KV_SD_LEASE is full")), "{:?}", status.stuck);
    server.set_max_bytes(&engine.names().lease_stream(), 10 << 20).await;
    assert_eq!(settled(&engine, "keyed").await.state, JobState::Done);
    worker.close().await;
}

#[tokio::test]
async fn a_server_that_has_lost_its_store_is_told_from_one_that_is_away() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    server.delete_streams().await;
    let soon = RetryFor(Duration::ZERO);
    let error = engine.read_record("job", soon).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::FleetStorage, "{error}");
    server.engine().await;
    assert!(engine.read_record("job", soon).await.unwrap().is_none(), "whoever connects makes it anew");
}

#[tokio::test]
async fn a_message_that_no_room_makes_shorter_is_told_from_a_full_store() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let soon = RetryFor(Duration::ZERO);
    let put = async |name: &str, bytes: usize| {
        let key = Key::Hold(name.to_owned());
        engine.put_entry(&key, vec![b'x'; bytes].into(), None, None, soon).await.map_err(Error::from)
    };
    for (name, bytes) in [("a", 9 << 20), ("=".repeat(2000).as_str(), 1)] {
        let error = put(name, bytes).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::FleetStorage, "{error}");
        assert!(is_too_long(&error), "{error}");
    }
    put("a", 7 << 20).await.unwrap();
}

/// Members that meet on a new server set up one fleet, however their requests cross.
#[tokio::test]
async fn many_members_set_up_a_new_server_at_once() {
    for _ in 0..4 {
        let Some(server) = TestServer::start().await else { return };
        let members = futures_util::future::join_all((0..24).map(|_| connect(&server.url)));
        let members = tokio::time::timeout(PATIENCE, members).await.expect("each is connected");
        submit(&members[0], json!({ "id": "one", "queue": "q", "data": 1 })).await.unwrap();
        assert_eq!(unfinished(&members[23].shared).await, 1);
    }
}
