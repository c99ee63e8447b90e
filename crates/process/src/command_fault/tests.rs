use super::*;
use crate::spec::ProcessSpec;
use ground::os::HostFolder;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

fn command(program: &Path) -> ResolvedCommand {
    ResolvedCommand {
        program: program.to_owned(),
        argv: vec!["tool".into()],
        environment: Vec::new(),
        cwd: None,
        folder: HostFolder::default(),
        mark: String::new(),
        input: None,
    }
}

fn executable(folder: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    let file = folder.join(name);
    fs::write(&file, text)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    Ok(file)
}

/// Every errno that Linux has.
const ERRNOS: std::ops::RangeInclusive<i32> = 1..=133;

#[test]
fn whatever_the_system_answers_the_message_names_the_call_the_file_and_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let program = executable(folder.path(), "tool", "#!/bin/sh\n").unwrap();
    let calls = [
        "execve",
        "posix_spawn",
        "chdir",
        "stat",
        "access",
        "pipe2",
        "open",
        "clone",
        "mmap",
        "ioctl(TIOCSCTTY)",
    ];
    for errno in ERRNOS {
        for call in calls {
            let fault = Fault::of_errno(call, Some(&program), errno);
            let too_long = refusal_of(errno) == Refusal::TooLong;
            let missing = refusal_of(errno) == Refusal::Missing;
            let errors = [
                // Arguments that are too long are no matter of a file.
                (!too_long).then(|| spawn_error(&command(&program), &fault)),
                Some(start_refused("tool", &fault)),
                Some(program_refused("tool", &fault)),
                // A folder that is there is told as no folder.
                (!missing).then(|| cwd_refused(folder.path(), &program, &fault)),
            ];
            for error in errors.into_iter().flatten() {
                let case = format!("{call} {errno}: {}", error.message());
                assert!(error.message().contains(&fault.to_string()), "{case}");
                let is_told = error.facts().get("errno").is_some_and(|told| told == errno);
                assert!(is_told || error.code() != ErrorCode::ProcessSpawnFailed, "{case}");
                // "does not exist" is never said of what was not looked for in vain.
                assert!(!error.message().contains("does not exist"), "{case}");
            }
        }
    }
}

#[test]
fn a_cause_is_named_only_when_it_was_seen() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("data"), "x").unwrap();
    executable(folder.path(), "lost", "#!/no/such/interpreter -x\n").unwrap();
    executable(folder.path(), "denied", &format!("#!{}\n", at("data").display())).unwrap();
    executable(folder.path(), "plain", "\u{7f}ELF").unwrap();
    let message = |name: &str, errno: i32| {
        let fault = Fault::of_errno("execve", Some(&at(name)), errno);
        let error = spawn_error(&command(&at(name)), &fault);
        (error.code().as_str(), error.message().to_owned())
    };
    for (name, errno, code, words) in [
        (
            "lost",
            2,
            "PROCESS_NOT_FOUND",
            "the interpreter in its first line, /no/such/interpreter, is missing",
        ),
        ("plain", 2, "PROCESS_NOT_FOUND", "the loader that it names is missing"),
        ("gone", 2, "PROCESS_NOT_FOUND", "gone does not exist"),
        ("data/below", 20, "PROCESS_NOT_FOUND", "below does not exist"),
        ("denied", 13, "PROCESS_NOT_EXECUTABLE", "data, may not be executed"),
        ("data", 13, "PROCESS_NOT_EXECUTABLE", "data has no execute permission"),
        ("", 13, "PROCESS_NOT_EXECUTABLE", "is a directory"),
        ("plain", 13, "PROCESS_NOT_EXECUTABLE", "a security module forbids it"),
        ("plain", 8, "PROCESS_NOT_EXECUTABLE", "neither a program for this kind of machine nor a script"),
        ("plain", 26, "PROCESS_SPAWN_FAILED", "execve "),
    ] {
        let (found, message) = message(name, errno);
        assert!(found == code && message.contains(words), "{name} {errno}: {found}: {message}");
    }
}

#[test]
fn a_program_that_can_not_be_looked_at_is_not_told_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    symlink("loop", folder.path().join("loop")).unwrap();
    let long = "x".repeat(300);
    for (path, code, words) in [
        ("./loop", "PROCESS_SPAWN_FAILED", "stat "),
        (&format!("./{long}"), "PROCESS_SPAWN_FAILED", "File name too long"),
        ("./loop/below", "PROCESS_SPAWN_FAILED", "Too many levels of symbolic links"),
        ("./none", "PROCESS_NOT_FOUND", "none does not exist"),
    ] {
        let mut spec = ProcessSpec::new(path, [""; 0]);
        spec.cwd = Some(folder.path().to_owned());
        let error = crate::command::resolve(&spec, String::new()).unwrap_err();
        assert_eq!(error.code().as_str(), code, "{path}: {error}");
        assert!(error.message().contains(words), "{path}: {error}");
    }
    let mut spec = ProcessSpec::new("sh", [""; 0]);
    spec.cwd = Some(folder.path().join("loop"));
    let error = crate::command::resolve(&spec, String::new()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ProcessSpawnFailed);
    assert!(error.message().contains("Too many levels of symbolic links"), "{error}");
}
