//! Guards that a program of the same user tries to disable: without descriptors, stopped, or killed; each guard alone and both,
//! while the host lives and when it is killed. Two guards survive all of these, except that both are killed at the same
//! instant.

use super::survival::{Tree, alive, grow, host, kill_all_of, last_event, until_gone};
use super::*;
use crate::Containment;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    None,
    /// `prlimit --nofile=0`: nothing can be opened any more, and poll(2) refuses to wait.
    NoFiles,
    Stop,
    Kill,
}

const ATTACKS: [Attack; 4] = [Attack::None, Attack::NoFiles, Attack::Stop, Attack::Kill];

impl Attack {
    fn on(self, pid: i32) {
        let signal = |signal| kill(Pid::from_raw(pid), signal).unwrap();
        match self {
            Attack::None => {}
            Attack::NoFiles => {
                let mut command = Command::new("prlimit");
                // Run as the guard's user: a superuser without all privileges may not do it to other users.
                let owner = fs::metadata(format!("/proc/{pid}")).unwrap().uid();
                command.uid(owner).gid(owner).args(["--nofile=0:0", "--pid"]).arg(pid.to_string());
                assert!(command.status().unwrap().success());
            }
            Attack::Stop => signal(Signal::SIGSTOP),
            Attack::Kill => signal(Signal::SIGKILL),
        }
    }
}

/// On the outer guard, and on the inner one.
fn pairs() -> impl Iterator<Item = (Attack, Attack)> {
    let all = ATTACKS.into_iter().flat_map(|outer| ATTACKS.into_iter().map(move |inner| (outer, inner)));
    all.filter(|pair| ![(Attack::None, Attack::None), (Attack::Kill, Attack::Kill)].contains(pair))
}

fn children(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    found
}

#[tokio::test]
async fn disabled_guards_hold_their_tree_while_the_host_lives() {
    for pair in pairs() {
        let Tree { token, mut process, guards, lived } = grow("clean", Containment::Auto).await;
        pair.0.on(guards.0);
        pair.1.on(guards.1);
        process.lifeline.kill();
        let end = tokio::time::timeout(Duration::from_secs(30), last_event(&mut process)).await;
        assert!(end.is_ok(), "{pair:?}: no end");
        let left = until_gone(&token).err().unwrap_or_default();
        kill_all_of(&left);
        assert!(left.is_empty(), "{pair:?}: {} of {lived} survived", left.len());
    }
}

#[test]
fn disabled_guards_hold_their_tree_when_the_host_is_killed() {
    for pair in pairs() {
        let (mut host, token) = host("clean", "auto");
        let outer = children(host.id() as i32)[0];
        let inner = children(outer)[0];
        pair.0.on(outer);
        pair.1.on(inner);
        host.kill().unwrap();
        let left = until_gone(&token).err().unwrap_or_default();
        kill_all_of(&left);
        host.wait().unwrap();
        assert!(left.is_empty(), "{pair:?}: {} survived", left.len());
    }
}

#[tokio::test]
async fn the_end_of_a_program_is_seen_although_both_guards_were_stopped() {
    let arguments = [OsStr::new("sh"), OsStr::new("-c"), OsStr::new("echo up; read line; exit 7")];
    let spawn = spawn_of("/bin/sh", &arguments);
    let mut process = started(launch(&spawn, piped(Source::Pipe)).unwrap()).await.unwrap();
    let outer = process.lifeline.guard_pid() as i32;
    let inner = children(outer)[0];
    Attack::Stop.on(outer);
    Attack::Stop.on(inner);
    process.ends.stdin = None;
    let exited = tokio::time::timeout(Duration::from_secs(5), process.lifeline.next()).await;
    let Ok(GuardEvent::Exited(exit)) = exited else { panic!("{exited:?}") };
    assert_eq!(exit.status, 7 << 8);
    last_event(&mut process).await;
}

#[test]
fn nobody_of_the_same_user_may_debug_a_guard() {
    if !nix::unistd::getuid().is_root() {
        // A process that can't be debugged belongs to root in /proc, which is a difference for ordinary users only.
        return;
    }
    let (mut host, token) = host("plain", "auto");
    let outer = children(host.id() as i32)[0];
    let owners = [host.id() as i32, outer, children(outer)[0]]
        .map(|pid| fs::metadata(format!("/proc/{pid}/stat")).unwrap().uid());
    let programs = alive(&token);
    let of_program = fs::metadata(format!("/proc/{}/stat", programs[0])).unwrap().uid();
    host.kill().unwrap();
    host.wait().unwrap();
    assert_eq!((owners, of_program), ([65534, 0, 0], 65534));
}

/// Not a test by itself: a host of another niceness and scheduling class.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn as_scheduled_host() {
    // The fields of niceness and class.
    let script = "cut -d ' ' -f 19,41 /proc/self/stat; umask; ulimit -n";
    let arguments = [OsStr::new("sh"), OsStr::new("-c"), OsStr::new(script)];
    let spawn = spawn_of("/bin/sh", &arguments);
    let mut process = started(launch(&spawn, piped(Source::Null)).unwrap()).await.unwrap();
    last_event(&mut process).await;
    let mut text = String::new();
    fs::File::from(process.ends.stdout.unwrap()).read_to_string(&mut text).unwrap();
    let without = Command::new("sh").args(["-c", script]).output().unwrap();
    println!("\nguarded {:?}\nwithout {:?}", text, String::from_utf8_lossy(&without.stdout));
}

#[test]
fn niceness_class_umask_and_limits_of_the_host_reach_the_program() {
    let own = std::env::current_exe().unwrap();
    let root = nix::unistd::getuid().is_root();
    let nice = if root { "-5" } else { "5" };
    for class in ["-o", "-b", "-i", "-r"] {
        if class == "-r" && !root {
            continue;
        }
        let priority = if class == "-r" { "1" } else { "0" };
        let mut command = Command::new("nice");
        command.args([
            "-n",
            nice,
            "chrt",
            class,
            priority,
            "sh",
            "-c",
            "umask 027; ulimit -n 500; exec \"$0\" \"$@\"",
        ]);
        command.arg(&own);
        command.args(["--exact", "guard::tests::disabled::as_scheduled_host", "--ignored", "--nocapture"]);
        let Ok(output) = command.output() else { return };
        let text = String::from_utf8_lossy(&output.stdout);
        let told = |name: &str| text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        let (Some(guarded), Some(without)) = (told("guarded "), told("without ")) else {
            // A machine that lets nobody choose a class.
            assert!(!root, "{class}: {text}{}", String::from_utf8_lossy(&output.stderr));
            continue;
        };
        assert_eq!(guarded, without, "{class}");
        assert!(guarded.contains("0027") && guarded.contains("500"), "{guarded}");
    }
}
