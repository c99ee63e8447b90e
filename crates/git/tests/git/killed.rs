//! An apply whose git or host is killed while it writes files.

#![expect(clippy::unwrap_used, reason = "a panic is a test's report")]

use crate::scene::{Scene, git, read, script, write};
use git::{Changes, WorktreeState, list_worktrees, reap_worktrees};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Files that the merge writes.
const WRITTEN: usize = 6;

struct Slow {
    scene: Scene,
    changes: Changes,
}

impl Slow {
    /// Changes of each kind. git runs a program of the user before it writes each file.
    async fn new() -> Slow {
        let scene = Scene::new();
        let (repo, tool) = (scene.repo(), scene.root.path().join("tool"));
        script(
            &tool,
            "smudge",
            &format!(
                r#"cd {tool}; n=$(($(cat count) + 1)); echo $n > count; [ $n != $(cat stop) ] || eval "$(cat how)"; exec cat"#,
                tool = tool.display()
            ),
        );
        write(&tool, "stop", "0");
        write(&tool, "count", "0");
        git(&repo, &["config", "filter.slow.smudge", tool.join("smudge").to_str().unwrap()]);
        git(&repo, &["config", "filter.slow.clean", "cat"]);
        write(&repo, ".gitattributes", "* filter=slow\n.git* -filter\n");
        write(&repo, "folder/in it", "in the folder\n");
        write(&repo, "file", "file\n");
        git(&repo, &["add", "."]);
        git(&repo, &["commit", "-qm", "more"]);
        write(&repo, "a.txt", "1\n2\n3\n4\n5\n6\n7\n8\nmine\n");
        write(&repo, "untracked", "untracked\n");
        let made = scene.make().await;
        let top = made.top().to_owned();
        write(&top, "a.txt", "theirs\n2\n3\n4\n5\n6\n7\n8\nmine\n");
        std::fs::remove_file(top.join("b.txt")).unwrap();
        std::fs::rename(top.join("old.txt"), top.join("renamed.txt")).unwrap();
        write(&top, "sub/c.txt", "c of the agent\n");
        write(&top, "added/deep/file", "added\n");
        std::fs::remove_file(top.join("file")).unwrap();
        write(&top, "file/below", "below\n");
        std::fs::remove_dir_all(top.join("folder")).unwrap();
        write(&top, "folder", "a file now\n");
        let (changes, _) = made.changes().await.unwrap();
        made.leave(false).await;
        Slow { scene, changes }
    }

    fn tool(&self) -> PathBuf {
        self.scene.root.path().join("tool")
    }

    fn set(&self, stop: usize, how: &str) {
        write(&self.tool(), "count", "0");
        write(&self.tool(), "stop", &stop.to_string());
        write(&self.tool(), "how", how);
    }

    /// Applies until the program runs for this file, then drops the apply, as the end of the host would.
    async fn stopped_at(&self, file: usize) {
        let (pipe, reached) = (self.tool().join("pipe"), self.tool().join("reached"));
        let _ = std::fs::remove_file(&reached);
        if !pipe.exists() {
            make_pipe(&pipe);
        }
        self.set(file, &format!("sh {}", self.tool().join("wait").display()));
        script(&self.tool(), "wait", &format!("touch {}; cat {}", reached.display(), pipe.display()));
        let (changes, place) = (self.changes.clone(), self.scene.place.clone());
        let apply = ground::task::spawn(async move { changes.apply(&place, None).await });
        while !reached.exists() {
            assert!(!apply.is_finished(), "the program was not run {file} times");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        apply.abort();
        assert!(apply.await.unwrap_err().is_cancelled());
        self.set(0, "");
    }

    async fn left(&self) -> Vec<(WorktreeState, Option<String>)> {
        let all = list_worktrees(&self.scene.place).await.unwrap();
        all.into_iter().map(|one| (one.state, one.name)).collect()
    }
}

/// Runs until git is at a file that is a pipe now, kills that git, and lets the pipe go.
#[cfg(target_os = "linux")]
async fn killed_at_packed_refs(scene: &Scene, id: &str, work: impl Future<Output = ()>) {
    let packed = scene.repo().join(".git/packed-refs");
    make_pipe(&packed);
    let kill = async {
        let command = format!("update-ref\0-d\0refs/sheepdog/{id}\0");
        let pid = loop {
            let found = std::fs::read_dir("/proc").unwrap().flatten().find(|process| {
                let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
                line.ends_with(command.as_bytes())
            });
            match found {
                Some(process) if scene.repo().join(".git/packed-refs.lock").exists() => {
                    break process.file_name().into_string().unwrap();
                }
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        std::fs::remove_file(&packed).unwrap();
        assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    };
    tokio::join!(work, kill);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_git_that_is_killed_while_it_removes_a_ref_leaves_no_lock() {
    let scene = Scene::new();
    let made = scene.make().await;
    write(made.top(), "x", "x");
    let (changes, _) = made.changes().await.unwrap();
    made.leave(false).await;
    let before = scene.state();
    killed_at_packed_refs(&scene, &changes.id, async {
        changes.discard(&scene.place).await.unwrap();
    })
    .await;
    assert_eq!((scene.state(), scene.refs()), (before, String::new()));
}

#[tokio::test]
async fn the_lock_of_a_users_git_stays_beside_that_of_a_git_that_was_killed() {
    let scene = Scene::new();
    let made = scene.make().await;
    write(made.top(), "x", "x");
    let (changes, _) = made.changes().await.unwrap();
    made.leave(false).await;
    let (packed, own) = (".git/packed-refs.lock", format!(".git/refs/sheepdog/{}.lock", changes.id));
    // Nothing of ours was killed; then a git of ours was, behind that of the user.
    for locks in [vec![packed], vec![packed, &own]] {
        for lock in locks {
            write(&scene.repo(), lock, "");
            std::thread::sleep(Duration::from_millis(50));
        }
        changes.discard(&scene.place).await.unwrap_err();
        assert!(scene.repo().join(packed).exists());
        std::fs::remove_file(scene.repo().join(packed)).unwrap();
    }
    changes.discard(&scene.place).await.unwrap();
    assert_eq!(scene.refs(), "");
}

#[tokio::test]
async fn changes_can_be_read_again_when_a_git_was_killed_at_its_index() {
    let scene = Scene::new();
    let made = scene.make().await;
    write(made.top(), "x", "x");
    write(&made.top().with_file_name("own.git"), "index.lock", "");
    let (changes, _) = made.changes().await.unwrap();
    assert_eq!(changes.files.len(), 1);
    changes.discard(&scene.place).await.unwrap();
    made.leave(false).await;
}

fn make_pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test]
async fn a_git_that_is_killed_at_any_file_changes_nothing() {
    let slow = Slow::new().await;
    let before = slow.scene.state();
    for file in 1..=WRITTEN {
        slow.set(file, "kill -9 $PPID");
        let error = slow.changes.apply(&slow.scene.place, None).await.unwrap_err();
        assert!(error.message().contains("the files are as they were"), "{file}: {error:?}");
        assert_eq!(slow.scene.state(), before, "{file}");
    }
    slow.set(0, "");
    slow.changes.apply(&slow.scene.place, None).await.unwrap();
    assert_eq!(read(&slow.scene.repo(), "file/below"), "below\n");
}

#[tokio::test]
async fn the_files_of_an_apply_whose_host_was_killed_are_put_back_by_reap_and_by_the_next_apply() {
    let slow = Slow::new().await;
    let before = slow.scene.state();
    for file in 1..=WRITTEN {
        slow.stopped_at(file).await;
        let half = slow.scene.state();
        assert_ne!(half, before, "{file}: files that go are removed first");
        assert_eq!(slow.left().await, [(WorktreeState::Left, Some("half-written apply".to_owned()))]);
        // Nobody asked for a change of the working tree.
        slow.scene.make().await.leave(false).await;
        assert_eq!(slow.scene.state(), half, "{file}");
        // A file that was begun.
        if !half.contains_key("added/deep/file") {
            write(&slow.scene.repo(), "added/deep/file", "add");
        }
        let reaped = reap_worktrees(&slow.scene.place, None).await.unwrap();
        assert!(reaped.len() == 1 && reaped[0].problem.is_none(), "{reaped:?}");
        assert_eq!(slow.scene.state(), before, "{file}");
        assert_eq!((slow.scene.left(), slow.left().await), (Vec::new(), Vec::new()));
    }
    slow.stopped_at(3).await;
    slow.changes.apply(&slow.scene.place, None).await.unwrap();
    let repo = slow.scene.repo();
    let is = |name| read(&repo, name);
    assert_eq!((is("folder"), is("file/below")), ("a file now\n".to_owned(), "below\n".to_owned()));
    assert_eq!(is("a.txt"), "theirs\n2\n3\n4\n5\n6\n7\n8\nmine\n");
    assert_eq!(slow.scene.left(), Vec::<String>::new());
}

#[tokio::test]
async fn what_the_user_did_since_a_killed_apply_stays() {
    let slow = Slow::new().await;
    let (repo, before) = (slow.scene.repo(), slow.scene.state());
    slow.stopped_at(WRITTEN).await;
    write(&repo, "sub/c.txt", "edited since\n");
    reap_worktrees(&slow.scene.place, None).await.unwrap();
    let mut expected = before.clone();
    expected.insert("sub/c.txt".to_owned(), b"edited since\n".to_vec());
    assert_eq!(slow.scene.state(), expected, "one file was edited");
    write(&repo, "sub/c.txt", "c\n");

    slow.stopped_at(WRITTEN).await;
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-qm", "half of it"]);
    let committed = slow.scene.state();
    reap_worktrees(&slow.scene.place, None).await.unwrap();
    assert_eq!((slow.scene.state(), slow.scene.left()), (committed, Vec::new()), "it was committed");
}
