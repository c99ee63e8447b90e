//! Counts the system's resources that watching takes. This test is a process of its own, so that no other test's watches are
//! counted.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::fs;
use std::time::{Duration, Instant};
use wires::watch::{TreeWatch, WatchSpec};

/// The process's inotify instances: the number of watches of each.
fn instances() -> Vec<usize> {
    let mut counts = Vec::new();
    for descriptor in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        // A descriptor may have been closed since it was listed.
        let Ok(target) = fs::read_link(descriptor.path()) else { continue };
        if target.to_string_lossy() == "anon_inode:inotify" {
            let info = std::path::Path::new("/proc/self/fdinfo").join(descriptor.file_name());
            let text = fs::read_to_string(info).unwrap_or_default();
            counts.push(text.lines().filter(|line| line.starts_with("inotify wd:")).count());
        }
    }
    counts
}

async fn until(expected: &[usize]) {
    let started = Instant::now();
    while instances() != expected {
        assert!(started.elapsed() < Duration::from_secs(30), "{:?} instead of {expected:?}", instances());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn rule_4_all_trees_share_one_instance_that_watches_directories_only_and_no_ignored_ones() {
    let tops = [(); 3].map(|()| tempfile::tempdir().unwrap());
    for top in &tops {
        fs::create_dir_all(top.path().join("a/b")).unwrap();
        for number in 0..50 {
            fs::create_dir_all(top.path().join(format!("node_modules/{number}"))).unwrap();
            fs::write(top.path().join(format!("a/{number}")), "1").unwrap();
        }
    }
    let mut trees = Vec::new();
    for top in &tops {
        let (tree, mut found) = TreeWatch::start(WatchSpec::default());
        tree.add_root(0, top.path().to_owned(), None).await.unwrap();
        for _ in 0..50 {
            found.recv().await.unwrap();
        }
        trees.push((tree, found));
    }
    // Three trees of three directories each. A file may be found before its directory's watch is set.
    until(&[9]).await;
    // A directory that is removed and created again is watched again.
    fs::remove_dir_all(tops[0].path().join("a/b")).unwrap();
    fs::create_dir(tops[0].path().join("a/b")).unwrap();
    fs::write(tops[0].path().join("a/b/new"), "1").unwrap();
    assert_eq!(trees[0].1.recv().await.unwrap().relative.to_str(), Some("a/b/new"));
    until(&[9]).await;
    drop(trees);
    until(&[]).await;
}
