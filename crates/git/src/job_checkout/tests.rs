use super::*;
use std::io::Read;
use std::process::Command;

struct Scene {
    root: tempfile::TempDir,
    place: GitPlace,
}

fn git(at: &Path, args: &[&str]) -> String {
    let done = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"])
        .args(args)
        .current_dir(at)
        .output()
        .unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

impl Scene {
    /// A repository with two commits on main, the first tagged v1.
    fn new() -> Scene {
        let root = tempfile::tempdir().unwrap();
        let origin = root.path().join("origin");
        std::fs::create_dir(&origin).unwrap();
        git(&origin, &["init", "-q"]);
        for text in ["one", "two"] {
            std::fs::write(origin.join("a.txt"), text).unwrap();
            git(&origin, &["add", "."]);
            git(&origin, &["commit", "-qm", text]);
            if text == "one" {
                git(&origin, &["tag", "v1"]);
            }
        }
        let place = GitPlace { folder: root.path().join("cache"), idle_timeout: Duration::from_secs(60) };
        Scene { root, place }
    }

    fn origin(&self) -> PathBuf {
        self.root.path().join("origin")
    }

    fn source(&self, wanted: Option<&str>) -> GitSource {
        GitSource {
            url: self.origin().to_string_lossy().into_owned(),
            wanted: wanted.map(str::to_owned),
            keep_on_failure: false,
        }
    }

    async fn make(&self, job: &str, wanted: Option<&str>) -> Result<Checkout, Error> {
        Checkout::make(&self.place, job, &self.source(wanted), false).await
    }

    fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(checkouts(&self.place.folder)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn text(checkout: &Checkout) -> String {
    std::fs::read_to_string(checkout.path().join("a.txt")).unwrap()
}

fn kind(error: &Error) -> &str {
    error.facts()["kind"].as_str().unwrap()
}

#[tokio::test]
async fn a_branch_a_tag_and_a_commit_are_checked_out_and_gone_afterwards() {
    let scene = Scene::new();
    let head = scene.make("a", None).await.unwrap();
    assert_eq!(text(&head), "two");
    assert_eq!(git(head.path(), &["remote", "get-url", "origin"]), scene.origin().to_string_lossy());
    assert_eq!(git(head.path(), &["rev-parse", "origin/main"]), head.commit());
    let tag = scene.make("b", Some("v1")).await.unwrap();
    assert_eq!(text(&tag), "one");
    // A commit that was fetched before needs no remote.
    std::fs::rename(scene.origin(), scene.root.path().join("away")).unwrap();
    let commit = scene.make("c", Some(tag.commit())).await.unwrap();
    assert_eq!(text(&commit), "one");
    for checkout in [head, tag, commit] {
        checkout.leave(Leaving::Over).await;
        assert!(!checkout.path().exists());
    }
    assert_eq!(scene.left(), Vec::<String>::new());
}

#[tokio::test]
async fn a_later_checkout_sees_what_was_pushed_meanwhile() {
    let scene = Scene::new();
    scene.make("a", Some("main")).await.unwrap();
    std::fs::write(scene.origin().join("a.txt"), "three").unwrap();
    git(&scene.origin(), &["commit", "-qam", "three"]);
    assert_eq!(text(&scene.make("b", Some("main")).await.unwrap()), "three");
    // Rewritten and renamed, as branches are.
    git(&scene.origin(), &["reset", "-q", "--hard", "v1"]);
    git(&scene.origin(), &["branch", "-m", "main", "main/next"]);
    assert_eq!(text(&scene.make("c", Some("main/next")).await.unwrap()), "one");
}

#[tokio::test]
async fn many_at_once_share_one_mirror_and_meet_nowhere() {
    let scene = Scene::new();
    let makes = (0..8).map(|n| {
        let (place, source) = (scene.place.clone(), scene.source(None));
        ground::task::spawn(
            async move { Checkout::make(&place, &format!("job {}", n % 4), &source, false).await },
        )
    });
    let mut paths = std::collections::HashSet::new();
    let made: Vec<_> = futures_util::future::join_all(makes).await;
    for checkout in &made {
        let checkout = checkout.as_ref().unwrap().as_ref().unwrap();
        assert_eq!(text(checkout), "two");
        assert!(paths.insert(checkout.path().to_owned()), "{:?}", checkout.path());
    }
    let mirrors = std::fs::read_dir(scene.place.folder.join("mirrors")).unwrap();
    assert_eq!(mirrors.count(), 2, "one, and its lock");
}

#[tokio::test]
async fn what_an_agent_does_to_its_checkout_runs_nothing_here_and_reaches_no_other() {
    let scene = Scene::new();
    let first = scene.make("a", None).await.unwrap();
    let sign = scene.root.path().join("ran");
    let touch = format!("touch {}", sign.display());
    git(first.path(), &["config", "core.fsmonitor", &touch]);
    git(first.path(), &["config", "core.sshCommand", &touch]);
    git(first.path(), &["branch", "theirs"]);
    let hook = first.path().join(".git/hooks/post-checkout");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, format!("#!/bin/sh\n{touch}\n")).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let second = scene.make("b", None).await.unwrap();
    assert!(!sign.exists());
    assert!(!git(second.path(), &["branch", "--all"]).contains("theirs"));
    assert!(!git(second.path(), &["config", "--list"]).contains("touch"));
}

#[tokio::test]
async fn hooks_that_a_relative_path_would_take_from_the_repository_are_not_run() {
    let scene = Scene::new();
    let sign = scene.root.path().join("ran");
    std::fs::create_dir(scene.origin().join("hooks")).unwrap();
    let hook = scene.origin().join("hooks/post-checkout");
    std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", sign.display())).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    git(&scene.origin(), &["add", "."]);
    git(&scene.origin(), &["commit", "-qm", "hooks"]);
    let checkout = scene.make("a", None).await.unwrap();
    // The worker's user has enabled the hooks of repositories.
    git(checkout.path(), &["-c", "core.hooksPath=hooks", "checkout", "-q", "--detach", "HEAD"]);
    assert!(sign.exists(), "the hook works");
    std::fs::remove_file(&sign).unwrap();
    let address = scene.source(None).address();
    let run = Git::new(Duration::from_secs(60), &address, "main");
    git(checkout.path(), &["config", "core.hooksPath", "hooks"]);
    run.run(Some(checkout.path()), &["checkout", "--detach", checkout.commit(), "--"]).await.unwrap();
    assert!(!sign.exists());
}

#[tokio::test]
async fn what_is_not_there_is_told_by_its_kind() {
    let scene = Scene::new();
    let absent = "0123456789abcdef0123456789abcdef01234567";
    for wanted in ["nowhere", absent] {
        let error = scene.make("a", Some(wanted)).await.err().unwrap();
        assert_eq!((error.code(), kind(&error)), (ErrorCode::JobCheckoutFailed, "missing_ref"), "{error}");
        assert!(error.message().contains(wanted), "{error}");
    }
    let source = GitSource { url: "/nowhere/at/all".into(), ..GitSource::default() };
    let error = Checkout::make(&scene.place, "a", &source, false).await.err().unwrap();
    assert_eq!(kind(&error), "unreachable", "{error}");
    // Failed ones leave nothing but the lock that was taken.
    assert!(scene.left().iter().all(|name| name.ends_with(".lock")), "{:?}", scene.left());
}

#[tokio::test]
async fn a_remote_that_never_answers_is_given_up() {
    let scene = Scene::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://me:hunter2@{}/a.git", listener.local_addr().unwrap());
    let place = GitPlace { idle_timeout: Duration::from_millis(500), ..scene.place.clone() };
    let source = GitSource { url, ..GitSource::default() };
    let error = Checkout::make(&place, "a", &source, false).await.err().unwrap();
    assert_eq!(kind(&error), "timeout", "{error}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}

/// Answers every request with this status; what it was asked is heard.
fn refusing_server(status: &'static str) -> (String, std::sync::mpsc::Receiver<String>) {
    use std::io::Write;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let site = listener.local_addr().unwrap().to_string();
    let (sender, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(length) if length > 0 => request.extend_from_slice(&buffer[..length]),
                    _ => break,
                }
            }
            let _ = sender.send(String::from_utf8_lossy(&request).into_owned());
            let answer = format!(
                "HTTP/1.1 {status}\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (site, heard)
}

#[tokio::test]
async fn a_login_is_used_where_it_belongs_and_told_nowhere() {
    let scene = Scene::new();
    let (site, heard) = refusing_server("401 Unauthorized");
    let source = GitSource { url: format!("http://me:hunter2@{site}/a.git"), ..GitSource::default() };
    let error = Checkout::make(&scene.place, "a", &source, false).await.err().unwrap();
    assert_eq!(kind(&error), "unauthorized", "{error}");
    assert_eq!(error.facts()["url"], format!("http://{site}/a.git"));
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    let asked: Vec<String> = heard.try_iter().collect();
    // "me:hunter2"
    let told = |request: &&String| request.contains("Basic bWU6aHVudGVyMg==");
    assert!(asked.iter().any(|request| told(&request)), "{asked:?}");
    let mut files = vec![scene.place.folder.clone()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let text = std::fs::read(&path).unwrap();
            assert!(!text.windows(7).any(|part| part == b"hunter2"), "{}", path.display());
        }
    }
}

#[tokio::test]
async fn nobody_is_asked_for_a_password() {
    let scene = Scene::new();
    let (site, _heard) = refusing_server("401 Unauthorized");
    let source = GitSource { url: format!("http://{site}/a.git"), ..GitSource::default() };
    let error = Checkout::make(&scene.place, "a", &source, false).await.err().unwrap();
    assert_eq!(kind(&error), "unauthorized", "{error}");
}

#[tokio::test]
async fn an_attempt_that_goes_on_finds_its_files_and_one_that_begins_anew_does_not() {
    let scene = Scene::new();
    let lost = scene.make("a", None).await.unwrap();
    std::fs::write(lost.path().join("work"), "half").unwrap();
    let path = lost.path().to_owned();
    // Dropping releases the lock, as the end of the process would.
    drop(lost);
    let source = scene.source(None);
    let next = Checkout::make(&scene.place, "a", &source, true).await.unwrap();
    assert_eq!(next.path(), path);
    assert!(path.join("work").exists());
    next.leave(Leaving::GoesOn).await;
    let anew = Checkout::make(&scene.place, "a", &source, false).await.unwrap();
    assert_eq!(anew.path(), path);
    assert!(!path.join("work").exists());
    anew.leave(Leaving::Kept).await;
    let other = Checkout::make(&scene.place, "a", &source, true).await.unwrap();
    assert_ne!(other.path(), path, "what is kept is nobody's to work in");
    assert!(path.join("a.txt").exists());
}

#[tokio::test]
async fn a_fetch_that_was_killed_holds_up_no_later_one() {
    let scene = Scene::new();
    scene.make("a", None).await.unwrap();
    let mirrors = std::fs::read_dir(scene.place.folder.join("mirrors")).unwrap();
    let mirror = mirrors.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    for lock in ["packed-refs.lock", "config.lock", "refs/heads/main.lock", "FETCH_HEAD.lock"] {
        std::fs::create_dir_all(mirror.join(lock).parent().unwrap()).unwrap();
        std::fs::write(mirror.join(lock), "").unwrap();
    }
    std::fs::write(scene.origin().join("a.txt"), "three").unwrap();
    git(&scene.origin(), &["commit", "-qam", "three"]);
    assert_eq!(text(&scene.make("b", None).await.unwrap()), "three");
}

#[tokio::test]
async fn read_only_folders_are_removed_too_and_only_old_ones_are_swept() {
    let scene = Scene::new();
    let made = scene.make("a", None).await.unwrap();
    let deep = made.path().join("cache/deep");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("file"), "x").unwrap();
    std::fs::set_permissions(&deep, std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
    made.leave(Leaving::Over).await;
    assert!(!made.path().exists());
    let left = scene.make("b", None).await.unwrap();
    let (path, lock_path) = (left.path.clone(), left.lock_path.clone());
    drop(left);
    sweep(scene.place.folder.clone()).await;
    assert!(path.exists(), "an attempt may come back for it");
    let old = std::time::SystemTime::now() - LEFT_FOR - Duration::from_secs(60);
    std::fs::File::options().write(true).open(&lock_path).unwrap().set_modified(old).unwrap();
    let held = FileLock::try_lock(&lock_path).unwrap().unwrap();
    sweep(scene.place.folder.clone()).await;
    assert!(path.exists(), "somebody works in it");
    drop(held);
    // A program that another test starts at this moment has the lock too, until it is executed.
    let begun = std::time::Instant::now();
    while lock_path.exists() && begun.elapsed() < Duration::from_secs(30) {
        sweep(scene.place.folder.clone()).await;
    }
    assert!(!path.exists() && !lock_path.exists());
}

#[tokio::test]
async fn what_a_broken_fetch_left_takes_no_room() {
    let scene = Scene::new();
    scene.make("first", None).await.unwrap().leave(Leaving::Over).await;
    let mirror = std::fs::read_dir(scene.place.folder.join("mirrors")).unwrap().flatten();
    let mirror = mirror.map(|entry| entry.path()).find(|path| path.is_dir()).unwrap();
    let halves = ["objects/pack/tmp_pack_a1", "objects/pack/tmp_idx_a1", "objects/0f/tmp_obj_a1"];
    for half in halves {
        std::fs::create_dir_all(mirror.join(half).parent().unwrap()).unwrap();
        std::fs::write(mirror.join(half), "x").unwrap();
    }
    let again = scene.make("second", None).await.unwrap();
    assert!(halves.iter().all(|half| !mirror.join(half).exists()));
    assert_eq!(std::fs::read_to_string(again.path().join("a.txt")).unwrap(), "two");
    again.leave(Leaving::Over).await;
}
