//! Programs in a terminal of their own.
#![cfg(target_os = "linux")]

use super::{assert_all_dead, failure_of, pids_in, result_of, shell};
use ground::error::ErrorCode;
use process::{ChunkReader, Containment, Input, ProcessSpec, Stdio, StopReason, Stream, TerminalSize, spawn};
use std::time::Duration;

fn in_terminal(script: &str) -> ProcessSpec {
    ProcessSpec {
        stdio: Stdio::Terminal(TerminalSize::default()),
        idle_timeout: Some(Duration::from_secs(20)),
        ..shell(script)
    }
}

/// The next output on the screen. stderr is no pipe in a terminal; only its end is reported.
async fn shown(chunks: &mut ChunkReader) -> String {
    loop {
        let (stream, bytes) = chunks.next().await.expect("something to see");
        if stream == Stream::Stdout {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
    }
}

#[tokio::test]
async fn all_three_are_a_terminal_of_this_size_and_the_programs_own() {
    let mut spec =
        in_terminal("[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size; : > /dev/tty && echo own; echo err >&2");
    spec.stdio = Stdio::Terminal(TerminalSize { columns: 101, rows: 17 });
    let result = result_of(spec).await;
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("17 101\r\nown\r\nerr\r\n", ""));
    assert_eq!(result.exit_code, Some(0));
}

#[tokio::test]
async fn all_that_is_shown_before_an_exit_is_read() {
    let result = result_of(in_terminal("seq 1 20000")).await;
    assert_eq!(result.stdout.lines().count(), 20_000);
    assert!(result.stdout.ends_with("20000\r\n"));
    assert!(!result.pipes_held_open);
}

#[tokio::test]
async fn without_input_a_program_reads_its_end_as_often_as_it_asks() {
    let result = result_of(in_terminal("cat; cat; cat; echo done")).await;
    assert_eq!(result.stdout, "done\r\n");
}

#[tokio::test]
async fn a_program_that_throws_away_what_was_typed_before_it_asked_is_told_again() {
    // Programs that ask for a password do this.
    let script = "import sys, termios; termios.tcflush(0, termios.TCIFLUSH); print(repr(sys.stdin.read()))";
    let spec = ProcessSpec { ..in_terminal("") };
    let spec = ProcessSpec { command: "python3".into(), args: vec!["-c".into(), script.into()], ..spec };
    assert_eq!(result_of(spec).await.stdout, "''\r\n");
}

#[tokio::test]
async fn input_is_typed_and_ended_also_in_the_middle_of_a_line() {
    for (text, read) in [("one\ntwo\n", "one two "), ("one\ntwo", "one two")] {
        let mut spec = in_terminal("stty -echo; echo ready; cat | tr '\n' ' '");
        spec.input = Input::Pipe;
        let process = spawn(spec);
        let stdin = process.take_stdin().expect("a writer");
        let mut chunks = process.chunks();
        shown(&mut chunks).await;
        assert!(stdin.deliver(text.into()).await);
        drop(stdin);
        let outcome = process.outcome().await;
        let result = outcome.result.as_ref().expect("a result");
        assert_eq!(result.stdout, format!("ready\r\n{read}"), "{:?}", outcome.error);
    }
}

#[tokio::test]
async fn much_input_waits_for_its_reader() {
    let mut spec = in_terminal("stty -echo; sleep 0.1; wc -c");
    let line = format!("{}\n", "x".repeat(99));
    spec.input = Input::Bytes(line.repeat(5000).into());
    let result = result_of(spec).await;
    assert!(result.stdout.ends_with("500000\r\n"), "{}", result.stdout.len());
}

#[tokio::test]
async fn a_new_size_is_told_to_the_program() {
    let script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done";
    let process = spawn(in_terminal(script));
    let mut chunks = process.chunks();
    shown(&mut chunks).await;
    process.resize(TerminalSize { columns: 40, rows: 10 });
    assert_eq!(process.outcome().await.result.as_ref().expect("a result").stdout, "ready\r\n10 40\r\n");
}

#[tokio::test]
async fn a_program_that_lets_go_of_its_terminal_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("said");
    let script =
        format!("exec </dev/null >/dev/null 2>&1; sleep 0.3; echo alive > {}; exit 4", file.display());
    assert_eq!(result_of(in_terminal(&script)).await.exit_code, Some(4));
    assert_eq!(std::fs::read_to_string(file).expect("a word"), "alive\n");
}

#[tokio::test]
async fn what_is_shown_after_a_time_without_an_open_terminal_is_read() {
    let script = "exec < /dev/null > /dev/null 2>&1; sleep .5; seq 1 3000 > /dev/tty; sleep .5; exit 4";
    for containment in [Containment::Auto, Containment::Group] {
        let result = result_of(ProcessSpec { containment, ..in_terminal(script) }).await;
        assert_eq!((result.stdout.lines().count(), result.exit_code), (3000, Some(4)), "{containment:?}");
        assert!(result.stdout.ends_with("3000\r\n"));
    }
}

#[tokio::test]
async fn a_tree_in_a_terminal_ends_as_any_other() {
    for containment in [Containment::Auto, Containment::Strict, Containment::Group] {
        let script = "trap '' HUP TERM INT; setsid sh -c 'trap \"\" HUP TERM; echo $$; sleep 60' & echo $$; sleep 60 & wait";
        let mut spec = ProcessSpec { containment, ..in_terminal(script) };
        spec.kill_grace = Duration::from_millis(200);
        let process = spawn(spec);
        if process.started().await.is_err_and(|error| error.code() == ErrorCode::ContainmentUnavailable) {
            continue;
        }
        let mut chunks = process.chunks();
        let mut pids = String::new();
        while pids.lines().count() < 2 || !pids.ends_with('\n') {
            pids.push_str(&shown(&mut chunks).await);
        }
        process.stop(StopReason::Killed);
        let outcome = process.outcome().await;
        let code = outcome.error.as_ref().map(|error| error.code().as_str());
        assert_eq!(code, Some("PROCESS_KILLED"));
        if containment != Containment::Strict {
            assert_all_dead(&pids_in(&pids));
        }
    }
}

#[tokio::test]
async fn a_stray_in_a_terminal_is_killed() {
    let result =
        result_of(in_terminal("trap '' HUP; (trap '' HUP; setsid sleep 60) & sleep 0.2; echo $!")).await;
    assert_all_dead(&pids_in(&result.stdout));
    assert!(result.strays_killed >= 1, "{result:?}");
}

#[tokio::test]
async fn a_terminal_that_shows_every_key_shows_no_end_of_input() {
    // It would be a sign of life, for ever. What was typed before the program asked for that, and which the system hands on only
    // after it, is shown once.
    let mut spec = in_terminal("stty -icanon echo; echo ready; sleep 60");
    spec.idle_timeout = Some(Duration::from_millis(1500));
    let (code, result) = failure_of(spec).await;
    let stdout = result.expect("a partial result").stdout;
    assert_eq!((code, stdout.replace("^D", "").as_str()), ("PROCESS_IDLE", "ready\r\n"));
    assert!(stdout.matches("^D").count() <= 1, "{stdout:?}");
}

#[tokio::test]
async fn silence_in_a_terminal_is_silence() {
    let mut spec = in_terminal("sleep 60");
    spec.idle_timeout = Some(Duration::from_millis(300));
    let (code, result) = failure_of(spec).await;
    assert_eq!((code, result.expect("a partial result").stdout.as_str()), ("PROCESS_IDLE", ""));
}

#[tokio::test]
async fn at_group_level_it_is_one_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = std::env::current_dir().expect("a folder");
    for cwd in [own.as_path(), folder.path()] {
        let mut spec = in_terminal("[ -t 0 ] && stty size; : > /dev/tty && pwd; cat; echo \"$0\"; exit 3");
        spec.containment = Containment::Group;
        spec.cwd = Some(cwd.to_path_buf());
        let result = result_of(spec).await;
        assert!(result.stdout.starts_with(&format!("24 80\r\n{}\r\n", cwd.display())), "{result:?}");
        assert!(result.stdout.ends_with("\r\nsh\r\n"), "{result:?}");
        assert_eq!(result.exit_code, Some(3));
    }
    let mut spec = in_terminal("trap '' HUP; sleep 60 & echo $!; exit 0");
    spec.containment = Containment::Group;
    assert_all_dead(&pids_in(&result_of(spec).await.stdout));
}
