use super::engine::test_server::{Road, TestServer, connect};
use super::engine::{RetryFor, Shared};
use super::record::JobRecord;
use super::spec::JobSpec;
use super::submitter::Submitted;
use super::test_host::unfinished;
use super::transition::JobEvent;
use ground::error::{Error, ErrorCode};

fn spec(id: &str) -> Result<JobSpec, Error> {
    Ok(JobSpec { id: id.to_owned(), handler: Some("h".into()), ..JobSpec::new() })
}

fn jobs(count: usize) -> Vec<Result<JobSpec, Error>> {
    (0..count).map(|n| spec(&format!("job-{n}"))).collect()
}

async fn queued(engine: &Shared) -> usize {
    usize::try_from(unfinished(engine).await).unwrap()
}

fn shown(answers: &[Submitted]) -> (usize, usize) {
    let failed = answers.iter().filter(|answer| answer.error.is_some()).count();
    (answers.iter().filter(|answer| answer.is_known).count(), failed)
}

#[tokio::test]
async fn many_jobs_take_a_few_answers_of_the_server() {
    let Some(server) = TestServer::start().await else { return };
    let road = Road::to(&server, "Nats-Batch-Commit: 1").await;
    let engine = connect(&road.url).await;
    let answers = engine.submit_many(jobs(2500)).await;
    assert_eq!((answers.len(), shown(&answers)), (2500, (0, 0)));
    assert!(answers.iter().enumerate().all(|(n, answer)| answer.id == format!("job-{n}")));
    assert_eq!(queued(&engine).await, 2500);
    assert_eq!(road.seen(), 3, "batches");
}

#[tokio::test]
async fn known_and_bad_jobs_are_reported_and_do_not_fail_the_rest() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    engine.submit(spec("job-7").unwrap()).await.unwrap();
    // It is over, and has left the queue.
    let done = JobRecord::queued(&spec("job-9").unwrap().with_defaults());
    let done = done.after(&JobEvent::CancelForced { now: 1 }).unwrap();
    engine.write_record(&done, 0, RetryFor::ASKED).await.unwrap();
    let mut all = jobs(100);
    all.push(spec("job-3"));
    all.push(Ok(JobSpec { id: "bad".into(), priority: 10, handler: Some("h".into()), ..JobSpec::new() }));
    all.push(Ok(JobSpec { handler: Some("h".into()), ..JobSpec::new() }));
    let answers = engine.submit_many(all).await;
    let known: Vec<usize> = (0..answers.len()).filter(|n| answers[*n].is_known).collect();
    assert_eq!(known, [7, 9, 100]);
    let failed: Vec<usize> = (0..answers.len()).filter(|n| answers[*n].error.is_some()).collect();
    assert_eq!(failed, [101]);
    assert_eq!(answers[101].error.as_ref().unwrap().code(), ErrorCode::InvalidOption);
    assert_eq!(answers[102].id.len(), 26, "an id of its own");
    // One of the hundred is over, and the job without an id is one more.
    assert_eq!(queued(&engine).await, 100);
}

#[tokio::test]
async fn a_batch_whose_answer_was_lost_is_put_once_and_is_new() {
    let Some(server) = TestServer::start().await else { return };
    let road = Road::to(&server, "Nats-Batch-Commit: 1").await;
    let (engine, other) = (connect(&road.url).await, server.engine().await);
    road.hold_until(usize::MAX);
    let submitted = ground::task::spawn({
        let engine = engine.clone();
        async move { engine.submit_many(jobs(40)).await }
    });
    road.until(1).await;
    road.cut();
    road.hold_until(0);
    let answers = submitted.await.unwrap();
    assert_eq!(shown(&answers), (0, 0), "{answers:?}");
    assert_eq!(queued(&other).await, 40);
}
