//! Finds finished files of a watched directory: real files, real events.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic in a test is its report")]

use ground::mpsc;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use wires::watch::{FoundFile, TreeWatch, WatchSpec};

struct Watched {
    directory: TempDir,
    tree: TreeWatch,
    found: mpsc::Receiver<FoundFile>,
}

impl Watched {
    async fn start(spec: WatchSpec, pinned: Option<&str>, prepare: impl FnOnce(&Path)) -> Watched {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path());
        let (tree, found) = TreeWatch::start(spec);
        tree.add_root(7, directory.path().to_owned(), pinned.map(str::to_owned)).await.unwrap();
        Watched { directory, tree, found }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    async fn next(&mut self) -> String {
        let file = tokio::time::timeout(Duration::from_secs(20), self.found.recv()).await;
        file.expect("a file should have been found").unwrap().relative.to_str().unwrap().to_owned()
    }

    async fn next_set(&mut self, count: usize) -> BTreeSet<String> {
        let mut set = BTreeSet::new();
        for _ in 0..count {
            set.insert(self.next().await);
        }
        set
    }

    /// The files of a sweep beside those that the receiver got: finished ones, and those that are being written.
    async fn rest(&mut self) -> (BTreeSet<String>, BTreeSet<String>) {
        let sweep = self.tree.sweep().await.unwrap();
        let names =
            |files: Vec<FoundFile>| files.into_iter().map(|file| file.relative.to_str().unwrap().to_owned());
        let mut finished: BTreeSet<String> = names(sweep.finished).collect();
        while let Ok(file) = self.found.try_recv() {
            finished.insert(file.relative.to_str().unwrap().to_owned());
        }
        (finished, names(sweep.writing).collect())
    }
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn rule_4_files_from_before_are_found_and_so_are_files_in_new_directories() {
    let mut watched =
        Watched::start(WatchSpec::default(), None, |top| fs::write(top.join("before"), "1").unwrap()).await;
    assert_eq!(watched.next().await, "before");
    fs::create_dir_all(watched.path("a/b/c")).unwrap();
    fs::write(watched.path("a/b/c/deep"), "1").unwrap();
    assert_eq!(watched.next().await, "a/b/c/deep");
    fs::write(watched.path("a/b/second"), "1").unwrap();
    assert_eq!(watched.next().await, "a/b/second");
}

#[tokio::test]
async fn rule_5_a_file_is_found_when_it_is_closed_and_not_before() {
    let mut watched = Watched::start(WatchSpec::default(), None, |_| ()).await;
    let mut file = fs::File::create(watched.path("slow")).unwrap();
    file.write_all(b"half").unwrap();
    let (finished, writing) = watched.rest().await;
    assert_eq!((finished, writing), (set([]), set(["slow"])));
    file.write_all(b"whole").unwrap();
    drop(file);
    let found = watched.found.recv().await.unwrap();
    assert_eq!((found.relative.to_str(), found.stamp.bytes), (Some("slow"), 9));
}

#[tokio::test]
async fn rule_5_a_file_that_is_renamed_or_linked_into_place_is_found() {
    let mut watched = Watched::start(WatchSpec::default(), None, |_| ()).await;
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("file"), "1").unwrap();
    fs::hard_link(elsewhere.path().join("file"), watched.path("linked")).unwrap();
    assert_eq!(watched.next().await, "linked");
    fs::rename(elsewhere.path().join("file"), watched.path("renamed")).unwrap();
    assert_eq!(watched.next().await, "renamed");
    fs::create_dir(elsewhere.path().join("tree")).unwrap();
    fs::write(elsewhere.path().join("tree/leaf"), "1").unwrap();
    fs::rename(elsewhere.path().join("tree"), watched.path("tree")).unwrap();
    assert_eq!(watched.next().await, "tree/leaf");
}

#[tokio::test]
async fn rule_6_the_same_content_is_found_once_and_a_changed_one_again() {
    let mut watched = Watched::start(WatchSpec::default(), None, |_| ()).await;
    fs::write(watched.path("a"), "1").unwrap();
    assert_eq!(watched.next().await, "a");
    assert_eq!(watched.rest().await, (set([]), set([])));
    // The file is opened for writing and closed, but not changed.
    drop(fs::OpenOptions::new().append(true).open(watched.path("a")).unwrap());
    fs::write(watched.path("mark"), "1").unwrap();
    assert_eq!(watched.next().await, "mark", "a was not found again");
    fs::write(watched.path("a"), "22").unwrap();
    assert_eq!(watched.next().await, "a");
}

#[tokio::test]
async fn rule_4_ignored_trees_are_left_out_and_a_changed_rule_file_counts_at_once() {
    let mut watched = Watched::start(WatchSpec::default(), None, |top| {
        fs::create_dir_all(top.join("node_modules/deep")).unwrap();
        fs::write(top.join("node_modules/deep/x.js"), "1").unwrap();
        fs::write(top.join("empty"), "").unwrap();
    })
    .await;
    fs::write(watched.path("node_modules/y.js"), "1").unwrap();
    assert_eq!(watched.rest().await, (set([]), set([])));
    fs::write(watched.path(".artifactignore"), "*.log\n").unwrap();
    assert_eq!(watched.next_set(2).await, set(["node_modules/deep/x.js", "node_modules/y.js"]));
    fs::write(watched.path("a.log"), "1").unwrap();
    fs::write(watched.path("..a"), "1").unwrap();
    assert_eq!(watched.next().await, "..a", "neither the log nor the rules");
    fs::remove_file(watched.path(".artifactignore")).unwrap();
    assert_eq!(watched.next().await, "a.log");
}

#[tokio::test]
async fn given_rules_stand_above_the_directory_s_own() {
    let mut watched = Watched::start(WatchSpec::default(), Some(""), |top| {
        fs::write(top.join(".artifactignore"), "*\n").unwrap()
    })
    .await;
    fs::create_dir(watched.path("dist")).unwrap();
    fs::write(watched.path("dist/a"), "1").unwrap();
    assert_eq!(watched.next().await, "dist/a");
}

#[tokio::test]
async fn rule_4_symlinks_loops_unreadable_and_vanished_entries_do_no_harm() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "1").unwrap();
    let mut watched = Watched::start(WatchSpec::default(), None, |top| {
        std::os::unix::fs::symlink(top, top.join("loop")).unwrap();
        std::os::unix::fs::symlink(outside.path(), top.join("away")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), top.join("file")).unwrap();
        std::os::unix::fs::symlink("/nowhere", top.join("dangling")).unwrap();
        fs::create_dir(top.join("locked")).unwrap();
        fs::set_permissions(top.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    })
    .await;
    for round in 0..50 {
        fs::create_dir(watched.path("gone")).unwrap();
        fs::write(watched.path("gone/x"), format!("{round}")).unwrap();
        fs::remove_dir_all(watched.path("gone")).unwrap();
    }
    fs::write(watched.path("last"), "1").unwrap();
    loop {
        match watched.next().await.as_str() {
            "last" => break,
            "gone/x" => {}
            other => panic!("{other} is behind a symlink"),
        }
    }
}

#[tokio::test]
async fn rule_4_a_top_that_is_taken_away_and_made_again_is_watched_again_from_the_next_look() {
    let mut watched = Watched::start(WatchSpec::default(), None, |_| ()).await;
    for round in ["first", "second"] {
        fs::remove_dir_all(watched.directory.path()).unwrap();
        fs::create_dir(watched.directory.path()).unwrap();
        assert_eq!(watched.rest().await, (set([]), set([])));
        fs::write(watched.path(round), "1").unwrap();
        assert_eq!(watched.next().await, round, "an event told, no look");
    }
}

#[tokio::test]
async fn rule_4_a_scan_replaces_the_watch_when_the_limit_is_reached() {
    let spec = WatchSpec { watch_limit: 2, scan_interval: Duration::from_millis(20), ..WatchSpec::default() };
    let mut watched =
        Watched::start(spec, None, |top| fs::create_dir_all(top.join("a/b/c/d")).unwrap()).await;
    fs::write(watched.path("a/b/c/d/deep"), "1").unwrap();
    assert_eq!(watched.next().await, "a/b/c/d/deep");
    let mut file = fs::File::create(watched.path("a/b/c/open")).unwrap();
    file.write_all(b"half").unwrap();
    fs::write(watched.path("a/b/c/closed"), "1").unwrap();
    assert_eq!(watched.next().await, "a/b/c/closed");
    drop(file);
    assert_eq!(watched.next().await, "a/b/c/open");
}

#[tokio::test]
async fn rule_6_a_thousand_files_at_once_are_all_found() {
    let mut watched = Watched::start(WatchSpec::default(), None, |_| ()).await;
    for number in 0..1000 {
        let directory = watched.path(&format!("{}", number % 10));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("{number}")), "1").unwrap();
    }
    let names = watched.next_set(1000).await;
    assert_eq!(names.len(), 1000);
    assert_eq!(watched.rest().await, (set([]), set([])));
}

#[tokio::test]
async fn two_watchers_of_one_directory_both_find_all() {
    let mut first = Watched::start(WatchSpec::default(), None, |_| ()).await;
    let (second, mut found) = TreeWatch::start(WatchSpec::default());
    second.add_root(0, first.directory.path().to_owned(), None).await.unwrap();
    fs::write(first.path("a"), "1").unwrap();
    assert_eq!(first.next().await, "a");
    assert_eq!(found.recv().await.unwrap().relative.to_str(), Some("a"));
    drop((second, found));
    fs::write(first.path("b"), "1").unwrap();
    assert_eq!(first.next().await, "b", "one leaving takes nothing from the other");
}

#[tokio::test]
async fn a_file_where_the_directory_should_be_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "1").unwrap();
    let (tree, _found) = TreeWatch::start(WatchSpec::default());
    tree.add_root(7, directory.path().join("file"), None).await.unwrap_err();
    tree.add_root(7, directory.path().join("file/below"), None).await.unwrap_err();
    tree.add_root(7, directory.path().join("made/anew"), None).await.unwrap();
}
