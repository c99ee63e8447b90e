//! The list of this user's trees: one small file per run, from which `sheepdog ps` finds a run even when its host is gone.
//!
//! The files lie in a private folder of the user ([`folder`]), named by the run's mark. A sandbox may have been given that
//! folder, so it is opened without trust (`os::HeldFolder`), and `census` believes no line that its processes don't prove. A
//! run is listed when it has lived for [`WORTH_A_LINE`] (shorter ones cost nothing). It is removed when it has ended and none
//! of its processes is left. The modification time of a file is that of the run's last output, to a second. Losing a file loses
//! a name and no more: trees are found by their marks (`census`). All disk access happens on one thread that may block
//! (`roster_queue`).

use super::launch::Launched;
use super::roster_queue::enqueue;
use super::spec::{ProcessSpec, Strays};
use super::sweep::is_marked;
use ground::os::{
    ContainedFolders, HeldFolder, ProcessIdentity, blocking, native_variable, runtime_folder, start_time,
    user_id,
};
use ground::record::{Record, epoch_ms};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};
use tokio::task::AbortHandle;

const WORTH_A_LINE: Duration = Duration::from_millis(200);
const TOUCH_EVERY: Duration = Duration::from_secs(1);
const LOOKS: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// A file of ours is never longer.
const MAX_ENTRY_BYTES: u64 = 64 << 10;
const MAX_NAME_BYTES: usize = 200;

/// Digits of a mark that name its tree: so many that two trees of a machine never share them by chance.
const ID_DIGITS: usize = 16;

/// The name of a tree in `sheepdog ps`.
pub(super) fn tree_id(mark: &str) -> &str {
    mark.get(..ID_DIGITS).unwrap_or_default()
}

/// The file of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Entry {
    pub mark: String,
    pub name: Option<String>,
    pub command: String,
    pub pid: i32,
    /// Pid of the process above all others of the run: its outer guard, or the command itself.
    pub root: i32,
    pub root_start: u64,
    pub started_at_ms: u64,
    pub keeps_strays: bool,
    /// The run is over, and left processes behind on purpose.
    pub has_ended: bool,
    pub record: Option<PathBuf>,
}

impl Entry {
    pub(super) fn of(spec: &ProcessSpec, mark: &str, launched: &Launched, record: Option<&Record>) -> Entry {
        Entry {
            mark: mark.to_owned(),
            name: spec.name.as_deref().map(short),
            command: short(&spec.command),
            pid: launched.pid.cast_signed(),
            root: launched.tree.root(),
            root_start: 0,
            started_at_ms: epoch_ms(SystemTime::now()),
            keeps_strays: spec.strays == Strays::Keep,
            has_ended: false,
            record: record.map(|record| record.path().to_owned()),
        }
    }

    /// The process above all others of the run, if it is still alive.
    pub(super) fn root(&self) -> Option<ProcessIdentity> {
        let root = ProcessIdentity { pid: self.root, start_time: self.root_start };
        (start_time(root.pid) == Some(root.start_time)).then_some(root)
    }
}

fn short(text: &str) -> String {
    let plain: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    plain[..plain.floor_char_boundary(MAX_NAME_BYTES)].trim().to_owned()
}

const WAITING: u8 = 0;
const WRITTEN: u8 = 1;
const OVER: u8 = 2;

/// A run's place in the list; it is crossed out when this is dropped.
pub(super) struct Enrolled {
    entry: Arc<Entry>,
    stage: Arc<AtomicU8>,
    touched: Instant,
    /// Waits until the run is worth a line. A run that ends before ends the wait too: its timer would wake the runtime for nothing.
    waiting: AbortHandle,
}

impl Enrolled {
    pub(super) fn new(entry: Entry) -> Self {
        let (entry, stage): (Arc<Entry>, Arc<AtomicU8>) = (Arc::new(entry), Arc::default());
        let (of_run, its_stage) = (entry.clone(), stage.clone());
        let waiting = ground::task::spawn(async move {
            tokio::time::sleep(WORTH_A_LINE).await;
            if stage.load(Ordering::Acquire) != WAITING {
                return;
            }
            enqueue(move || {
                if stage.load(Ordering::Acquire) != WAITING {
                    return;
                }
                let Some(folder) = opened() else { return };
                let mut entry = (*entry).clone();
                entry.root_start = start_time(entry.root).unwrap_or(0);
                let _ = write(&folder, &entry);
                // It may have ended meanwhile: then nobody else takes it away.
                if stage.compare_exchange(WAITING, WRITTEN, Ordering::AcqRel, Ordering::Acquire).is_err() {
                    cross_out_ended(&folder, &entry);
                }
            });
        });
        Enrolled { entry: of_run, stage: its_stage, touched: Instant::now(), waiting: waiting.abort_handle() }
    }

    pub(super) fn on_output(&mut self, now: Instant) {
        if now.saturating_duration_since(self.touched) < TOUCH_EVERY
            || self.stage.load(Ordering::Acquire) != WRITTEN
        {
            return;
        }
        self.touched = now;
        let mark = self.entry.mark.clone();
        enqueue(move || {
            if let Some(folder) = opened() {
                touch(&folder, &mark);
            }
        });
    }

    /// The run has ended.
    pub(crate) fn end(&mut self) {
        let before = self.stage.swap(OVER, Ordering::AcqRel);
        self.waiting.abort();
        let is_down = before == WRITTEN || (before == WAITING && self.entry.keeps_strays);
        if !is_down || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let entry = self.entry.clone();
        let cross_out = move || {
            if let Some(folder) = opened() {
                cross_out_ended(&folder, &entry);
            }
        };
        // The search for kept processes takes a while, and must not hold up the lines of other runs.
        if self.entry.keeps_strays {
            ground::task::spawn(blocking(cross_out));
        } else {
            enqueue(cross_out);
        }
    }
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        self.end();
    }
}

/// All that is written down, with the time of each one's last output. Blocks.
pub(super) fn entries() -> Vec<(Entry, SystemTime)> {
    let Some(folder) = opened() else { return Vec::new() };
    let names = folder.entries().unwrap_or_default();
    names
        .into_iter()
        .filter_map(|(name, _)| {
            let (file, facts) = folder.open_file(&name).ok()?;
            let mut text = Vec::new();
            file.take(MAX_ENTRY_BYTES).read_to_end(&mut text).ok()?;
            let entry: Entry = ground::json::read_own(&text).ok()?;
            // A file counts only under the name of its own mark.
            (name == entry.mark).then_some((entry, facts.modified().ok()?))
        })
        .collect()
}

/// Removes a run of which no process is left. Blocks.
pub(super) fn cross_out(mark: &str) {
    if let Some(folder) = opened() {
        remove(&folder, mark);
    }
}

/// Marks an ended run as ended if processes were kept, so that they still have a name; otherwise removes it.
fn cross_out_ended(folder: &HeldFolder, entry: &Entry) {
    if entry.keeps_strays && has_kept(&entry.mark) {
        let _ = write(folder, &Entry { has_ended: true, ..entry.clone() });
    } else {
        remove(folder, &entry.mark);
    }
}

/// Whether processes with this mark live. It takes several looks: a process in the middle of execve has no environment for a
/// moment.
fn has_kept(mark: &str) -> bool {
    (0..LOOKS).any(|look| {
        if look > 0 {
            std::thread::sleep(BETWEEN_LOOKS);
        }
        is_marked(mark)
    })
}

fn write(folder: &HeldFolder, entry: &Entry) -> io::Result<()> {
    let text = serde_json::to_vec(entry)?;
    // A new line is written where it is read: who reads half of it finds no line yet.
    match folder.create(&entry.mark) {
        Ok(mut file) => file.write_all(&text),
        Err(_) => folder.put(&entry.mark, &text),
    }
}

fn remove(folder: &HeldFolder, mark: &str) {
    // A mark that was read from elsewhere must not lead out of the folder.
    if mark.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let _ = folder.remove(mark);
    }
}

fn touch(folder: &HeldFolder, mark: &str) {
    if let Ok((file, _)) = folder.open_file(mark) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// The list's folder, if it is still the user's own.
fn opened() -> Option<HeldFolder> {
    open_own(folder()?, user_id())
}

/// `$SHEEPDOG_STATE_DIR`, `$XDG_RUNTIME_DIR/sheepdog`, `/run/user/UID/sheepdog`, `$XDG_STATE_HOME/sheepdog` or
/// `~/.local/state/sheepdog`: the first that is there, or can be made, and is nobody else's. None of them is a folder that everybody may
/// write to, as sandboxes often may.
fn folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(find_folder).as_deref()
}

fn find_folder() -> Option<PathBuf> {
    let user = user_id();
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable(native_variable("HOME")).filter(|home| home.is_absolute() && home.is_dir());
    let candidates = [
        variable("SHEEPDOG_STATE_DIR"),
        variable("XDG_RUNTIME_DIR").map(|folder| folder.join("sheepdog")),
        Some(runtime_folder().join("sheepdog")),
        variable("XDG_STATE_HOME").map(|folder| folder.join("sheepdog")),
        home.map(|home| home.join(".local/state/sheepdog")),
    ];
    candidates.into_iter().flatten().find(|folder| make_own(folder, user))
}

fn make_own(folder: &Path, user: u32) -> bool {
    if let (Some(parent), Some(name)) = (folder.parent(), folder.file_name().and_then(|name| name.to_str())) {
        // Only in the home is what is above it made as well.
        let parent = if parent.ends_with(".local/state") {
            HeldFolder::make(parent, &ContainedFolders::default())
        } else {
            HeldFolder::open(parent, &ContainedFolders::default())
        };
        let _ = parent.and_then(|parent| parent.make_new(name));
    }
    open_own(folder, user).is_some()
}

/// In a folder that everybody may write to, another one may have been first.
fn open_own(folder: &Path, user: u32) -> Option<HeldFolder> {
    let parent = HeldFolder::open(folder.parent()?, &ContainedFolders::default()).ok()?;
    let held = parent.open_below(Path::new(folder.file_name()?)).ok()?;
    held.is_owned_by(user).then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_of_somebody_elses_making_is_not_trusted() {
        let parent = tempfile::tempdir().unwrap();
        let user = user_id();
        let own = parent.path().join("own");
        assert!(make_own(&own, user) && make_own(&own, user));
        assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);
        let link = parent.path().join("link");
        symlink(&own, &link).unwrap();
        assert!(!make_own(&link, user), "where it leads, its maker decides");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!make_own(&own, user));
        assert!(!make_own(&parent.path().join("other"), user + 1));
        assert!(!make_own(&parent.path().join("no/such"), user));
    }

    #[test]
    fn names_are_short_and_in_one_line() {
        assert_eq!(short(" fix\nthe\u{1b}[31m build "), "fix the [31m build");
        assert_eq!(short(&"ä".repeat(300)).len(), 200);
    }
}
