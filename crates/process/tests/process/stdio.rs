//! The program's three standard descriptors, and the form of its output.

use super::{failure_of, is_alive, outcome_of, pids_in, rest_of, result_of, shell};
use process::{Admission, Containment, Encoding, Input, ProcessSpec, Stdio, Stream, spawn, spawn_after};
use std::time::Duration;

#[tokio::test]
async fn bytes_are_given_as_they_came() {
    let mut spec = shell(r"printf 'a\377\000b'; printf '\200' >&2");
    spec.encoding = Encoding::Bytes;
    let result = result_of(spec).await;
    assert_eq!(result.raw, [Some(b"a\xff\0b".to_vec()), Some(b"\x80".to_vec())]);
    assert_eq!((result.stdout.as_str(), result.stdout_bytes), ("", 4));
}

#[tokio::test]
async fn bytes_are_cut_as_text_is() {
    let spec = ProcessSpec { max_output_bytes: 20, ..shell("printf 'aaaa\nbbbb\ncccc\ndddd\neeee\nffff\n'") };
    let text = result_of(spec.clone()).await.stdout;
    let result = result_of(ProcessSpec { encoding: Encoding::Bytes, ..spec }).await;
    assert!(result.truncated);
    assert_eq!(result.bytes_of(Stream::Stdout), text.as_bytes());
}

#[tokio::test]
async fn a_reader_that_comes_after_the_end_gets_the_bytes_too() {
    let process = spawn(shell(r"printf 'a\377b'"));
    process.outcome().await;
    let (stream, bytes) = process.chunks().next().await.expect("what was kept");
    assert_eq!((stream, &bytes[..]), (Stream::Stdout, &b"a\xffb"[..]));
}

#[tokio::test]
async fn with_the_hosts_own_descriptors_nothing_is_kept_and_silence_means_nothing() {
    for containment in [Containment::Auto, Containment::Group] {
        let mut spec = shell("sleep 0.4; exit 3");
        spec.containment = containment;
        spec.stdio = Stdio::Inherit;
        spec.idle_timeout = Some(Duration::from_millis(100));
        let result = result_of(spec).await;
        assert_eq!((result.exit_code, result.stdout_bytes, result.first_output_ms), (Some(3), 0, None));
    }
}

/// Not a test by itself: a host whose own three are pipes of the test below.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn as_wired_host() {
    let mut spec = shell("cat; echo err >&2; readlink /proc/$$/fd/1; [ -t 1 ] || exit 5");
    spec.stdio = Stdio::Inherit;
    assert_eq!(result_of(spec).await.exit_code, Some(5));
    let mut spec = shell("cat");
    spec.input = Input::Inherit;
    assert_eq!(result_of(spec).await.stdout, "");
}

#[test]
fn the_hosts_own_descriptors_are_the_programs() {
    use std::io::Write;
    let mut host = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "stdio::as_wired_host", "--nocapture"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("a host");
    host.stdin.take().expect("a pipe").write_all(b"typed\n").expect("written");
    let output = host.wait_with_output().expect("an end");
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("typed\npipe:["), "{stdout}");
    assert!(stderr.contains("err\n"), "{stderr}");
}

/// Not a test by itself: a host in a terminal of the test below.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn as_host_in_a_terminal() {
    for containment in [Containment::Auto, Containment::Group] {
        let mut spec = shell("read -r word && echo \"read $word\"");
        spec.containment = containment;
        spec.stdio = Stdio::Inherit;
        spec.timeout = Some(Duration::from_secs(10));
        assert_eq!(result_of(spec).await.exit_code, Some(0));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_hosts_terminal_lets_a_program_read() {
    let program = std::env::current_exe().expect("this program");
    let arguments = ["--ignored", "--exact", "stdio::as_host_in_a_terminal", "--nocapture"];
    let mut spec = ProcessSpec::new(program.to_string_lossy(), arguments);
    spec.stdio = Stdio::Terminal(process::TerminalSize::default());
    spec.input = Input::Bytes("one\ntwo\n".into());
    let result = result_of(spec).await;
    assert_eq!(result.exit_code, Some(0), "{}", result.stdout);
    assert!(result.stdout.contains("read one") && result.stdout.contains("read two"), "{}", result.stdout);
}

#[tokio::test]
async fn what_can_not_be_had_together_is_refused() {
    let mut spec = shell("exit 0");
    spec.stdio = Stdio::Inherit;
    spec.input = Input::Bytes("x".into());
    let (code, result) = failure_of(spec).await;
    assert_eq!((code, result.is_none()), ("INVALID_OPTION", true));
}

#[tokio::test]
async fn a_silence_without_a_word_names_its_likely_cause() {
    let quiet =
        |script: &str| ProcessSpec { idle_timeout: Some(Duration::from_millis(200)), ..shell(script) };
    let message = |outcome: std::sync::Arc<process::Outcome>| {
        outcome.error.as_ref().expect("an error").message().to_owned()
    };
    let silent = message(outcome_of(quiet("sleep 60")).await);
    assert!(silent.contains("`pty: true`") && silent.contains("PYTHONUNBUFFERED=1"), "{silent}");
    let talkative = message(outcome_of(quiet("echo x; sleep 60")).await);
    assert!(!talkative.contains("pty"), "{talkative}");
}

#[tokio::test]
async fn a_run_starts_when_it_is_admitted_and_holds_that_to_its_end() {
    let (admit, admitted) = tokio::sync::oneshot::channel::<()>();
    let (held, hears) = tokio::sync::oneshot::channel::<()>();
    let mut spec = shell("echo $$; sleep 0.3");
    // The clocks start with the program.
    spec.timeout = Some(Duration::from_secs(20));
    let process = spawn_after(
        spec,
        Admission::after(async move {
            let _ = admitted.await;
            held
        }),
    );
    let early = tokio::time::timeout(Duration::from_millis(50), process.started()).await;
    assert!(early.is_err());
    admit.send(()).expect("somebody waits");
    let mut chunks = process.chunks();
    assert!(hears.await.is_err(), "it is dropped");
    let pids = pids_in(&rest_of(&mut chunks).await[0]);
    assert!(!is_alive(pids[0]));
    assert!(process.outcome().await.error.is_none());
}

#[tokio::test]
async fn a_stop_while_a_run_waits_to_be_admitted_is_told_at_once() {
    let process = spawn_after(shell("exit 0"), Admission::after(std::future::pending::<()>()));
    process.stop(process::StopReason::Aborted);
    let outcome = process.outcome().await;
    assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_ABORTED"));
    assert!(outcome.result.is_none());
}
