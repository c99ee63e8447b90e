use super::super::sandbox::Sandbox;
use super::*;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

/// The reported changes in a folder with a repository and a package.
fn told(change: impl FnOnce(&Path)) -> Vec<String> {
    changes(None, change, |_| {}).0
}

/// The reported and the restored changes; calls `look` with the folder at the end.
fn changes(
    protect: Option<Protect>,
    change: impl FnOnce(&Path),
    look: impl FnOnce(&Path),
) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    fs::create_dir_all(top.join(".git/hooks")).unwrap();
    fs::write(top.join(".git/hooks/pre-push.sample"), "true").unwrap();
    fs::write(top.join(".git/config"), "[core]").unwrap();
    fs::write(top.join("package.json"), r#"{"version":"1","scripts":{"test":"true"}}"#).unwrap();
    let mut spec = ProcessSpec::new("true", Vec::<String>::new());
    spec.cwd = Some(top.clone());
    spec.sandbox = Some(Sandbox { write: vec![".".into()], protect, ..Sandbox::default() });
    let protected = Protected::before(&spec).unwrap().unwrap();
    change(&top);
    let changes = protected.after();
    look(&top);
    let below = |paths: Vec<String>| {
        let below = paths.iter().map(|path| Path::new(path).strip_prefix(&top).unwrap().to_str().unwrap());
        below.map(str::to_owned).collect()
    };
    (below(changes.changed), below(changes.restored))
}

#[test]
fn a_folder_of_git_that_is_granted_has_its_own_names() {
    for (granted, file, git, expected) in [
        // A bare repository, the folder of a repository, that of a linked worktree, and a part of one.
        ("bare", "hooks/post-commit", "bare", "hooks/post-commit"),
        ("bare", "config", "bare", "config"),
        (".git", "info/attributes", ".git", "info/attributes"),
        (".git/worktrees/x", "config.worktree", ".git/worktrees/x", "config.worktree"),
        (".git/worktrees/x", "commondir", ".git/worktrees/x", "commondir"),
        (".git/hooks", "pre-push", ".git", "pre-push"),
        (".git/info", "attributes", ".git", "attributes"),
        // A file that a commit in a worktree writes.
        (".git", "objects/aa", ".git", ""),
        ("plain", "config", ".git", ""),
    ] {
        for is_restored in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let top = folder.path().canonicalize().unwrap();
            for below in ["objects", "hooks", "info"] {
                fs::create_dir_all(top.join(git).join(below)).unwrap();
            }
            fs::write(top.join(git).join("HEAD"), "ref: refs/heads/main").unwrap();
            let granted = top.join(granted);
            fs::create_dir_all(&granted).unwrap();
            let mut spec = ProcessSpec::new("true", Vec::<String>::new());
            spec.cwd = Some(top.clone());
            let protect = is_restored.then(|| Protect::restoring(&[".git"]));
            spec.sandbox = Some(Sandbox { write: vec![granted.clone()], protect, ..Sandbox::default() });
            let protected = Protected::before(&spec).unwrap().unwrap();
            fs::write(granted.join(file), "changed").unwrap();
            let changes = protected.after();
            let told: Vec<String> = (!expected.is_empty())
                .then(|| granted.join(expected).display().to_string())
                .into_iter()
                .collect();
            assert_eq!(changes.changed, told, "{}", granted.display());
            assert_eq!(changes.restored, if is_restored { told } else { Vec::new() });
            assert_eq!(granted.join(file).exists(), !is_restored || expected.is_empty());
        }
    }
}

/// The changed and the restored paths below `top`, where `granted` is what the program may write.
fn of_git(top: &Path, granted: &str, is_restored: bool, change: impl FnOnce()) -> (Vec<String>, Vec<String>) {
    let mut spec = ProcessSpec::new("true", Vec::<String>::new());
    spec.cwd = Some(top.to_owned());
    let protect = is_restored.then(|| Protect::restoring(&[".git"]));
    spec.sandbox = Some(Sandbox { write: vec![top.join(granted)], protect, ..Sandbox::default() });
    let protected = Protected::before(&spec).unwrap().unwrap();
    assert_eq!(protected.after(), Changes::default());
    change();
    let Changes { changed, restored } = protected.after();
    let below = |paths: Vec<String>| {
        let below = paths.iter().map(|path| Path::new(path).strip_prefix(top).unwrap().to_str().unwrap());
        below.map(str::to_owned).collect()
    };
    (below(changed), below(restored))
}

/// Each is a folder of git below `.git`: of submodules, one with a name of two parts and one of a submodule, and of a linked worktree.
const FOLDERS_OF_GIT: [&str; 4] =
    ["modules/one", "modules/below/two", "modules/one/modules/three", "worktrees/x"];

fn with_folders_of_git() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    for path in FOLDERS_OF_GIT.into_iter().chain([""]) {
        let git = top.join(".git").join(path);
        fs::create_dir_all(git.join("hooks")).unwrap();
        fs::create_dir_all(git.join("objects")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main").unwrap();
        fs::write(git.join("config"), "[core]").unwrap();
        fs::write(git.join("commondir"), "../..").unwrap();
    }
    (folder, top)
}

#[test]
fn submodules_have_the_names_of_a_repository() {
    for (granted, holder) in
        [("", ".git"), (".git", ""), (".git/modules", ""), (".git/modules/one", ""), (".git/worktrees", "")]
    {
        let own = Path::new(".git");
        let seen = FOLDERS_OF_GIT.into_iter().filter(|path| own.join(path).starts_with(granted));
        for (path, is_restored) in seen.flat_map(|path| [(path, false), (path, true)]) {
            let (_folder, top) = with_folders_of_git();
            let git = top.join(".git").join(path);
            let (changed, restored) = of_git(&top, granted, is_restored, || {
                fs::write(git.join("hooks/pre-push"), "x").unwrap();
                fs::write(git.join("commondir"), "elsewhere").unwrap();
                fs::write(git.join("config"), "[core] fsmonitor = x").unwrap();
                fs::write(git.join("index"), "written by each commit").unwrap();
            });
            let expected =
                ["commondir", "config", "hooks/pre-push"].map(|file| format!(".git/{path}/{file}"));
            assert_eq!(changed, expected, "{granted} {holder}");
            assert_eq!(restored, if is_restored { changed } else { Vec::new() });
            assert_eq!(fs::read_to_string(git.join("config")).unwrap() == "[core]", is_restored);
            assert_eq!(git.join("hooks/pre-push").exists(), !is_restored);
        }
    }
}

#[test]
fn a_submodule_is_found_whatever_the_program_puts_beside_it() {
    for is_restored in [false, true] {
        let (_folder, top) = with_folders_of_git();
        let of = |path: &str| top.join(".git").join(path);
        let (changed, restored) = of_git(&top, "", is_restored, || {
            for decoy in 0..=git_folders::MAX_FOLDERS {
                fs::create_dir(of(&format!("modules/z{decoy}"))).unwrap();
            }
            for holder in ["modules", "modules/below", "worktrees"] {
                fs::write(of(holder).join("HEAD"), "x").unwrap();
            }
            for path in FOLDERS_OF_GIT {
                fs::remove_file(of(path).join("HEAD")).unwrap();
                fs::write(of(path).join("hooks/pre-push"), "x").unwrap();
            }
        });
        let mut hooks = FOLDERS_OF_GIT.map(|path| format!(".git/{path}/hooks/pre-push")).to_vec();
        hooks.sort();
        assert_eq!(restored, if is_restored { hooks.clone() } else { Vec::new() });
        assert_eq!(changed, [vec![".git/modules".to_owned()], hooks].concat());
    }
    // A new one runs what the file `.git` of its folder leads to.
    let (_folder, top) = with_folders_of_git();
    let new = top.join(".git/modules/new");
    let (changed, _) = of_git(&top, "", false, || {
        fs::create_dir(&new).unwrap();
        fs::write(new.join("HEAD"), "ref: refs/heads/main").unwrap();
        fs::write(new.join("config"), "[core]").unwrap();
    });
    assert_eq!(changed, [".git/modules/new/config"]);
}

#[test]
fn what_runs_later_outside_is_told_when_it_changed() {
    assert_eq!(told(|_| {}), [""; 0]);
    assert_eq!(told(|top| fs::write(top.join("src.rs"), "x").unwrap()), [""; 0]);
    assert_eq!(
        told(|top| fs::write(top.join(".git/hooks/pre-commit"), "x").unwrap()),
        [".git/hooks/pre-commit"]
    );
    assert_eq!(told(|top| fs::write(top.join(".git/config"), "[alias]").unwrap()), [".git/config"]);
    assert_eq!(told(|top| fs::remove_file(top.join(".git/config")).unwrap()), [".git/config"]);
    assert_eq!(told(|top| fs::write(top.join(".envrc"), "x").unwrap()), [".envrc"]);
    assert_eq!(
        told(|top| {
            let sample = top.join(".git/hooks/pre-push.sample");
            fs::set_permissions(sample, fs::Permissions::from_mode(0o755)).unwrap();
        }),
        [".git/hooks/pre-push.sample"]
    );
    let other_version = r#"{"version":"2","scripts":{"test":"true"}}"#;
    assert_eq!(told(|top| fs::write(top.join("package.json"), other_version).unwrap()), [""; 0]);
    let other_script = r#"{"version":"1","scripts":{"test":"false"}}"#;
    assert_eq!(told(|top| fs::write(top.join("package.json"), other_script).unwrap()), ["package.json"]);
}

#[test]
fn no_trick_hides_a_change() {
    // The change keeps the length and the times.
    let kept_times = |top: &Path| {
        let config = top.join(".git/config");
        let times = fs::metadata(&config).unwrap().modified().unwrap();
        fs::write(&config, "[hack]").unwrap();
        fs::File::options().write(true).open(&config).unwrap().set_modified(times).unwrap();
    };
    assert_eq!(told(kept_times), [".git/config"]);
    let linked = |top: &Path| {
        fs::remove_file(top.join(".git/config")).unwrap();
        symlink("elsewhere", top.join(".git/config")).unwrap();
    };
    assert_eq!(told(linked), [".git/config"]);
    // The whole repository is another one, behind a link.
    let moved = |top: &Path| {
        fs::rename(top.join(".git"), top.join("moved")).unwrap();
        symlink("moved", top.join(".git")).unwrap();
    };
    assert!(told(moved).contains(&".git/config".to_owned()));
}

#[test]
fn no_other_way_to_a_configuration_of_gits_is_missed() {
    let no_folder = |top: &Path| {
        fs::remove_dir_all(top.join(".git")).unwrap();
        fs::write(top.join(".git"), "gitdir: elsewhere").unwrap();
    };
    assert!(told(no_folder).contains(&".git".to_owned()));
    let common = |top: &Path| fs::write(top.join(".git/commondir"), "../elsewhere").unwrap();
    assert_eq!(told(common), [".git/commondir"]);
    let of_worktree = |top: &Path| fs::write(top.join(".git/config.worktree"), "[core]").unwrap();
    assert_eq!(told(of_worktree), [".git/config.worktree"]);
}

#[test]
fn what_nobody_could_look_at_is_told() {
    let many = |top: &Path| {
        for index in 0..MAX_FILES {
            fs::write(top.join(format!(".git/hooks/{index}")), "").unwrap();
        }
    };
    let told_of_many = told(many);
    assert_eq!((told_of_many.len(), told_of_many[0].as_str()), (MAX_CHANGED, ".git/hooks"));
    let deep = |top: &Path| fs::create_dir_all(top.join(".vscode/1/2/3/4/5/6/7/8/9")).unwrap();
    assert_eq!(told(deep), [".vscode"]);
    // npm takes a mark before the first bracket, and this reader does not.
    let marked = |top: &Path| {
        fs::write(top.join("package.json"), "\u{feff}{\"scripts\":{\"test\":\"false\"}}").unwrap();
    };
    assert_eq!(told(marked), ["package.json"]);
    // A file beyond the size limit, with its length and times unchanged.
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join(".envrc");
    fs::File::create(&long).unwrap().set_len(MAX_BYTES + 1).unwrap();
    let mut spec = ProcessSpec::new("true", Vec::<String>::new());
    spec.cwd = Some(folder.path().to_owned());
    spec.sandbox = Some(Sandbox { write: vec![".".into()], ..Sandbox::default() });
    let protected = Protected::before(&spec).unwrap().unwrap();
    assert_eq!(protected.after(), Changes::default());
    let file = fs::File::options().write(true).open(&long).unwrap();
    let times = file.metadata().unwrap().modified().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"x", 0).unwrap();
    file.set_modified(times).unwrap();
    assert_eq!(protected.after().changed.len(), 1);
}

fn restored() -> Option<Protect> {
    Some(Protect { restored: Protect::names(), ..Protect::default() })
}

#[test]
fn what_is_to_be_restored_is_as_it_was() {
    let change = |top: &Path| {
        fs::write(top.join(".git/hooks/pre-commit"), "x").unwrap();
        fs::write(top.join(".git/config"), "[alias]").unwrap();
        fs::remove_file(top.join(".git/hooks/pre-push.sample")).unwrap();
        fs::write(top.join(".envrc"), "x").unwrap();
        symlink("/", top.join(".vscode")).unwrap();
        fs::create_dir_all(top.join(".claude/deep/er")).unwrap();
        fs::write(top.join(".claude/deep/er/settings.json"), "x").unwrap();
        let other = r#"{ "version": "2", "scripts": {"test":"false"}, "more": [1] }"#;
        fs::write(top.join("package.json"), other).unwrap();
        fs::write(top.join("src.rs"), "x").unwrap();
    };
    let look = |top: &Path| {
        let text = |name: &str| fs::read_to_string(top.join(name)).unwrap();
        assert_eq!(
            (text(".git/config"), text(".git/hooks/pre-push.sample")),
            ("[core]".into(), "true".into())
        );
        let made = [".git/hooks/pre-commit", ".envrc", ".vscode", ".claude/deep/er/settings.json"];
        for made in made {
            assert!(fs::symlink_metadata(top.join(made)).is_err(), "{made}");
        }
        let package = r#"{ "version": "2", "scripts": {"test":"true"}, "more": [1] }"#;
        assert_eq!((text("package.json"), text("src.rs")), (package.into(), "x".into()));
    };
    let (changed, put_back) = changes(restored(), change, look);
    assert_eq!((changed.len(), &put_back), (7, &changed));
}

#[test]
fn of_a_package_the_scripts_alone_are_put_back() {
    let scripts = r#""scripts":{"test":"true"}"#;
    for (now, expected) in [
        (r#"{"version":"2","scripts":{"test":"x"}}"#, format!(r#"{{"version":"2",{scripts}}}"#)),
        (r#"{"version":"2"}"#, format!(r#"{{{scripts},"version":"2"}}"#)),
        ("{ }", format!("{{{scripts} }}")),
        ("no package", format!(r#"{{"version":"1",{scripts}}}"#)),
        (r#"["scripts"]"#, format!(r#"{{"version":"1",{scripts}}}"#)),
    ] {
        let change = |top: &Path| fs::write(top.join("package.json"), now).unwrap();
        let look =
            |top: &Path| assert_eq!(fs::read_to_string(top.join("package.json")).unwrap(), expected, "{now}");
        assert_eq!(changes(restored(), change, look).1, ["package.json"]);
    }
}

#[test]
fn nothing_is_restored_through_a_link() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("config"), "mine").unwrap();
    let change = |top: &Path| {
        fs::rename(top.join(".git"), top.join("moved")).unwrap();
        symlink(outside.path(), top.join(".git")).unwrap();
        fs::remove_file(top.join("package.json")).unwrap();
        symlink(outside.path().join("config"), top.join("package.json")).unwrap();
    };
    let look = |top: &Path| {
        assert_eq!(fs::read_to_string(top.join(".git/config")).unwrap(), "[core]");
        assert!(fs::symlink_metadata(top.join(".git")).unwrap().is_dir());
        assert!(fs::symlink_metadata(top.join("package.json")).unwrap().is_file());
    };
    let (changed, put_back) = changes(restored(), change, look);
    assert_eq!(put_back, changed);
    assert_eq!(fs::read_to_string(outside.path().join("config")).unwrap(), "mine");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    // A folder, or another kind of thing, in place of a file.
    let change = |top: &Path| {
        fs::remove_file(top.join(".git/config")).unwrap();
        fs::create_dir_all(top.join(".git/config/deep")).unwrap();
        fs::write(top.join(".git/config/deep/x"), "x").unwrap();
        fs::write(top.join("package.json"), "{\"scripts\":1,\"scripts\":2}").unwrap();
    };
    let look = |top: &Path| {
        assert_eq!(fs::read_to_string(top.join(".git/config")).unwrap(), "[core]");
        assert!(fs::read_to_string(top.join("package.json")).unwrap().contains(r#"{"test":"true"}"#));
    };
    changes(restored(), change, look);
}

#[test]
fn what_can_not_be_kept_is_refused_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    fs::File::create(folder.path().join(".envrc")).unwrap().set_len(MAX_BYTES + 1).unwrap();
    let mut spec = ProcessSpec::new("true", Vec::<String>::new());
    spec.cwd = Some(folder.path().to_owned());
    spec.sandbox = Some(Sandbox { write: vec![".".into()], protect: restored(), ..Sandbox::default() });
    let error = Protected::before(&spec).err().unwrap();
    assert!(error.message().starts_with("sandbox.protect: "), "{}", error.message());
}

/// Does this as an ordinary user, who is this thread alone.
fn as_ordinary_user(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let ordinary = scope.spawn(|| {
            if nix::unistd::geteuid().is_root() {
                nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
            }
            work();
        });
        ordinary.join().unwrap();
    });
}

fn set_mode(path: PathBuf, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_folder_that_is_closed_hides_nothing() {
    // A program is executed by its name in a folder that can't be listed.
    let closed = |top: &Path| {
        fs::write(top.join(".git/hooks/pre-commit"), "x").unwrap();
        set_mode(top.join(".git/hooks"), 0o311);
    };
    let all_closed = |top: &Path| {
        fs::write(top.join(".git/config.worktree"), "x").unwrap();
        set_mode(top.join(".git"), 0o000);
    };
    as_ordinary_user(|| {
        let (told, _) = changes(None, closed, |top| set_mode(top.join(".git/hooks"), 0o700));
        assert!(told.contains(&".git/hooks".to_owned()), "{told:?}");
        let (told, _) = changes(None, all_closed, |top| set_mode(top.join(".git"), 0o700));
        for name in [".git/config", ".git/config.worktree", ".git/hooks"] {
            assert!(told.contains(&name.to_owned()), "{told:?}");
        }
        for close in [closed as fn(&Path), all_closed] {
            let look = |top: &Path| {
                assert!(!top.join(".git/hooks/pre-commit").exists());
                assert!(!top.join(".git/config.worktree").exists());
                assert_eq!(fs::read_to_string(top.join(".git/hooks/pre-push.sample")).unwrap(), "true");
                assert_eq!(fs::read_to_string(top.join(".git/config")).unwrap(), "[core]");
            };
            let (changed, put_back) = changes(restored(), close, look);
            assert_eq!(put_back, changed);
        }
    });
}

#[test]
fn nothing_in_the_way_keeps_a_file_from_being_put_back() {
    let change = |top: &Path| {
        // Names that the removal, or the writing, of a file could stumble over.
        fs::remove_file(top.join(".git/config")).unwrap();
        let odd = OsStr::from_bytes(b"\xff\n");
        fs::create_dir_all(top.join(".git/config/deep/er").join(odd)).unwrap();
        fs::create_dir_all(top.join(".git/.config/x")).unwrap();
        fs::create_dir_all(top.join(".git/.config.unfinished/x")).unwrap();
        // More files than anybody looks at, and one behind them.
        for decoy in 0..MAX_FILES {
            fs::write(top.join(format!(".git/hooks/a{decoy:05}")), "").unwrap();
        }
        fs::write(top.join(".git/hooks/pre-push"), "x").unwrap();
        fs::create_dir_all(top.join(".vscode/1/2/3/4/5/6/7/8/9")).unwrap();
    };
    let look = |top: &Path| {
        assert_eq!(fs::read_to_string(top.join(".git/config")).unwrap(), "[core]");
        let hooks: Vec<_> =
            fs::read_dir(top.join(".git/hooks")).unwrap().map(|hook| hook.unwrap().file_name()).collect();
        assert_eq!(hooks, ["pre-push.sample"]);
        assert!(!top.join(".vscode").exists());
    };
    let (changed, put_back) = changes(restored(), change, look);
    assert!(changed.contains(&".git/hooks".to_owned()) && put_back.contains(&".git/hooks".to_owned()));
}

#[test]
fn a_part_of_a_folder_that_is_put_back_costs_nothing_beside_it() {
    let protect = Protect {
        told: vec![".vscode".into()],
        restored: vec![".vscode/tasks.json".into()],
        ..Protect::default()
    };
    let change = |top: &Path| {
        fs::create_dir_all(top.join(".vscode/1/2/3/4/5/6/7/8/9")).unwrap();
        fs::write(top.join(".vscode/tasks.json"), "x").unwrap();
    };
    let look =
        |top: &Path| assert!(top.join(".vscode/1").exists() && !top.join(".vscode/tasks.json").exists());
    let (changed, put_back) = changes(Some(protect), change, look);
    assert_eq!(
        (changed, put_back),
        (vec![".vscode".into(), ".vscode/tasks.json".into()], vec![".vscode/tasks.json".into()])
    );
}
