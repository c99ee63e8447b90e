use super::super::{Gate, JobFuture, JobHost, JobRun, Worker, WorkerOptions};
use super::*;
use crate::engine::open_memory;
use crate::engine::test_server::{Road, TestServer, connect};
use crate::record::{Claim, JobState, LogEnd};
use crate::spec::JobSpec;
use crate::test_host::{settled, submit};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn unwritten(engine: &Shared, token: &str) -> Book {
    let spec = JobSpec { id: "a".into(), handler: Some("h".into()), ..JobSpec::new() };
    match JobRecord::queued(&spec.with_defaults()).claim("w", token, false, 1) {
        Claim::Run(record) => {
            Book::new(engine.clone(), token.to_owned(), Kept { record: *record, revision: 0 })
        }
        other => panic!("{other:?}"),
    }
}

fn done(token: &str) -> JobEvent {
    JobEvent::Done {
        token: token.to_owned(),
        result: Some(json!(token)),
        result_object: None,
        log: LogEnd::default(),
        artifacts: Vec::new(),
        artifacts_error: None,
        now: 2,
    }
}

async fn one_end_counts(engine: Shared) {
    let (first, late) = (unwritten(&engine, "one"), unwritten(&engine, "two"));
    assert_eq!(first.write(&done("one")).await.unwrap().state, JobState::Done);
    assert!(late.write(&done("two")).await.is_err(), "the late one is refused");
    assert!(!late.claim().await);
    let kept = engine.read_record("a", RetryFor::ASKED).await.unwrap().unwrap();
    assert_eq!((kept.record.result, kept.record.attempt), (Some(json!("one")), 1));
}

async fn a_claim_keeps_others_out(engine: Shared) {
    let (first, late) = (unwritten(&engine, "one"), unwritten(&engine, "two"));
    assert!(first.claim().await && first.claim().await && first.is_claimed());
    assert!(!late.claim().await && late.write(&done("two")).await.is_err());
    assert_eq!(first.write(&done("one")).await.unwrap().state, JobState::Done);
}

#[tokio::test]
async fn an_unwritten_claim_is_refused_by_whatever_was_written_first() {
    one_end_counts(open_memory(Duration::from_secs(5))).await;
    a_claim_keeps_others_out(open_memory(Duration::from_secs(5))).await;
    let Some(server) = TestServer::start().await else { return };
    one_end_counts(server.engine().await.shared.clone()).await;
    let Some(server) = TestServer::start().await else { return };
    a_claim_keeps_others_out(server.engine().await.shared.clone()).await;
}

/// Does what the job's data says, and returns the state of the job's record then.
struct Acting;

impl JobHost for Acting {
    fn accepts(&self, _spec: &JobSpec) -> bool {
        true
    }

    fn handlers(&self) -> Vec<String> {
        vec!["text".to_owned()]
    }

    fn run(&self, run: JobRun) -> JobFuture {
        Box::pin(async move {
            match run.spec.data.as_str() {
                Some("emit") => run.emit("{}".to_owned()).await.unwrap(),
                Some("wait") => tokio::time::sleep(Duration::from_millis(500)).await,
                _ => {}
            }
            let kept = run.engine.read_record(&run.id, RetryFor::ASKED).await.unwrap();
            Ok(kept.map_or(Value::Null, |kept| json!(kept.record.state.as_str())))
        })
    }
}

#[tokio::test]
async fn a_job_is_claimed_once_it_takes_a_while_or_leaves_something() {
    let Some(server) = TestServer::start().await else { return };
    let road = Road::to(&server, "PUB $KV.SD_RUN.").await;
    let engine = connect(&road.url).await;
    let worker = Worker::start(engine.shared.clone(), WorkerOptions::new(Arc::new(Acting)), Gate::new());
    let worker = worker.await.unwrap();
    for (id, spec, state, writes) in [
        ("quick", json!({ "data": "none" }), Value::Null, 1),
        ("emits", json!({ "data": "emit" }), json!("running"), 2),
        ("waits", json!({ "data": "wait" }), json!("running"), 2),
        ("once", json!({ "data": "none", "attempts": 1 }), json!("running"), 2),
    ] {
        let before = road.seen();
        let mut spec = spec;
        spec["id"] = id.into();
        submit(&engine, spec).await.unwrap();
        let record = settled(&engine, id).await;
        assert_eq!((record.result.unwrap_or_default(), record.attempt), (state, 1), "{id}");
        assert_eq!(road.seen() - before, writes, "{id}");
    }
    worker.close().await;
}
