//! No process survives: trees that are hard to kill, against every way in which a run or its supervisors can end.

use super::*;
use crate::Containment;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) const BEHAVIOURS: [&str; 13] = [
    "plain",
    "setsid",
    "dfork",
    "clean",
    "exit",
    "hop",
    "deep",
    "pair",
    "bomb",
    "killpar",
    "killgrand",
    "stopguards",
    "nofiles",
];

/// An ordinary user, who runs the hosts where the tests run as root.
pub(super) const USER: u32 = 65534;

/// This program, in a folder that the ordinary user can enter: from a checkout that only root can (as all below `/root`) it is
/// copied into the one for temporary files, where the next test run removes it.
pub(super) fn open_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        let mut look = Command::new("test");
        look.arg("-x").arg(&own);
        if !nix::unistd::getuid().is_root() || look.uid(USER).gid(USER).status().unwrap().success() {
            return own;
        }
        let prefix = "sheepdog-tests-";
        for entry in fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let pid = name.strip_prefix(prefix).and_then(|pid| pid.parse::<u32>().ok());
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let folder = std::env::temp_dir().join(format!("{prefix}{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let copy = folder.join("tests");
        fs::copy(own, &copy).unwrap();
        copy
    })
}

/// The program of fixtures/survivors, built once a test run.
fn behaviour_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(built) = std::env::var_os("SURVIVOR_PROGRAM") {
            return built.into();
        }
        let folder = open_program().parent().unwrap().to_owned();
        let program = folder.join(format!("survivors-{}", std::process::id()));
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--edition", "2024", "-O", "fixtures/survivors/behaviour.rs", "-o"]).arg(&program);
        assert!(rustc.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).status().unwrap().success());
        // Always the same name; by a rename, because another test run may be executing it.
        let named = folder.join("survivors");
        fs::rename(program, &named).unwrap();
        named
    })
}

fn token(name: &str) -> String {
    let mut random = [0; 8];
    getrandom::fill(&mut random).unwrap();
    format!("survivor-{name}-{:016x}", u64::from_ne_bytes(random))
}

/// Everybody alive whose command line has the token.
pub(super) fn alive(token: &str) -> Vec<i32> {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // A zombie has no command line; an empty file does not contain the token.
    let with_token = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == token.as_bytes())
    };
    pids.filter(with_token).collect()
}

/// Waits until all processes are gone; returns the time taken, or the pids that are left.
pub(super) fn until_gone(token: &str) -> Result<Duration, Vec<i32>> {
    let began = Instant::now();
    loop {
        let left = alive(token);
        if left.is_empty() {
            return Ok(began.elapsed());
        }
        // Guards that are stopped after the host's end wake within 10 s.
        if began.elapsed() > Duration::from_secs(60) {
            return Err(left);
        }
    }
}

pub(super) struct Tree {
    pub token: String,
    pub process: GuardedProcess,
    /// The guards are (outer, inner).
    pub guards: (i32, i32),
    pub lived: usize,
}

/// Starts a behaviour and waits for its whole tree.
pub(super) async fn grow(behaviour: &str, containment: Containment) -> Tree {
    grow_by(behaviour, containment, false).await
}

async fn grow_by(behaviour: &str, containment: Containment, scan_proc: bool) -> Tree {
    let token = token(behaviour);
    let arguments = [OsStr::new("survivors"), OsStr::new(behaviour), OsStr::new(&token)];
    let spawn = GuardedSpawn { containment, ..spawn_of(behaviour_program(), &arguments) };
    let process = started(launch_scanning(&spawn, piped(Source::Null), scan_proc).unwrap()).await.unwrap();
    let outer = process.lifeline.guard_pid() as i32;
    let children = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    let inner = match children.trim() {
        // A program that kills its parent may have done so by now.
        "" if behaviour.starts_with("kill") => 0,
        inner => inner.parse().unwrap(),
    };
    let mut line = String::new();
    let stdout = File::from(process.ends.stdout.as_ref().unwrap().try_clone().unwrap());
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let lived = alive(&token).len();
    Tree { token, process, guards: (outer, inner), lived }
}

/// Asserts that all processes of an ended tree are gone.
fn assert_gone(behaviour: &str, end: &str, token: &str, lived: usize) {
    match until_gone(token) {
        Ok(_) => {}
        Err(left) => {
            kill_all_of(&left);
            panic!("{behaviour} x {end}: {} of {lived} survived", left.len());
        }
    }
}

/// Kills the survivors, so that a failed test leaves no processes behind.
pub(super) fn kill_all_of(pids: &[i32]) {
    for pid in pids {
        let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
    }
}

fn sigkill(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

/// The last event of a run. Processes that the program leaves behind are killed as soon as it has exited.
pub(super) async fn last_event(process: &mut GuardedProcess) -> GuardEvent {
    loop {
        match process.lifeline.next().await {
            GuardEvent::Exited(_) => process.lifeline.kill(),
            event => return event,
        }
    }
}

async fn nobody_survives_a_kill(scan_proc: bool) {
    for behaviour in BEHAVIOURS {
        let mut tree = grow_by(behaviour, Containment::Auto, scan_proc).await;
        tree.process.lifeline.kill();
        last_event(&mut tree.process).await;
        // No moment later: when the end is reported, they are gone.
        let left = alive(&tree.token);
        assert!(left.is_empty(), "{behaviour}: {} of {} survived", left.len(), tree.lived);
    }
}

#[tokio::test]
async fn nobody_survives_a_kill_under_guard() {
    nobody_survives_a_kill(false).await;
}

#[tokio::test]
async fn nobody_survives_a_kill_where_the_kernel_lists_no_children() {
    nobody_survives_a_kill(true).await;
}

/// The most descriptors that a process may have.
fn descriptor_limit(pid: i32) -> String {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().to_owned()
}

#[tokio::test]
async fn nobody_survives_guards_that_can_open_nothing_where_the_kernel_lists_no_children() {
    let mut tree = grow_by("nofiles", Containment::Auto, true).await;
    let (outer, inner) = tree.guards;
    let began = Instant::now();
    while descriptor_limit(outer) != "0" || descriptor_limit(inner) != "0" {
        assert!(began.elapsed() < Duration::from_secs(30), "the guards were not attacked");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tree.process.lifeline.kill();
    last_event(&mut tree.process).await;
    let left = alive(&tree.token);
    kill_all_of(&left);
    assert!(left.is_empty(), "{} of {} survived", left.len(), tree.lived);
}

#[tokio::test]
async fn nobody_survives_a_run_that_is_dropped() {
    for behaviour in BEHAVIOURS {
        let Tree { token, process, lived, .. } = grow(behaviour, Containment::Auto).await;
        drop(process);
        assert_gone(behaviour, "drop", &token, lived);
    }
}

#[tokio::test]
async fn nobody_survives_the_inner_guards_death() {
    for behaviour in BEHAVIOURS.into_iter().filter(|behaviour| !behaviour.starts_with("kill")) {
        let mut tree = grow(behaviour, Containment::Auto).await;
        sigkill(tree.guards.1);
        let end = last_event(&mut tree.process).await;
        assert!(matches!(end, GuardEvent::Lost(_)), "{behaviour}: {end:?}");
        let left = alive(&tree.token);
        assert!(left.is_empty(), "{behaviour}: {} of {} survived", left.len(), tree.lived);
    }
}

#[tokio::test]
async fn nobody_survives_the_outer_guards_death() {
    for behaviour in BEHAVIOURS.into_iter().filter(|behaviour| !behaviour.starts_with("kill")) {
        let mut tree = grow(behaviour, Containment::Auto).await;
        sigkill(tree.guards.0);
        let end = last_event(&mut tree.process).await;
        assert!(matches!(end, GuardEvent::Lost(_)), "{behaviour}: {end:?}");
        let left = alive(&tree.token);
        assert!(left.is_empty(), "{behaviour}: {} of {} survived", left.len(), tree.lived);
    }
}

#[tokio::test]
async fn a_program_that_kills_its_guard_dies_by_that() {
    for behaviour in ["killpar", "killgrand"] {
        let mut tree = grow(behaviour, Containment::Auto).await;
        let end = last_event(&mut tree.process).await;
        assert!(matches!(end, GuardEvent::Lost(_)), "{behaviour}: {end:?}");
        assert!(alive(&tree.token).is_empty(), "{behaviour}");
    }
}

#[tokio::test]
async fn a_program_that_ends_first_takes_its_daemons_along_and_they_are_counted() {
    let mut tree = grow("exit", Containment::Auto).await;
    let GuardEvent::Gone(count) = last_event(&mut tree.process).await else { panic!("lost") };
    assert_eq!((count.strays_killed, count.left), (3, 0));
    assert!(alive(&tree.token).is_empty());
}

/// Not a test by itself: the host that `nobody_survives_the_hosts_death` kills. Starts one behaviour and waits.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn as_host() {
    let behaviour = std::env::var("SURVIVOR_BEHAVIOUR").unwrap();
    let strict = std::env::var("SURVIVOR_CONTAINMENT").unwrap() == "strict";
    let tree = grow(&behaviour, if strict { Containment::Strict } else { Containment::Auto }).await;
    println!("\ntree {} {:?}", tree.token, tree.process.level);
    std::thread::sleep(Duration::from_secs(60));
}

/// A host in a process of its own, as an ordinary user where the tests run as root; returns when its tree is grown.
pub(super) fn host(behaviour: &str, containment: &str) -> (std::process::Child, String) {
    let mut command = Command::new(open_program());
    if nix::unistd::getuid().is_root() {
        command.uid(USER).gid(USER);
    }
    let (host, told) = start_host(command, behaviour, containment);
    let token = told.split(' ').next().unwrap().to_owned();
    (host, token)
}

/// `command` ends in this program. Returns what the host says when its tree is grown: token and level.
pub(super) fn start_host(
    mut command: Command,
    behaviour: &str,
    containment: &str,
) -> (std::process::Child, String) {
    command.args(["--exact", "guard::tests::survival::as_host", "--ignored", "--nocapture"]);
    command
        .env("SURVIVOR_BEHAVIOUR", behaviour)
        .env("SURVIVOR_CONTAINMENT", containment)
        .env("SURVIVOR_PROGRAM", behaviour_program())
        .stdout(Stdio::piped());
    let mut host = command.spawn().unwrap();
    let lines = BufReader::new(host.stdout.take().unwrap()).lines();
    let told =
        lines.map(Result::unwrap).find_map(|line| line.strip_prefix("tree ").map(str::to_owned)).unwrap();
    (host, told)
}

#[test]
fn nobody_survives_the_hosts_death() {
    for behaviour in BEHAVIOURS {
        let (mut host, token) = host(behaviour, "auto");
        let lived = alive(&token).len();
        host.kill().unwrap();
        assert_gone(behaviour, "host killed", &token, lived);
        host.wait().unwrap();
    }
}

/// Guards that are stopped when the host is gone already: no death that they watch wakes them any more.
#[test]
fn guards_that_are_stopped_after_the_hosts_death_wake_by_themselves() {
    let (mut host, token) = host("plain", "auto");
    let tree = alive(&token);
    let inner = tree.iter().find_map(|pid| guard_above(*pid)).unwrap();
    let guards = [inner, guard_above(inner).unwrap()];
    let stop = || guards.map(|guard| kill(Pid::from_raw(guard), Signal::SIGSTOP));
    // Faster than the guards run, until the last event that wakes them is over.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = stop();
            }
        });
        host.kill().unwrap();
        host.wait().unwrap();
        is_over.store(true, Ordering::Relaxed);
    });
    let _ = stop();
    let began = Instant::now();
    let left = loop {
        let left: Vec<i32> = alive(&token)
            .into_iter()
            .chain(guards.into_iter().filter(|pid| name_of(*pid).is_some()))
            .collect();
        if left.is_empty() || began.elapsed() > Duration::from_secs(60) {
            break left;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    kill_all_of(&left);
    assert!(left.is_empty(), "{} of {} and their guards survived", left.len(), tree.len());
}

/// The name of a process, unless it has ended.
fn name_of(pid: i32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let of = |field: &str| status.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
    (!of("State:")?.starts_with('Z')).then(|| of("Name:").map(str::to_owned))?
}

/// The parent of a process, if it is a guard.
fn guard_above(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
    (name_of(parent)? == "sheepdog-guard").then_some(parent)
}
