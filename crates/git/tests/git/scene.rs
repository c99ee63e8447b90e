//! A repository of a user, and what an agent does to its checkout.

#![expect(clippy::unwrap_used, reason = "a panic is a test's report")]

use git::{GitPlace, REMOVED, Worktree, WorktreeRequest};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct Scene {
    pub(crate) root: tempfile::TempDir,
    pub(crate) place: GitPlace,
}

pub(crate) fn git(at: &Path, args: &[&str]) -> String {
    let done = run_git(at, args);
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

pub(crate) fn run_git(at: &Path, args: &[&str]) -> std::process::Output {
    let mut command = Command::new("git");
    for name in REMOVED {
        command.env_remove(name);
    }
    command
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"])
        .args(["-c", "protocol.file.allow=always"])
        .args(args)
        .current_dir(at)
        .output()
        .unwrap()
}

pub(crate) fn write(at: &Path, name: &str, text: &str) {
    let path = at.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(crate) fn read(at: &Path, name: &str) -> String {
    std::fs::read_to_string(at.join(name)).unwrap_or_else(|error| format!("<{error}>"))
}

pub(crate) fn script(at: &Path, name: &str, text: &str) {
    write(at, name, &format!("#!/bin/sh\n{text}\n"));
    std::fs::set_permissions(at.join(name), PermissionsExt::from_mode(0o755)).unwrap();
}

pub(crate) fn link(target: impl AsRef<Path>, at: &Path) {
    symlink(target, at).unwrap();
}

/// Every file below, with its content; links with their target. `.git` is left out of the names that `skips`.
pub(crate) fn files(at: &Path, skips: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![at.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(at).unwrap().to_string_lossy().into_owned();
            if skips.iter().any(|skip| name.starts_with(skip)) {
                continue;
            }
            let facts = path.symlink_metadata().unwrap();
            if facts.is_symlink() {
                found.insert(
                    name,
                    std::fs::read_link(&path).unwrap().to_string_lossy().into_owned().into_bytes(),
                );
            } else if facts.is_dir() {
                open.push(path);
            } else {
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

impl Scene {
    /// A repository with one commit, and a working tree with changes of each kind.
    pub(crate) fn new() -> Scene {
        let root = tempfile::tempdir().unwrap();
        let place = GitPlace { folder: root.path().join("cache"), idle_timeout: GitPlace::IDLE_TIMEOUT };
        let scene = Scene { root, place };
        let repo = scene.repo();
        std::fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q"]);
        write(&repo, ".gitignore", "*.log\n.env\nnode_modules/\n");
        write(&repo, "a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
        write(&repo, "b.txt", "b\n");
        write(&repo, "old.txt", "to be renamed, long enough to be seen as the same\n");
        write(&repo, "sub/c.txt", "c\n");
        git(&repo, &["add", "."]);
        git(&repo, &["commit", "-qm", "first"]);
        scene
    }

    /// Changes of the user's that are not committed: staged, unstaged, deleted, untracked, ignored.
    pub(crate) fn dirty(self) -> Scene {
        let repo = self.repo();
        write(&repo, "a.txt", "1 mine\n2\n3\n4\n5\n6\n7\n8\n9\n");
        write(&repo, "staged.txt", "staged\n");
        git(&repo, &["add", "staged.txt"]);
        write(&repo, "staged.txt", "staged, then changed\n");
        std::fs::remove_file(repo.join("b.txt")).unwrap();
        write(&repo, "new/untracked.txt", "untracked\n");
        write(&repo, "noise.log", "ignored\n");
        write(&repo, ".env", "SECRET=1\n");
        self
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.root.path().join("repo")
    }

    pub(crate) fn request(&self) -> WorktreeRequest {
        WorktreeRequest { cwd: self.repo(), ..WorktreeRequest::default() }
    }

    pub(crate) async fn make(&self) -> Worktree {
        Worktree::make(&self.place, self.request()).await.unwrap()
    }

    /// All that the user has: files, index, configuration, refs outside of ours, stash. Objects may be added.
    pub(crate) fn state(&self) -> BTreeMap<String, Vec<u8>> {
        let mut state = files(&self.repo(), &[".git/objects", ".git/refs/sheepdog"]);
        let refs = git(&self.repo(), &["for-each-ref", "--format=%(refname) %(objectname)"]);
        let refs =
            refs.lines().filter(|line| !line.starts_with("refs/sheepdog/")).collect::<Vec<_>>().join("\n");
        state.insert("refs".into(), refs.into_bytes());
        state
    }

    /// Entries that checkouts left.
    pub(crate) fn left(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.place.folder.join("worktrees")) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    pub(crate) fn refs(&self) -> String {
        git(&self.repo(), &["for-each-ref", "--format=%(refname)", "refs/sheepdog"])
    }
}
