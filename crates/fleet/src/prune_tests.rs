use super::*;
use crate::engine::RetryFor;
use crate::engine::test_server::{PATIENCE, TestServer};
use crate::test_host::{Texts, settled, submit};
use crate::worker::{Gate, Worker, WorkerOptions};
use ground::error::ErrorCode;
use serde_json::json;

fn all() -> Prune {
    Prune { older_than: Duration::ZERO, states: Vec::new(), queue: None, is_trial: false }
}

#[tokio::test]
async fn full_records_refuse_new_work_and_keep_room_for_commits_and_cancels() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let records = engine.names().run_stream();
    let host = Texts::new(false);
    let worker =
        Worker::start(engine.shared.clone(), WorkerOptions::new(host.clone()), Gate::new()).await.unwrap();
    submit(&engine, json!({ "id": "runs", "data": 7000 })).await.unwrap();
    submit(&engine, json!({ "id": "waits", "queue": "other" })).await.unwrap();
    submit(&engine, json!({ "id": "later", "queue": "another" })).await.unwrap();
    host.until_begun().await;
    server.set_max_bytes(&records, 200 << 10).await;
    engine.forget_room();
    let mut refused = None;
    for n in 0..5000 {
        let id = format!("old-{n}");
        match submit(&engine, json!({ "id": id, "queue": "other" })).await {
            Ok(id) => drop(engine.cancel(&id, false).await.unwrap()),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let refused = refused.expect("the records are full");
    assert_eq!(
        (refused.code(), refused.facts()["stream"].as_str()),
        (ErrorCode::FleetFull, Some("KV_SD_RUN"))
    );
    assert!(refused.message().contains("sheepdog fleet prune"), "{refused}");
    let status = engine.status().await.unwrap();
    assert!(status.storage[&records].is_full);
    let why = |id: &str| status.stuck.iter().find(|stuck| stuck.id == id).map(|stuck| stuck.why.clone());
    assert!(why("waits").unwrap().contains("KV_SD_RUN is full"), "{:?}", status.stuck);
    assert_eq!(engine.cancel("waits", false).await.unwrap().state, JobState::Cancelled);
    host.go.send_replace(true);
    assert_eq!(settled(&engine, "runs").await.state, JobState::Done);
    let pruned = engine.prune(&all()).await.unwrap();
    assert!(pruned.jobs > 20, "{pruned:?}");
    submit(&engine, json!({ "id": "new" })).await.unwrap();
    assert_eq!(settled(&engine, "new").await.state, JobState::Done);
    assert_eq!(engine.look_up("later").await.unwrap().record.state, JobState::Queued, "it is not over");
    worker.close().await;
}

#[tokio::test]
async fn what_a_job_came_to_waits_for_room_and_the_job_is_not_run_again() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let records = engine.names().run_stream();
    let host = Texts::new(false);
    let worker =
        Worker::start(engine.shared.clone(), WorkerOptions::new(host.clone()), Gate::new()).await.unwrap();
    submit(&engine, json!({ "id": "runs", "data": 7000 })).await.unwrap();
    host.until_begun().await;
    server.fill(&records).await;
    host.go.send_replace(true);
    // Whatever it does about it, the job can't be over now.
    assert!(tokio::time::timeout(Duration::from_secs(3), engine.settled("runs")).await.is_err());
    let status = engine.status().await.unwrap();
    let stuck = status.stuck.iter().find(|stuck| stuck.id == "runs").map(|stuck| stuck.why.as_str());
    assert!(stuck.is_some_and(|why| why.contains("can't be written")), "{:?}", status.stuck);
    server.set_max_bytes(&records, 10 << 20).await;
    let record = settled(&engine, "runs").await;
    assert_eq!((record.state, record.attempt), (JobState::Done, 1));
    assert_eq!(host.runs(), 1);
    worker.close().await;
}

#[tokio::test]
async fn a_store_of_objects_without_room_undoes_no_result() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let host = Texts::new(true);
    let worker =
        Worker::start(engine.shared.clone(), WorkerOptions::new(host.clone()), Gate::new()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("out.txt"), "y".repeat(100_000)).unwrap();
    let spec = |id: &str| json!({ "id": id, "data": 20_000, "cwd": folder.path(), "artifacts": ["*.txt"] });
    submit(&engine, spec("roomy")).await.unwrap();
    let record = settled(&engine, "roomy").await;
    assert_eq!((record.result, record.artifacts.len()), (None, 1));
    assert!(record.result_object.is_some(), "a long result is kept beside the record");
    server.fill(&engine.names().blob_stream()).await;
    submit(&engine, spec("tight")).await.unwrap();
    let record = settled(&engine, "tight").await;
    assert_eq!((record.state, record.attempt), (JobState::Done, 1));
    assert_eq!(record.result.unwrap().as_str().unwrap().len(), 20_000);
    let fault = record.artifacts_error.expect("it is said why");
    assert_eq!((fault.code.as_str(), fault.facts["stream"].as_str()), ("FLEET_FULL", Some("OBJ_SD_ART")));
    assert_eq!(host.runs(), 2);
    worker.close().await;
}

#[tokio::test]
async fn a_log_that_can_not_be_written_undoes_no_result() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let host = Texts::new(false);
    let worker =
        Worker::start(engine.shared.clone(), WorkerOptions::new(host.clone()), Gate::new()).await.unwrap();
    submit(&engine, json!({ "id": "quiet" })).await.unwrap();
    host.until_begun().await;
    let logged = async {
        while engine.last_of_logs("quiet").await.unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, logged).await.unwrap();
    server.purge_logs().await;
    host.go.send_replace(true);
    let record = settled(&engine, "quiet").await;
    assert_eq!((record.state, record.attempt), (JobState::Done, 1));
    for live in [true, false] {
        let mut follow = crate::follow::Follow::open(&engine, "quiet", None, live).await.unwrap();
        let told = tokio::time::timeout(PATIENCE, follow.next()).await.unwrap().unwrap().expect("a word");
        assert!(String::from_utf8_lossy(&told.lines).contains("log_gap"), "{told:?}");
        assert!(tokio::time::timeout(PATIENCE, follow.next()).await.unwrap().unwrap().is_none());
    }
    // A stream that takes nothing at all.
    server.seal(&engine.names().log_stream()).await;
    submit(&engine, json!({ "id": "mute" })).await.unwrap();
    let record = settled(&engine, "mute").await;
    assert_eq!((record.state, record.attempt, record.log.unwrap().lost), (JobState::Done, 1, 1));
    worker.close().await;
}

#[tokio::test]
async fn a_prune_removes_all_of_a_job_and_nothing_of_others() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let names = engine.names().clone();
    let host = Texts::new(true);
    let worker = Worker::start(engine.shared.clone(), WorkerOptions::new(host), Gate::new()).await.unwrap();
    for (id, queue) in [("a", "default"), ("b", "default"), ("c", "default"), ("a.b", "default")] {
        submit(&engine, json!({ "id": id, "queue": queue, "data": 20_000 })).await.unwrap();
        settled(&engine, id).await;
    }
    submit(&engine, json!({ "id": "gone", "queue": "other" })).await.unwrap();
    engine.cancel("gone", false).await.unwrap();
    let count = async |stream: &str| engine.room(stream, RetryFor::ASKED).await.unwrap().messages;
    let before = (count(&names.blob_stream()).await, count(&names.dead_stream()).await);
    let young = Prune { older_than: Duration::from_secs(3600), ..all() };
    assert_eq!(engine.prune(&young).await.unwrap(), Pruned::default());
    let trial = Prune { is_trial: true, states: vec![JobState::Done], ..all() };
    assert_eq!(engine.prune(&trial).await.unwrap(), Pruned { jobs: 4, objects: 4, bytes: 80_008 });
    assert_eq!((count(&names.blob_stream()).await, count(&names.dead_stream()).await), before);
    let other = Prune { queue: Some("other".to_owned()), ..all() };
    assert_eq!(engine.prune(&other).await.unwrap(), Pruned { jobs: 1, objects: 0, bytes: 0 });
    assert_eq!(count(&names.dead_stream()).await, 0);
    assert_eq!(engine.prune(&all()).await.unwrap(), Pruned { jobs: 4, objects: 4, bytes: 80_008 });
    for stream in [names.run_stream(), names.log_stream(), names.blob_stream()] {
        assert_eq!(count(&stream).await, 0, "{stream}");
    }
    // The id is free again.
    submit(&engine, json!({ "id": "a" })).await.unwrap();
    assert_eq!(settled(&engine, "a").await.attempt, 1);
    worker.close().await;
}
