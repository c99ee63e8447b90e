//! The guard with real processes.

use super::*;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Programs here sleep for a minute: what is not ended takes that long. A busy machine never does.
const LONG_BEFORE_IT_ENDS: Duration = Duration::from_secs(30);

fn strings<'a>(arguments: &[&'a str]) -> Vec<&'a OsStr> {
    arguments.iter().copied().map(OsStr::new).collect()
}

async fn start_sh(script: &str) -> GuardedProcess {
    let arguments = strings(&["sh", "-c", script]);
    started(launch(&spawn_of("/bin/sh", &arguments), piped(Source::Null)).unwrap()).await.unwrap()
}

async fn failure_of(spawn: &GuardedSpawn<'_>) -> (GuardStage, Errno) {
    let failure = started(launch(spawn, piped(Source::Null)).unwrap()).await.unwrap_err();
    (failure.stage, Errno::from_raw(failure.fault.errno))
}

/// Both events of a run that ends by itself or is ended.
async fn end(process: &mut GuardedProcess) -> (Exit, StrayCount) {
    let exited = process.lifeline.next().await;
    let GuardEvent::Exited(exit) = exited else { panic!("{exited:?}") };
    process.lifeline.kill();
    let gone = process.lifeline.next().await;
    let GuardEvent::Gone(count) = gone else { panic!("{gone:?}") };
    (exit, count)
}

/// Everything that the program, and whoever held its pipe, wrote.
fn output(process: GuardedProcess) -> String {
    let mut text = String::new();
    File::from(process.ends.stdout.unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Reads lines until `count` pids came.
fn read_pids(process: &GuardedProcess, count: usize) -> Vec<i32> {
    let stdout = File::from(process.ends.stdout.as_ref().unwrap().try_clone().unwrap());
    BufReader::new(stdout).lines().take(count).map(|line| line.unwrap().trim().parse().unwrap()).collect()
}

fn parent_of(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    after_name.split(' ').nth(1).unwrap().parse().unwrap()
}

fn is_alive(pid: i32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']),
        Err(_) => false,
    }
}

/// Waits for an event in another process; the time limit is for a machine under load.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(10), "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn exit_code(code: i32) -> i32 {
    code << 8
}

#[tokio::test]
async fn reports_output_status_and_usage() {
    let mut process = start_sh("echo hello; exit 3").await;
    let (exit, count) = end(&mut process).await;
    assert_eq!(exit.status, exit_code(3));
    assert!(exit.max_rss_bytes > 100_000, "{exit:?}");
    assert_eq!((count.strays_killed, count.left), (0, 0));
    assert_eq!(output(process), "hello\n");
}

#[tokio::test]
async fn passes_arguments_environment_and_folder_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder_path = folder.path().canonicalize().unwrap();
    let arguments = strings(&[
        "sh",
        "-c",
        "printf '%s|' \"$0\" \"$@\" \"$A\"; pwd; env | sort | tr '\\n' ' '",
        "x",
        "",
        "a b",
        "ü",
    ]);
    let environment =
        [(OsStr::new("A"), OsStr::new("b=c\nd")), (OsStr::new("PATH"), OsStr::new("/bin:/usr/bin"))];
    let spawn = GuardedSpawn {
        environment: &environment,
        cwd: Some(&folder_path),
        ..spawn_of("/bin/sh", &arguments)
    };
    let mut process = started(launch(&spawn, piped(Source::Null)).unwrap()).await.unwrap();
    end(&mut process).await;
    let text = output(process);
    let (head, variables) = text.split_once("|/").unwrap();
    assert_eq!(head, "x||a b|ü|b=c\nd");
    assert!(variables.starts_with(folder_path.to_str().unwrap().trim_start_matches('/')), "{variables}");
    assert!(!variables.contains("HOME="), "{variables}");
}

#[tokio::test]
async fn a_request_larger_than_the_sockets_buffer_arrives_whole() {
    let long = "x".repeat(100_000);
    let mut arguments = strings(&["sh", "-c", "for a; do echo ${#a}; done", "sh"]);
    arguments.extend(std::iter::repeat_n(OsStr::new(long.as_str()), 15));
    let mut process =
        started(launch(&spawn_of("/bin/sh", &arguments), piped(Source::Null)).unwrap()).await.unwrap();
    end(&mut process).await;
    assert_eq!(output(process), "100000\n".repeat(15));
}

#[tokio::test]
async fn stdin_is_a_pipe_or_at_its_end() {
    let arguments = strings(&["cat"]);
    let mut process =
        started(launch(&spawn_of("/bin/cat", &arguments), piped(Source::Pipe)).unwrap()).await.unwrap();
    File::from(process.ends.stdin.take().unwrap()).write_all(b"through").unwrap();
    end(&mut process).await;
    assert_eq!(output(process), "through");
    let mut process =
        started(launch(&spawn_of("/bin/cat", &arguments), piped(Source::Null)).unwrap()).await.unwrap();
    end(&mut process).await;
    assert_eq!(output(process), "");
}

#[tokio::test]
async fn says_at_which_step_a_program_could_not_be_started() {
    let folder = tempfile::tempdir().unwrap();
    let plain_file = folder.path().join("file");
    fs::write(&plain_file, "").unwrap();
    let missing_folder = folder.path().join("missing");
    let arguments = strings(&["x"]);
    let true_program = spawn_of("/bin/true", &arguments);

    assert_eq!(failure_of(&spawn_of("/nowhere/x", &arguments)).await, (GuardStage::Exec, Errno::ENOENT));
    assert_eq!(failure_of(&spawn_of("/tmp", &arguments)).await, (GuardStage::Exec, Errno::EACCES));
    let file = plain_file.to_str().unwrap();
    assert_eq!(failure_of(&spawn_of(file, &arguments)).await, (GuardStage::Exec, Errno::EACCES));
    let spawn = GuardedSpawn { cwd: Some(&missing_folder), ..true_program };
    assert_eq!(failure_of(&spawn).await, (GuardStage::Chdir, Errno::ENOENT));
    let spawn = GuardedSpawn { cwd: Some(&plain_file), ..true_program };
    assert_eq!(failure_of(&spawn).await, (GuardStage::Chdir, Errno::ENOTDIR));
    let huge = "x".repeat(200_000);
    let arguments = strings(&["true", &huge]);
    assert_eq!(failure_of(&spawn_of("/bin/true", &arguments)).await, (GuardStage::Exec, Errno::E2BIG));
    let arguments = strings(&["a\0b"]);
    let failure = launch(&spawn_of("/bin/true", &arguments), piped(Source::Null)).unwrap_err();
    assert_eq!(failure.stage, GuardStage::Nul);
}

#[tokio::test]
async fn a_script_that_names_no_interpreter_is_run_by_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "echo \"$0\" \"$1\"").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let arguments = strings(&["script", "one"]);
    let path = script.to_str().unwrap();
    let mut process =
        started(launch(&spawn_of(path, &arguments), piped(Source::Null)).unwrap()).await.unwrap();
    end(&mut process).await;
    assert_eq!(output(process), format!("{path} one\n"));
}

#[tokio::test]
async fn the_program_begins_with_default_signals_no_mask_and_only_its_three_descriptors() {
    // Open in this process without close-on-exec, as another addon's could be.
    let leaked = File::open("/dev/null").unwrap();
    nix::fcntl::fcntl(&leaked, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    let mut process = start_sh("exec cat /proc/self/status").await;
    end(&mut process).await;
    let text = output(process);
    for field in ["SigBlk", "SigIgn", "SigCgt"] {
        assert!(text.contains(&format!("{field}:\t0000000000000000\n")), "{text}");
    }
    let mut process =
        start_sh("for i in 0 1 2 3 4 5 9 10 11; do [ -e /proc/$$/fd/$i ] && printf '%s ' $i; done; :").await;
    end(&mut process).await;
    assert_eq!(output(process), "0 1 2 ");
    drop(leaked);
}

#[tokio::test]
async fn the_guards_hold_none_of_the_hosts_descriptors_nor_the_programs_pipes() {
    let leaked = File::open("/dev/zero").unwrap();
    nix::fcntl::fcntl(&leaked, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    let process = start_sh("echo $PPID; exec sleep 60").await;
    let inner = read_pids(&process, 1)[0];
    let outer = process.lifeline.guard_pid() as i32;
    assert_eq!(parent_of(inner), outer);
    for guard in [outer, inner] {
        let kinds = || -> Vec<String> {
            let entries = fs::read_dir(format!("/proc/{guard}/fd")).unwrap();
            let targets = entries.map(|entry| fs::read_link(entry.unwrap().path()).unwrap());
            let mut kinds: Vec<String> = targets
                .map(|target| target.to_str().unwrap().split(":[").next().unwrap().to_owned())
                .collect();
            kinds.sort();
            kinds
        };
        until("the guard has let go of the pipes", || !kinds().iter().any(|kind| kind == "pipe"));
        let list = format!("/proc/{guard}/task/{guard}/children");
        assert_eq!(kinds(), [&list, "anon_inode", "anon_inode", "anon_inode", "anon_inode", "socket"]);
    }
    drop(leaked);
}

#[tokio::test]
async fn the_program_keeps_the_hosts_niceness_and_its_turns() {
    let mut process = start_sh("cat /proc/self/stat; cat /proc/self/sched").await;
    end(&mut process).await;
    let nice = |stat: &str| stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().to_owned();
    let own = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let text = output(process);
    let (stat, sched) = text.split_once('\n').unwrap();
    assert_eq!(nice(stat), nice(&own));
    // Some kernels report the length of a scheduler slice. Then the program's is the common one.
    let turn = |sched: &str| {
        sched
            .lines()
            .find(|line| line.starts_with("se.slice"))
            .map(|line| line.split(':').nth(1).unwrap().trim().to_owned())
    };
    assert_eq!(turn(sched), turn(&fs::read_to_string("/proc/thread-self/sched").unwrap_or_default()));
}

#[tokio::test]
async fn strays_are_killed_and_counted_when_the_program_ends() {
    let mut process =
        start_sh("sleep 60 & setsid sleep 60 & (setsid sleep 60 &) ; true & wait $!; echo $$").await;
    let (exit, count) = end(&mut process).await;
    assert_eq!(exit.status, 0);
    assert_eq!((count.strays_killed, count.left), (3, 0));
    // No process holds the pipe, so it ends.
    assert_eq!(output(process).lines().count(), 1);
}

#[tokio::test]
async fn strays_live_on_when_they_are_released() {
    let arguments = strings(&["sh", "-c", "setsid sleep 60 & echo $!"]);
    let spawn = spawn_of("/bin/sh", &arguments);
    let mut process = started(launch(&spawn, piped(Source::Null)).unwrap()).await.unwrap();
    let stray = read_pids(&process, 1)[0];
    let exited = process.lifeline.next().await;
    assert!(matches!(exited, GuardEvent::Exited(_)), "{exited:?}");
    process.lifeline.release();
    let gone = process.lifeline.next().await;
    let GuardEvent::Gone(count) = gone else { panic!("{gone:?}") };
    assert_eq!(count.strays_killed, 0);
    assert!(is_alive(stray));
    kill(Pid::from_raw(stray), Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn strays_die_when_the_run_is_stopped() {
    let arguments = strings(&["sh", "-c", "setsid sh -c 'echo $$; exec sleep 60' & exec sleep 60"]);
    let spawn = spawn_of("/bin/sh", &arguments);
    let mut process = started(launch(&spawn, piped(Source::Null)).unwrap()).await.unwrap();
    let stray = read_pids(&process, 1)[0];
    process.lifeline.signal(Signal::SIGTERM);
    let (exit, count) = end(&mut process).await;
    assert_eq!((exit.status, count.strays_killed), (Signal::SIGTERM as i32, 1));
    assert!(!is_alive(stray));
}

#[tokio::test]
async fn terminate_reaches_the_group_and_leaves_time() {
    let mut process = start_sh("trap 'echo bye; exit 7' TERM; echo $$; while :; do sleep 0.01; done").await;
    read_pids(&process, 1);
    process.lifeline.signal(Signal::SIGTERM);
    let (exit, _) = end(&mut process).await;
    assert_eq!(exit.status, exit_code(7));
}

#[tokio::test]
async fn kill_ends_the_whole_tree_at_once() {
    let mut process =
        start_sh("trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; sleep 60' & echo $$; sleep 60").await;
    let pids = read_pids(&process, 2);
    let began = Instant::now();
    process.lifeline.kill();
    let (exit, count) = end(&mut process).await;
    assert_eq!(exit.status, Signal::SIGKILL as i32);
    assert_eq!(count.left, 0);
    assert!(count.strays_killed >= 2, "{count:?}");
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    assert!(began.elapsed() < LONG_BEFORE_IT_ENDS, "{:?}", began.elapsed());
    // A second kill changes nothing.
    process.lifeline.kill();
    assert_eq!(process.lifeline.next().await, GuardEvent::Gone(count));
}

#[tokio::test]
async fn the_report_of_a_tree_that_ended_by_itself_is_the_last_act_of_the_guards() {
    let arguments = strings(&["sh", "-c", "read line"]);
    let spawn = spawn_of("/bin/sh", &arguments);
    let mut process = started(launch(&spawn, piped(Source::Pipe)).unwrap()).await.unwrap();
    let inner = parent_of(process.pid as i32);
    process.ends.stdin = None;
    let exited = process.lifeline.next().await;
    assert!(matches!(exited, GuardEvent::Exited(_)), "{exited:?}");
    // The outer guard has reaped the inner one before it reported.
    assert!(!Path::new(&format!("/proc/{inner}")).exists());
    let gone = process.lifeline.next().await;
    assert_eq!(gone, GuardEvent::Gone(StrayCount::default()));
}

#[tokio::test]
async fn a_dropped_run_dies_and_leaves_no_zombie() {
    let process = start_sh("setsid sleep 60 & echo $!; exec sleep 60").await;
    let stray = read_pids(&process, 1)[0];
    let (program, outer) = (process.pid as i32, process.lifeline.guard_pid() as i32);
    drop(process);
    until("the tree is gone", || !is_alive(stray) && !is_alive(program));
    // The wait for the guard happens in a task of this runtime.
    for _ in 0..1000 {
        if !Path::new(&format!("/proc/{outer}")).exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the outer guard is still a child");
}

#[tokio::test]
async fn a_guard_dropped_outside_any_runtime_is_reaped_by_a_later_run() {
    let process = start_sh("exec sleep 60").await;
    let outer = process.lifeline.guard_pid() as i32;
    let GuardedProcess { lifeline, .. } = process;
    std::thread::spawn(move || drop(lifeline)).join().unwrap();
    until("the guard has ended", || !is_alive(outer));
    let mut process = start_sh("true").await;
    end(&mut process).await;
    assert!(!Path::new(&format!("/proc/{outer}")).exists());
}

async fn lost_when(kills: impl FnOnce(i32, i32)) {
    let mut process = start_sh("setsid sleep 60 & echo $!; echo $PPID; exec sleep 60").await;
    let pids = read_pids(&process, 2);
    let (stray, inner) = (pids[0], pids[1]);
    let program = process.pid as i32;
    kills(process.lifeline.guard_pid() as i32, inner);
    let began = Instant::now();
    let mut event = process.lifeline.next().await;
    if matches!(event, GuardEvent::Exited(_)) {
        event = process.lifeline.next().await;
    }
    assert!(matches!(event, GuardEvent::Lost(Some(_))), "{event:?}");
    assert!(began.elapsed() < LONG_BEFORE_IT_ENDS, "{:?}", began.elapsed());
    assert!(!is_alive(stray) && !is_alive(program));
}

#[tokio::test]
async fn a_run_whose_inner_guard_is_killed_is_lost_and_gone() {
    lost_when(|_, inner| kill(Pid::from_raw(inner), Signal::SIGKILL).unwrap()).await;
}

#[tokio::test]
async fn a_run_whose_outer_guard_is_killed_is_lost_and_gone() {
    lost_when(|outer, _| kill(Pid::from_raw(outer), Signal::SIGKILL).unwrap()).await;
}

#[tokio::test]
async fn signals_that_ask_a_guard_to_end_or_stop_do_nothing() {
    let mut process = start_sh("echo $PPID; read line < /dev/zero; sleep 0.2; exit 9").await;
    let inner = read_pids(&process, 1)[0];
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGTSTP, Signal::SIGSTOP] {
        kill(Pid::from_raw(inner), signal).unwrap();
    }
    process.lifeline.kill();
    let (_, count) = end(&mut process).await;
    assert_eq!(count.left, 0);
}

#[tokio::test]
async fn guards_that_were_stopped_are_woken_by_a_kill() {
    let mut process = start_sh("setsid sleep 60 & echo $!; echo $PPID; exec sleep 60").await;
    let pids = read_pids(&process, 2);
    for guard in [process.lifeline.guard_pid() as i32, pids[1]] {
        kill(Pid::from_raw(guard), Signal::SIGSTOP).unwrap();
    }
    let began = Instant::now();
    process.lifeline.kill();
    let (_, count) = end(&mut process).await;
    assert_eq!((count.strays_killed, count.left), (1, 0));
    assert!(!is_alive(pids[0]));
    assert!(began.elapsed() < LONG_BEFORE_IT_ENDS, "{:?}", began.elapsed());
}

#[test]
fn a_guard_refuses_what_is_no_request_of_its_version_and_ends() {
    let (mut lifeline, guards_end) = UnixStream::pair().unwrap();
    let mut header = b"SHPG\xff\x00\x28\x00".to_vec();
    header.resize(40, 1);
    lifeline.write_all(&header).unwrap();
    let null = || OwnedFd::from(File::open("/dev/null").unwrap());
    let image = super::super::image::image().unwrap();
    let pid =
        super::super::execute::execute(image.path(), "", [null(), null(), null(), guards_end.into()], None)
            .unwrap();
    let mut answer = Vec::new();
    lifeline.read_to_end(&mut answer).unwrap();
    // SPAWN_ERROR of the outer guard: stage 1 (request), EPROTO, call 1 (recvfrom).
    assert_eq!(answer, [2, 0, 12, 0, 1, 0, 0, 0, 71, 0, 0, 0, 1, 0, 0, 0]);
    waitpid(Pid::from_raw(pid), None).unwrap();
}

#[test]
fn a_guard_whose_host_is_another_process_ends() {
    let (mut lifeline, guards_end) = UnixStream::pair().unwrap();
    let mut header = b"SHPG\x07\x00\x28\x00".to_vec();
    // No flags, host 1, and a plausible rest.
    for number in [0u32, 1, 1, 0, 16, 1, 0, 0] {
        header.extend(number.to_le_bytes());
    }
    lifeline.write_all(&header).unwrap();
    let null = || OwnedFd::from(File::open("/dev/null").unwrap());
    let image = super::super::image::image().unwrap();
    let pid =
        super::super::execute::execute(image.path(), "", [null(), null(), null(), guards_end.into()], None)
            .unwrap();
    let mut answer = Vec::new();
    lifeline.read_to_end(&mut answer).unwrap();
    // SPAWN_ERROR of the outer guard: stage 2 (watching), ESRCH, call 21 (getppid).
    assert_eq!(answer, [2, 0, 12, 0, 2, 0, 0, 0, 3, 0, 0, 0, 21, 0, 0, 0]);
    waitpid(Pid::from_raw(pid), None).unwrap();
}
