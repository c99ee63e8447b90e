//! Measures the cost of a guard: time per run against a bare posix_spawn, memory, and the delay until a tree's last process is
//! gone.
//! Run by hand: `cargo test --lib guard::tests::cost -- --ignored --nocapture --test-threads 1`.

use super::survival::{alive, grow, last_event};
use super::*;
use crate::Containment;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use std::ffi::{CStr, OsStr};
use std::fs;
use std::time::{Duration, Instant};

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort();
    values[values.len() / 2]
}

/// The baseline without a guard: spawn, wait.
fn bare() {
    let environment: [&CStr; 0] = [];
    let actions = PosixSpawnFileActions::init().unwrap();
    let attributes = PosixSpawnAttr::init().unwrap();
    let pid = posix_spawn(c"/bin/true", &actions, &attributes, &[c"true"], &environment).unwrap();
    nix::sys::wait::waitpid(pid, None).unwrap();
}

async fn guarded(containment: Containment) {
    let arguments = [OsStr::new("true")];
    let spawn = GuardedSpawn { containment, ..spawn_of("/bin/true", &arguments) };
    let mut process = started(launch(&spawn, piped(Source::Null)).unwrap()).await.unwrap();
    last_event(&mut process).await;
}

#[tokio::test]
#[ignore = "a measurement"]
async fn time_per_run() {
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..400 {
        let began = Instant::now();
        bare();
        times[0].push(began.elapsed());
        let began = Instant::now();
        guarded(Containment::Auto).await;
        times[1].push(began.elapsed());
        let began = Instant::now();
        guarded(Containment::Strict).await;
        times[2].push(began.elapsed());
    }
    let [bare, guarded, strict] = times.map(median);
    println!("/bin/true, medians of 400: bare {bare:?}, guarded {guarded:?}, strict {strict:?}");
}

#[tokio::test]
#[ignore = "a measurement"]
async fn memory_of_both_guards() {
    let tree = grow("plain", Containment::Auto).await;
    for guard in [tree.guards.0, tree.guards.1] {
        let rollup = fs::read_to_string(format!("/proc/{guard}/smaps_rollup")).unwrap();
        let lines = rollup.lines().filter(|line| line.starts_with("Rss") || line.starts_with("Pss:"));
        println!("guard {guard}: {:?}", lines.collect::<Vec<_>>());
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn time_until_the_last_process_is_dead() {
    for containment in [Containment::Auto, Containment::Strict] {
        for behaviour in ["plain", "clean", "deep", "hop", "pair", "bomb"] {
            let mut times = Vec::new();
            for _ in 0..11 {
                let mut tree = grow(behaviour, containment).await;
                let began = Instant::now();
                tree.process.lifeline.kill();
                last_event(&mut tree.process).await;
                times.push(began.elapsed());
                assert!(alive(&tree.token).is_empty());
            }
            println!("{containment:?} {behaviour}: median {:?}", median(times));
        }
    }
}
