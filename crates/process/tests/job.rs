//! Runs on Windows: the program is this test's own binary, in a role that a variable names.
#![cfg(windows)]
#![expect(clippy::expect_used, reason = "a panic is a test's report, in its helpers too")]
#![expect(clippy::print_stdout, reason = "the roles are programs")]

use ground::os::start_time;
use process::{ContainmentLevel, Input, Outcome, ProcessSpec, StopReason, spawn};
use std::io::{Read, Write};
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROLE: &str = "SHEEPDOG_TEST_ROLE";
/// Away from console and group of its parent.
const DETACHED: u32 = 0x8 | 0x200;
const LONG: Duration = Duration::from_secs(60);

/// This binary in a role.
fn program(role: &str) -> ProcessSpec {
    let own = std::env::current_exe().expect("a path").to_string_lossy().into_owned();
    let mut spec = ProcessSpec::new(own, ["--exact", "plays_its_role", "--nocapture", "--quiet"]);
    spec.environment.changes.push((ROLE.to_owned(), Some(role.to_owned())));
    spec
}

fn plain(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", "plays_its_role", "--nocapture", "--quiet"]).env(ROLE, role);
    command
}

/// Not a test: what the programs of the tests do.
#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "speaker" => {
            println!("spoken");
            eprintln!("complained");
            std::process::exit(3);
        }
        "reader" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).expect("an input");
            println!("read {}", text.len());
        }
        "sleeper" => std::thread::sleep(LONG),
        // Leaves a grandchild that has no console, no group and no pipe of it.
        "parent" | "patient parent" => {
            let child = plain("sleeper")
                .creation_flags(DETACHED)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a grandchild");
            println!("pid {} {}", std::process::id(), child.id());
            std::io::stdout().flush().expect("told");
            if role == "patient parent" {
                std::thread::sleep(LONG);
            }
        }
        "host" => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let process = spawn(program("patient parent"));
                let mut chunks = process.chunks();
                while let Some((_, bytes)) = chunks.next().await {
                    std::io::stdout().write_all(&bytes).expect("told");
                    std::io::stdout().flush().expect("told");
                }
            });
        }
        other => panic!("no such role: {other}"),
    }
}

async fn outcome_of(spec: ProcessSpec) -> Arc<Outcome> {
    tokio::time::timeout(LONG, spawn(spec).outcome()).await.expect("an end")
}

fn is_alive(pid: i32) -> bool {
    start_time(pid).is_some()
}

/// The processes that a parent told of.
fn pids_in(text: &str) -> Option<[i32; 2]> {
    let line = text.lines().find_map(|line| Some(line.split_once("pid ")?.1))?;
    let mut pids = line.split_whitespace().map(|pid| pid.parse().expect("a pid"));
    Some([pids.next()?, pids.next()?])
}

fn until_dead(pids: &[i32]) {
    let begun = Instant::now();
    while pids.iter().any(|pid| is_alive(*pid)) {
        assert!(begun.elapsed() < Duration::from_secs(20), "alive: {pids:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn a_program_is_run_in_a_job() {
    let outcome = outcome_of(program("speaker")).await;
    let result = outcome.result.clone().expect("a result");
    assert!(result.stdout.contains("spoken"), "{result:?}");
    assert!(result.stderr.contains("complained"), "{result:?}");
    assert_eq!((result.exit_code, result.containment), (Some(3), ContainmentLevel::Job));
}

#[tokio::test]
async fn an_input_is_read_to_its_end() {
    let mut spec = program("reader");
    spec.input = Input::Bytes(vec![b'x'; 1 << 20].into());
    let result = outcome_of(spec).await.result.clone().expect("a result");
    assert!(result.stdout.contains("read 1048576"), "{result:?}");
}

#[tokio::test]
async fn a_detached_grandchild_ends_with_its_run() {
    let result = outcome_of(program("parent")).await.result.clone().expect("a result");
    let [_, grandchild] = pids_in(&result.stdout).expect("pids");
    assert_eq!((result.strays_killed, is_alive(grandchild)), (1, false), "{result:?}");
}

#[tokio::test]
async fn a_silent_program_is_killed_with_its_tree() {
    let mut spec = program("patient parent");
    spec.idle_timeout = Some(Duration::from_secs(3));
    let outcome = outcome_of(spec).await;
    assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_IDLE"));
    let pids = pids_in(&outcome.result.clone().expect("a result").stdout).expect("pids");
    assert_eq!(pids.map(is_alive), [false, false]);
}

#[tokio::test]
async fn a_run_is_aborted() {
    let process = spawn(program("sleeper"));
    process.started().await.expect("started");
    process.stop(StopReason::Aborted);
    let outcome = tokio::time::timeout(LONG, process.outcome()).await.expect("an end");
    assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_ABORTED"));
}

#[test]
fn nothing_survives_a_host_that_is_terminated() {
    let mut host = plain("host").stdout(Stdio::piped()).spawn().expect("a host");
    let mut text = String::new();
    let mut output = host.stdout.take().expect("a pipe");
    let mut buffer = [0; 4096];
    let pids = loop {
        let length = output.read(&mut buffer).expect("the parent's words");
        assert!(length > 0, "the host ended early: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        // A whole line.
        if let Some((lines, _)) = text.rsplit_once('\n')
            && let Some(pids) = pids_in(lines)
        {
            break pids;
        }
    };
    assert_eq!(pids.map(is_alive), [true, true]);
    // TerminateProcess: no code of the host runs any more.
    host.kill().expect("terminated");
    until_dead(&pids);
}

#[tokio::test]
async fn a_missing_program_is_told() {
    let outcome = outcome_of(ProcessSpec::new("no-such-program", ["x"])).await;
    assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_NOT_FOUND"));
}

#[tokio::test]
async fn a_batch_file_gets_its_arguments_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("with space");
    std::fs::create_dir(&place).expect("a folder");
    std::fs::write(place.join("shim.cmd"), "@echo [%1] [%2]\r\n").expect("a file");
    let shim = place.join("shim");
    let result = outcome_of(ProcessSpec::new(text_of(&shim), ["a b", "c&d"])).await.result.clone();
    assert_eq!(result.expect("a result").stdout.trim(), "[\"a b\"] [\"c&d\"]");
}

fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
