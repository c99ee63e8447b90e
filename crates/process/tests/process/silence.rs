//! Healthy programs live: silence is judged by the pipe, and never for the time that their host was stopped.
#![cfg(target_os = "linux")]

use super::shell;
use process::spawn;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const IDLE: Duration = Duration::from_millis(1000);
/// A program that prints every 20 ms for about 4 s.
const SCRIPT: &str = "end=$(($(date +%s) + 4)); while [ $(date +%s) -lt $end ]; do echo x; sleep 0.02; done";
/// A stray that writes within the drain. Its output must be there even if the host was stopped meanwhile.
const STRAY: &str = "(sleep 0.4; echo late) & exit 0";

/// Not a test by itself: the host that others stop. Prints its programs' pids, then how each ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "run by other tests, in a process of its own"]
async fn as_host() {
    let Ok(programs) = std::env::var("PROGRAMS") else { return };
    let programs: usize = programs.parse().expect("a number");
    let runs: Vec<_> = (0..programs)
        .map(|_| {
            let mut spec = shell(SCRIPT);
            spec.idle_timeout = Some(IDLE);
            spawn(spec)
        })
        .collect();
    let mut pids = Vec::new();
    for run in &runs {
        pids.push(run.started().await.expect("started").to_string());
    }
    println!("\npids {}", pids.join(" "));
    let mut stray = shell(STRAY);
    stray.drain = Duration::from_millis(700);
    let stray = spawn(stray);
    stray.started().await.expect("started");
    println!("stray");
    let kept = stray.outcome().await.result.as_ref().map(|result| result.stdout.clone());
    println!("kept {:?}", kept.unwrap_or_default());
    for run in runs {
        let outcome = run.outcome().await;
        println!("end {}", outcome.error.as_ref().map_or("ok", |error| error.code().as_str()));
    }
}

struct Dice(u64);

impl Dice {
    fn between(&mut self, from: u64, to: u64) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(from + (self.0 >> 33) % (to - from))
    }
}

fn signal(name: &str, pids: &[String]) {
    let _ = Command::new("kill").arg(format!("-{name}")).arg("--").args(pids).stderr(Stdio::null()).status();
}

fn host(programs: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "silence::as_host", "--ignored", "--nocapture"]);
    command.env("PROGRAMS", programs.to_string()).stdout(Stdio::piped()).spawn().expect("a host")
}

/// One host and its programs, stopped at random: the host, the programs (for less than they may be silent), both at once.
fn trial(seed: u64, programs: usize) -> Vec<String> {
    let mut child = host(programs);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let pids = lines.find_map(|line| line.strip_prefix("pids ").map(str::to_owned)).expect("pids");
    // Each leads a group of its own.
    let groups: Vec<String> = pids.split(' ').map(|pid| format!("-{pid}")).collect();
    let own = vec![child.id().to_string()];
    let both: Vec<String> = own.iter().chain(&groups).cloned().collect();
    lines.find(|line| line == "stray").expect("the stray");
    let mut dice = Dice(seed);
    let begun = Instant::now();
    // The first one lies across the end of the stray's drain.
    std::thread::sleep(dice.between(50, 300));
    signal("STOP", &own);
    std::thread::sleep(dice.between(900, 1600));
    signal("CONT", &own);
    while begun.elapsed() < Duration::from_millis(2800) {
        std::thread::sleep(dice.between(5, 300));
        let (who, length) = match dice.between(0, 3).as_millis() {
            0 => (&own, dice.between(300, 1500)),
            1 => (&groups, dice.between(50, 450)),
            _ => (&both, dice.between(300, 1500)),
        };
        signal("STOP", who);
        std::thread::sleep(length);
        signal("CONT", who);
    }
    let said: Vec<String> = lines.collect();
    child.wait().expect("its end");
    said.into_iter().filter(|line| line.starts_with("end ") || line.starts_with("kept ")).collect()
}

fn trials(hosts: u64, programs: usize) {
    let mut wrong = Vec::new();
    for seed in 0..hosts {
        let said = trial(seed, programs);
        let healthy = said.iter().filter(|line| *line == "end ok").count();
        if healthy != programs || !said.iter().any(|line| line.contains("late")) {
            wrong.push((seed, said));
        }
    }
    assert!(wrong.is_empty(), "{} of {hosts} hosts: {wrong:?}", wrong.len());
}

#[test]
fn a_program_that_prints_is_never_idle_however_its_host_is_stopped() {
    trials(1, 8);
}

#[test]
#[ignore = "three minutes, 500 programs: cargo test --test process silence -- --ignored"]
fn a_program_that_prints_is_never_idle_500_times() {
    trials(32, 16);
}
