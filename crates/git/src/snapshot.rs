//! The tree of a folder's files: tracked files as they are now, and untracked files that are not ignored.
//!
//! Only plumbing commands are used, because `add` and `status` look into nested repositories, where a configuration that an
//! agent wrote would apply. A nested repository, a device and a pipe are left out and named.

use crate::command::CallFault;
use crate::desk::Desk;
use crate::repository::{failed, refused};
use ground::error::Error;
use ground::os::{on_disk, path_of};
use std::collections::HashSet;
use std::path::PathBuf;
use walkdir::{DirEntry, WalkDir};

/// Most bytes of new and changed files in one snapshot. A sparse file could fill the disk with zeros.
const MAX_BYTES: u64 = 4 << 30;
/// Most entries that a warning names.
const MAX_NAMED: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub tree: String,
    /// Entries that a tree cannot hold.
    pub left_out: Vec<String>,
}

/// Files as git is given them.
#[derive(Default)]
struct Sorted {
    taken: Vec<u8>,
    /// Tracked entries that are something else than a file now.
    removed: Vec<u8>,
    left_out: Vec<String>,
}

/// Takes the snapshot by the desk's index. `hidden`: untracked paths that do not belong to it.
pub(crate) async fn snapshot(
    desk: &Desk,
    hidden: &HashSet<Vec<u8>>,
    step: &'static str,
) -> Result<Snapshot, Error> {
    let what = format!("git cannot read the files of {}", desk.tree.display());
    if let Some(trap) = trap_below(desk).await {
        let error = std::io::Error::other(format!("{} is no file", trap.display()));
        return Err(refused(step, &what, &error));
    }
    let changed = desk.call(["diff-files", "--ignore-submodules=all", "--name-only", "-z"]);
    let others = desk.call(["ls-files", "--others", "--exclude-standard", "-z"]);
    let (changed, others) = futures_util::future::join(changed.run(), others.run()).await;
    let of = |fault: CallFault| failed(step, &what, &fault);
    let (changed, mut others) = (names_of(&changed.map_err(of)?), names_of(&others.map_err(of)?));
    others.retain(|name| !hidden.contains(name));
    let tree = desk.tree.clone();
    let sorted = on_disk(move || sort(&tree, changed, others)).await;
    let sorted = sorted.map_err(|error| refused(step, &what, &error))?;
    if !sorted.removed.is_empty() {
        let call = desk.call(["update-index", "--force-remove", "-z", "--stdin"]);
        call.input(sorted.removed).run().await.map_err(of)?;
    }
    if !sorted.taken.is_empty() {
        let call = desk.call(["update-index", "--add", "--remove", "--replace", "-z", "--stdin"]);
        call.input(sorted.taken).run().await.map_err(of)?;
    }
    let tree = desk.call(["write-tree"]).line().await.map_err(of)?;
    Ok(Snapshot { tree, left_out: sorted.left_out })
}

async fn trap_below(desk: &Desk) -> Option<PathBuf> {
    let tree = desk.tree.clone();
    on_disk(move || Ok(trap_of(&tree))).await.ok().flatten()
}

pub(crate) fn names_of(list: &[u8]) -> Vec<Vec<u8>> {
    list.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
}

fn sort(tree: &std::path::Path, changed: Vec<Vec<u8>>, others: Vec<Vec<u8>>) -> std::io::Result<Sorted> {
    let mut sorted = Sorted::default();
    let mut bytes = 0u64;
    let changed = changed.into_iter().map(|name| (name, true));
    for (name, is_tracked) in changed.chain(others.into_iter().map(|name| (name, false))) {
        if is_tracked && is_beyond_a_file(tree, &name) {
            push(&mut sorted.removed, &name);
            continue;
        }
        let path: PathBuf = tree.join(path_of(&name));
        let facts = path.symlink_metadata().ok();
        let is_gone = facts.is_none();
        // A tracked file may be a folder now, which git removes from the index by itself.
        let is_plain =
            facts.as_ref().is_some_and(|facts| facts.is_file() || facts.is_symlink() || facts.is_dir());
        let is_link = facts.as_ref().is_some_and(std::fs::Metadata::is_symlink);
        let is_nested = name.ends_with(b"/") || is_reserved(&name, is_link);
        if is_nested || (!is_gone && !is_plain) {
            sorted.leave_out(&name);
            if is_tracked {
                push(&mut sorted.removed, &name);
            }
            continue;
        }
        bytes += facts.filter(std::fs::Metadata::is_file).map_or(0, |facts| facts.len());
        if bytes > MAX_BYTES {
            let shown = String::from_utf8_lossy(&name).into_owned();
            let told = format!("the changed files have more than {MAX_BYTES} bytes, with {shown:?} the last");
            return Err(std::io::Error::other(told));
        }
        push(&mut sorted.taken, &name);
    }
    Ok(sorted)
}

/// Whether a folder above is a link or a file now. git refuses such a path.
fn is_beyond_a_file(tree: &std::path::Path, name: &[u8]) -> bool {
    let above =
        name.iter().enumerate().filter(|(_, byte)| **byte == b'/').filter_map(|(at, _)| name.get(..at));
    above
        .map(|part| tree.join(path_of(part)).symlink_metadata())
        .any(|facts| facts.is_ok_and(|facts| !facts.is_dir()))
}

impl Sorted {
    fn leave_out(&mut self, name: &[u8]) {
        if self.left_out.len() < MAX_NAMED {
            self.left_out.push(String::from_utf8_lossy(name).into_owned());
        }
    }
}

fn push(list: &mut Vec<u8>, name: &[u8]) {
    list.extend_from_slice(name);
    list.push(0);
}

/// git refuses a path with such a part, and the whole list with it: a name that a Windows system takes for `.git`, and a link in
/// place of `.gitmodules`.
fn is_reserved(name: &[u8], is_link: bool) -> bool {
    let mut parts = name.split(|byte| matches!(byte, b'/' | b'\\'));
    parts.any(|part| {
        let end = part.iter().position(|byte| *byte == b':').unwrap_or(part.len());
        let part = part.get(..end).unwrap_or(part).trim_ascii_end();
        let plain = part.iter().rposition(|byte| !matches!(byte, b' ' | b'.')).map_or(0, |last| last + 1);
        let part = part.get(..plain).unwrap_or(part).to_ascii_lowercase();
        let is_short =
            [b"gitmod~".as_slice(), b"gi7eba~", b"gi7eb"].iter().any(|begin| part.starts_with(begin));
        matches!(part.as_slice(), b".git" | b"git~1") || (is_link && (part == b".gitmodules" || is_short))
    })
}

/// A pipe that git would read attributes or ignored names from, and wait for ever. Blocks.
fn trap_of(folder: &std::path::Path) -> Option<PathBuf> {
    let is_own = |entry: &DirEntry| entry.depth() == 0 || entry.file_name() != ".git";
    let is_trap = |entry: &DirEntry| {
        let (kind, name) = (entry.file_type(), entry.file_name());
        !kind.is_dir()
            && !kind.is_file()
            && !kind.is_symlink()
            && (name == ".gitignore" || name == ".gitattributes")
    };
    let mut entries =
        WalkDir::new(folder).follow_root_links(false).into_iter().filter_entry(is_own).flatten();
    entries.find(is_trap).map(DirEntry::into_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trap_is_found_at_any_depth() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/".repeat(700));
        std::fs::create_dir_all(&path).unwrap();
        let trap = path.join(".gitignore");
        let made = std::process::Command::new("mkfifo").arg(&trap).status();
        assert!(made.unwrap().success());
        let top = folder.path().to_owned();
        let look = std::thread::Builder::new().stack_size(128 * 1024).spawn(move || trap_of(&top));
        assert_eq!(look.unwrap().join().unwrap(), Some(trap));
    }

    #[test]
    fn what_a_tree_cannot_hold_is_named_and_left_out() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "x").unwrap();
        std::fs::create_dir(folder.path().join("nested")).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        let names = |list: &[&str]| list.iter().map(|name| name.as_bytes().to_vec()).collect();
        let sorted = sort(
            folder.path(),
            names(&["gone", "socket"]),
            names(&["a", "nested/", "deep/.GIT/config", "git~1", ".git.. /x", "b\\.git:y", ".gitignored"]),
        )
        .unwrap();
        assert_eq!(sorted.taken, b"gone\0a\0.gitignored\0");
        assert_eq!(sorted.removed, b"socket\0");
        assert_eq!(
            sorted.left_out,
            ["socket", "nested/", "deep/.GIT/config", "git~1", ".git.. /x", "b\\.git:y"]
        );
        drop(socket);
    }

    #[test]
    fn a_file_of_zeros_does_not_fill_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("huge")).unwrap();
        file.set_len(MAX_BYTES + 1).unwrap();
        let fault = sort(folder.path(), Vec::new(), vec![b"huge".to_vec()]).err().unwrap();
        assert!(fault.to_string().contains("huge"), "{fault}");
    }
}
