//! This machine's bare copy of a repository. All workers that use the same folder share it, and one of them fetches at a time.

use crate::folder::{digest, lock, unusable};
use crate::remote::Git;
use crate::source::GitSource;
use ground::error::Error;
use ground::os::{FileLock, on_disk};
use std::path::{Path, PathBuf};

/// File in which git notes the fetched commit. A ref can't be used: git prunes a ref whose name differs from the remote's.
const FETCHED: &str = "FETCH_HEAD";

pub(super) struct Mirror<'a> {
    path: PathBuf,
    git: &'a Git<'a>,
    _lock: FileLock,
}

impl<'a> Mirror<'a> {
    /// Waits until nobody else fetches.
    pub(super) async fn open(folder: &Path, git: &'a Git<'a>) -> Result<Mirror<'a>, Error> {
        let path = folder.join("mirrors").join(format!("{}.git", digest(&git.address.url)));
        let lock = lock(&path.with_extension("lock")).await.map_err(|error| unusable(folder, &error))?;
        let mirror = Mirror { path, git, _lock: lock };
        let found = mirror.path.clone();
        // A fetch that was killed leaves its locks; nobody else is at it now.
        let cleaned = on_disk(move || {
            let is_there = found.join("HEAD").is_file();
            if is_there {
                remove_locks(&found, 8);
                remove_halves(&found);
            }
            Ok(is_there)
        });
        if !cleaned.await.map_err(|error| unusable(folder, &error))? {
            git.run(None, &["init", "--quiet", "--bare", "--template=", &mirror.path()]).await?;
        }
        Ok(mirror)
    }

    pub(super) fn path(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// The commit that the source means, once it is here.
    pub(super) async fn commit(&self, source: &GitSource) -> Result<String, Error> {
        let wanted = source.wanted();
        if !source.is_commit() {
            self.fetch(source, true).await?;
            return self.known(FETCHED).await.ok_or_else(|| self.git.missing_ref());
        }
        if let Some(commit) = self.known(wanted).await {
            return Ok(commit);
        }
        // Most commits that are asked for are on a branch. A server need not give others.
        self.fetch(source, false).await?;
        if let Some(commit) = self.known(wanted).await {
            return Ok(commit);
        }
        self.fetch(source, true).await?;
        self.known(wanted).await.ok_or_else(|| self.git.missing_ref())
    }

    async fn known(&self, name: &str) -> Option<String> {
        let commit = format!("{name}^{{commit}}");
        let found = self.git.run(Some(&self.path), &["rev-parse", "--verify", "--quiet", &commit]).await;
        found.ok().map(|text| text.trim().to_owned())
    }

    async fn fetch(&self, source: &GitSource, named: bool) -> Result<(), Error> {
        let mut args = vec![
            "fetch",
            "--progress",
            "--prune",
            "--no-tags",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            "--",
            &self.git.address.url,
        ];
        if named {
            args.push(source.wanted());
        }
        args.extend(["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]);
        let fetched = self.git.fetch(&self.path, &args).await;
        if fetched.is_err() {
            // On a full disk nothing else would make room.
            let path = self.path.clone();
            let _ = on_disk(move || {
                remove_halves(&path);
                Ok(())
            })
            .await;
        }
        fetched
    }
}

/// Files of a fetch that ended before its time: git gives them their names when they are whole.
fn remove_halves(mirror: &Path) {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let objects = mirror.join("objects");
    let folders = below(&objects);
    for path in folders.iter().flat_map(|folder| below(folder)).chain(folders.clone()) {
        if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"tmp_")) {
            let _ = ground::os::remove_tree(&path);
        }
    }
}

/// `*.lock` below, wherever refs and settings are.
fn remove_locks(folder: &Path, depth: u32) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && depth > 0 && name != "objects" {
            remove_locks(&path, depth - 1);
        } else if !is_folder && path.extension().is_some_and(|end| end == "lock") {
            let _ = std::fs::remove_file(path);
        }
    }
}
