//! A run whose own owner task fails: its promises settle, and its tree is gone.

use super::{LONG_BEFORE_IT_ENDS, assert_all_dead, assert_within, is_alive, pids_in, shell};
use process::{LineTooLong, Missed, ProcessSpec, Sink, StopReason, Stream, spawn};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

const TREE: &str = "setsid sleep 60 & echo $$ $!; wait";

/// A consumer with a bug.
struct Faulty;

impl Sink for Faulty {
    fn takes(&self, _: Stream) -> bool {
        true
    }
    fn push(&mut self, _: Stream, bytes: &[u8]) -> Result<(), LineTooLong> {
        assert!(bytes.is_empty(), "a bug in a consumer");
        Ok(())
    }
    fn end(&mut self, _: Stream) -> Result<(), LineTooLong> {
        Ok(())
    }
    fn refuse(&mut self, _: Missed) {}
    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
    fn finish(&mut self) {}
}

#[tokio::test]
async fn a_panic_of_the_owner_is_a_loss_with_what_was_read() {
    let process = spawn(shell(TREE));
    process.subscribe(Box::new(Faulty));
    let begun = Instant::now();
    let outcome = process.outcome().await;
    assert_within(begun, Duration::from_secs(10));
    assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_LOST"));
    let result = outcome.result.as_ref().expect("what was read");
    let pids = pids_in(&result.stdout);
    assert_eq!(pids.len(), 2, "{}", result.stdout);
    assert_all_dead(&pids);
}

#[test]
fn a_run_whose_threads_are_shut_down_settles_for_those_who_wait_elsewhere() {
    let first = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build();
    let first = first.expect("a runtime");
    let (process, pids) = first.block_on(async {
        let process = spawn(shell(TREE));
        let mut chunks = process.chunks();
        let (_, line) = chunks.next().await.expect("pids");
        (process, pids_in(&String::from_utf8_lossy(&line)))
    });
    first.shutdown_background();
    let second = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    second.block_on(async {
        let outcome = tokio::time::timeout(Duration::from_secs(5), process.outcome()).await.expect("an end");
        assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_LOST"));
        assert!(process.started().await.is_ok(), "it was started, whatever became of it");
    });
    let begun = Instant::now();
    while pids.iter().any(|pid| is_alive(*pid)) {
        assert_within(begun, LONG_BEFORE_IT_ENDS);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn a_limit_that_has_passed_is_over_at_once_and_starts_nothing() {
    for (idle, total, code) in [
        (Some(Duration::ZERO), None, "PROCESS_IDLE"),
        (None, Some(Duration::ZERO), "PROCESS_TIMED_OUT"),
        (Some(Duration::ZERO), Some(Duration::ZERO), "PROCESS_TIMED_OUT"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = folder.path().join("trace");
        let mut spec = ProcessSpec::new("touch", [trace.to_string_lossy()]);
        (spec.idle_timeout, spec.timeout) = (idle, total);
        let outcome = spawn(spec).outcome().await;
        let error = outcome.error.as_ref().expect("an error");
        assert_eq!((error.code().as_str(), outcome.result.is_none()), (code, true));
        let fact = if code == "PROCESS_IDLE" { "idleTimeoutMs" } else { "timeoutMs" };
        assert_eq!(error.facts()[fact], 0.0);
        assert!(!trace.exists());
    }
}

/// A file system that never answers: FUSE without a daemon.
#[cfg(target_os = "linux")]
struct HungFolder {
    folder: std::ffi::CString,
    daemon: Option<std::fs::File>,
}

#[cfg(target_os = "linux")]
impl HungFolder {
    /// `None` where this machine gives none to this user.
    fn mount() -> Option<HungFolder> {
        use std::os::fd::AsRawFd;
        use std::os::unix::ffi::OsStrExt;
        let daemon = std::fs::File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let folder = tempfile::tempdir().expect("a folder").keep();
        let folder = std::ffi::CString::new(folder.as_os_str().as_bytes()).expect("a path");
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", daemon.as_raw_fd());
        let options = std::ffi::CString::new(options).expect("options");
        let fuse = c"fuse".as_ptr();
        // SAFETY: all five are strings that live for the call.
        let mounted = unsafe {
            nix::libc::mount(fuse, folder.as_ptr(), fuse, nix::libc::MS_NODEV, options.as_ptr().cast())
        };
        let hung = HungFolder { folder, daemon: Some(daemon) };
        (mounted == 0).then_some(hung)
    }

    fn path(&self) -> &std::path::Path {
        use std::os::unix::ffi::OsStrExt;
        std::path::Path::new(std::ffi::OsStr::from_bytes(self.folder.as_bytes()))
    }
}

#[cfg(target_os = "linux")]
impl Drop for HungFolder {
    fn drop(&mut self) {
        // Ending the daemon fails the requests of processes that hang.
        self.daemon = None;
        // SAFETY: the path lives for the call.
        unsafe { nix::libc::umount2(self.folder.as_ptr(), nix::libc::MNT_DETACH) };
        let _ = std::fs::remove_dir(self.path());
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_folder_that_never_answers_holds_neither_its_own_clock_nor_the_starts_of_others() {
    let Some(hung) = HungFolder::mount() else {
        println!("no file system can be mounted here: nothing was tried");
        return;
    };
    let mut all = Vec::new();
    for number in 0..4 {
        let mut spec = shell("true");
        match number % 2 {
            0 => spec.cwd = Some(hung.path().to_path_buf()),
            _ => spec = ProcessSpec::new(hung.path().join("program").to_string_lossy(), [""; 0]),
        }
        spec.timeout = Some(Duration::from_millis(500));
        all.push(spawn(spec));
    }
    let begun = Instant::now();
    assert!(spawn(shell("true")).outcome().await.error.is_none(), "an unrelated run");
    assert_within(begun, LONG_BEFORE_IT_ENDS);
    all[3].stop(StopReason::Aborted);
    for (number, process) in all.iter().enumerate() {
        let outcome = tokio::time::timeout(Duration::from_secs(5), process.outcome()).await.expect("an end");
        let code = if number == 3 { "PROCESS_ABORTED" } else { "PROCESS_TIMED_OUT" };
        assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some(code));
    }
}
