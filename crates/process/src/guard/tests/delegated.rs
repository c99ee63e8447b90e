//! A run in a real cgroup of its own. Only a superuser can delegate a cgroup to an ordinary user, so elsewhere these tests
//! report that they were skipped.

use super::survival::{BEHAVIOURS, USER, kill_all_of, open_program, start_host, until_gone};
use nix::unistd::{Gid, Uid, chown, getuid};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A cgroup that belongs to an ordinary user, as a service manager hands one over.
struct Delegated(PathBuf);

impl Delegated {
    fn new(name: &str) -> Option<Delegated> {
        let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let root = root.into_iter().find(|root| root.join("cgroup.controllers").exists());
        let path = root?.join(format!("test-{name}-{}", std::process::id()));
        if !getuid().is_root() || fs::create_dir(&path).is_err() {
            println!("not tested: this user can't make a cgroup here");
            return None;
        }
        for file in ["", "cgroup.procs", "cgroup.subtree_control"] {
            chown(&path.join(file), Some(Uid::from_raw(USER)), Some(Gid::from_raw(USER))).unwrap();
        }
        Some(Delegated(path))
    }

    /// A command that enters it, becomes the user, and executes this program.
    fn command(&self) -> Command {
        let script = format!("echo $$ > '{}/cgroup.procs' && exec \"$@\"", self.0.display());
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", "setpriv"]);
        command.arg(format!("--reuid={USER}")).arg(format!("--regid={USER}")).arg("--clear-groups");
        command.arg(open_program());
        command
    }

    fn runs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap().flatten();
        entries.filter(|entry| entry.file_type().unwrap().is_dir()).map(|entry| entry.path()).collect()
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        let began = Instant::now();
        // The host's own end may take a moment.
        while fs::remove_dir(&self.0).is_err() && began.elapsed() < Duration::from_secs(5) {}
    }
}

#[test]
fn in_a_delegated_cgroup_each_run_has_one_and_nothing_is_left_of_it() {
    let Some(delegated) = Delegated::new("runs") else { return };
    for behaviour in BEHAVIOURS.into_iter().filter(|behaviour| !behaviour.starts_with("kill")) {
        let (mut host, told) = start_host(delegated.command(), behaviour, "auto");
        let (token, level) = told.split_once(' ').unwrap();
        assert_eq!(level, "GuardCgroup", "{behaviour}");
        let runs = delegated.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        host.kill().unwrap();
        let survivors = until_gone(token).err().unwrap_or_default();
        kill_all_of(&survivors);
        assert!(survivors.is_empty(), "{behaviour}: {} survived", survivors.len());
        host.wait().unwrap();
        // The guard removes the directory after the last process.
        let began = Instant::now();
        while !delegated.runs().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(5), "{behaviour}: {:?} is left", delegated.runs());
        }
    }
}
