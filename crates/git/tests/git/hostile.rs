//! A hostile agent does much to its checkout. Here is what of it reaches the user's repository: nothing.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic is a test's report")]

use crate::scene::{Scene, git, link, read, run_git, script, write};
use git::{Changes, Worktree};
use std::path::Path;

/// A hostile act, and the paths that are told as changed.
struct Act {
    name: &'static str,
    run: fn(&Scene, &Path),
    told: &'static [&'static str],
}

/// A program that leaves a sign where it runs.
fn trap(scene: &Scene) -> String {
    let path = scene.root.path().join("trap.sh");
    script(scene.root.path(), "trap.sh", &format!("touch {}; cat", scene.root.path().join("sign").display()));
    path.display().to_string()
}

const ACTS: &[Act] = &[
    Act {
        name: "hooks",
        run: |scene, top| {
            for hook in
                ["post-checkout", "reference-transaction", "pre-commit", "post-index-change", "post-merge"]
            {
                script(
                    top,
                    &format!(".git/hooks/{hook}"),
                    &format!("touch {}", scene.root.path().join("sign").display()),
                );
            }
            write(top, "x", "x");
        },
        told: &["x"],
    },
    Act {
        name: "configuration with programs",
        run: |scene, top| {
            let trap = trap(scene);
            for name in [
                "core.fsmonitor",
                "core.sshCommand",
                "core.editor",
                "diff.external",
                "core.alternateRefsCommand",
                "filter.x.clean",
                "filter.x.smudge",
                "filter.x.process",
                "diff.x.textconv",
                "merge.x.driver",
                "uploadpack.packObjectsHook",
                "credential.helper",
            ] {
                run_git(top, &["config", name, &trap]);
            }
            write(top, ".gitattributes", "* filter=x diff=x merge=x\n");
            write(top, "a.txt", "changed\n");
        },
        told: &[".gitattributes", "a.txt"],
    },
    Act {
        name: "a nested repository with a monitor",
        run: |scene, top| {
            let nested = top.join("nested");
            std::fs::create_dir(&nested).unwrap();
            git(&nested, &["init", "-q"]);
            write(&nested, "n", "n");
            git(&nested, &["add", "."]);
            git(&nested, &["commit", "-qm", "n"]);
            git(&nested, &["config", "core.fsmonitor", &trap(scene)]);
            write(top, "x", "x");
        },
        told: &["x"],
    },
    Act {
        name: "a submodule of its own making",
        run: |scene, top| {
            let nested = top.join("module");
            std::fs::create_dir(&nested).unwrap();
            git(&nested, &["init", "-q"]);
            git(&nested, &["commit", "-q", "--allow-empty", "-m", "n"]);
            git(top, &["add", "module"]);
            git(top, &["commit", "-qm", "with a module"]);
            git(&nested, &["config", "core.fsmonitor", &trap(scene)]);
            write(&nested, "dirty", "dirty");
        },
        told: &[],
    },
    Act {
        name: "its .git is a link to the user's",
        run: |scene, top| {
            std::fs::remove_dir_all(top.join(".git")).unwrap();
            link(scene.repo().join(".git"), &top.join(".git"));
            write(top, "x", "x");
        },
        told: &["x"],
    },
    Act {
        name: "its .git is gone",
        run: |_, top| {
            std::fs::remove_dir_all(top.join(".git")).unwrap();
            write(top, "x", "x");
        },
        told: &["x"],
    },
    Act {
        name: "objects are links to the outside",
        run: |scene, top| {
            write(top, "x", "x");
            git(top, &["add", "."]);
            git(top, &["commit", "-qm", "x"]);
            std::fs::remove_dir_all(top.join(".git/objects")).unwrap();
            link(scene.root.path().join("secret-objects"), &top.join(".git/objects"));
        },
        told: &["x"],
    },
    Act {
        name: "alternates lead to another repository",
        run: |scene, top| {
            let other = scene.root.path().join("other");
            git(scene.root.path(), &["init", "-q", "other"]);
            write(&other, "secret", "secret");
            git(&other, &["add", "."]);
            git(&other, &["commit", "-qm", "secret"]);
            write(
                top,
                ".git/objects/info/alternates",
                &format!("{}\n", other.join(".git/objects").display()),
            );
            let secret = git(&other, &["rev-parse", "HEAD"]);
            write(top, ".git/refs/heads/main", &format!("{secret}\n"));
            write(top, "x", "x");
        },
        told: &["x"],
    },
    Act {
        name: "HEAD leads out of the folder",
        run: |scene, top| {
            write(scene.root.path(), "stolen", "0123456789012345678901234567890123456789");
            write(top, ".git/HEAD", "ref: refs/../../../../stolen\n");
            write(top, "x", "x");
        },
        told: &["x"],
    },
    Act {
        name: "links to files of the user",
        run: |scene, top| {
            link(scene.repo().join(".env"), &top.join("stolen"));
            std::fs::remove_dir_all(top.join("sub")).unwrap();
            link(scene.repo().join("sub"), &top.join("sub"));
        },
        told: &["stolen", "sub", "sub/c.txt"],
    },
    Act {
        name: "pipes and a sparse file",
        run: |_, top| {
            std::fs::remove_file(top.join("b.txt")).ok();
            make_pipe(&top.join("pipe"));
            make_pipe(&top.join("old.txt.new"));
            std::fs::rename(top.join("old.txt.new"), top.join("old.txt")).unwrap();
        },
        told: &["old.txt"],
    },
    Act {
        name: "names that git refuses",
        run: |_, top| {
            write(top, "deep/.GIT/config", "[core]\n\tfsmonitor = touch x\n");
            write(top, "git~1/hooks/x", "x");
            write(top, "x", "x");
        },
        told: &["x"],
    },
    Act {
        name: "names that git refuses because of other systems",
        run: |_, top| {
            for name in [".git ", ".git.", "deep/.git::$INDEX_ALLOCATION", "a\\.git", "GIT~1 ./x"] {
                write(top, name, "x");
            }
            for name in [".gitmodules", "sub/.GITMODULES ", "gitmod~1", "GI7EBA~1"] {
                link("a.txt", &top.join(name));
            }
            write(top, "x", "x");
        },
        told: &["x"],
    },
    Act {
        name: "odd names",
        run: |_, top| {
            write(top, "a\nb", "x");
            write(top, " -x\t\"", "x");
            write(top, ":(top)x", "x");
            write(top, "*", "x");
        },
        told: &[" -x\t\"", "*", ":(top)x", "a\nb"],
    },
    Act {
        name: "pipes in its git directory",
        run: |_, top| {
            write(top, "x", "x");
            for name in ["HEAD", "packed-refs", "index", "config", "info/attributes", "info/exclude"] {
                let path = top.join(".git").join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                let _ = std::fs::remove_file(&path);
                make_pipe(&path);
            }
        },
        told: &["x"],
    },
    Act {
        name: "replaced, grafted and shallow history",
        run: |_, top| {
            write(top, "x", "x");
            git(top, &["add", "."]);
            git(top, &["commit", "-qm", "x"]);
            let head = git(top, &["rev-parse", "HEAD"]);
            write(top, ".git/shallow", &format!("{head}\n"));
            write(top, ".git/info/grafts", &format!("{head}\n"));
        },
        told: &["x"],
    },
    Act {
        name: "another history",
        run: |_, top| {
            git(top, &["checkout", "-q", "--orphan", "orphan"]);
            write(top, "x", "x");
            git(top, &["add", "."]);
            git(top, &["commit", "-qm", "orphan"]);
        },
        told: &["x"],
    },
    Act {
        name: "objects under wrong names",
        run: |_, top| {
            write(top, "x", "x");
            git(top, &["add", "."]);
            git(top, &["commit", "-qm", "x"]);
            let blob = git(top, &["rev-parse", "HEAD:x"]);
            let tree = git(top, &["rev-parse", "HEAD^{tree}"]);
            let path = |id: &str| top.join(format!(".git/objects/{}/{}", &id[..2], &id[2..]));
            std::fs::remove_file(path(&tree)).unwrap();
            std::fs::copy(path(&blob), path(&tree)).unwrap();
        },
        told: &["x"],
    },
    Act {
        name: "the user's repository by git's own commands",
        run: |_, top| {
            for args in [
                &["config", "user.name", "mallory"] as &[&str],
                &["update-ref", "refs/heads/mine", "HEAD"],
                &["stash"],
                &["gc", "-q", "--prune=now"],
                &["worktree", "prune"],
                &["push", "-q", "origin", "HEAD:evil"],
                &["reflog", "expire", "--expire=now", "--all"],
                &["commit", "-q", "--allow-empty", "-m", "empty"],
            ] {
                run_git(top, args);
            }
            write(top, "x", "x");
        },
        told: &["x"],
    },
];

fn make_pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test]
async fn a_pipe_that_git_would_wait_for_is_an_error_at_once() {
    for name in [".gitignore", "sub/.gitignore", "sub/.gitattributes"] {
        let scene = Scene::new();
        let made = scene.make().await;
        let _ = std::fs::remove_file(made.top().join(name));
        make_pipe(&made.top().join(name));
        write(made.top(), "sub/x", "x");
        let read = tokio::time::timeout(std::time::Duration::from_secs(20), made.changes()).await;
        let error = read.expect(name).unwrap_err();
        assert!(error.facts()["step"] == "changes" && error.message().contains(name), "{error}");
        made.discard().await;
        assert_eq!((scene.left(), scene.refs()), (Vec::new(), String::new()));
    }
}

async fn read_changes(made: &Worktree) -> Changes {
    made.changes().await.unwrap_or_else(|error| panic!("{error}")).0
}

#[tokio::test]
async fn nothing_of_a_hostile_checkout_reaches_the_user_but_its_files() {
    for act in ACTS {
        let scene = Scene::new().dirty();
        let before = scene.state();
        let made = scene.make().await;
        (act.run)(&scene, made.top());
        let sign = scene.root.path().join("sign");
        let _ = std::fs::remove_file(&sign);
        let changes = read_changes(&made).await;
        let mut paths: Vec<_> = changes.files.iter().map(|file| file.path.as_str()).collect();
        paths.sort();
        assert_eq!(paths, act.told, "{}", act.name);
        let patch = changes.patch().await.unwrap();
        assert!(!patch.contains("secret\n"), "{}", act.name);
        made.leave(false).await;
        assert_eq!(scene.state(), before, "{}", act.name);
        assert!(!sign.exists(), "{}: a program ran", act.name);
        git(&scene.repo(), &["fsck", "--strict"]);
        changes.discard(&scene.place).await.unwrap();
        assert_eq!(
            (scene.left(), scene.refs(), scene.state()),
            (Vec::new(), String::new(), before),
            "{}",
            act.name
        );
    }
}

#[tokio::test]
async fn commits_that_are_no_good_stay_away_and_the_files_come_home() {
    for name in ["another history", "objects under wrong names", "alternates lead to another repository"] {
        let act = ACTS.iter().find(|act| act.name == name).unwrap();
        let scene = Scene::new();
        let made = scene.make().await;
        (act.run)(&scene, made.top());
        let (changes, warnings) = made.changes().await.unwrap();
        assert!(
            warnings.iter().any(|warning| warning.contains("commits were left out")),
            "{name}: {warnings:?}"
        );
        let count =
            git(&scene.repo(), &["rev-list", "--count", &format!("{}..{}", changes.base, changes.commit)]);
        assert_eq!(count, "1", "{name}");
        made.leave(false).await;
    }
}

#[tokio::test]
async fn a_huge_file_is_refused_and_the_checkout_is_there_to_look_at() {
    let scene = Scene::new();
    let made = scene.make().await;
    std::fs::File::create(made.top().join("huge")).unwrap().set_len(1 << 40).unwrap();
    let error = made.changes().await.unwrap_err();
    assert!(error.facts()["step"] == "changes" && error.message().contains("huge"), "{error}");
    made.leave(true).await;
    assert!(made.top().join("huge").exists());
}

#[tokio::test]
async fn a_link_in_the_agents_tree_is_applied_as_a_link_and_written_through_by_nothing() {
    let scene = Scene::new();
    let outside = scene.root.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let made = scene.make().await;
    std::fs::remove_dir_all(made.top().join("sub")).unwrap();
    link(&outside, &made.top().join("sub"));
    let changes = read_changes(&made).await;
    made.leave(false).await;
    changes.apply(&scene.place, None).await.unwrap();
    assert!(scene.repo().join("sub").symlink_metadata().unwrap().is_symlink());
    // Another agent, whose base has the folder, cannot write through the link that is there now.
    git(&scene.repo(), &["checkout", "-q", "--", "sub"]);
    let second = scene.make().await;
    write(second.top(), "sub/new.txt", "new");
    let changes = read_changes(&second).await;
    second.leave(false).await;
    std::fs::remove_dir_all(scene.repo().join("sub")).unwrap();
    link(&outside, &scene.repo().join("sub"));
    assert!(changes.apply(&scene.place, None).await.is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(read(&scene.repo(), "b.txt"), "b\n");
}
