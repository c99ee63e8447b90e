//! The guarantees of a fleet against hostile input: a submitter that writes anything into the queue, records of a newer
//! version, and jobs whose output, names and files are longer than a message.

use super::engine::test_server::{PATIENCE, Road, TestEngine, TestServer, connect};
use super::engine::{Key, RetryFor};
use super::prune::Prune;
use super::record::JobState;
use super::spec::JobSpec;
use super::test_host::{Texts, all_listed, pass, settled, submit};
use super::transition::JobEvent;
use super::worker::{Gate, Worker, WorkerOptions};
use crate::follow::Follow;
use futures_util::FutureExt;
use ground::error::ErrorCode;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

async fn worker(engine: &TestEngine, host: &Arc<Texts>) -> Worker {
    Worker::start(engine.shared.clone(), WorkerOptions::new(host.clone()), Gate::new()).await.unwrap()
}

/// Writes a message past all checks, as every user who may submit can.
async fn write(engine: &TestEngine, subject: &str, spec: &Value) {
    engine.publish_raw(subject, &[], spec.to_string().into()).await;
}

fn spec(id: &str, more: Value) -> Value {
    let mut spec = json!({ "id": id, "queue": "default", "priority": 4, "handler": "text", "attempts": 3 });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

/// Resolves when a job that was submitted after all of this is done.
async fn a_later_job(engine: &TestEngine) {
    let id = submit(engine, json!({ "id": "later", "priority": 0 })).await.unwrap();
    assert_eq!(settled(engine, &id).await.state, JobState::Done);
}

#[tokio::test]
async fn a_message_that_names_another_job_is_nobody_s() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let (host, thief) = (Texts::new(false), Texts::new(true));
    let first = worker(&engine, &host).await;
    submit(&engine, json!({ "id": "victim", "data": 3 })).await.unwrap();
    host.until_begun().await;
    let second = worker(&server.engine().await, &thief).await;
    let names = engine.names();
    // Under another subject; in another queue and class; with another job's object.
    write(&engine, &names.job("default", 4, "evil"), &spec("victim", json!({ "data": 9 }))).await;
    write(&engine, &names.job("default", 8, "victim"), &spec("victim", json!({ "data": 9, "priority": 8 })))
        .await;
    write(&engine, &names.job("default", 7, "victim"), &spec("victim", json!({ "data": 9 }))).await;
    engine.put_object("victim/1/report", spec("thief", json!({})).to_string().into()).await.unwrap();
    let header = [("Sheepdog-Object", "victim/1/report")];
    engine.publish_raw(&names.job("default", 4, "thief"), &header, "".into()).await;
    host.go.send_replace(true);
    a_later_job(&engine).await;
    let record = settled(&engine, "victim").await;
    assert_eq!((record.state, record.attempt, record.result), (JobState::Done, 1, Some(json!("xxx"))));
    assert_eq!(host.runs() + thief.runs(), 2, "the victim and the later job");
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn a_message_that_can_not_be_read_is_listed_and_can_be_cancelled() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let host = Texts::new(true);
    let worker = worker(&engine, &host).await;
    let names = engine.names();
    let long = "k".repeat(5000);
    for (id, message) in [
        ("garbage", "garbage".to_owned()),
        ("no-object", "[]".to_owned()),
        ("key", spec("key", json!({ "key": "", "keyLimit": 1 })).to_string()),
        ("long-key", spec("long-key", json!({ "key": long })).to_string()),
        ("many", spec("many", json!({ "key": "k", "keyLimit": 4_000_000_000_u32 })).to_string()),
        (
            "provider",
            spec("provider", json!({ "handler": null, "provider": long, "prompt": "x" })).to_string(),
        ),
    ] {
        engine.publish_raw(&names.job("default", 9, id), &[], message.into()).await;
    }
    a_later_job(&engine).await;
    assert_eq!(host.runs(), 1);
    let listed = all_listed(&engine).await;
    assert_eq!(listed.len(), 7);
    let status = engine.status().await.unwrap();
    assert_eq!(status.stuck.len(), 6, "{:?}", status.stuck);
    assert!(
        status.stuck.iter().all(|stuck| stuck.why.contains("message can't be read")),
        "{:?}",
        status.stuck
    );
    assert_eq!(engine.cancel("garbage", false).await.unwrap().state, JobState::Cancelled);
    assert_eq!(engine.message_of("garbage").await.unwrap(), None);
    worker.close().await;
}

#[tokio::test]
async fn a_record_of_a_newer_version_is_shown_as_it_is() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    submit(&engine, json!({ "id": "newer", "queue": "nobody" })).await.unwrap();
    let mut record = engine.look_up("newer").await.unwrap().record.shown();
    record["state"] = "paused".into();
    record["token"] = "secret".into();
    write(&engine, &engine.names().entry(&Key::Record("newer".into())), &record).await;
    write(&engine, &engine.names().entry(&Key::Record("torn".into())), &json!("torn")).await;
    let mut listed: Vec<Value> = all_listed(&engine).await.iter().map(|record| record.shown()).collect();
    listed.sort_by_key(|record| record["id"].to_string());
    assert_eq!(listed.len(), 2);
    assert_eq!((&listed[0]["state"], &listed[0]["token"]), (&json!("paused"), &Value::Null));
    assert_eq!((&listed[1]["id"], &listed[1]["state"]), (&json!("torn"), &json!("unknown")));
    let status = engine.status().await.unwrap();
    assert!(status.stuck[0].why.contains("newer version"), "{:?}", status.stuck);
    let pruned = Prune { older_than: Duration::ZERO, states: Vec::new(), queue: None, is_trial: false };
    assert_eq!(engine.prune(&pruned).await.unwrap().jobs, 0, "what is not understood stays");
}

#[tokio::test]
async fn an_error_of_any_length_is_committed() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let worker = worker(&engine, &Texts::new(true)).await;
    submit(&engine, json!({ "id": "job", "data": "fails at length", "attempts": 1 })).await.unwrap();
    let record = settled(&engine, "job").await;
    assert_eq!(record.state, JobState::Failed);
    assert!(record.error.unwrap().message.starts_with("nnn"));
    worker.close().await;
}

#[tokio::test]
async fn a_path_of_any_length_is_kept_and_holds_nobody_up() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let worker = worker(&engine, &Texts::new(true)).await;
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join(["d".repeat(250).as_str(); 14].join("/"));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("a"), "content").unwrap();
    submit(&engine, json!({ "id": "deep", "cwd": folder.path(), "artifacts": ["**"] })).await.unwrap();
    let record = settled(&engine, "deep").await;
    assert_eq!((record.state, record.artifacts.len()), (JobState::Done, 1));
    let name = super::name::artifact_object("deep", 1, &record.artifacts[0].path);
    assert_eq!(engine.object(&name).await.unwrap(), "content");
    assert_eq!(*engine.connections().borrow(), 1, "its connection was never lost");
    worker.close().await;
}

#[tokio::test]
async fn an_id_may_have_any_letters() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let worker = worker(&engine, &Texts::new(true)).await;
    for id in ["a\r\nPUB x 0\r\n", "..", "*", ">", " ", "../../etc", "ä.b", "=0a"] {
        submit(&engine, json!({ "id": id, "key": id })).await.unwrap();
        let record = settled(&engine, id).await;
        assert_eq!((record.id.as_str(), record.state), (id, JobState::Done));
    }
    worker.close().await;
}

#[tokio::test]
async fn a_queue_of_any_name_has_workers() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let mut options = WorkerOptions::new(Texts::new(true));
    let queue = "ü".repeat(100);
    options.queues = vec![queue.clone()];
    let started = Worker::start(engine.shared.clone(), options, Gate::new());
    let worker = tokio::time::timeout(PATIENCE, started).await.expect("it starts").unwrap();
    submit(&engine, json!({ "id": "job", "queue": queue })).await.unwrap();
    assert_eq!(settled(&engine, "job").await.state, JobState::Done);
    worker.close().await;
}

/// The second of two concurrent retries has read the record before the first one wrote it.
#[tokio::test]
async fn a_job_that_is_tried_again_by_two_at_once_keeps_its_message() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    submit(&engine, json!({ "id": "job", "queue": "nobody" })).await.unwrap();
    engine.cancel("job", false).await.unwrap();
    let road = Road::to(&server, "STREAM.MSG.GET.KV_SD_RUN").await;
    let late = connect(&road.url).await;
    road.hold_until(usize::MAX);
    let retried = ground::task::spawn(async move { late.retry("job").await });
    road.until(1).await;
    engine.retry("job").await.unwrap();
    road.hold_until(0);
    tokio::time::timeout(PATIENCE, retried).await.expect("it ends").unwrap().unwrap();
    assert!(engine.message_of("job").await.unwrap().is_some(), "its message is lost");
    let worker = worker(&engine, &Texts::new(true)).await;
    worker.close().await;
}

#[tokio::test]
async fn a_job_whose_message_is_gone_is_told_of() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let host = Texts::new(false);
    let worker = worker(&engine, &host).await;
    submit(&engine, json!({ "id": "job" })).await.unwrap();
    host.until_begun().await;
    let message = engine.message_of("job").await.unwrap().unwrap();
    assert!(engine.status().await.unwrap().stuck.is_empty());
    engine.drop_job("job", message).await.unwrap();
    let status = engine.status().await.unwrap();
    assert_eq!(status.stuck.len(), 1);
    assert!(status.stuck[0].why.contains("lost its message"), "{:?}", status.stuck);
    // The running attempt ends as usual.
    host.go.send_replace(true);
    assert_eq!(settled(&engine, "job").await.state, JobState::Done);
    assert!(engine.status().await.unwrap().stuck.is_empty());
    worker.close().await;
}

#[tokio::test]
async fn a_long_spec_goes_when_its_job_is_done_and_stays_for_a_retry() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let worker = worker(&engine, &Texts::new(true)).await;
    let prompt = "p".repeat(300_000);
    submit(&engine, json!({ "id": "done", "prompt": prompt })).await.unwrap();
    submit(&engine, json!({ "id": "fails", "prompt": prompt, "data": "fails", "attempts": 1 }))
        .await
        .unwrap();
    assert_eq!(settled(&engine, "done").await.state, JobState::Done);
    assert_eq!(settled(&engine, "fails").await.state, JobState::Failed);
    worker.close().await;
    let kept = async |id: &str| engine.object(&super::name::spec_object(id)).await.map(|spec| spec.len());
    assert_eq!(kept("done").await.unwrap_err().code(), ErrorCode::JobNotFound);
    assert!(kept("fails").await.unwrap() > 300_000);
    let room = engine.room(&engine.names().blob_stream(), RetryFor::ASKED).await.unwrap();
    assert!(room.bytes < 400_000, "{room:?}");
    engine.retry("fails").await.unwrap();
    assert_eq!(engine.find_job("fails").await.unwrap().unwrap().spec.prompt.len(), 300_000);
    // A message that comes back after its spec has gone leaves the queue.
    let header = [("Sheepdog-Object", "done/0//spec")];
    engine.publish_raw(&engine.names().job("default", 5, "done"), &header, "".into()).await;
    let worker = self::worker(&engine, &Texts::new(true)).await;
    let gone = async {
        while engine.message_of("done").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("it leaves the queue");
    worker.close().await;
}

#[tokio::test]
async fn a_reader_of_a_job_that_is_removed_is_told_so() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let host = Texts::new(false);
    let worker = worker(&engine, &host).await;
    submit(&engine, json!({ "id": "job" })).await.unwrap();
    host.until_begun().await;
    let mut follow = Follow::open(&engine, "job", None, true).await.unwrap();
    assert!(follow.next().await.unwrap().is_some());
    let kept = engine.look_up("job").await.unwrap();
    assert!(engine.drop_record(&kept).await.unwrap());
    // It looks again by itself every 20 s.
    let mut told = Box::pin(tokio::time::timeout(PATIENCE, follow.next()));
    assert!((&mut told).now_or_never().is_none(), "nothing tells it");
    pass(Duration::from_secs(20)).await;
    assert_eq!(told.await.expect("it is told").unwrap_err().code(), ErrorCode::JobNotFound);
    host.go.send_replace(true);
    worker.close().await;
}

#[test]
fn a_job_has_one_message_until_it_is_tried_again() {
    let spec = JobSpec { id: "a".into(), handler: Some("h".into()), ..JobSpec::new() };
    let record = super::record::JobRecord::queued(&spec).of_message(7).unwrap();
    assert!(record.clone().of_message(7).is_some() && record.clone().of_message(8).is_none());
    assert!(record.clone().of_message(0).unwrap().of_message(7).is_some(), "unknown is no other one");
    let over = record.after(&JobEvent::CancelForced { now: 1 }).unwrap();
    assert!(over.after(&JobEvent::Retried).unwrap().of_message(8).is_some());
}
