//! The strict level with real processes. Where the machine forbids PID namespaces, these tests say so and end.

use super::survival::{BEHAVIOURS, alive, grow, host, kill_all_of, last_event, until_gone};
use super::*;
use crate::{Containment, ContainmentLevel};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

fn sh(script: &str) -> Result<Starting, GuardFailure> {
    let arguments = [OsStr::new("sh"), OsStr::new("-c"), OsStr::new(script)];
    let environment = [(OsStr::new("PATH"), OsStr::new("/usr/bin:/bin"))];
    let spawn = GuardedSpawn {
        environment: &environment,
        containment: Containment::Strict,
        ..spawn_of("/bin/sh", &arguments)
    };
    launch(&spawn, piped(Source::Null))
}

/// Whether this machine lets this user have a PID namespace, as util-linux sees it.
pub(super) fn is_allowed() -> bool {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true"]);
    let allowed = unshare.output().is_ok_and(|output| output.status.success());
    if !allowed {
        println!("not tested: PID namespaces are forbidden here");
    }
    allowed
}

#[tokio::test]
async fn the_program_sees_only_its_own_namespace_and_the_host_its_real_pid() {
    if !is_allowed() {
        return;
    }
    let script = "echo $$ $PPID $(id -u) $(id -g); ls /proc | grep -c '^[0-9]'; readlink /proc/self/ns/pid; read line < /dev/zero";
    let mut process = started(sh(script).unwrap()).await.unwrap();
    assert_eq!(process.level, ContainmentLevel::PidNamespace);
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap();
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
    assert_eq!(pids.split_whitespace().collect::<Vec<_>>(), [&process.pid.to_string(), "2"]);
    let mut lines = BufReader::new(File::from(process.ends.stdout.as_ref().unwrap().try_clone().unwrap()))
        .lines()
        .map(Result::unwrap);
    let (user, group) = (nix::unistd::getuid(), nix::unistd::getgid());
    assert_eq!(lines.next().unwrap(), format!("2 1 {user} {group}"));
    let visible: u32 = lines.next().unwrap().parse().unwrap();
    assert!(visible <= 5, "{visible}");
    assert_ne!(Path::new(&lines.next().unwrap()), fs::read_link("/proc/self/ns/pid").unwrap());
    process.lifeline.kill();
    last_event(&mut process).await;
}

#[tokio::test]
async fn nobody_survives_a_kill_in_a_namespace() {
    if !is_allowed() {
        return;
    }
    for behaviour in BEHAVIOURS {
        let mut tree = grow(behaviour, Containment::Strict).await;
        tree.process.lifeline.kill();
        let end = last_event(&mut tree.process).await;
        let left = alive(&tree.token);
        assert!(left.is_empty(), "{behaviour}: {} of {} survived", left.len(), tree.lived);
        // Not even a program that tries to: it can't signal the init of its namespace, nor see who is outside.
        assert!(matches!(end, GuardEvent::Gone(_)), "{behaviour}: {end:?}");
    }
}

#[tokio::test]
async fn nobody_in_a_namespace_survives_both_guards_death_at_once() {
    if !is_allowed() {
        return;
    }
    for behaviour in BEHAVIOURS {
        let mut tree = grow(behaviour, Containment::Strict).await;
        for guard in [tree.guards.0, tree.guards.1] {
            kill(Pid::from_raw(guard), Signal::SIGKILL).unwrap();
        }
        let end = last_event(&mut tree.process).await;
        assert!(matches!(end, GuardEvent::Lost(_)), "{behaviour}: {end:?}");
        let survivors = until_gone(&tree.token).err().unwrap_or_default();
        kill_all_of(&survivors);
        assert!(survivors.is_empty(), "{behaviour}: {} of {} survived", survivors.len(), tree.lived);
    }
}

#[test]
fn nobody_in_a_namespace_survives_the_hosts_death() {
    if !is_allowed() {
        return;
    }
    for behaviour in BEHAVIOURS {
        // As an ordinary user where the tests run as root: by a user namespace.
        let (mut host, token) = host(behaviour, "strict");
        host.kill().unwrap();
        let survivors = until_gone(&token).err().unwrap_or_default();
        kill_all_of(&survivors);
        assert!(survivors.is_empty(), "{behaviour}: {} survived", survivors.len());
        host.wait().unwrap();
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_reported_from_inside_a_namespace() {
    if !is_allowed() {
        return;
    }
    let arguments = [OsStr::new("x")];
    let spawn = GuardedSpawn { containment: Containment::Strict, ..spawn_of("/nowhere/x", &arguments) };
    let failure = started(launch(&spawn, piped(Source::Null)).unwrap()).await.unwrap_err();
    assert_eq!(failure.stage, GuardStage::Exec);
    let failure = failure.on_files(spawn.program, spawn.cwd, spawn.sandbox);
    assert_eq!(failure.fault.to_string(), "execve /nowhere/x: No such file or directory (os error 2)");
}

/// Not a test by itself: runs where another test has forbidden PID namespaces.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn as_forbidden_host() {
    let failure = started(sh("true").unwrap()).await.unwrap_err();
    println!("\nfailed at {:?} with {}", failure.stage, Errno::from_raw(failure.fault.errno));
}

#[test]
fn a_machine_that_forbids_namespaces_is_reported_as_such() {
    if !is_allowed() {
        return;
    }
    // The limits count per user namespace: in one of its own, a host may have none.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && echo 0 > /proc/sys/user/max_pid_namespaces && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "guard::tests::strict::as_forbidden_host", "--ignored", "--nocapture"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("failed at Namespace with ENOSPC"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
