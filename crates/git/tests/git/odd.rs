//! Repositories of every odd kind: each works, or is refused with a clear error before anything is made.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic is a test's report")]

use crate::scene::{Scene, git, read, run_git, script, write};
use git::{REMOVED, Repository, Worktree, WorktreeRequest};
use ground::error::ErrorCode;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Makes the odd repository and returns its folder.
type Make = fn(&Scene) -> PathBuf;

const WORK: &[(&str, Make)] = &[
    ("no commit yet", |scene| {
        let repo = scene.root.path().join("empty");
        git(scene.root.path(), &["init", "-q", "empty"]);
        repo
    }),
    ("detached HEAD", |scene| {
        git(&scene.repo(), &["checkout", "-q", "--detach"]);
        scene.repo()
    }),
    ("a shallow clone", |scene| {
        write(&scene.repo(), "second", "2");
        git(&scene.repo(), &["add", "."]);
        git(&scene.repo(), &["commit", "-qm", "second"]);
        let url = format!("file://{}", scene.repo().display());
        git(scene.root.path(), &["clone", "-q", "--depth", "1", &url, "shallow"]);
        scene.root.path().join("shallow")
    }),
    ("a partial clone", |scene| {
        git(&scene.repo(), &["config", "uploadpack.allowFilter", "true"]);
        let url = format!("file://{}", scene.repo().display());
        git(scene.root.path(), &["clone", "-q", "--filter=blob:none", &url, "partial"]);
        scene.root.path().join("partial")
    }),
    ("a linked worktree", |scene| {
        git(&scene.repo(), &["worktree", "add", "-q", "../linked"]);
        scene.root.path().join("linked")
    }),
    ("a linked worktree inside the main one", |scene| {
        git(&scene.repo(), &["worktree", "add", "-q", "inner"]);
        scene.repo()
    }),
    ("a submodule as the folder", |scene| {
        git(scene.root.path(), &["init", "-q", "super"]);
        let outer = scene.root.path().join("super");
        git(&outer, &["submodule", "add", "-q", "../repo", "module"]);
        outer.join("module")
    }),
    ("a repository with submodules", |scene| {
        git(scene.root.path(), &["init", "-q", "super"]);
        let outer = scene.root.path().join("super");
        git(&outer, &["submodule", "add", "-q", "../repo", "module"]);
        git(&outer, &["commit", "-qm", "module"]);
        write(&outer, "module/a.txt", "dirty");
        outer
    }),
    ("a sparse checkout", |scene| {
        git(&scene.repo(), &["sparse-checkout", "set", "sub"]);
        scene.repo()
    }),
    ("a split index", |scene| {
        git(&scene.repo(), &["update-index", "--split-index"]);
        scene.repo()
    }),
    ("SHA-256", |scene| {
        git(scene.root.path(), &["init", "-q", "--object-format=sha256", "new"]);
        let repo = scene.root.path().join("new");
        write(&repo, "a", "a");
        git(&repo, &["add", "."]);
        git(&repo, &["commit", "-qm", "a"]);
        repo
    }),
    ("reftable", |scene| {
        git(scene.root.path(), &["init", "-q", "--ref-format=reftable", "tables"]);
        let repo = scene.root.path().join("tables");
        write(&repo, "a", "a");
        git(&repo, &["add", "."]);
        git(&repo, &["commit", "-qm", "a"]);
        repo
    }),
    ("autocrlf", |scene| {
        git(&scene.repo(), &["config", "core.autocrlf", "true"]);
        write(&scene.repo(), "crlf.txt", "1\r\n2\r\n");
        git(&scene.repo(), &["add", "."]);
        git(&scene.repo(), &["commit", "-qm", "crlf"]);
        scene.repo()
    }),
    ("a merge with conflicts", |scene| {
        git(&scene.repo(), &["checkout", "-q", "-b", "other"]);
        write(&scene.repo(), "b.txt", "other\n");
        git(&scene.repo(), &["commit", "-qam", "other"]);
        git(&scene.repo(), &["checkout", "-q", "main"]);
        write(&scene.repo(), "b.txt", "main\n");
        git(&scene.repo(), &["commit", "-qam", "main"]);
        assert!(!run_git(&scene.repo(), &["merge", "other"]).status.success());
        scene.repo()
    }),
    ("a rebase under way", |scene| {
        write(&scene.repo(), "b.txt", "second\n");
        git(&scene.repo(), &["commit", "-qam", "second"]);
        run_git(
            &scene.repo(),
            &["-c", "sequence.editor=sed -i s/pick/edit/", "rebase", "-q", "-i", "HEAD~1"],
        );
        assert!(scene.repo().join(".git/rebase-merge").exists());
        scene.repo()
    }),
    ("names that are not UTF-8, and odd ones", |scene| {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(b"caf\xe9 \t\"q\"\n.txt");
        std::fs::write(scene.repo().join(name), "latin").unwrap();
        write(&scene.repo(), "-rf", "dash");
        write(&scene.repo(), ":(top)x", "magic");
        scene.repo()
    }),
    ("a filter of the user's, as LFS has one", |scene| {
        git(&scene.repo(), &["config", "filter.big.clean", "sed s/^/clean:/"]);
        git(&scene.repo(), &["config", "filter.big.smudge", "sed s/^clean://"]);
        write(&scene.repo(), ".gitattributes", "*.big filter=big\n");
        write(&scene.repo(), "x.big", "content\n");
        git(&scene.repo(), &["add", "."]);
        git(&scene.repo(), &["commit", "-qm", "big"]);
        scene.repo()
    }),
    ("hooks and a monitor of the user's", |scene| {
        let sign = scene.root.path().join("sign");
        for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
            script(
                &scene.repo(),
                &format!(".git/hooks/{hook}"),
                &format!("touch {}; exit 1", sign.display()),
            );
        }
        scene.repo()
    }),
    ("a nested clone that is not ignored", |scene| {
        git(scene.root.path(), &["clone", "-q", "repo", "repo/vendor"]);
        git(&scene.repo(), &["init", "-q", "nothing-yet"]);
        scene.repo()
    }),
    ("a path with spaces, quotes and line feeds", |scene| {
        let to = scene.root.path().join("it's \"my\"\nrepo");
        std::fs::rename(scene.repo(), &to).unwrap();
        to
    }),
    ("a linked worktree with a line feed in its path", |scene| {
        git(&scene.repo(), &["worktree", "add", "-q", "-b", "linked", "../linked\nhere"]);
        scene.root.path().join("linked\nhere")
    }),
];

fn status(repo: &Path) -> String {
    git(repo, &["-c", "core.hooksPath=/dev/null", "status", "--porcelain=v2", "--branch"])
}

async fn work_and_apply(scene: &Scene, name: &str, cwd: &Path) {
    let request = WorktreeRequest { cwd: cwd.to_owned(), ..WorktreeRequest::default() };
    let before = status(cwd);
    let made = Worktree::make(&scene.place, request).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    write(made.top(), "by-agent.txt", "new\n");
    if made.top().join("a.txt").exists() {
        write(made.top(), "a.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    }
    git(made.top(), &["add", "by-agent.txt"]);
    git(made.top(), &["commit", "-qm", "by the agent"]);
    let (changes, warnings) = made.changes().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(warnings.is_empty(), "{name}: {warnings:?}");
    made.leave(false).await;
    assert_eq!(status(cwd), before, "{name}");
    let paths: Vec<_> = changes.files.iter().map(|file| file.path.as_str()).collect();
    assert!(paths == ["by-agent.txt"] || paths == ["a.txt", "by-agent.txt"], "{name}: {paths:?}");
    changes.apply(&scene.place, None).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(read(cwd, "by-agent.txt").replace("\r\n", "\n"), "new\n", "{name}");
    changes.discard(&scene.place).await.unwrap();
    assert_eq!(scene.left(), Vec::<String>::new(), "{name}");
}

async fn work_in_place(scene: &Scene, name: &str, cwd: &Path) {
    let repository = Repository::find(cwd, "cwd").await.unwrap_or_else(|error| panic!("{name}: {error}"));
    let watched = Worktree::watch(&scene.place, repository).await;
    let watched = watched.unwrap_or_else(|error| panic!("{name}: {error}"));
    write(cwd, "in place.txt", "new\n");
    write(cwd, "by-agent.txt", "changed\n");
    let (changes, _) = watched.changes().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    watched.leave(false).await;
    let paths: Vec<_> = changes.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["by-agent.txt", "in place.txt"], "{name}");
    changes.discard(&scene.place).await.unwrap();
}

/// All that git is told by variables, with values that change what it does.
#[tokio::test]
#[ignore = "run by the test below, in an environment of its own"]
async fn a_repository_works() {
    let scene = Scene::new().dirty();
    let made = scene.make().await;
    write(made.top(), "x", "x");
    git(made.top(), &["add", "x"]);
    git(made.top(), &["commit", "-qm", "by the agent"]);
    let (changes, _) = made.changes().await.unwrap();
    made.leave(false).await;
    assert_eq!(changes.files.len(), 1);
    let log = git(&scene.repo(), &["log", "--format=%s", &format!("{}..{}", changes.base, changes.commit)]);
    assert_eq!(log, "by the agent");
    changes.apply(&scene.place, None).await.unwrap();
    assert_eq!(read(&scene.repo(), "x"), "x");
    changes.patch().await.unwrap();
    changes.discard(&scene.place).await.unwrap();
    work_in_place(&scene, "in place", &scene.repo()).await;
}

fn run_a_repository_works(variables: &[(&str, &str)]) {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "odd::a_repository_works", "--ignored"]).envs(variables.iter().copied());
    let done = child.output().unwrap();
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && told.contains("1 passed"), "{variables:?}: {told}");
}

#[test]
fn variables_of_the_host_do_not_change_what_git_does() {
    let local = git(Path::new("/"), &["rev-parse", "--local-env-vars"]);
    for name in local.lines() {
        assert!(REMOVED.contains(&name), "{name}");
    }
    // The scene removes them for its own git.
    let all: Vec<_> = REMOVED.iter().map(|name| (*name, "/none")).collect();
    run_a_repository_works(&all);
    run_a_repository_works(&[("GIT_DEFAULT_HASH", "sha256"), ("GIT_DEFAULT_REF_FORMAT", "reftable")]);
}

#[test]
fn a_repository_of_another_user_works_where_its_user_calls_it_safe() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::write(&config, "[safe]\n\tdirectory = *\n").unwrap();
    let config = config.to_str().unwrap();
    run_a_repository_works(&[("GIT_CONFIG_GLOBAL", config), ("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")]);
}

/// Ways to have only `sub` in the working tree.
const SPARSE: &[(&str, &[&[&str]])] = &[
    ("a cone", &[&["sparse-checkout", "set", "sub"]]),
    ("a sparse index", &[&["sparse-checkout", "set", "--sparse-index", "sub"]]),
    ("patterns", &[&["sparse-checkout", "set", "--no-cone", "/sub/", "/.gitignore"]]),
];

#[tokio::test]
async fn files_outside_of_a_sparse_checkout_are_written_and_watched() {
    for (name, commands) in SPARSE {
        let scene = Scene::new();
        let repo = scene.repo();
        for file in ["out/changed", "out/deleted", "out/same"] {
            write(&repo, file, "of the user\n");
        }
        git(&repo, &["add", "."]);
        git(&repo, &["commit", "-qm", "out"]);
        for command in *commands {
            git(&repo, command);
        }
        assert!(!repo.join("out").exists(), "{name}");
        let made = scene.make().await;
        assert_eq!(read(made.top(), "out/same"), "of the user\n", "{name}");
        write(made.top(), "out/changed", "by the agent\n");
        write(made.top(), "out/added", "by the agent\n");
        write(made.top(), "sub/c.txt", "by the agent\n");
        std::fs::remove_file(made.top().join("out/deleted")).unwrap();
        let (changes, _) = made.changes().await.unwrap();
        made.leave(false).await;
        let before = scene.state();
        write(&repo, "out/changed", "in the way\n");
        let error = changes.apply(&scene.place, None).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ChangesConflict, "{name}: {error}");
        std::fs::remove_dir_all(repo.join("out")).unwrap();
        assert_eq!(scene.state(), before, "{name}");
        changes.apply(&scene.place, None).await.unwrap();
        for file in ["out/changed", "out/added", "sub/c.txt"] {
            assert_eq!(read(&repo, file), "by the agent\n", "{name}: {file}");
        }
        assert!(!repo.join("out/same").exists() && !repo.join("out/deleted").exists(), "{name}");
        let watched =
            Worktree::watch(&scene.place, Repository::find(&repo, "cwd").await.unwrap()).await.unwrap();
        write(&repo, "out/same", "by the agent\n");
        let (changes, _) = watched.changes().await.unwrap();
        watched.leave(false).await;
        let paths: Vec<_> = changes.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["out/same"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn odd_repositories_work() {
    // Side by side, because each waits for some dozen runs of git.
    let all: Vec<_> = WORK
        .iter()
        .map(|(name, make)| {
            ground::task::spawn(async move {
                let scene = Scene::new();
                let cwd = make(&scene);
                work_and_apply(&scene, name, &cwd).await;
                work_in_place(&scene, name, &cwd).await;
                assert!(!scene.root.path().join("sign").exists(), "{name}: a hook ran");
            })
        })
        .collect();
    for one in all {
        one.await.unwrap();
    }
}

#[tokio::test]
async fn folders_without_a_working_tree_are_refused_before_anything_is_made() {
    let refused: &[(&str, Make, ErrorCode, &str)] = &[
        (
            "no repository",
            |scene| {
                std::fs::create_dir(scene.root.path().join("plain")).unwrap();
                scene.root.path().join("plain")
            },
            ErrorCode::InvalidOption,
            "is not in a git repository",
        ),
        (
            "a bare repository",
            |scene| {
                git(scene.root.path(), &["init", "-q", "--bare", "bare"]);
                scene.root.path().join("bare")
            },
            ErrorCode::InvalidOption,
            "has no working tree",
        ),
        ("its .git", |scene| scene.repo().join(".git"), ErrorCode::InvalidOption, "has no working tree"),
        (
            "a broken repository",
            |scene| {
                write(&scene.repo(), ".git/config", "[core\n");
                scene.repo()
            },
            ErrorCode::WorktreeFailed,
            "bad config",
        ),
    ];
    for (name, make, code, words) in refused {
        let scene = Scene::new();
        let request = WorktreeRequest { cwd: make(&scene), ..WorktreeRequest::default() };
        let error = Worktree::make(&scene.place, request).await.unwrap_err();
        assert_eq!(error.code(), *code, "{name}: {error}");
        assert!(error.message().contains(words), "{name}: {error}");
        assert_eq!(scene.left(), Vec::<String>::new(), "{name}");
    }
}

/// Run by hand: `cargo test -p git --test git odd -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "measures"]
async fn a_checkout_of_20_000_files_costs_what_a_worktree_of_git_costs() {
    let scene = Scene::new();
    for number in 0..20_000 {
        write(&scene.repo(), &format!("d{}/f{number}.txt", number % 200), &format!("{number}\n").repeat(200));
    }
    git(&scene.repo(), &["add", "."]);
    git(&scene.repo(), &["config", "gc.auto", "0"]);
    git(&scene.repo(), &["commit", "-qm", "many"]);
    git(&scene.repo(), &["gc", "-q"]);
    // All that was written before is on the disk, and each of the two begins every second round.
    let settled = || {
        assert!(std::process::Command::new("sync").status().unwrap().success());
        Instant::now()
    };
    for round in 0..8 {
        let (mut worktree, mut ours) = (Duration::ZERO, Duration::ZERO);
        for turn in 0..2 {
            let begun = settled();
            if (round + turn) % 2 == 0 {
                git(&scene.repo(), &["worktree", "add", "-q", "--detach", "../w"]);
                worktree = begun.elapsed();
                git(&scene.repo(), &["worktree", "remove", "--force", "../w"]);
            } else {
                let made = scene.make().await;
                ours = begun.elapsed();
                made.leave(false).await;
            }
        }
        println!("git worktree add {worktree:?}, ours {ours:?}: {:.2}", ours.div_duration_f64(worktree));
    }
    for round in 0..6 {
        let (mut worktrees, mut ours) = (Duration::ZERO, Duration::ZERO);
        for turn in 0..2 {
            let begun = settled();
            if (round + turn) % 2 == 0 {
                let added = (0..10).map(|n| {
                    let (repo, name) = (scene.repo(), format!("../t{n}"));
                    // git's own can fail side by side.
                    let add = move || run_git(&repo, &["worktree", "add", "-q", "--detach", &name]);
                    std::thread::spawn(move || while !add().status.success() {})
                });
                for one in added.collect::<Vec<_>>() {
                    one.join().unwrap();
                }
                worktrees = begun.elapsed();
                for n in 0..10 {
                    git(&scene.repo(), &["worktree", "remove", "--force", &format!("../t{n}")]);
                }
            } else {
                // As a race does it: all with the same files.
                let base = Worktree::base_of(&scene.place, &scene.repo()).await.unwrap();
                let one = || WorktreeRequest { base: Some(base.clone()), ..scene.request() };
                let made = (0..10).map(|_| Worktree::make(&scene.place, one()));
                let all = futures_util::future::try_join_all(made).await.unwrap();
                ours = begun.elapsed();
                for one in all {
                    one.leave(false).await;
                }
            }
        }
        println!("ten at once: {worktrees:?}, ours {ours:?}: {:.2}", ours.div_duration_f64(worktrees));
    }
}
