//! Files that an attempt leaves: finds them by globs below its folder, and stores them under the attempt's name.

use crate::engine::Shared;
use crate::name::artifact_object;
use crate::record::Artifact;
use ground::error::{Error, ErrorCode};
use ground::os::{ContainedFolders, EntryKind, HeldFolder, blocking, on_disk};
use std::path::{Component, Path, PathBuf};
use wires::watch::IgnoreRules;

/// Most files that a glob may match; more are taken for a mistake.
const MAX_FILES: usize = 10_000;
/// Estimated bytes of an artifact in a record, besides its path.
const LISTED_BYTES: usize = 150;

/// The path below `root`, or an error if it is not below `root`.
pub(super) fn relative(root: &Path, path: &Path) -> Result<PathBuf, Error> {
    let below = if path.is_absolute() { path.strip_prefix(root).unwrap_or(path) } else { path };
    let is_below = below.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_below || below.as_os_str().is_empty() {
        let problem = format!("expected a path below {}, got {}", root.display(), path.display());
        return Err(Error::invalid_option("path", problem));
    }
    Ok(below.components().filter(|part| matches!(part, Component::Normal(_))).collect())
}

pub(super) async fn keep(
    engine: &Shared,
    id: &str,
    attempt: u32,
    root: &Path,
    relative: &Path,
) -> Result<Artifact, Error> {
    let path = relative.to_string_lossy().into_owned();
    // The job's program can write here, so no link is followed: it may lead anywhere.
    let (root_path, below) = (root.to_owned(), relative.to_owned());
    let opened = on_disk(move || {
        let root = HeldFolder::open(&root_path, &ContainedFolders::default())?;
        let name = below.file_name().unwrap_or_default();
        root.open_below(below.parent().unwrap_or(Path::new("")))?.open_file(name)
    });
    let (file, _) = opened.await.map_err(|error| {
        let message = format!("{path} is not a file below {}: {error}", root.display());
        Error::invalid_option("path", message)
    })?;
    let (bytes, sha256) = engine.put_file(&artifact_object(id, attempt, &path), file).await?;
    Ok(Artifact { path, bytes, sha256 })
}

/// The files below `root` that a glob matches, in order.
pub(super) async fn find(root: PathBuf, globs: &[String]) -> Result<Vec<PathBuf>, Error> {
    let rules = IgnoreRules::parse(&globs.join("\n"));
    let found = blocking(move || walk(&root, &rules)).await;
    found.unwrap_or_else(|error| {
        Err(Error::new(ErrorCode::FleetStorage, format!("cannot search for artifacts: {error}")))
    })
}

/// As many artifacts as a record of `most` bytes can list, and an error that explains why others are left out.
pub(super) fn listed(mut artifacts: Vec<Artifact>, most: usize) -> (Vec<Artifact>, Option<Error>) {
    let all = artifacts.len();
    let mut bytes = 0;
    let fit = artifacts.iter().take_while(|artifact| {
        // Count the path as JSON, where it may have escapes.
        bytes += serde_json::Value::from(artifact.path.as_str()).to_string().len() + LISTED_BYTES;
        bytes <= most
    });
    let fit = fit.count();
    artifacts.truncate(fit);
    let left_out = (fit < all).then(|| {
        let problem = format!(
            "{} of {all} files are not listed: a record has no room for so many names; pack them into one file",
            all - fit
        );
        Error::invalid_option("artifacts", problem)
    });
    (artifacts, left_out)
}

fn walk(root: &Path, rules: &IgnoreRules) -> Result<Vec<PathBuf>, Error> {
    let (mut found, mut open) = (Vec::new(), vec![PathBuf::new()]);
    let Ok(root) = HeldFolder::open(root, &ContainedFolders::default()) else { return Ok(found) };
    while let Some(folder) = open.pop() {
        // A folder that vanishes meanwhile has no artifacts.
        let Ok(entries) = root.open_below(&folder).and_then(|folder| folder.entries()) else { continue };
        for (name, kind) in entries {
            let path = folder.join(name);
            if kind == EntryKind::Folder {
                open.push(path);
            } else if matches!(kind, EntryKind::File { .. }) && rules.leaves_out(&path, false) {
                found.push(path);
                if found.len() > MAX_FILES {
                    let problem = format!("more than {MAX_FILES} files match: name fewer");
                    return Err(Error::invalid_option("artifacts", problem));
                }
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_its_root() {
        let root = Path::new("/work");
        assert_eq!(relative(root, Path::new("./out/a.txt")).unwrap(), Path::new("out/a.txt"));
        assert_eq!(relative(root, Path::new("/work/b")).unwrap(), Path::new("b"));
        for wrong in ["../a", "/etc/passwd", "out/../../a", "", "/work"] {
            assert!(relative(root, Path::new(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_record_lists_as_many_as_it_has_room_for() {
        let artifact = |path: String| Artifact { path, bytes: u64::MAX, sha256: "0".repeat(64) };
        let all: Vec<_> = (0..100).map(|n| artifact(format!("{n}{}", "\u{1}".repeat(100)))).collect();
        let (some, error) = listed(all.clone(), 10_000);
        assert!(!some.is_empty() && error.unwrap().message().contains("of 100 files are not listed"));
        assert!(serde_json::to_vec(&some[..1]).unwrap().len() < 1000);
        let (same, error) = listed(all.clone(), 1 << 20);
        assert!(same == all && error.is_none());
    }

    #[test]
    fn globs_find_files_and_whole_folders() {
        let root = tempfile::tempdir().unwrap();
        for path in ["out/a.json", "out/deep/b.json", "out/c.txt", "report.md", "src/main.rs"] {
            std::fs::create_dir_all(root.path().join(path).parent().unwrap()).unwrap();
            std::fs::write(root.path().join(path), "x").unwrap();
        }
        let found = |globs: &str| {
            let found = walk(root.path(), &IgnoreRules::parse(globs)).unwrap();
            found.iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found("out/*.json\nreport.md"), "out/a.json report.md");
        assert_eq!(found("out/**"), "out/a.json out/c.txt out/deep/b.json");
        assert_eq!(found("nothing"), "");
    }
}
