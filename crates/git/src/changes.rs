//! The changes of an agent: its files, its patch, and its way into a working tree.
//!
//! `apply` merges three trees: the base, the agent's, and that of the working tree as it is now. A conflict changes nothing.
//! The merge is written by `read-tree`, which looks at every file before it writes the first. The user's index, stash and refs
//! are never touched.

use crate::command::{Call, CallFault};
use crate::desk::Desk;
use crate::journal::Journal;
use crate::ledger::forget;
use crate::place::GitPlace;
use crate::repository::{Repository, failed, refused};
use crate::room::Room;
use crate::snapshot::{names_of, snapshot};
use ground::error::{Error, ErrorCode};
use ground::os::{on_disk, path_of};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The changes of an agent, as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    pub id: String,
    /// The ref of the user's repository that keeps the commit; `None` without changes.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_name: Option<String>,
    pub repository: PathBuf,
    pub git_dir: PathBuf,
    pub base: String,
    pub commit: String,
    pub files: Vec<ChangedFile>,
    /// Folder of the checkout, where it was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangedFile {
    pub path: String,
    pub status: FileStatus,
    /// The name before, of a renamed file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub insertions: u64,
    pub deletions: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileStatus {
    Added,
    Modified,
    Deleted,
    Renamed,
}

fn bare<'a>(common: &Path, args: impl IntoIterator<Item = &'a str>) -> Call {
    Call::new(args).bare().at(common).path("GIT_DIR", common)
}

/// The files that differ between two commits.
pub(crate) async fn files_between(
    common: &Path,
    base: &str,
    commit: &str,
) -> Result<Vec<ChangedFile>, CallFault> {
    if base == commit {
        return Ok(Vec::new());
    }
    let args =
        ["diff-tree", "-r", "-M", "-z", "--raw", "--numstat", "--no-ext-diff", "--no-textconv", base, commit];
    Ok(files_of(&bare(common, args).run().await?))
}

/// Reads `--raw --numstat -z`: first a list of states, then one of numbers, in the same order.
fn files_of(told: &[u8]) -> Vec<ChangedFile> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut parts = told.split(|byte| *byte == 0).filter(|part| !part.is_empty()).peekable();
    let mut files = Vec::new();
    let mut at: HashMap<Vec<u8>, usize> = HashMap::new();
    while let Some(part) = parts.peek().filter(|part| part.starts_with(b":")) {
        let letter = part.rsplit(|byte| *byte == b' ').next().and_then(|last| last.first()).copied();
        parts.next();
        let Some(mut path) = parts.next() else { break };
        let mut from = None;
        if letter == Some(b'R') {
            from = Some(text(path));
            path = parts.next().unwrap_or(path);
        }
        let status = match letter {
            Some(b'A') => FileStatus::Added,
            Some(b'D') => FileStatus::Deleted,
            Some(b'R') => FileStatus::Renamed,
            _ => FileStatus::Modified,
        };
        at.insert(path.to_vec(), files.len());
        files.push(ChangedFile {
            path: text(path),
            status,
            from,
            insertions: 0,
            deletions: 0,
            binary: false,
        });
    }
    while let Some(part) = parts.next() {
        let mut fields = part.splitn(3, |byte| *byte == b'\t');
        let (added, removed, path) = (fields.next(), fields.next(), fields.next().unwrap_or_default());
        // A renamed file has its two names in the parts behind.
        let path = match path.is_empty() {
            true => {
                parts.next();
                parts.next().unwrap_or_default()
            }
            false => path,
        };
        let number =
            |field: Option<&[u8]>| std::str::from_utf8(field.unwrap_or_default()).ok()?.parse::<u64>().ok();
        if let Some(file) = at.get(path).and_then(|index| files.get_mut(*index)) {
            file.binary = number(added).is_none();
            file.insertions = number(added).unwrap_or_default();
            file.deletions = number(removed).unwrap_or_default();
        }
    }
    files
}

impl Changes {
    /// The changes as a patch that `git apply` takes, binary files included. A file whose text or name is not UTF-8 is in it as a
    /// binary one.
    pub async fn patch(&self) -> Result<String, Error> {
        let of = |fault: CallFault| failed("changes", "the patch cannot be made", &fault);
        let patch = match String::from_utf8(self.diff().run().await.map_err(of)?) {
            Ok(patch) => return Ok(patch),
            Err(error) => error.into_bytes(),
        };
        let encoded = self.diff().setting("diff.default.binary", "true").setting("core.quotePath", "true");
        let encoded = encoded.run().await.map_err(of)?;
        let files = files_in(&patch).zip(files_in(&encoded));
        let files = files.map(|(text, binary)| if std::str::from_utf8(text).is_ok() { text } else { binary });
        let patch = String::from_utf8(files.collect::<Vec<_>>().concat());
        patch.map_err(|error| of(CallFault::Other(error.to_string())))
    }

    fn diff(&self) -> Call {
        let args = ["diff", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "-M"];
        bare(&self.git_dir, args.into_iter().chain([self.base.as_str(), &self.commit, "--"]))
    }

    /// Removes the ref, and the checkout if it was kept.
    pub async fn discard(&self, place: &GitPlace) -> Result<(), Error> {
        let removed = Repository::set_ref(&self.git_dir, &self.id, None).await;
        removed.map_err(|fault| failed("discard", "the ref cannot be removed", &fault))?;
        let forgotten = forget(place, &self.id).await;
        forgotten.map_err(|error| refused("discard", "the checkout cannot be removed", &error))
    }

    /// Merges the changes into the working tree of `cwd`, or of the repository they come from.
    ///
    /// # Errors
    /// `CHANGES_CONFLICT` with the files; the working tree is as it was.
    pub async fn apply(&self, place: &GitPlace, cwd: Option<&Path>) -> Result<(), Error> {
        if self.base == self.commit {
            return Ok(());
        }
        let repository = Repository::find(cwd.unwrap_or(&self.repository), "cwd").await?;
        let room = Room::open(place, &repository, &self.git_dir).await?;
        let applied = self.apply_in(&room, &repository).await;
        let _ = room.close().await;
        applied
    }

    async fn apply_in(&self, room: &Room, repository: &Repository) -> Result<(), Error> {
        let desk = room.desk(repository, "index");
        let of = |fault: CallFault| failed("apply", "the changes cannot be applied", &fault);
        let ours = snapshot(&desk, &HashSet::new(), "apply").await?;
        let mine = desk.commit(&ours.tree, Some(&self.base), "The working tree").await.map_err(of)?;
        let args = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", &mine, &self.commit];
        let merged = match desk.call(args).bare().run().await {
            Ok(told) => names_of(&told).into_iter().next().unwrap_or_default(),
            // The same status without a word means that a commit is gone.
            Err(CallFault::Said { code: Some(1), stdout, .. }) if !stdout.is_empty() => {
                return Err(self.conflict(names_of(&stdout).into_iter().skip(1)));
            }
            Err(fault) => return Err(of(fault)),
        };
        let merged = String::from_utf8_lossy(&merged).trim().to_owned();
        if merged == ours.tree {
            return Ok(());
        }
        let mut touched = Touched::between(&desk, &ours.tree, &merged).await.map_err(of)?;
        let known = std::mem::take(&mut touched.known);
        let top = desk.tree.clone();
        let blocked = on_disk(move || Ok(touched.obstacles(&top))).await;
        let blocked = blocked.map_err(|error| refused("apply", "the changes cannot be applied", &error))?;
        if !blocked.is_empty() {
            return Err(self.conflict(blocked.into_iter()));
        }
        if !known.is_empty() {
            let unskip = desk.call(["update-index", "--no-skip-worktree", "-z", "--stdin"]);
            unskip.input(known).run().await.map_err(of)?;
        }
        let journal = Journal::new(&self.id, repository, &ours.tree, &merged).await.map_err(of)?;
        let begun = room.begin(&journal).await;
        begun.map_err(|error| refused("apply", "the changes cannot be applied", &error))?;
        // git would leave out files that a sparse checkout does not have, without a word.
        let write = desk.call(["read-tree", "-m", "-u", &ours.tree, &merged]);
        let Err(fault) = write.setting("core.sparseCheckout", "false").run().await else { return Ok(()) };
        let names = in_the_way(&fault);
        if !names.is_empty() {
            return Err(self.conflict(names.into_iter().map(String::into_bytes)));
        }
        // A full disk, for example: some files may have been written.
        let what = match journal.undo(&desk, repository).await {
            Ok(()) => "the changes cannot be written, and the files are as they were".to_owned(),
            Err(other) => {
                format!("the changes cannot be written, nor all of them undone ({})", other.words())
            }
        };
        Err(failed("apply", &what, &fault))
    }

    fn conflict(&self, files: impl Iterator<Item = Vec<u8>>) -> Error {
        let mut files: Vec<String> = files.map(|name| String::from_utf8_lossy(&name).into_owned()).collect();
        files.sort();
        files.dedup();
        let shown = files.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
        let more = if files.len() > 10 { format!(" and {} more", files.len() - 10) } else { String::new() };
        let message = format!(
            "the changes conflict with the working tree in {shown}{more}; nothing was changed: commit or undo your changes there, or merge {} yourself",
            self.commit
        );
        Error::new(ErrorCode::ChangesConflict, message).with("files", files)
    }
}

/// The parts of a patch, one for each file.
fn files_in(patch: &[u8]) -> impl Iterator<Item = &[u8]> {
    const BEGIN: &[u8] = b"diff --git ";
    let mut lines = patch.split_inclusive(|byte| *byte == b'\n').peekable();
    let mut rest = patch;
    std::iter::from_fn(move || {
        let mut length = lines.next()?.len();
        while let Some(line) = lines.next_if(|line| !line.starts_with(BEGIN)) {
            length += line.len();
        }
        let (file, after) = rest.split_at_checked(length)?;
        rest = after;
        Some(file)
    })
}

/// The paths that a merge writes or removes.
struct Touched {
    added: Vec<Vec<u8>>,
    deleted: HashSet<Vec<u8>>,
    /// The others and the deleted ones, each with a NUL.
    known: Vec<u8>,
}

impl Touched {
    async fn between(desk: &Desk, ours: &str, merged: &str) -> Result<Touched, CallFault> {
        let told =
            desk.call(["diff-tree", "-r", "-z", "--name-status", "--no-renames", ours, merged]).run().await?;
        let mut touched = Touched { added: Vec::new(), deleted: HashSet::new(), known: Vec::new() };
        for pair in names_of(&told).chunks_exact(2) {
            let [status, name] = pair else { continue };
            if status == b"A" {
                touched.added.push(name.clone());
                continue;
            }
            touched.known.extend_from_slice(name);
            touched.known.push(0);
            if status == b"D" {
                touched.deleted.insert(name.clone());
            }
        }
        Ok(touched)
    }

    /// Entries on the disk that are in the way of new files: ignored ones, which git gives up without a word. The tree of the
    /// working folder has none of them. Blocks.
    fn obstacles(&self, top: &Path) -> Vec<Vec<u8>> {
        let deleted = &self.deleted;
        let mut found = Vec::new();
        for name in &self.added {
            let above = (0..name.len()).filter(|at| name.get(*at) == Some(&b'/'));
            let blocked = above.filter_map(|at| name.get(..at)).find(|part| {
                let facts = top.join(path_of(part)).symlink_metadata();
                facts.is_ok_and(|facts| !facts.is_dir()) && !deleted.contains(*part)
            });
            if let Some(part) = blocked {
                found.push(part.to_vec());
            } else {
                collect_kept(top, name, deleted, &mut found);
            }
        }
        found
    }
}

/// Adds the files at or below this name that nothing deletes.
fn collect_kept(top: &Path, name: &[u8], deleted: &HashSet<Vec<u8>>, found: &mut Vec<Vec<u8>>) {
    let path = top.join(path_of(name));
    for entry in WalkDir::new(&path)
        .follow_root_links(false)
        .into_iter()
        .flatten()
        .filter(|entry| !entry.file_type().is_dir())
    {
        let below = entry.path().strip_prefix(&path).unwrap_or(Path::new("")).components();
        let parts = below.map(|part| part.as_os_str().as_encoded_bytes());
        let file = std::iter::once(name).chain(parts).collect::<Vec<_>>().join(&b'/');
        if !deleted.contains(&file) {
            found.push(file);
        }
    }
}

/// Files that git refuses to write over. It lists them, each behind a tab, or names one in its message.
fn in_the_way(fault: &CallFault) -> Vec<String> {
    let CallFault::Said { stderr, .. } = fault else { return Vec::new() };
    if !stderr.contains("would be overwritten")
        && !stderr.contains("not uptodate")
        && !stderr.contains("would lose")
    {
        return Vec::new();
    }
    let listed: Vec<String> = stderr
        .lines()
        .filter_map(|line| line.strip_prefix('\t'))
        .map(|name| name.trim().to_owned())
        .collect();
    if !listed.is_empty() {
        return listed;
    }
    stderr.lines().filter_map(|line| line.split('\'').nth(1)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_numbers_are_joined_by_name() {
        let parts = [
            ":100644 100644 a b M",
            "a.txt",
            ":100644 100644 c d R090",
            "old",
            "new",
            ":000000 100644 0 e A",
            "pic",
            ":100644 000000 f 0 D",
            "gone",
            "3\t1\ta.txt",
            "0\t2\t",
            "old",
            "new",
            "-\t-\tpic",
            "0\t9\tgone",
        ];
        let told = parts.map(|part| format!("{part}\0")).concat();
        let files = files_of(told.as_bytes());
        let short: Vec<_> = files
            .iter()
            .map(|file| {
                (
                    file.path.as_str(),
                    file.status,
                    file.from.as_deref(),
                    file.insertions,
                    file.deletions,
                    file.binary,
                )
            })
            .collect();
        assert_eq!(
            short,
            [
                ("a.txt", FileStatus::Modified, None, 3, 1, false),
                ("new", FileStatus::Renamed, Some("old"), 0, 2, false),
                ("pic", FileStatus::Added, None, 0, 0, true),
                ("gone", FileStatus::Deleted, None, 0, 9, false),
            ]
        );
    }

    #[test]
    fn files_in_the_way_are_named() {
        let said =
            |stderr: &str| CallFault::Said { code: Some(128), stdout: Vec::new(), stderr: stderr.to_owned() };
        let one = said("error: Untracked working tree file 'a b' would be overwritten by merge.\n");
        assert_eq!(in_the_way(&one), ["a b"]);
        let list = said(
            "error: The following untracked working tree files would be overwritten by merge:\n\tx\n\ty\nPlease\n",
        );
        assert_eq!(in_the_way(&list), ["x", "y"]);
        assert!(in_the_way(&said("fatal: no space left on device")).is_empty());
    }
}
