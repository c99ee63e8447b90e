use super::super::spec::JobSpec;
use super::*;
use serde_json::json;
use std::time::Duration;

fn queued(attempts: u32) -> JobRecord {
    let spec = JobSpec { id: "a".into(), handler: Some("h".into()), attempts, ..JobSpec::new() };
    JobRecord::queued(&spec.with_defaults())
}

fn run(record: &JobRecord, token: &str) -> JobRecord {
    match record.claim("w", token, true, 1) {
        Claim::Run(next) => *next,
        other => panic!("expected a run, got {other:?}"),
    }
}

fn failed(token: &str, consequence: Consequence) -> JobEvent {
    JobEvent::Failed {
        token: token.into(),
        fault: JobFault::new("E", "broken"),
        consequence,
        log: LogEnd::default(),
        artifacts: Vec::new(),
        now: 5,
    }
}

fn done(token: &str) -> JobEvent {
    JobEvent::Done {
        token: token.into(),
        result: Some(json!(1)),
        result_object: None,
        log: LogEnd { sequence: 3, events: 2, lost: 0 },
        artifacts: Vec::new(),
        artifacts_error: None,
        now: 9,
    }
}

#[test]
fn a_claim_begins_an_attempt_and_its_holder_ends_it() {
    let running = run(&queued(3), "t1");
    assert_eq!((running.state, running.attempt, running.spent), (JobState::Running, 1, 1));
    let ended = running.after(&done("t1")).unwrap();
    assert_eq!(
        (ended.state, ended.result.clone(), ended.ended_at),
        (JobState::Done, Some(json!(1)), Some(9))
    );
    assert_eq!(ended.claim("w", "t2", true, 10), Claim::Over);
}

#[test]
fn a_late_worker_is_fenced_whatever_it_says() {
    let second = run(&run(&queued(3), "t1"), "t2");
    assert_eq!(
        (second.attempt, second.error.as_ref().map(|fault| fault.code.as_str())),
        (2, Some("JOB_LEASE_LOST"))
    );
    let ended = second.after(&done("t2")).unwrap();
    let cancelled = second.after(&JobEvent::CancelForced { now: 1 }).unwrap();
    for record in [&second, &ended, &cancelled, &queued(3)] {
        for event in [
            done("t1"),
            failed("t1", Consequence::Final),
            JobEvent::Drained { token: "t1".into(), now: 1 },
            JobEvent::Stopped { token: "t1".into(), log: LogEnd::default(), now: 1 },
            JobEvent::Seen {
                token: "t1".into(),
                session_id: None,
                tools_ran: true,
                session_object: None,
                usage: None,
            },
        ] {
            assert_eq!(record.after(&event), Err(Refusal::Fenced), "{:?} {event:?}", record.state);
        }
    }
}

/// The record after its worker was lost and another one took the job, however long it was left alone before.
fn lost(record: &JobRecord, is_alone: bool) -> Result<JobRecord, Box<JobRecord>> {
    match record.claim("w", "t", is_alone, 7) {
        Claim::Run(next) => Ok(*next),
        Claim::Bury(dead) => Err(dead),
        Claim::Later(later) => {
            assert!(later.not_before.is_some_and(|time| time > 7) && later.must_run_alone());
            match later.claim("w", "t", is_alone, 9) {
                Claim::Run(next) => Ok(*next),
                other => panic!("{other:?}"),
            }
        }
        Claim::Over => panic!("it is not over"),
    }
}

#[test]
fn a_job_that_loses_its_workers_alone_uses_up_its_budget_and_is_dead() {
    let mut record = run(&queued(3), "t");
    for attempt in 1..3 {
        assert_eq!((record.attempt, record.spent), (attempt, attempt));
        record = lost(&record, true).unwrap();
    }
    let dead = lost(&record, true).unwrap_err();
    assert_eq!((dead.state, dead.attempt, dead.ended_at), (JobState::Dead, 3, Some(7)));
    let fault = dead.error.unwrap();
    assert_eq!(
        (fault.code.as_str(), &fault.facts["lastError"]["code"]),
        ("JOB_DEAD", &json!("JOB_LEASE_LOST"))
    );
}

#[test]
fn a_job_pays_for_no_worker_that_others_may_have_killed() {
    let begun = |attempts| match queued(attempts).claim("w", "t", false, 1) {
        Claim::Run(next) => *next,
        other => panic!("{other:?}"),
    };
    let first = begun(2);
    assert!(!first.claim("w", "t", false, 2).eq(&Claim::Over) && !queued(2).must_run_alone());
    let second = lost(&first, false).unwrap();
    assert_eq!((second.attempt, second.spent, second.losses), (2, 1, 1), "the first loss is everyday life");
    assert!(second.must_run_alone(), "the second one is not");
    let third = lost(&second, true).unwrap();
    assert_eq!((third.attempt, third.spent, third.alone), (3, 1, true));
    let fourth = lost(&third, true).unwrap();
    assert_eq!((fourth.attempt, fourth.spent), (4, 2));
    assert_eq!(lost(&fourth, true).unwrap_err().state, JobState::Dead);
    // A job with one attempt runs once only.
    assert_eq!(lost(&begun(1), false).unwrap_err().state, JobState::Dead);
    // A run that ended in order did not kill its worker.
    assert_eq!(third.after(&failed("t", Consequence::Again(Duration::ZERO))).unwrap().losses, 0);
}

#[test]
fn a_failure_is_tried_again_until_the_budget_is_spent() {
    let again = Consequence::Again(Duration::from_millis(100));
    let first = run(&queued(2), "t1").after(&failed("t1", again.clone())).unwrap();
    assert_eq!((first.state, first.not_before, first.worker.clone()), (JobState::Queued, Some(105), None));
    let second = run(&first, "t2").after(&failed("t2", again)).unwrap();
    assert_eq!((second.state, second.attempt), (JobState::Failed, 2));
    assert_eq!(second.error.unwrap().code, "E");
    let at_once = run(&queued(3), "t1").after(&failed("t1", Consequence::Final)).unwrap();
    assert_eq!((at_once.state, at_once.attempt), (JobState::Failed, 1));
}

#[test]
fn limits_and_drains_cost_no_attempt_but_numbers_go_on() {
    let waited =
        run(&queued(1), "t1").after(&failed("t1", Consequence::Wait(Duration::from_secs(1)))).unwrap();
    assert_eq!((waited.state, waited.spent, waited.waits), (JobState::Queued, 0, 1));
    let drained = run(&waited, "t2").after(&JobEvent::Drained { token: "t2".into(), now: 3 }).unwrap();
    assert_eq!((drained.state, drained.spent), (JobState::Queued, 0));
    assert_eq!(run(&drained, "t3").attempt, 3);
}

#[test]
fn cancel_is_final_for_who_waits_and_a_word_to_who_runs() {
    let asked = JobEvent::CancelAsked { now: 4 };
    let cancelled = queued(3).after(&asked).unwrap();
    assert_eq!((cancelled.state, cancelled.claim("w", "t", true, 5)), (JobState::Cancelled, Claim::Over));
    let running = run(&queued(3), "t1").after(&asked).unwrap();
    assert_eq!((running.state, running.cancel_asked), (JobState::Running, true));
    assert_eq!(running.after(&asked), Err(Refusal::Unchanged));
    let stopped = JobEvent::Stopped { token: "t1".into(), log: LogEnd::default(), now: 6 };
    assert_eq!(running.after(&stopped).unwrap().state, JobState::Cancelled);
    // It came too late: the work is done, and stays done.
    assert_eq!(running.after(&done("t1")).unwrap().state, JobState::Done);
    // The holder was lost before it heard of it.
    assert!(
        matches!(running.claim("w", "t2", true, 7), Claim::Bury(record) if record.state == JobState::Cancelled)
    );
    // It failed meanwhile: nobody wants another attempt.
    let after = running.after(&failed("t1", Consequence::Again(Duration::ZERO))).unwrap();
    assert_eq!(after.state, JobState::Failed);
}

#[test]
fn a_retry_gives_a_new_budget() {
    let dead = run(&queued(1), "t1").after(&failed("t1", Consequence::Final)).unwrap();
    let retried = dead.after(&JobEvent::Retried).unwrap();
    assert_eq!((retried.state, retried.spent, retried.attempt), (JobState::Queued, 0, 1));
    assert_eq!(run(&retried, "t2").attempt, 2);
    let ended = run(&queued(1), "t1").after(&done("t1")).unwrap();
    assert_eq!(ended.after(&JobEvent::Retried), Err(Refusal::NotRetried(JobState::Done)));
    let cancelled = queued(1).after(&JobEvent::CancelAsked { now: 1 }).unwrap();
    assert!(cancelled.error.is_some() && cancelled.after(&JobEvent::Retried).unwrap().error.is_none());
    assert_eq!(queued(1).after(&JobEvent::Retried), Err(Refusal::Unchanged));
}

#[test]
fn a_job_whose_tools_ran_is_resumed_or_dead_never_run_anew() {
    let seen = |session: Option<&str>, tools_ran| JobEvent::Seen {
        token: "t1".into(),
        session_id: session.map(str::to_owned),
        tools_ran,
        session_object: None,
        usage: None,
    };
    let running = run(&queued(3), "t1");
    assert_eq!(run(&running.after(&seen(Some("s"), false)).unwrap(), "t2").session_to_resume(), None);
    assert_eq!(run(&running.after(&seen(Some("s"), true)).unwrap(), "t2").session_to_resume(), Some("s"));
    let blind = running.after(&seen(None, true)).unwrap();
    assert!(matches!(blind.claim("w", "t2", true, 3), Claim::Bury(record) if record.state == JobState::Dead));
    let after = blind.after(&failed("t1", Consequence::Again(Duration::ZERO))).unwrap();
    assert_eq!(after.state, JobState::Failed);
    assert_eq!(blind.after(&seen(None, true)), Err(Refusal::Unchanged));
}

#[test]
fn a_record_is_shown_without_its_token_and_read_as_it_was_written() {
    let record = run(&queued(3), "secret").after(&done("secret")).unwrap();
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(ground::json::read_own::<JobRecord>(&text).unwrap(), record);
    let shown = run(&queued(3), "secret").shown();
    assert_eq!(shown.get("token"), None);
    assert_eq!(
        (&shown["state"], &shown["attempt"], &shown["worker"]),
        (&json!("running"), &json!(1), &json!("w"))
    );
}

#[test]
fn the_files_of_a_session_belong_to_it_alone() {
    let seen = |session: &str, object: Option<&str>| JobEvent::Seen {
        token: "t1".into(),
        session_id: Some(session.to_owned()),
        tools_ran: false,
        session_object: object.map(str::to_owned),
        usage: None,
    };
    let running = run(&queued(3), "t1").after(&seen("s", Some("o"))).unwrap();
    assert_eq!(running.session_object.as_deref(), Some("o"));
    assert_eq!(running.shown().get("sessionObject"), None);
    assert_eq!(running.after(&seen("other", None)).unwrap().session_object, None);
}

#[test]
fn what_lost_attempts_used_is_kept_until_somebody_retries_the_job() {
    let used = |tokens| Usage { input_tokens: tokens, ..Usage::default() };
    let seen = |tokens| JobEvent::Seen {
        token: "t".into(),
        session_id: None,
        tools_ran: false,
        session_object: None,
        usage: Some(used(tokens)),
    };
    let first = run(&queued(2), "t").after(&seen(4000)).unwrap();
    let second = lost(&first, true).unwrap();
    assert_eq!((second.usage, second.used()), (Some(used(4000)), used(4000)));
    let failed = second.after(&seen(7000)).unwrap().after(&failed("t", Consequence::Final)).unwrap();
    assert_eq!(failed.used(), used(7000));
    let retried = failed.after(&JobEvent::Retried).unwrap();
    assert_eq!((retried.usage, retried.used()), (Some(used(7000)), used(0)));
}

#[test]
fn a_record_lists_its_attempts_with_their_ends_and_their_usage() {
    let used = |tokens| Usage { input_tokens: tokens, ..Usage::default() };
    let seen = |tokens| JobEvent::Seen {
        token: "t".into(),
        session_id: None,
        tools_ran: false,
        session_object: None,
        usage: Some(used(tokens)),
    };
    let first = run(&queued(5), "t").after(&seen(100)).unwrap().after(&seen(150)).unwrap();
    let second = lost(&first, true).unwrap().after(&seen(170)).unwrap();
    let again = second.after(&failed("t", Consequence::Again(Duration::ZERO))).unwrap();
    let drained = run(&again, "t").after(&JobEvent::Drained { token: "t".into(), now: 8 }).unwrap();
    let last = run(&drained, "t").after(&done("t")).unwrap();
    let shown = last.shown();
    let runs: Vec<Value> = shown["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            json!([
                run["attempt"],
                run["worker"],
                run["startedAt"],
                run["endedAt"],
                run["reason"],
                run["error"]["message"],
                run["usage"]["inputTokens"]
            ])
        })
        .collect();
    assert_eq!(
        json!(runs),
        json!([
            [1, "w", 1, 7, "JOB_LEASE_LOST", "attempt 1 was lost: w was silent for a whole lease", 150],
            [2, "w", 7, 5, "E", "broken", 20],
            [3, "w", 1, 8, "drained", null, null],
            [4, "w", 1, 9, null, null, null],
        ])
    );
    assert_eq!((&shown["maxAttempts"], &shown["usage"]["inputTokens"]), (&json!(5), &json!(170)));
    // Records of older versions have no list.
    let mut stored = json!(last);
    stored.as_object_mut().unwrap().remove("runs");
    let old: JobRecord = ground::json::typed(stored).unwrap();
    assert_eq!(old.shown()["attempts"], json!([]));
    // Or a list of attempts without their errors.
    let mut stored = json!(last);
    stored["runs"][0].as_object_mut().unwrap().remove("error");
    let old: JobRecord = ground::json::typed(stored).unwrap();
    let first = &old.shown()["attempts"][0];
    assert_eq!((&first["reason"], first.get("error")), (&json!("JOB_LEASE_LOST"), None));
}

#[test]
fn long_data_and_prompts_are_not_in_the_record() {
    let spec = JobSpec {
        id: "a".into(),
        provider: Some("codex".into()),
        prompt: "ä".repeat(2000),
        data: Some(json!("x".repeat(4000))),
        title: Some("Title".into()),
        tags: vec!["t".into()],
        ..JobSpec::new()
    };
    let record = JobRecord::queued(&spec);
    assert_eq!(record.prompt.as_ref().map(|prompt| prompt.chars().count()), Some(1001));
    assert_eq!((record.data, record.title.as_deref()), (None, Some("Title")));
    for data in [json!({ "n": 1 }), Value::Null, json!(0)] {
        let short = JobSpec { data: Some(data.clone()), ..spec.clone() };
        let sent: JobSpec = ground::json::read_own(serde_json::to_string(&short).unwrap()).unwrap();
        let record = serde_json::to_string(&JobRecord::queued(&sent)).unwrap();
        assert_eq!(ground::json::read_own::<JobRecord>(&record).unwrap().data, Some(data));
    }
    let without = JobSpec { data: None, ..spec };
    assert!(!serde_json::to_string(&without).unwrap().contains("data"));
}
