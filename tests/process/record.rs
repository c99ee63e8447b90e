//! Runs on record whose disk does not do as it should.

use super::{outcome_of, result_of, shell};
use sheepdog::process::{Outcome, ProcessSpec, RunResult};
use sheepdog::record::{HOLDS_AT_MOST, Place, RecordFacts, RecordSpec};
use std::fs::{File, read_to_string};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn recorded(folder: &Path, script: &str) -> ProcessSpec {
    let mut spec = shell(script);
    spec.record = Some(RecordSpec::new(Place::At(folder.to_owned())));
    spec
}

fn facts_of(result: &RunResult) -> RecordFacts {
    result.record.clone().expect("a record")
}

#[tokio::test]
async fn a_disk_that_hangs_costs_a_run_its_patience_and_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("stdout");
    // Opening a pipe that nobody reads hangs, as a dead network folder does.
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let begun = Instant::now();
    let result = result_of(recorded(folder.path(), "head -c 40000000 /dev/zero")).await;
    let took = begun.elapsed();
    assert_eq!(result.stdout_bytes, 40_000_000, "the run itself loses nothing");
    assert!(took >= HOLDS_AT_MOST, "it was not waited for: {took:?}");
    assert!(took < HOLDS_AT_MOST + Duration::from_secs(15), "{took:?}");
    let problem = facts_of(&result).problem.expect("a problem that is told");
    assert!(problem.contains("had not taken"), "{problem}");
    // Lets the thread go that hangs.
    drop(File::open(&pipe));
}

#[tokio::test]
async fn a_disk_that_is_full_is_told_and_the_run_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink("/dev/full", folder.path().join("stdout")).expect("a link");
    let result = result_of(recorded(folder.path(), "echo one; sleep 0.3; echo two")).await;
    assert_eq!(result.stdout, "one\ntwo\n");
    let facts = facts_of(&result);
    let problem = facts.problem.expect("a problem that is told");
    assert!(problem.contains("No space left on device"), "{problem}");
    assert!(facts.left_out_bytes >= 4, "{}", facts.left_out_bytes);
    let end = read_to_string(folder.path().join("end.json")).expect("an end all the same");
    assert!(end.contains("No space left on device") && end.contains("\"exitCode\": 0"), "{end}");
}

#[tokio::test]
async fn a_program_that_can_not_be_started_has_no_record_or_one_that_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spec = recorded(&folder.path().join("missing"), "true");
    spec.command = "no-such-program".to_owned();
    assert!(outcome_of(spec).await.error.is_some());
    assert!(!folder.path().join("missing").exists(), "found before anything was made");
    // Found by the system alone: its interpreter is not there.
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").expect("a script");
    assert!(Command::new("chmod").arg("+x").arg(&script).status().expect("chmod").success());
    let mut spec = recorded(&folder.path().join("refused"), "true");
    spec.command = script.to_string_lossy().into_owned();
    let outcome: &Outcome = &*outcome_of(spec).await;
    assert!(outcome.result.is_none());
    let end = read_to_string(folder.path().join("refused/end.json")).expect("an end");
    assert!(end.contains("PROCESS_NOT_FOUND"), "{end}");
}
