//! Runs on systems where memory files may not be executed: real machines like that, made of namespaces. Where namespaces are
//! forbidden themselves, these tests say so and end.

use super::strict::is_allowed;
use super::survival::last_event;
use super::*;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Not a test by itself: the host on such a machine.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn as_restricted_host() {
    let arguments = [OsStr::new("sleep"), OsStr::new("60")];
    let spawn = spawn_of("/bin/sleep", &arguments);
    let started = match launch(&spawn, piped(Source::Null)) {
        Ok(launch) => started(launch).await,
        Err(failure) => Err(failure),
    };
    match started {
        Err(failure) => println!("\nfailed at {:?}", failure.stage),
        Ok(mut process) => {
            let program = fs::read_link(format!("/proc/{}/exe", process.lifeline.guard_pid())).unwrap();
            process.lifeline.kill();
            let end = last_event(&mut process).await;
            println!("\nran {} until {end:?}", program.display());
        }
    }
}

/// The output of a host whose PID namespace forbids executable memory files, after `setup` in a mount namespace of its own.
fn restricted_host(setup: &str) -> String {
    let script = format!("echo 2 > /proc/sys/vm/memfd_noexec && {setup} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "sh", "-c", &script, "sh"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "guard::tests::fallback::as_restricted_host", "--ignored", "--nocapture"]);
    let output = command.output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Whether the kernel has the switch at all (since Linux 6.3).
fn can_restrict() -> bool {
    let has = Path::new("/proc/sys/vm/memfd_noexec").exists();
    if !has {
        println!("not tested: this kernel can't forbid executable memory files");
    }
    has && is_allowed()
}

#[test]
fn without_executable_memory_files_the_guard_is_a_file_without_a_name() {
    if !can_restrict() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = restricted_host(&format!("export TMPDIR='{}'", folder.path().display()));
    assert!(text.contains("sheepdog-guard (deleted) until Gone"), "{text}");
    assert!(text.contains(folder.path().to_str().unwrap()), "{text}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn where_nothing_can_be_executed_no_guard_is_available() {
    if !can_restrict() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let setup = format!(
        "mount -t tmpfs -o noexec none '{path}' && export TMPDIR='{path}' HOME='{path}' && unset XDG_RUNTIME_DIR"
    );
    let text = restricted_host(&setup);
    assert!(text.contains("failed at Unavailable"), "{text}");
}
