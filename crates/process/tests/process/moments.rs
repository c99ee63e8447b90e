//! Every moment of a start can be the one at which it is stopped.

use super::{is_alive, shell};
use process::{Containment, ProcessSpec, StopReason, spawn};
use std::path::Path;
use std::time::{Duration, Instant};

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Either no byte of the program ran, or the end carries a result and the tree is gone.
async fn stop_once(folder: &Path, number: u64, containment: Containment, after: Duration) -> bool {
    let trace = folder.join(number.to_string());
    let script = format!(": > {}; sleep 60 & wait", trace.display());
    let process =
        spawn(ProcessSpec { containment, kill_grace: Duration::from_millis(200), ..shell(&script) });
    // A timer's milliseconds are longer than a start.
    let begun = Instant::now();
    while begun.elapsed() < after {
        tokio::task::yield_now().await;
    }
    if number % 10 == 9 {
        // On the slowest machine too, some have begun.
        let _ = process.started().await;
    }
    process.stop(StopReason::Aborted);
    let outcome = process.outcome().await;
    assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_ABORTED"));
    match &outcome.result {
        Some(result) => {
            assert!(!is_alive(result.pid as i32), "trial {number}: {} is alive", result.pid);
            assert_eq!(result.strays_left, 0, "trial {number}");
            true
        }
        None => {
            assert!(!trace.exists(), "trial {number}: it ran and is said not to have been started");
            false
        }
    }
}

async fn trials(count: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut dice = Dice(count);
    let mut started = Vec::new();
    for number in 0..count {
        let containment = if number % 4 == 3 { Containment::Group } else { Containment::Auto };
        // At once: on the fastest machine too, some have not begun.
        let after = Duration::from_micros(if number % 10 == 0 { 0 } else { dice.below(6000) });
        started.push(stop_once(folder.path(), number, containment, after).await);
    }
    // A program that starts late would have left its trace by now.
    tokio::time::sleep(Duration::from_millis(300)).await;
    for (number, started) in started.iter().enumerate().filter(|(_, started)| !**started) {
        assert!(!folder.path().join(number.to_string()).exists(), "trial {number} ran later: {started}");
    }
    let ran = started.iter().filter(|started| **started).count();
    assert!(ran > 0 && ran < started.len(), "{ran} of {count}: not every moment was hit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stop_at_any_moment_of_the_start_is_told_truly() {
    trials(60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "a minute: cargo test --test process moments -- --ignored"]
async fn a_stop_at_any_moment_of_the_start_is_told_truly_a_thousand_times() {
    trials(1000).await;
}
