//! A sandboxed program replaces the files that this process writes for it by links, by other folders, by FIFOs. Nothing outside
//! of the sandbox may change, and no call may hang.
#![cfg(target_os = "linux")]

use super::{outcome_of, result_of, shell};
use ground::record::{Place, RecordSpec};
use process::{ProcessSpec, Sandbox, SavePlan, spawn};
use std::fs::{self, read_to_string};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

struct Ground {
    _folder: tempfile::TempDir,
    inside: PathBuf,
    outside: PathBuf,
}

impl Ground {
    /// `outside` holds the file "file", with the text "content", and the empty folder "folder".
    fn new() -> Ground {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("a path");
        let [inside, outside] = ["inside", "outside"].map(|name| top.join(name));
        fs::create_dir(&inside).expect("a folder");
        fs::create_dir_all(outside.join("folder")).expect("a folder");
        fs::write(outside.join("file"), "content").expect("a file");
        Ground { _folder: folder, inside, outside }
    }

    /// The script runs in `inside`, which is all that it may write; `$OUT` is `outside`.
    fn spec(&self, script: &str) -> ProcessSpec {
        let mut spec = shell(script);
        spec.cwd = Some(self.inside.clone());
        spec.environment.changes.push(("OUT".into(), Some(self.outside.display().to_string())));
        spec.sandbox = Some(Sandbox { write: vec![".".into()], ..Sandbox::default() });
        spec
    }

    fn recorded(&self, record: &Path, script: &str) -> ProcessSpec {
        let mut spec = self.spec(script);
        spec.record = Some(RecordSpec::new(Place::Below(record.to_owned())));
        spec
    }

    fn is_untouched(&self, case: &str) {
        assert_eq!(read_to_string(self.outside.join("file")).expect("the file"), "content", "{case}");
        let below: Vec<_> = fs::read_dir(self.outside.join("folder")).expect("a folder").flatten().collect();
        assert!(below.is_empty(), "{case}: {below:?}");
        let all = fs::read_dir(&self.outside).expect("a folder").flatten().count();
        assert_eq!(all, 2, "{case}");
    }
}

/// Prints, and waits until the record has taken it to the disk.
const PRINTED: &str = "echo one; until grep -qs one runs/*/stdout; do sleep 0.01; done; cd runs/*/;";

#[tokio::test]
async fn a_record_that_its_program_replaces_writes_nowhere_else() {
    let cases = [
        ("a link to a file in place of stdout", "rm stdout; ln -s $OUT/file stdout"),
        ("a link to nothing in place of stdout", "rm stdout; ln -s $OUT/new stdout"),
        (
            "links in place of what comes later",
            "ln -s $OUT/file stderr; ln -s $OUT/file .end.json; ln -s $OUT/new end.json",
        ),
        ("a link in place of times", "rm times; ln -s $OUT/file times"),
        ("a FIFO in place of stdout", "rm stdout; mkfifo stdout"),
        ("a folder in place of stdout", "rm stdout; mkdir stdout"),
        ("a link in place of the record", "cd ..; for d in *; do mv $d ../gone; ln -s $OUT/folder $d; done"),
        ("a link in place of the folder of records", "cd ../..; mv runs gone; ln -s $OUT/folder runs"),
    ];
    for (case, attack) in cases {
        let ground = Ground::new();
        let script = format!("{PRINTED} {attack}; echo two; echo two >&2; sleep 0.3; echo three; sleep 0.3");
        let result = result_of(ground.recorded(&ground.inside.join("runs"), &script)).await;
        assert_eq!(result.stdout, "one\ntwo\nthree\n", "{case}: the run itself goes on: {}", result.stderr);
        ground.is_untouched(case);
        let problem = result.record.expect("a record").problem;
        let is_told = problem.as_ref().is_some_and(|problem| problem.contains("could not be written"));
        assert_eq!(is_told, !case.contains("place of the"), "{case}: {problem:?}");
    }
}

#[tokio::test]
async fn a_record_is_refused_behind_a_link_that_a_program_could_have_made() {
    let ground = Ground::new();
    symlink(ground.outside.join("folder"), ground.inside.join("runs")).expect("a link");
    for below in ["runs", "runs/mine"] {
        let outcome = outcome_of(ground.recorded(&ground.inside.join(below), "true")).await;
        let error = outcome.error.as_ref().expect("a refusal");
        assert_eq!(error.code().as_str(), "INVALID_OPTION");
        assert!(error.message().contains("runs is a symbolic link"), "{}", error.message());
    }
    ground.is_untouched("a record behind a link");
    // A link that no sandboxed program of this run could have made is the user's own.
    let way = ground.outside.with_file_name("way");
    symlink(&ground.outside, &way).expect("a link");
    result_of(ground.recorded(&way.join("records"), "true")).await;
    assert_eq!(fs::read_dir(ground.outside.join("records")).expect("records").count(), 1);
}

#[tokio::test]
async fn output_is_saved_through_no_link_that_a_program_could_have_made() {
    for (case, plant) in [
        ("a link", "ln -s $OUT/file log"),
        ("a link to nothing", "ln -s $OUT/new log"),
        ("a FIFO", "mkfifo log"),
        ("a link above", "ln -s $OUT sub"),
    ] {
        let ground = Ground::new();
        result_of(ground.spec(plant)).await;
        let target = ground.inside.join(if case == "a link above" { "sub/log" } else { "log" });
        let process = spawn(ground.spec("echo printed"));
        let plan = SavePlan { stdout: Some(target), ..SavePlan::default() };
        let saved = process.save(plan);
        let error = saved.await.expect_err(case);
        assert_eq!(error.code().as_str(), "PROCESS_OUTPUT_FAILED", "{case}");
        let outcome = process.outcome().await;
        assert_eq!(outcome.result.as_ref().map(|result| result.stdout.as_str()), Some("printed\n"), "{case}");
        ground.is_untouched(case);
    }
    // No contained program may write there, so the user's link is followed.
    let ground = Ground::new();
    let way = ground.outside.join("folder/way");
    symlink(ground.outside.join("folder/log"), &way).expect("a link");
    let process = spawn(ground.spec("echo printed"));
    let plan = SavePlan { stdout: Some(way), ..SavePlan::default() };
    assert_eq!(process.save(plan).await.expect("saved").stdout_bytes, 8);
}

#[tokio::test]
async fn a_sandbox_grants_nothing_behind_a_link_that_a_program_could_have_made() {
    let ground = Ground::new();
    symlink(ground.outside.join("folder"), ground.inside.join("build")).expect("a link");
    fs::create_dir(ground.outside.join("folder/deep")).expect("a folder");
    let absolute = |below: &str| ground.inside.join(below);
    for (option, path) in [
        ("write", "build".into()),
        ("write", "build/deep".into()),
        ("write", absolute("build")),
        ("write", absolute("build/deep")),
        ("write", "build/".into()),
        ("write", absolute("build/.")),
        ("read", "build".into()),
        ("read", absolute("build/deep")),
    ] {
        let mut spec = ground.spec("true");
        let paths = vec![path.clone()];
        spec.sandbox = Some(match option {
            "write" => Sandbox { write: paths, ..Sandbox::default() },
            _ => Sandbox { read: Some(paths), ..Sandbox::default() },
        });
        let outcome = outcome_of(spec).await;
        let error = outcome.error.as_ref().unwrap_or_else(|| panic!("{option} {}: granted", path.display()));
        assert_eq!(error.code().as_str(), "INVALID_OPTION", "{}", error.message());
        assert!(error.message().starts_with(&format!("sandbox.{option}[0]: ")), "{}", error.message());
        assert!(error.message().contains("symbolic link"), "{}", error.message());
    }
    // A path elsewhere may lead through the user's own links, but must not be a link itself.
    let way = ground.outside.with_file_name("way");
    symlink(&ground.outside, &way).expect("a link");
    for (path, is_granted) in
        [(way.join("folder"), true), (way.clone(), false), (way.join(""), false), (way.join("."), false)]
    {
        let mut spec = ground.spec("true");
        spec.sandbox = Some(Sandbox { write: vec![path.clone()], ..Sandbox::default() });
        assert_eq!(outcome_of(spec).await.error.is_none(), is_granted, "{}", path.display());
    }
}

/// A folder that a sandbox grants may lie above the working directory, or above another one that it grants.
#[tokio::test]
async fn a_link_below_any_folder_that_is_granted_leads_nowhere() {
    let ground = Ground::new();
    fs::create_dir(ground.outside.join("folder/deep")).expect("a folder");
    let plant = |script: &'static str| result_of(ground.spec(script));
    plant("ln -s $OUT/folder sub").await;
    let (sub, inside) = (ground.inside.join("sub"), ground.inside.clone());
    let elsewhere = ground.outside.parent().expect("a folder").to_owned();
    let sandbox = |write: Vec<PathBuf>| Sandbox { write, ..Sandbox::default() };
    let reading = Sandbox { read: Some(vec![sub.join("deep")]), ..sandbox(vec![inside.clone()]) };
    for (option, cwd, sandbox) in [
        ("cwd", &sub, sandbox(vec![".".into(), inside.clone()])),
        ("cwd", &sub.join("deep"), sandbox(vec![".".into(), inside.clone()])),
        ("cwd", &sub, sandbox(vec![inside.clone()])),
        ("sandbox.write[1]", &elsewhere, sandbox(vec![inside.clone(), sub.clone()])),
        ("sandbox.write[1]", &PathBuf::from("/"), sandbox(vec![inside.clone(), sub.join("deep")])),
        ("sandbox.write[0]", &PathBuf::from("/"), sandbox(vec![sub.join("deep/.."), inside.clone()])),
        ("sandbox.read[0]", &PathBuf::from("/"), reading),
    ] {
        let mut spec = shell("echo x > $OUT/folder/deep/new; echo x > new");
        spec.environment.changes.push(("OUT".into(), Some(ground.outside.display().to_string())));
        (spec.cwd, spec.sandbox) = (Some(cwd.clone()), Some(sandbox));
        let outcome = outcome_of(spec).await;
        let error = outcome.error.as_ref().unwrap_or_else(|| panic!("{option}: granted"));
        assert_eq!(error.code().as_str(), "INVALID_OPTION", "{}", error.message());
        assert!(error.message().starts_with(&format!("{option}: ")), "{option}: {}", error.message());
        assert!(error.message().contains("symbolic link"), "{}", error.message());
    }
    assert_eq!(fs::read_dir(ground.outside.join("folder/deep")).expect("a folder").count(), 0);
    // Without a link all of these are granted.
    fs::remove_file(&sub).expect("removed");
    fs::create_dir_all(sub.join("deep")).expect("a folder");
    for (cwd, write) in [
        (&sub, vec![PathBuf::from("."), inside.clone()]),
        (&sub, vec![PathBuf::from(".."), sub.join("deep")]),
        (&sub, vec![PathBuf::from("/")]),
    ] {
        let mut spec = shell("echo x > new && echo x > deep/new");
        (spec.cwd, spec.sandbox) = (Some(cwd.clone()), Some(sandbox(write)));
        assert_eq!(result_of(spec).await.exit_code, Some(0));
    }
}
