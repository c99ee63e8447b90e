//! Promises of the store: leases, records, logs, places, objects and settings.

use super::*;

over_every_engine!(
    a_silent_holder_loses_its_job_and_a_beating_one_keeps_it,
    a_job_that_is_given_back_comes_after_its_delay,
    a_job_that_was_given_back_can_be_taken_up_again_by_its_last_holder,
    a_record_is_written_over_the_revision_that_was_read_alone,
    a_fenced_worker_commits_nothing,
    a_log_keeps_its_order_and_has_a_repeated_batch_once,
    a_place_has_one_holder_until_it_expires,
    an_object_comes_back_whole,
    the_same_id_is_the_same_job,
    a_setting_is_written_over_the_revision_that_was_read_and_expires,
);

async fn a_silent_holder_loses_its_job_and_a_beating_one_keeps_it(engine: Shared) {
    submit(&engine, json!({ "id": "a", "priority": 4 })).await.unwrap();
    let first = next(&engine).await.unwrap();
    let begun = Instant::now();
    while begun.elapsed() < LEASE * 2 {
        first.beat().await;
        tokio::time::sleep(LEASE / 5).await;
    }
    assert!(given_out(&engine).await.is_none(), "its holder is there");
    let second = within(next(&engine)).await.expect("its holder is silent");
    assert_eq!((second.deliveries, second.sequence), (2, first.sequence));
    assert!(second.finish().await);
    assert_eq!(engine.message_of("a").await.unwrap(), None);
}

async fn a_job_that_is_given_back_comes_after_its_delay(engine: Shared) {
    submit(&engine, json!({ "id": "a", "priority": 4 })).await.unwrap();
    let delay = Duration::from_millis(400);
    next(&engine).await.unwrap().give_back(delay).await;
    let begun = Instant::now();
    let again = within(next(&engine)).await.unwrap();
    assert!(begun.elapsed() >= delay - Duration::from_millis(50), "{:?}", begun.elapsed());
    again.give_back(Duration::ZERO).await;
    assert_eq!(within(next(&engine)).await.unwrap().deliveries, 3);
}

async fn a_job_that_was_given_back_can_be_taken_up_again_by_its_last_holder(engine: Shared) {
    submit(&engine, json!({ "id": "a", "priority": 4 })).await.unwrap();
    let first = next(&engine).await.unwrap();
    first.give_back(Duration::from_secs(3600)).await;
    assert!(first.is_disposed());
    assert!(first.take_up().await && !first.is_disposed());
    assert!(given_out(&engine).await.is_none(), "its holder is there");
    let second = within(next(&engine)).await.expect("its holder is silent again");
    assert_eq!((second.deliveries, second.sequence), (2, first.sequence));
    assert!(second.finish().await);
}

async fn a_record_is_written_over_the_revision_that_was_read_alone(engine: Shared) {
    let spec = JobSpec { id: "a".into(), handler: Some("h".into()), ..JobSpec::new() };
    let queued = JobRecord::queued(&spec);
    let first = engine.write_record(&queued, 0, RetryFor::ASKED).await.unwrap();
    let next = claimed(&queued, "one");
    let second = engine.write_record(&next, first.revision, RetryFor::ASKED).await.unwrap();
    let other = claimed(&queued, "two");
    for stale in [0, first.revision] {
        let refused = engine.write_record(&other, stale, RetryFor::ASKED).await;
        assert!(matches!(refused, Err(Refused::Conflict)), "{refused:?}");
    }
    let read = engine.read_record("a", RetryFor::ASKED).await.unwrap().unwrap();
    assert_eq!((read.record, read.revision), (next, second.revision));
    assert!(!engine.drop_record(&first).await.unwrap(), "it was written since");
    let kept = engine.read_record("a", RetryFor::ASKED).await.unwrap();
    assert!(kept.is_some());
}

async fn a_fenced_worker_commits_nothing(engine: Shared) {
    let spec = JobSpec { id: "a".into(), handler: Some("h".into()), ..JobSpec::new() };
    let first = claimed(&JobRecord::queued(&spec), "late");
    let held = engine.write_record(&first, 0, RetryFor::ASKED).await.unwrap();
    let second = claimed(&first, "new");
    let taken = engine.write_record(&second, held.revision, RetryFor::ASKED).await.unwrap();
    let late = held.record.after(&done("late")).unwrap();
    let refused = engine.write_record(&late, held.revision, RetryFor::ASKED).await;
    assert!(matches!(refused, Err(Refused::Conflict)), "{refused:?}");
    let commit = second.after(&done("new")).unwrap();
    engine.write_record(&commit, taken.revision, RetryFor::ASKED).await.unwrap();
    assert_eq!(settled(&engine, "a").await.result, Some(json!("new")));
}

async fn a_log_keeps_its_order_and_has_a_repeated_batch_once(engine: Shared) {
    submit(&engine, json!({ "id": "a", "queue": "nobody" })).await.unwrap();
    let mut after = 0;
    for number in 1..=3 {
        let line = Bytes::from(format!("{{\"n\":{number}}}"));
        let sequence = engine.append_log("a", 1, number, after, line.clone()).await.unwrap();
        assert!(sequence > after);
        assert_eq!(engine.append_log("a", 1, number, after, line).await.unwrap(), sequence, "again");
        after = sequence;
    }
    assert_eq!(engine.last_of_logs("a").await.unwrap(), after);
    let mut follow = Follow::open(&engine, "a", None, false).await.unwrap();
    let mut lines = Vec::new();
    while let Some(batch) = within(follow.next()).await.unwrap() {
        lines.push(String::from_utf8_lossy(&batch.lines).into_owned());
    }
    assert_eq!(lines, ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}"]);
}

async fn a_place_has_one_holder_until_it_expires(engine: Shared) {
    let take =
        async |holder| engine.take_place(Key::Place("k".into(), 0), holder, "a job", LEASE).await.unwrap();
    let mut place = take("one").await.unwrap();
    assert!(take("two").await.is_none());
    assert!(engine.hold_place(&mut place).await.unwrap());
    assert_eq!(engine.key_holders("k").await.unwrap(), ["a job"]);
    engine.drop_place(&place).await;
    assert!(take("two").await.is_some(), "free at once");
    assert!(!engine.hold_place(&mut place).await.unwrap(), "it is another's");
    engine.drop_place(&place).await;
    let expired = async {
        while take("three").await.is_none() {
            tokio::time::sleep(LEASE / 10).await;
        }
    };
    within(expired).await;
}

async fn an_object_comes_back_whole(engine: Shared) {
    let text: Bytes = (0..300_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>().into();
    engine.put_object("a/1/b c", text.clone()).await.unwrap();
    assert!(engine.object("a/1/b c").await.unwrap() == text);
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("deep/to"));
    std::fs::write(&from, &text).unwrap();
    let (length, _) = engine.put_file("a/1/d", std::fs::File::open(&from).unwrap()).await.unwrap();
    assert_eq!(length, text.len() as u64);
    engine.fetch_object("a/1/d", &to).await.unwrap();
    assert!(std::fs::read(&to).unwrap() == text);
    assert!(engine.object("a/1/none").await.is_err());
}

async fn the_same_id_is_the_same_job(engine: Shared) {
    let host = Texts::new(true);
    for _ in 0..2 {
        submit(&engine, json!({ "id": "a", "data": 1 })).await.unwrap();
    }
    let worker = worker(&engine, host.clone()).await;
    settled(&engine, "a").await;
    submit(&engine, json!({ "id": "a", "data": 2 })).await.unwrap();
    let spec = |id: &str| Ok(JobSpec { id: id.into(), handler: Some("text".into()), ..JobSpec::new() });
    let answers =
        engine.submit_many((0..40).map(|n| spec(&format!("j{n}"))).chain([spec("a")]).collect()).await;
    let known: Vec<usize> = (0..answers.len()).filter(|n| answers[*n].is_known).collect();
    assert_eq!(known, [40], "{answers:?}");
    for n in 0..40 {
        settled(&engine, &format!("j{n}")).await;
    }
    assert_eq!(settled(&engine, "a").await.result, Some(json!("x")));
    assert_eq!(host.runs(), 41);
    worker.close().await;
}

async fn a_setting_is_written_over_the_revision_that_was_read_and_expires(engine: Shared) {
    let what = Key::Schedule("a.b/c".into());
    let read = async || engine.present(&what, RetryFor::ASKED).await.unwrap();
    let put = async |text: &'static str, over, length| {
        engine.put_entry(&what, Bytes::from_static(text.as_bytes()), over, length, RetryFor::ASKED).await
    };
    assert!(read().await.is_none());
    let mut changes = engine.changes(&Group::Schedules).await.unwrap();
    let revision = put("one", Some(0), None).await.unwrap();
    let (key, entry) = within(changes.next()).await.unwrap();
    assert_eq!((key.name(), entry.revision, &entry.payload[..]), ("a.b/c", revision, &b"one"[..]));
    assert_eq!(read().await.unwrap().revision, revision);
    put("two", Some(revision), None).await.unwrap();
    let late = put("three", Some(revision), None).await;
    assert!(matches!(late, Err(Refused::Conflict)));
    let all = engine.settings(&Group::Schedules).await.unwrap();
    assert_eq!(
        all.into_iter().map(|(name, stored)| (name, stored.payload)).collect::<Vec<_>>(),
        [("a.b/c".to_owned(), Bytes::from_static(b"two"))]
    );
    assert!(engine.settings(&Group::Pauses).await.unwrap().is_empty());
    assert!(engine.unset(&what).await.unwrap() && read().await.is_none());
    assert!(!engine.unset(&what).await.unwrap());
    put("short", None, Some(Duration::from_secs(1))).await.unwrap();
    let gone = async {
        while read().await.is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within(gone).await;
    // Settings are no jobs.
    assert!(all_listed(&engine).await.is_empty());
}
