//! Runs with real processes: one file per behaviour.
#![expect(clippy::expect_used, reason = "a panic is a test's report, in its helpers too")]

mod containment;
mod end;
mod environment;
mod everyday;
mod fault;
mod fence;
mod host_files;
mod input;
mod moments;
mod output;
mod record;
mod sandbox;
mod silence;
mod start;
mod stdio;
mod stop;
mod terminal;

use process::{ChunkReader, Outcome, ProcessSpec, RunResult, Stream, spawn};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A shell script as a run.
fn shell(script: &str) -> ProcessSpec {
    ProcessSpec::new("sh", ["-c", script])
}

async fn outcome_of(spec: ProcessSpec) -> Arc<Outcome> {
    spawn(spec).outcome().await
}

async fn result_of(spec: ProcessSpec) -> RunResult {
    let outcome = outcome_of(spec).await;
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    outcome.result.clone().expect("a result")
}

/// The code of a run that failed, and its partial result.
async fn failure_of(spec: ProcessSpec) -> (&'static str, Option<RunResult>) {
    let outcome = outcome_of(spec).await;
    (outcome.error.as_ref().expect("an error").code().as_str(), outcome.result.clone())
}

/// The rest of a run's output, both streams.
async fn rest_of(chunks: &mut ChunkReader) -> [String; 2] {
    let mut texts = [Vec::new(), Vec::new()];
    while let Some((stream, bytes)) = chunks.next().await {
        texts[usize::from(stream == Stream::Stderr)].extend_from_slice(&bytes);
    }
    texts.map(|text| String::from_utf8(text).expect("text"))
}

/// A zombie is dead.
fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").expect("a stat line").1.starts_with(['Z', 'X']))
}

fn pids_in(text: &str) -> Vec<i32> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn assert_all_dead(pids: &[i32]) {
    assert!(!pids.is_empty(), "no pids were printed");
    for pid in pids {
        assert!(!is_alive(*pid), "{pid} is alive");
    }
}

/// Programs here sleep for a minute: what is not ended takes that long. A busy machine never does.
const LONG_BEFORE_IT_ENDS: Duration = Duration::from_secs(30);

fn assert_within(begun: Instant, limit: Duration) {
    assert!(begun.elapsed() < limit, "took {:?}", begun.elapsed());
}
