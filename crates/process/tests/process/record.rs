//! Runs on record that never ran.

use super::{outcome_of, shell};
use ground::record::{Place, RecordSpec};
use process::{Outcome, ProcessSpec};
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

fn recorded(folder: &Path, script: &str) -> ProcessSpec {
    let mut spec = shell(script);
    spec.record = Some(RecordSpec::new(Place::At(folder.to_owned())));
    spec
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
