//! Promises of schedules.

use super::*;

over_every_engine!(
    a_schedule_starts_each_run_once_however_many_keep_it,
    a_run_whose_owner_died_after_its_submit_is_not_started_again,
    a_schedule_keeps_to_its_policy_after_a_jump_of_the_clock,
);

async fn a_schedule_starts_each_run_once_however_many_keep_it(engine: Shared) {
    let job = JobSpec { handler: Some("text".into()), ..JobSpec::new() };
    let schedule = Schedule::new("tick", "* * * * * *", None, CatchUp::Skip, job, now()).unwrap();
    engine.write_schedule(&schedule, None).await.unwrap();
    let mut keepers: Vec<_> = (0..5).map(|_| ground::task::spawn(keep_schedules(engine.clone()))).collect();
    let host = Texts::new(true);
    let worker = worker(&engine, host.clone()).await;
    let until = async |runs: usize| {
        while host.runs() < runs {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(until(2)).await;
    // The first one to start a run may be gone: the others go on.
    keepers.drain(..4).for_each(|keeper| keeper.abort());
    let runs = host.runs();
    within(until(runs + 2)).await;
    assert!(engine.unset(&Key::Schedule("tick".into())).await.unwrap());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let found = all_listed(&engine).await;
    let ids: HashSet<String> = found.iter().map(|record| record.id().to_owned()).collect();
    assert!(ids.iter().all(|id| id.starts_with("tick@20") && id.ends_with('Z')), "{ids:?}");
    assert_eq!((ids.len(), host.runs()), (found.len(), found.len()), "one job and one run each");
    let runs = host.runs();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(host.runs(), runs, "it was removed");
    keepers.drain(..).for_each(|keeper| keeper.abort());
    worker.close().await;
}

/// A schedule of each midnight, that was set two days ago.
fn nightly(id: &str, catch_up: CatchUp) -> Schedule {
    let job = JobSpec { handler: Some("text".into()), queue: "nobody".into(), ..JobSpec::new() };
    Schedule::new(id, "0 0 * * *", None, catch_up, job, now() - 2 * 24 * 3_600_000).unwrap()
}

/// Waits until a keeper has dealt with the last run of the schedule.
async fn dealt_with(engine: &Shared, id: &str) -> u64 {
    let dealt_with = async {
        loop {
            let found = engine.schedules().await.unwrap();
            if let Some(last) =
                found.iter().find(|(known, _)| known.id == id).and_then(|known| known.0.last_at)
            {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(dealt_with).await
}

async fn a_run_whose_owner_died_after_its_submit_is_not_started_again(engine: Shared) {
    let schedule = nightly("s", CatchUp::Once);
    engine.write_schedule(&schedule, None).await.unwrap();
    let due = schedule.plan(now()).unwrap().due.unwrap();
    let id = engine.submit(schedule.job_at(due)).await.unwrap();
    let keepers: Vec<_> = (0..3).map(|_| ground::task::spawn(keep_schedules(engine.clone()))).collect();
    assert_eq!(dealt_with(&engine, "s").await, due);
    let found = all_listed(&engine).await;
    assert_eq!(found.iter().map(Listed::id).collect::<Vec<_>>(), [id.as_str()]);
    keepers.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn a_schedule_keeps_to_its_policy_after_a_jump_of_the_clock(engine: Shared) {
    // It went ahead: these have missed runs. It went back: this one had a run that is in the future now.
    let (once, skip, mut back) =
        (nightly("once", CatchUp::Once), nightly("skip", CatchUp::Skip), nightly("back", CatchUp::Once));
    back.last_at = Some(now() + 24 * 3_600_000);
    for schedule in [&once, &skip, &back] {
        engine.write_schedule(schedule, None).await.unwrap();
    }
    let due = once.plan(now()).unwrap().due.unwrap();
    // A keeper goes through them by their names.
    let keeper = ground::task::spawn(keep_schedules(engine.clone()));
    assert_eq!((dealt_with(&engine, "once").await, dealt_with(&engine, "skip").await), (due, due));
    assert_eq!(dealt_with(&engine, "back").await, back.last_at.unwrap());
    let found = all_listed(&engine).await;
    assert_eq!(found.iter().map(Listed::id).collect::<Vec<_>>(), [once.job_at(due).id.as_str()]);
    keeper.abort();
}
