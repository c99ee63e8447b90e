use super::{failure_of, outcome_of, result_of, shell};
use process::{Containment, EnvironmentBase, Input, ProcessSpec, StopReason, spawn};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn names_what_is_missing() {
    let nothing: [&str; 0] = [];
    assert_eq!(failure_of(ProcessSpec::new("no-such-program", nothing)).await.0, "PROCESS_NOT_FOUND");
    assert_eq!(failure_of(ProcessSpec::new("/no/such/program", nothing)).await.0, "PROCESS_NOT_FOUND");
    assert_eq!(failure_of(ProcessSpec::new("/tmp", nothing)).await.0, "PROCESS_NOT_EXECUTABLE");
    let mut spec = shell("true");
    spec.cwd = Some("/no/such/folder".into());
    let (code, result) = failure_of(spec).await;
    assert_eq!((code, result.is_none()), ("PROCESS_CWD_MISSING", true));
    assert_eq!(
        failure_of(ProcessSpec::new("true", ["a".repeat(200_000)])).await.0,
        "PROCESS_ARGUMENT_TOO_LONG"
    );
}

#[tokio::test]
async fn too_many_arguments_are_too_long_together() {
    let many = vec!["a".repeat(100_000); 300];
    assert_eq!(failure_of(ProcessSpec::new("true", many)).await.0, "PROCESS_ARGUMENT_TOO_LONG");
}

#[tokio::test]
async fn a_missing_interpreter_is_told_from_a_missing_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a mode");
    let process = spawn(ProcessSpec::new(script.to_string_lossy(), [""; 0]));
    let error = process.started().await.expect_err("no interpreter");
    assert_eq!(error.code().as_str(), "PROCESS_NOT_FOUND");
    assert!(error.message().contains("interpreter"), "{error}");
}

#[tokio::test]
async fn a_run_that_is_stopped_before_its_start_starts_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    // A program that ends by itself may have ended before the stop is looked at.
    let script = "touch \"$0\"; exec sleep 60";
    let process = spawn(ProcessSpec::new("sh", ["-c", script, &trace.to_string_lossy()]));
    process.stop(StopReason::Aborted);
    let outcome = process.outcome().await;
    assert_eq!(outcome.error.as_ref().expect("an error").code().as_str(), "PROCESS_ABORTED");
    // It may have been started by a hair; then it has a result, and it was stopped.
    assert!(outcome.result.is_some() || !trace.exists());
}

#[tokio::test]
async fn the_environment_is_what_was_asked_for() {
    let mut spec = ProcessSpec::new("/usr/bin/env", [""; 0]);
    spec.environment.base =
        EnvironmentBase::Variables(vec![("A".into(), "1".into()), ("B".into(), "2".into())]);
    spec.environment.changes = vec![("B".into(), None), ("C".into(), Some("3 = x".into()))];
    let printed = result_of(spec).await.stdout;
    let mut lines: Vec<&str> = printed.lines().filter(|line| !line.starts_with("SHEEPDOG_RUN=")).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["A=1", "C=3 = x"]);
}

#[tokio::test]
async fn stdin_is_null_by_default() {
    let result = result_of(shell("cat; readlink /proc/self/fd/0")).await;
    assert_eq!(result.stdout, "/dev/null\n");
}

#[tokio::test]
async fn a_thousand_runs_at_once_all_end() {
    let runs: Vec<_> = (0..1000)
        .map(|number| {
            let mut spec = shell(&format!("cat; echo {number}"));
            spec.input = Input::Bytes("in ".into());
            spawn(spec)
        })
        .collect();
    for (number, run) in runs.into_iter().enumerate() {
        let outcome = run.outcome().await;
        let result = outcome.result.as_ref().unwrap_or_else(|| panic!("{:?}", outcome.error));
        assert_eq!((result.stdout.as_str(), result.exit_code), (format!("in {number}\n").as_str(), Some(0)));
    }
}

#[tokio::test]
async fn a_binary_of_another_machine_is_no_script() {
    let folder = tempfile::tempdir().expect("a folder");
    let binaries: [(&str, &[u8]); 3] = [
        ("elf", b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x15\x00\x01\x00\x00\x00"),
        ("pe", b"MZ\x90\x00\x03\x00\x00\x00\necho executed\n"),
        ("mach", b"\xcf\xfa\xed\xfe\x07\x00\x00\x01\x03\x00\x00\x00"),
    ];
    let made = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        fs::write(&file, bytes).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("permissions");
        file.display().to_string()
    };
    for containment in [Containment::Auto, Containment::Group] {
        for (name, bytes) in binaries {
            let spec = ProcessSpec { containment, ..ProcessSpec::new(made(name, bytes), [""; 0]) };
            let outcome = outcome_of(spec).await;
            let error = outcome.error.as_ref().expect("an error");
            assert_eq!(error.code().as_str(), "PROCESS_NOT_EXECUTABLE", "{name} {containment:?}");
            assert!(
                error.message().contains("neither a program for this kind of machine nor a script"),
                "{error}"
            );
        }
        let script = made("script", b"echo ran $1\n\0\0\x7fELF");
        let spec = ProcessSpec { containment, ..ProcessSpec::new(script, ["here"]) };
        assert!(result_of(spec).await.stdout.starts_with("ran here"), "{containment:?}");
    }
}
