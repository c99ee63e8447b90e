//! Everyday options: failures as errors, trimmed output, programs of the project, output that is shown as it comes.

use super::{failure_of, outcome_of, result_of, shell};
use process::{Echo, EchoTarget, Encoding, ProcessSpec, Stdio, Stream, TerminalSize, spawn};
use std::fs::File;
use std::io::{Read, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_failure_is_an_error_for_those_who_want_one() {
    for (script, code, signal) in
        [("echo out; exit 3", Some(3), None), ("echo out; kill -TERM $$", None, Some("SIGTERM"))]
    {
        let outcome = outcome_of(ProcessSpec { reject: true, ..shell(script) }).await;
        let (error, result) =
            (outcome.error.as_ref().expect("an error"), outcome.result.as_ref().expect("a result"));
        assert_eq!(error.code().as_str(), "PROCESS_FAILED");
        assert_eq!(error.facts().get("exitCode").and_then(serde_json::Value::as_i64), code);
        assert_eq!(error.facts().get("signal").and_then(serde_json::Value::as_str), signal);
        assert_eq!((result.stdout.as_str(), result.is_ok()), ("out\n", false));
    }
    assert!(result_of(ProcessSpec { reject: true, ..shell("exit 0") }).await.is_ok());
    assert!(!result_of(shell("exit 3")).await.is_ok());
}

#[tokio::test]
async fn a_stop_keeps_its_own_reason() {
    let spec =
        ProcessSpec { reject: true, idle_timeout: Some(Duration::from_millis(100)), ..shell("sleep 60") };
    assert_eq!(failure_of(spec).await.0, "PROCESS_IDLE");
}

#[tokio::test]
async fn the_last_line_end_alone_is_trimmed_and_late_readers_get_it() {
    let spec = ProcessSpec { trim: true, ..shell(r"printf 'a\n\n'; printf 'b' >&2") };
    let process = spawn(spec.clone());
    let outcome = process.outcome().await;
    let result = outcome.result.as_ref().expect("a result");
    assert_eq!((result.shown_text(Stream::Stdout), result.shown_text(Stream::Stderr)), ("a\n", "b"));
    assert_eq!(process.chunks().next().await.expect("what was kept").1, "a\n\n");
    let bytes = result_of(ProcessSpec { encoding: Encoding::Bytes, ..spec }).await;
    assert_eq!(bytes.shown_bytes(Stream::Stdout), b"a\n");
    let mut spec = ProcessSpec { trim: true, ..shell("echo a") };
    spec.stdio = Stdio::Terminal(TerminalSize::default());
    assert_eq!(result_of(spec).await.shown_text(Stream::Stdout), "a");
}

#[tokio::test]
async fn programs_of_the_project_come_before_those_of_the_path() {
    let project = tempfile::tempdir().expect("a folder");
    let (bins, inner) = (project.path().join("node_modules/.bin"), project.path().join("packages/one"));
    std::fs::create_dir_all(&bins).expect("a folder");
    std::fs::create_dir_all(&inner).expect("a folder");
    for (name, text) in [("ls", "#!/bin/sh\necho local ls; tool"), ("tool", "#!/bin/sh\necho tool")] {
        std::fs::write(bins.join(name), text).expect("written");
        std::fs::set_permissions(bins.join(name), std::fs::Permissions::from_mode(0o755))
            .expect("executable");
    }
    let spec = |folder: &str| ProcessSpec {
        prefer_local: Some(folder.into()),
        cwd: Some(inner.clone()),
        ..ProcessSpec::new("ls", [""; 0])
    };
    for folder in ["", "../..", &project.path().to_string_lossy()] {
        assert_eq!(result_of(spec(folder)).await.stdout, "local ls\ntool\n", "{folder}");
    }
    assert_eq!(result_of(ProcessSpec { prefer_local: None, ..spec("") }).await.stdout, "");
}

/// A screen, and its reader.
fn screen() -> (Option<EchoTarget>, File) {
    let (reader, writer) = pipe().expect("a pipe");
    let (reader, writer) = (File::from(OwnedFd::from(reader)), File::from(OwnedFd::from(writer)));
    (Some(EchoTarget::File(Arc::new(writer))), reader)
}

fn rest_of(mut reader: File) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    text
}

#[tokio::test]
async fn output_is_shown_as_it_comes_and_kept() {
    let ((stdout, mut shown), (stderr, shown_err)) = (screen(), screen());
    let mut spec = ProcessSpec {
        echo: Some(Echo { stdout, stderr, patience: Echo::PATIENCE }),
        input: process::Input::Pipe,
        ..shell(r"printf '\033[32mgo\033[0m? '; read -r word; echo $word; echo no >&2")
    };
    spec.idle_timeout = Some(Duration::from_secs(60));
    let process = spawn(spec);
    let mut first = [0; 13];
    // Without a line end, while the program waits.
    let (shown, read) = tokio::task::spawn_blocking(move || {
        let read = shown.read_exact(&mut first).map(|()| first);
        (shown, read)
    })
    .await
    .expect("a thread");
    assert_eq!(&read.expect("shown"), b"\x1b[32mgo\x1b[0m? ");
    process.take_stdin().expect("a stdin").deliver("yes\n".into()).await;
    let outcome = process.outcome().await;
    let result = outcome.result.as_ref().expect("a result");
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("\x1b[32mgo\x1b[0m? yes\n", "no\n"));
    drop(process);
    assert_eq!((rest_of(shown), rest_of(shown_err)), ("yes\n".to_owned(), "no\n".to_owned()));
}

#[tokio::test]
async fn only_the_stream_that_was_asked_for_is_shown() {
    let (stderr, shown) = screen();
    let spec = ProcessSpec {
        echo: Some(Echo { stdout: None, stderr, patience: Echo::PATIENCE }),
        ..shell("echo out; echo err >&2")
    };
    assert_eq!(result_of(spec).await.stdout, "out\n");
    assert_eq!(rest_of(shown), "err\n");
}

#[tokio::test]
async fn a_screen_that_is_gone_does_not_touch_the_run() {
    let (stdout, shown) = screen();
    drop(shown);
    let spec = ProcessSpec {
        echo: Some(Echo { stdout, stderr: None, patience: Echo::PATIENCE }),
        ..shell("head -c 3000000 /dev/zero; echo done >&2")
    };
    let begun = Instant::now();
    let result = result_of(spec).await;
    assert_eq!((result.stdout_bytes, result.stderr.as_str()), (3_000_000, "done\n"));
    super::assert_within(begun, super::LONG_BEFORE_IT_ENDS);
}

#[tokio::test]
async fn a_screen_that_takes_nothing_slows_the_program_and_is_then_given_up() {
    let ((stdout, _blocked), (stderr, shown_err)) = (screen(), screen());
    let patience = Duration::from_millis(300);
    let mut spec = ProcessSpec {
        echo: Some(Echo { stdout, stderr, patience }),
        ..shell("head -c 3000000 /dev/zero; echo done >&2")
    };
    // Waiting for the screen is no silence.
    spec.idle_timeout = Some(Duration::from_millis(100));
    let result = result_of(spec).await;
    assert_eq!((result.stdout_bytes, result.exit_code), (3_000_000, Some(0)));
    assert!(result.duration_ms >= 300.0, "{}", result.duration_ms);
    assert_eq!(rest_of(shown_err), "done\n");
}

#[tokio::test]
async fn a_slow_screen_gets_everything() {
    let (stdout, mut shown) = screen();
    let spec = ProcessSpec {
        echo: Some(Echo { stdout, stderr: None, patience: Echo::PATIENCE }),
        ..shell("head -c 2000000 /dev/zero")
    };
    let reading = tokio::task::spawn_blocking(move || {
        let (mut total, mut buffer) = (0, vec![0; 100_000]);
        loop {
            match shown.read(&mut buffer).expect("readable") {
                0 => return total,
                read => total += read,
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    assert_eq!(result_of(spec).await.stdout_bytes, 2_000_000);
    assert_eq!(reading.await.expect("a thread"), 2_000_000);
}

#[tokio::test]
async fn output_that_the_host_shows_anyway_is_not_echoed() {
    let mut spec = ProcessSpec { echo: Some(Echo::to_host(&Stream::BOTH)), ..shell("exit 0") };
    spec.stdio = Stdio::Inherit;
    let (code, _) = failure_of(spec).await;
    assert_eq!(code, "INVALID_OPTION");
}
