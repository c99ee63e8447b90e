//! Checkouts for agents: their base, what agents leave, its way home and into the working tree.

use crate::scene::{Scene, files, git, link, read, write};
use git::{FileStatus, Worktree, WorktreeRequest, WorktreeState, list_worktrees, reap_worktrees};
use ground::error::ErrorCode;

#[tokio::test]
async fn the_base_is_head_with_all_that_is_not_ignored_and_nothing_of_the_user_is_touched() {
    let scene = Scene::new().dirty();
    let before = scene.state();
    let made = scene.make().await;
    let mut expected = files(&scene.repo(), &[".git/", "noise.log", ".env"]);
    expected.retain(|name, _| !name.starts_with(".git/"));
    assert_eq!(files(made.top(), &[".git/"]), expected);
    assert_eq!(git(made.top(), &["status", "--porcelain"]), "", "the agent begins with a clean tree");
    assert_eq!(git(made.top(), &["branch", "--show-current"]), "main");
    assert_eq!(git(made.top(), &["log", "--format=%s", "-1", "HEAD~1"]), "first");
    assert_eq!(git(made.top(), &["remote"]), "");
    assert_eq!(scene.state(), before);
    let (changes, warnings) = made.changes().await.unwrap();
    assert!(changes.files.is_empty() && warnings.is_empty() && changes.base == changes.commit, "{changes:?}");
    assert_eq!(made.leave(false).await, None);
    assert_eq!((scene.left(), scene.refs(), scene.state()), (Vec::new(), String::new(), before));
}

#[tokio::test]
async fn a_clean_tree_has_its_head_as_base_and_a_folder_below_stays_one() {
    let scene = Scene::new();
    let mut request = scene.request();
    request.cwd = scene.repo().join("sub");
    let made = Worktree::make(&scene.place, request).await.unwrap();
    assert_eq!(made.cwd(), made.top().join("sub"));
    assert_eq!(read(&made.cwd(), "c.txt"), "c\n");
    let (changes, _) = made.changes().await.unwrap();
    assert_eq!(changes.base, git(&scene.repo(), &["rev-parse", "HEAD"]));
    made.leave(false).await;
    let made = scene.make().await;
    assert_eq!(made.cwd().as_os_str(), made.top().as_os_str(), "without a slash at its end");
    made.leave(false).await;
}

#[tokio::test]
async fn changes_of_each_kind_are_told_and_come_home_with_the_commits() {
    let scene = Scene::new().dirty();
    let made = scene.make().await;
    let top = made.top();
    write(top, "a.txt", "1 mine\n2\n3\n4\n5\n6\n7\n8\n9 theirs\n");
    git(top, &["commit", "-qam", "by the agent"]);
    git(top, &["mv", "old.txt", "renamed.txt"]);
    std::fs::write(top.join("pic.bin"), [0, 1, 2, 0, 255]).unwrap();
    std::fs::remove_file(top.join("sub/c.txt")).unwrap();
    write(top, "noise.log", "ignored here too");
    let (changes, warnings) = made.changes().await.unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let told: Vec<_> =
        changes.files.iter().map(|file| (file.path.as_str(), file.status, file.binary)).collect();
    assert_eq!(
        told,
        [
            ("a.txt", FileStatus::Modified, false),
            ("pic.bin", FileStatus::Added, true),
            ("renamed.txt", FileStatus::Renamed, false),
            ("sub/c.txt", FileStatus::Deleted, false),
        ]
    );
    assert_eq!(changes.files[2].from.as_deref(), Some("old.txt"));
    assert_eq!((changes.files[0].insertions, changes.files[0].deletions), (1, 1));
    made.leave(false).await;
    let repo = scene.repo();
    assert_eq!(scene.refs(), format!("refs/sheepdog/{}", changes.id));
    assert_eq!(
        git(&repo, &["log", "--format=%s", &format!("{}..{}", changes.base, changes.commit)]),
        "Files as an agent left them\nby the agent"
    );
    git(&repo, &["fsck", "--strict"]);
    let patch = changes.patch().await.unwrap();
    let other = scene.root.path().join("other");
    git(scene.root.path(), &["clone", "-q", "repo", "other"]);
    git(&other, &["fetch", "-q", "origin", &format!("{}:refs/heads/base", changes.base)]);
    git(&other, &["checkout", "-q", "base"]);
    std::fs::write(scene.root.path().join("p"), patch).unwrap();
    git(&other, &["apply", "--index", "../p"]);
    assert_eq!(
        git(&other, &["write-tree"]),
        git(&repo, &["rev-parse", &format!("{}^{{tree}}", changes.commit)])
    );
    changes.discard(&scene.place).await.unwrap();
    assert_eq!(scene.refs(), "");
}

#[tokio::test]
async fn changes_merge_into_the_working_tree_and_leave_index_stash_and_refs_alone() {
    let scene = Scene::new().dirty();
    let made = scene.make().await;
    write(made.top(), "a.txt", "1 mine\n2\n3\n4\n5\n6\n7\n8\n9 theirs\n");
    write(made.top(), "added.txt", "added\n");
    std::fs::remove_file(made.top().join("old.txt")).unwrap();
    let (changes, _) = made.changes().await.unwrap();
    made.leave(false).await;
    // The user goes on meanwhile.
    write(&scene.repo(), "a.txt", "1 mine, again\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let index = std::fs::read(scene.repo().join(".git/index")).unwrap();
    changes.apply(&scene.place, None).await.unwrap();
    assert_eq!(read(&scene.repo(), "a.txt"), "1 mine, again\n2\n3\n4\n5\n6\n7\n8\n9 theirs\n");
    assert_eq!(read(&scene.repo(), "added.txt"), "added\n");
    assert!(!scene.repo().join("old.txt").exists());
    assert_eq!(read(&scene.repo(), "staged.txt"), "staged, then changed\n");
    assert_eq!(std::fs::read(scene.repo().join(".git/index")).unwrap(), index);
    let again = scene.state();
    changes.apply(&scene.place, None).await.unwrap();
    assert_eq!(scene.state(), again, "what is applied already changes nothing");
    assert_eq!(scene.left(), Vec::<String>::new());
}

#[tokio::test]
async fn a_conflict_names_its_files_and_changes_nothing() {
    let scene = Scene::new();
    let made = scene.make().await;
    write(made.top(), "a.txt", "1 theirs\n2\n3\n4\n5\n6\n7\n8\n9\n");
    write(made.top(), "fine.txt", "fine\n");
    write(made.top(), "deep/noise.txt", "theirs\n");
    let (changes, _) = made.changes().await.unwrap();
    made.leave(false).await;
    let conflict = |error: ground::error::Error| {
        assert_eq!(error.code(), ErrorCode::ChangesConflict, "{error}");
        error.facts()["files"].clone()
    };
    write(&scene.repo(), "a.txt", "1 mine\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let before = scene.state();
    assert_eq!(conflict(changes.apply(&scene.place, None).await.unwrap_err()), serde_json::json!(["a.txt"]));
    assert_eq!(scene.state(), before);
    git(&scene.repo(), &["checkout", "-q", "a.txt"]);
    // An ignored file is nowhere in git: it must not be written over.
    write(&scene.repo(), ".git/info/exclude", "noise.txt\n");
    write(&scene.repo(), "deep/noise.txt", "mine\n");
    let before = scene.state();
    assert_eq!(
        conflict(changes.apply(&scene.place, None).await.unwrap_err()),
        serde_json::json!(["deep/noise.txt"])
    );
    assert_eq!(scene.state(), before);
}

#[tokio::test]
async fn changes_whose_objects_are_gone_cannot_be_applied() {
    let scene = Scene::new();
    let made = scene.make().await;
    write(made.top(), "new", "new");
    let (changes, _) = made.changes().await.unwrap();
    made.leave(false).await;
    changes.discard(&scene.place).await.unwrap();
    changes.discard(&scene.place).await.unwrap();
    git(&scene.repo(), &["prune", "--expire=now"]);
    let before = scene.state();
    for error in [changes.apply(&scene.place, None).await.err(), changes.patch().await.err()] {
        let error = error.unwrap();
        assert_eq!(error.code(), ErrorCode::WorktreeFailed, "{error}");
        assert!(error.message().contains(&changes.commit), "{error}");
    }
    assert_eq!(scene.state(), before);
}

#[tokio::test]
async fn ignored_files_come_along_where_they_are_asked_for_and_never_go_home() {
    let scene = Scene::new().dirty();
    write(&scene.repo(), "node_modules/a/index.js", "1");
    write(&scene.repo(), "packages/b/.env", "B=1");
    let mut request = scene.request();
    request.include = vec!["**/.env".into(), "node_modules".into()];
    let made = Worktree::make(&scene.place, request).await.unwrap();
    assert_eq!(read(made.top(), ".env"), "SECRET=1\n");
    assert_eq!(read(made.top(), "packages/b/.env"), "B=1");
    assert_eq!(read(made.top(), "node_modules/a/index.js"), "1");
    assert!(!made.top().join("noise.log").exists());
    write(made.top(), ".gitignore", "nothing\n");
    let (changes, _) = made.changes().await.unwrap();
    let paths: Vec<_> = changes.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, [".gitignore"]);
    made.leave(false).await;
}

#[tokio::test]
async fn ignored_files_are_written_through_no_link_of_the_base_and_over_no_file_of_it() {
    let scene = Scene::new();
    let (repo, outside) = (scene.repo(), scene.root.path().join("outside"));
    write(&outside, "file", "precious");
    git(&repo, &["checkout", "-qb", "theirs"]);
    write(&repo, ".gitignore", "");
    link(outside.join("file"), &repo.join(".env"));
    write(&repo, "tracked.log", "theirs");
    link(&outside, &repo.join("sub/linked"));
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-qm", "theirs"]);
    git(&repo, &["checkout", "-q", "main"]);
    write(&repo, ".gitignore", "*.log\n.env\nlinked/\n");
    write(&repo, ".env", "SECRET=1\n");
    write(&repo, "tracked.log", "mine");
    write(&repo, "sub/linked/file", "mine");
    for (glob, is_made) in [(".env", true), ("*.log", true), ("sub/linked/**", false)] {
        let base = Some("theirs".to_owned());
        let request = WorktreeRequest { base, include: vec![glob.into()], ..scene.request() };
        match Worktree::make(&scene.place, request).await {
            Ok(made) => {
                assert!(made.changes().await.unwrap().0.files.is_empty(), "{glob}");
                made.leave(false).await;
                assert!(is_made, "{glob}");
            }
            Err(error) => {
                assert!(!is_made && error.facts()["step"] == "include", "{glob}: {error}");
            }
        }
        assert_eq!(read(&outside, "file"), "precious", "{glob}");
        assert_eq!(scene.left(), Vec::<String>::new(), "{glob}");
    }
}

#[tokio::test]
async fn a_repository_that_is_ignored_comes_along_whole() {
    let scene = Scene::new();
    let nested = scene.repo().join("node_modules/nested");
    std::fs::create_dir_all(&nested).unwrap();
    git(&nested, &["init", "-q"]);
    write(&nested, "deep/file", "nested");
    link("deep", &nested.join("link"));
    let request = WorktreeRequest { include: vec!["node_modules".into()], ..scene.request() };
    let made = Worktree::make(&scene.place, request).await.unwrap();
    let copy = made.top().join("node_modules/nested");
    assert_eq!(read(&copy, "link/file"), "nested");
    assert_eq!(read(&copy, ".git/HEAD"), read(&nested, ".git/HEAD"));
    assert!(made.changes().await.unwrap().0.files.is_empty());
    made.leave(false).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_patch_gives_what_the_agent_left_whatever_its_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let scene = Scene::new();
    let repo = scene.repo();
    write(&repo, "moved", &"a line that stays\n".repeat(9));
    for (name, bytes) in [("latin", &b"caf\xe9\n"[..]), ("gone", b"\xff\n"), ("same", b"\xfe\n")] {
        std::fs::write(repo.join(name), bytes).unwrap();
    }
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-qm", "bytes"]);
    let made = scene.make().await;
    let top = made.top();
    let name = |bytes: &[u8]| top.join(std::ffi::OsStr::from_bytes(bytes));
    std::fs::write(name(b"latin"), b"caf\xe9\nth\xe9\r\ndiff --git a/x b/x\n").unwrap();
    std::fs::write(name(b"na\xefve \"\n.txt"), "text").unwrap();
    std::fs::write(name(b"zeros"), b"\0\n\xff").unwrap();
    std::fs::rename(name(b"moved"), name(b"mov\xe9")).unwrap();
    std::fs::remove_file(name(b"gone")).unwrap();
    link("a.txt", &name(b"to"));
    write(top, "text", "plain \u{e9}\n");
    let (changes, _) = made.changes().await.unwrap();
    made.leave(false).await;
    let patch = changes.patch().await.unwrap();
    assert!(patch.contains("\n+plain \u{e9}\n"), "text stays readable: {patch}");
    let file = scene.root.path().join("patch");
    std::fs::write(&file, patch).unwrap();
    git(&repo, &["apply", "--index", file.to_str().unwrap()]);
    let of = |commit: &str| git(&repo, &["rev-parse", &format!("{commit}^{{tree}}")]);
    assert_eq!(git(&repo, &["write-tree"]), of(&changes.commit));
}

#[tokio::test]
async fn a_base_by_name_has_nothing_of_the_working_tree() {
    let scene = Scene::new().dirty();
    git(&scene.repo(), &["tag", "v1"]);
    let mut request = scene.request();
    request.base = Some("v1".into());
    let made = Worktree::make(&scene.place, request.clone()).await.unwrap();
    assert_eq!(read(made.top(), "b.txt"), "b\n");
    assert!(!made.top().join("staged.txt").exists());
    made.leave(false).await;
    for wrong in ["nowhere", "--all", ""] {
        request.base = Some(wrong.into());
        let error = Worktree::make(&scene.place, request.clone()).await.unwrap_err();
        assert!(error.message().starts_with("worktree.base: expected a commit"), "{error}");
    }
    assert_eq!(scene.left(), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_dead_host_left_is_listed_and_removed_by_reap_or_the_next_checkout() {
    let scene = Scene::new();
    let states = || async {
        let all = list_worktrees(&scene.place).await.unwrap();
        all.into_iter().map(|one| one.state).collect::<Vec<_>>()
    };
    let made = scene.make().await;
    assert_eq!(states().await, [WorktreeState::Running]);
    assert!(reap_worktrees(&scene.place, None).await.unwrap().is_empty(), "its host lives");
    // Dropping releases the lock, as the end of the process would.
    drop(made);
    assert_eq!(states().await, [WorktreeState::Left]);
    assert_ne!(scene.refs(), "");
    let reaped = reap_worktrees(&scene.place, None).await.unwrap();
    assert!(reaped.len() == 1 && reaped[0].problem.is_none(), "{reaped:?}");
    assert_eq!((scene.left(), scene.refs()), (Vec::new(), String::new()));

    drop(scene.make().await);
    let next = scene.make().await;
    assert_eq!(states().await, [WorktreeState::Running]);
    write(next.top(), "x", "x");
    let (mut changes, _) = next.changes().await.unwrap();
    changes.worktree = next.leave(true).await;
    let kept = changes.worktree.clone().unwrap();
    assert_eq!(states().await, [WorktreeState::Kept]);
    scene.make().await.leave(false).await;
    assert!(reap_worktrees(&scene.place, None).await.unwrap().is_empty(), "it was kept on purpose");
    assert!(kept.join("x").exists());
    changes.discard(&scene.place).await.unwrap();
    assert_eq!((scene.left(), scene.refs()), (Vec::new(), String::new()));
}

#[tokio::test]
async fn what_hosts_left_that_were_killed_between_two_steps_is_removed_as_well() {
    let scene = Scene::new();
    let made = scene.make().await;
    made.leave(true).await;
    let notes = scene.place.folder.join("worktrees");
    // Killed before its note was written, and in the middle of an apply.
    std::fs::write(notes.join("abcdefgh.lock"), "").unwrap();
    std::fs::write(notes.join("0123.applying"), "").unwrap();
    write(&notes, "0123.apply/objects/info/alternates", "x");
    // A git that was killed while it wrote the ref.
    let dropped = scene.make().await;
    let id = scene.refs().lines().map(|name| name.rsplit('/').next().unwrap().to_owned()).collect::<Vec<_>>();
    drop(dropped);
    for id in &id {
        write(&scene.repo(), &format!(".git/refs/sheepdog/{id}.lock"), "");
    }
    let reaped = reap_worktrees(&scene.place, None).await.unwrap();
    assert!(reaped.len() == 1 && reaped[0].problem.is_none(), "{reaped:?}");
    let ids: Vec<String> =
        list_worktrees(&scene.place).await.unwrap().into_iter().map(|kept| kept.id).collect();
    assert_eq!(ids.len(), 1, "the note of a kept checkout is whole");
    reap_worktrees(&scene.place, Some(&ids)).await.unwrap();
    assert_eq!((scene.left(), scene.refs()), (Vec::new(), String::new()));
}

#[tokio::test]
async fn changes_are_read_again_and_again_and_a_discard_leaves_the_agent_its_folder() {
    let scene = Scene::new().dirty();
    let made = scene.make().await;
    write(made.top(), "one.txt", "one\n");
    git(made.top(), &["add", "one.txt"]);
    git(made.top(), &["commit", "-qm", "by the agent"]);
    let (first, _) = made.changes().await.unwrap();
    assert_eq!(first.files.len(), 1);
    first.discard(&scene.place).await.unwrap();
    assert_eq!(read(made.top(), "one.txt"), "one\n");
    write(made.top(), "two.txt", "two\n");
    git(made.top(), &["add", "two.txt"]);
    git(made.top(), &["commit", "-qm", "again"]);
    std::fs::remove_file(made.top().join("one.txt")).unwrap();
    let (second, warnings) = made.changes().await.unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    made.leave(false).await;
    let paths: Vec<_> = second.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["two.txt"]);
    let subjects =
        git(&scene.repo(), &["log", "--format=%s", &format!("{}..{}", second.base, second.commit)]);
    assert_eq!(subjects, "Files as an agent left them\nagain\nby the agent");
    second.discard(&scene.place).await.unwrap();
    assert_eq!((scene.left(), scene.refs()), (Vec::new(), String::new()));
}

#[tokio::test]
async fn another_folder_for_checkouts_is_listed_all_the_same() {
    let scene = Scene::new();
    let dir = scene.root.path().join("elsewhere");
    let mut request = scene.request();
    request.dir = Some(dir.clone());
    let made = Worktree::make(&scene.place, request).await.unwrap();
    assert!(made.top().starts_with(dir.canonicalize().unwrap()));
    drop(made);
    let listed = list_worktrees(&scene.place).await.unwrap();
    assert!(listed[0].path.starts_with(dir.to_str().unwrap()));
    reap_worktrees(&scene.place, None).await.unwrap();
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

#[tokio::test]
async fn a_folder_that_is_watched_in_place_tells_what_was_changed_since() {
    let scene = Scene::new().dirty();
    let repository = git::Repository::find(&scene.repo(), "changes").await.unwrap();
    let watched = Worktree::watch(&scene.place, repository).await.unwrap();
    write(&scene.repo(), "a.txt", "1 mine\n2 theirs\n3\n4\n5\n6\n7\n8\n9\n");
    write(&scene.repo(), "more.txt", "more\n");
    let index = std::fs::read(scene.repo().join(".git/index")).unwrap();
    let (changes, _) = watched.changes().await.unwrap();
    watched.leave(true).await;
    let paths: Vec<_> = changes.files.iter().map(|file| (file.path.as_str(), file.insertions)).collect();
    assert_eq!(paths, [("a.txt", 1), ("more.txt", 1)]);
    assert_eq!(std::fs::read(scene.repo().join(".git/index")).unwrap(), index);
    assert_eq!(scene.left(), Vec::<String>::new());
    git(&scene.repo(), &["fsck", "--strict"]);
}

#[tokio::test]
async fn many_at_once_meet_nowhere() {
    let scene = Scene::new().dirty();
    let before = scene.state();
    let made = futures_util::future::join_all((0..10).map(|_| scene.make())).await;
    for (number, one) in made.iter().enumerate() {
        write(one.top(), "mine.txt", &number.to_string());
    }
    let all = futures_util::future::join_all(made.iter().map(Worktree::changes)).await;
    let mut commits: Vec<_> = all.into_iter().map(|one| one.unwrap().0.commit).collect();
    commits.sort();
    commits.dedup();
    assert_eq!(commits.len(), 10);
    for one in &made {
        one.discard().await;
    }
    assert_eq!((scene.left(), scene.refs(), scene.state()), (Vec::new(), String::new(), before));
}
