use super::{LONG_BEFORE_IT_ENDS, assert_all_dead, assert_within, failure_of, pids_in, shell};
use process::{Containment, Process, ProcessSpec, StopReason, spawn};
use std::time::{Duration, Instant};

const BOTH: [Containment; 2] = [Containment::Auto, Containment::Group];
/// Two that ignore SIGTERM, the second in a session of its own, both in the same tree.
const STUBBORN: &str = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; sleep 60 & echo $!; wait' & echo $$; sleep 60 & echo $!; wait";

fn stubborn(containment: Containment) -> ProcessSpec {
    ProcessSpec { containment, ..shell(STUBBORN) }
}

#[tokio::test]
async fn silence_kills_the_whole_tree_at_once() {
    for containment in BOTH {
        let mut spec = stubborn(containment);
        spec.idle_timeout = Some(Duration::from_millis(400));
        let begun = Instant::now();
        let (code, result) = failure_of(spec).await;
        assert_within(begun, LONG_BEFORE_IT_ENDS);
        let result = result.expect("a partial result");
        assert_eq!((code, result.signal.as_deref()), ("PROCESS_IDLE", Some("SIGKILL")));
        assert_eq!(pids_in(&result.stdout).len(), 4, "{}", result.stdout);
        assert_all_dead(&pids_in(&result.stdout));
        assert_eq!(result.strays_killed, 3);
    }
}

/// Turns keep clocks of their own, and their harness knows the limits.
#[tokio::test]
async fn no_limit_is_named_that_somebody_else_keeps() {
    for (reason, expected) in [
        (StopReason::Idle, "PROCESS_IDLE: sh was silent for too long and was killed"),
        (StopReason::TimedOut, "PROCESS_TIMED_OUT: sh ran for too long and was stopped"),
    ] {
        let process = spawn(ProcessSpec { idle_timeout: None, timeout: None, ..shell("sleep 60") });
        process.started().await.expect("started");
        process.stop(reason);
        let error = process.outcome().await.error.clone().expect("an error");
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn a_program_that_prints_now_and_then_is_not_idle() {
    let mut spec = shell("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done");
    spec.idle_timeout = Some(Duration::from_millis(1000));
    let outcome = spawn(spec).outcome().await;
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
}

#[tokio::test]
async fn taking_input_is_a_sign_of_life() {
    let mut spec = shell("while dd bs=20000 count=1 2>/dev/null | grep -q .; do sleep 0.1; done");
    spec.idle_timeout = Some(Duration::from_millis(1500));
    spec.input = process::Input::Bytes(vec![b'\n'; 400_000].into());
    let begun = Instant::now();
    let outcome = spawn(spec).outcome().await;
    assert!(outcome.error.is_none(), "{:?} after {:?}", outcome.error, begun.elapsed());
}

#[tokio::test]
async fn the_wall_clock_terminates_and_after_the_grace_kills() {
    for containment in BOTH {
        let mut spec = stubborn(containment);
        spec.timeout = Some(Duration::from_millis(300));
        spec.kill_grace = Duration::from_millis(200);
        let begun = Instant::now();
        let (code, result) = failure_of(spec).await;
        assert!(begun.elapsed() >= Duration::from_millis(500));
        assert_within(begun, LONG_BEFORE_IT_ENDS);
        let result = result.expect("a partial result");
        assert_eq!((code, result.signal.as_deref()), ("PROCESS_TIMED_OUT", Some("SIGKILL")));
        assert_all_dead(&pids_in(&result.stdout));
    }
}

#[tokio::test]
async fn the_last_words_after_sigterm_are_kept() {
    for containment in BOTH {
        let script = "trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
        let process = spawn(ProcessSpec { containment, ..shell(script) });
        let mut chunks = process.chunks();
        chunks.next().await.expect("ready");
        process.stop(StopReason::Killed);
        let outcome = process.outcome().await;
        let result = outcome.result.as_ref().expect("a partial result");
        assert_eq!((result.stdout.as_str(), result.exit_code), ("ready\nbye\n", Some(9)));
        assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_KILLED"));
    }
}

#[tokio::test]
async fn a_kill_by_a_signal_sends_that_one_and_then_climbs_the_ladder() {
    for containment in BOTH {
        let script = "trap 'echo interrupted' INT; trap 'echo terminated' TERM; echo ready; while :; do sleep 0.02; done";
        let mut spec = ProcessSpec { containment, ..shell(script) };
        spec.kill_grace = Duration::from_millis(400);
        let process = spawn(spec);
        let mut chunks = process.chunks();
        chunks.next().await.expect("ready");
        process.kill(nix::libc::SIGINT);
        let outcome = process.outcome().await;
        let result = outcome.result.as_ref().expect("a partial result");
        assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_KILLED"));
        assert_eq!(
            (result.stdout.as_str(), result.signal.as_deref()),
            ("ready\ninterrupted\n", Some("SIGKILL"))
        );
    }
}

#[tokio::test]
async fn a_second_signal_is_sent_too_and_sigkill_waits_for_nobody() {
    for containment in BOTH {
        let script = "trap 'echo interrupted' INT; trap '' TERM; echo ready; while :; do sleep 0.02; done";
        let mut spec = ProcessSpec { containment, ..shell(script) };
        spec.kill_grace = Duration::from_secs(60);
        let process = spawn(spec);
        let mut chunks = process.chunks();
        chunks.next().await.expect("ready");
        process.stop(StopReason::Aborted);
        process.kill(nix::libc::SIGINT);
        let (_, said) = chunks.next().await.expect("what it says to the signal");
        assert_eq!(&said[..], b"interrupted\n");
        process.kill(nix::libc::SIGKILL);
        let outcome = process.outcome().await;
        let result = outcome.result.as_ref().expect("a partial result");
        assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_ABORTED"));
        assert_eq!(result.signal.as_deref(), Some("SIGKILL"));
    }
}

#[tokio::test]
async fn the_first_reason_wins() {
    let mut spec = stubborn(Containment::Auto);
    spec.kill_grace = Duration::from_millis(100);
    let process = spawn(spec);
    process.started().await.expect("started");
    process.stop(StopReason::Aborted);
    process.stop(StopReason::Killed);
    let outcome = process.outcome().await;
    assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_ABORTED"));
}

#[tokio::test]
async fn stopping_after_the_end_changes_nothing() {
    let process = spawn(shell("echo x"));
    process.outcome().await;
    process.stop(StopReason::Killed);
    assert!(process.outcome().await.error.is_none());
}

/// The pids in the first line that the program prints.
async fn first_pids(process: &Process) -> Vec<i32> {
    let (_, line) = process.chunks().next().await.expect("pids");
    pids_in(&String::from_utf8_lossy(&line))
}

#[tokio::test]
async fn dropping_the_last_handle_kills_the_tree() {
    let process = spawn(shell("setsid sleep 60 & echo $$ $!; wait"));
    let pids = first_pids(&process).await;
    drop(process);
    let begun = Instant::now();
    while pids.iter().any(|pid| super::is_alive(*pid)) {
        assert_within(begun, LONG_BEFORE_IT_ENDS);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_run_dropped_during_its_drain_leaves_no_strays() {
    let script = "setsid sleep 60 & echo $!; exit 0";
    let process = spawn(ProcessSpec { drain: Duration::from_secs(20), ..shell(script) });
    let pids = first_pids(&process).await;
    // The start of the drain can't be observed.
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(process);
    let begun = Instant::now();
    while pids.iter().any(|pid| super::is_alive(*pid)) {
        assert_within(begun, LONG_BEFORE_IT_ENDS);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
