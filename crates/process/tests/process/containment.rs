//! The containment of a tree, and the consequences of killing its guard.
#![cfg(target_os = "linux")]

use super::{
    LONG_BEFORE_IT_ENDS, assert_all_dead, assert_within, failure_of, is_alive, pids_in, result_of, shell,
};
use process::{Containment, ContainmentLevel, ProcessSpec, spawn};
use std::time::{Duration, Instant};

#[tokio::test]
async fn the_level_is_reported() {
    assert_eq!(result_of(shell("true")).await.containment, ContainmentLevel::Guard);
    let group = ProcessSpec { containment: Containment::Group, ..shell("true") };
    assert_eq!(result_of(group).await.containment, ContainmentLevel::Group);
}

#[tokio::test]
async fn limits_that_nothing_enforces_are_refused() {
    let mut spec = shell("true");
    spec.containment = Containment::Group;
    spec.max_processes = Some(10);
    let (code, result) = failure_of(spec).await;
    assert_eq!((code, result.is_none()), ("CONTAINMENT_UNAVAILABLE", true));
}

fn parent_of(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a stat line");
    stat.rsplit_once(") ").expect("a name").1.split(' ').nth(1).expect("a parent").parse().expect("a pid")
}

#[tokio::test]
async fn a_run_whose_guard_is_killed_is_lost_at_once_and_its_tree_gone() {
    for outer in [false, true] {
        let process = spawn(shell("setsid sleep 60 & echo $$ $!; wait"));
        let mut chunks = process.chunks();
        let (_, line) = chunks.next().await.expect("pids");
        let pids = pids_in(&String::from_utf8_lossy(&line));
        let inner_guard = parent_of(pids[0]);
        let guard = if outer { parent_of(inner_guard) } else { inner_guard };
        let begun = Instant::now();
        assert!(
            std::process::Command::new("kill")
                .args(["-9", &guard.to_string()])
                .status()
                .expect("kill")
                .success()
        );
        let outcome = process.outcome().await;
        assert_within(begun, LONG_BEFORE_IT_ENDS);
        let error = outcome.error.as_ref().expect("an error");
        assert_eq!(error.code().as_str(), "PROCESS_LOST");
        let result = outcome.result.as_ref().expect("a partial result");
        assert_eq!((result.exit_code, result.signal.as_deref()), (None, None));
        assert_eq!(pids_in(&result.stdout), pids);
        assert_all_dead(&pids);
    }
}

#[tokio::test]
async fn both_guards_killed_at_once_still_end_as_lost() {
    let process = spawn(shell("sleep 60 & echo $$ $!; wait"));
    let mut chunks = process.chunks();
    let (_, line) = chunks.next().await.expect("pids");
    let pids = pids_in(&String::from_utf8_lossy(&line));
    let inner = parent_of(pids[0]);
    let outer = parent_of(inner);
    assert!(
        std::process::Command::new("kill")
            .args(["-9", &outer.to_string(), &inner.to_string()])
            .status()
            .expect("kill")
            .success()
    );
    let outcome = process.outcome().await;
    assert_eq!(outcome.error.as_ref().expect("an error").code().as_str(), "PROCESS_LOST");
    let begun = Instant::now();
    // The mark finds the rest.
    while pids.iter().any(|pid| is_alive(*pid)) {
        assert_within(begun, LONG_BEFORE_IT_ENDS);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_a_tree_has_used_can_be_asked_while_it_runs() {
    let process = spawn(shell(
        "setsid sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo x; sleep 60' & wait",
    ));
    let mut chunks = process.chunks();
    chunks.next().await.expect("a sign");
    let usage = process.tree_usage().await;
    assert!(usage.processes >= 2, "{usage:?}");
    assert!(usage.cpu >= Duration::from_millis(20), "{usage:?}");
    assert!(usage.io_bytes > 0, "{usage:?}");
}
