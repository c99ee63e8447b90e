use super::super::test_server::{PATIENCE, Road, TestEngine, TestServer, connect};
use super::*;
use crate::record::JobRecord;
use crate::test_host::all_listed;
use futures_util::stream;

const REQUEST: &str = "PUB $JS.API.";

async fn submit(engine: &TestEngine, count: usize) {
    let submit = async |n: usize| {
        let spec = serde_json::json!({ "id": format!("job-{n}"), "handler": "none", "data": n });
        engine.submit(ground::json::typed(spec).unwrap()).await.unwrap()
    };
    // The first one is the oldest. The others overtake each other.
    submit(0).await;
    let done: Vec<String> = stream::iter((1..count).map(submit)).buffered(64).collect().await;
    assert_eq!(done.len(), count - 1);
}

#[tokio::test]
async fn thousands_of_jobs_are_listed_by_a_few_requests() {
    const JOBS: usize = 2500;
    let Some(server) = TestServer::start().await else { return };
    let road = Road::to(&server, REQUEST).await;
    let engine = connect(&road.url).await;
    submit(&engine, JOBS).await;
    // One of them is running, and is listed once.
    let spec = engine.find_job("job-7").await.unwrap().unwrap().spec;
    let claimed = match JobRecord::queued(&spec).claim("w", "token", false, 1) {
        crate::transition::Claim::Run(record) => record,
        other => panic!("{other:?}"),
    };
    engine.write_record(&claimed, 0, RetryFor::ASKED).await.unwrap();
    let before = road.seen();
    let mut records = all_listed(&engine).await;
    let asked = road.seen() - before;
    assert!(asked <= 12, "{asked} requests");
    assert_eq!(records.len(), JOBS);
    records.sort_by_key(|record| record.id()[4..].parse::<usize>().unwrap());
    assert!(records.iter().enumerate().all(|(n, record)| record.id() == format!("job-{n}")));
    assert_eq!(records[7].shown()["worker"], "w");
    let before = road.seen();
    let status = engine.status().await.unwrap();
    let asked = road.seen() - before;
    assert!(asked <= 15, "{asked} requests");
    assert_eq!(status.queues["default"].queued, JOBS as u64);
    assert_eq!(status.stuck[0].id, "job-0");
}

#[tokio::test]
async fn a_question_for_jobs_ends_when_its_answer_is_lost() {
    let Some(server) = TestServer::start().await else { return };
    for is_cut in [true, false] {
        let road = Road::to(&server, "PUB $JS.API.CONSUMER.MSG.NEXT.").await;
        let engine = connect(&road.url).await;
        let lane = engine.nats.lane("default", 4, RetryFor::ASKED).await.unwrap();
        road.hold_until(usize::MAX);
        let asked = ground::task::spawn({
            let lane = lane.clone();
            async move { lane.pull(1).await.map(|found| found.len()) }
        });
        road.until(1).await;
        if is_cut {
            road.cut();
            road.hold_until(0);
        }
        let answer = tokio::time::timeout(PATIENCE, asked).await.expect("it ends").unwrap();
        assert_eq!(answer.unwrap_err().code(), ErrorCode::FleetUnreachable);
    }
}
