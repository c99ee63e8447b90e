//! A repository on this machine, as its user's own git sees it.

use crate::command::{Call, CallFault};
use crate::folder::remove_ref_locks;
use ground::error::{Error, ErrorCode};
use ground::os::on_disk;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The repository of a folder.
#[derive(Clone, Debug)]
pub struct Repository {
    /// Top of the working tree.
    pub top: PathBuf,
    /// Path of the folder below the top.
    pub prefix: PathBuf,
    /// The git directory that has the objects and refs; of a linked worktree that of its main repository.
    pub common: PathBuf,
    /// The git directory of the working tree itself, with its index.
    pub(crate) own: PathBuf,
    /// `sha1` or `sha256`.
    pub(crate) format: String,
    /// The commit that HEAD names, if there is one.
    pub head: Option<String>,
    /// The branch that HEAD names; `None` when HEAD is detached.
    pub(crate) branch: Option<String>,
}

/// `WORKTREE_FAILED` with the step and git's own words.
pub(crate) fn failed(step: &'static str, what: &str, fault: &CallFault) -> Error {
    let message = match fault {
        CallFault::NoGit(told) => format!("{what}: git has to be installed and on PATH: {told}"),
        fault => format!("{what}: {}", fault.words()),
    };
    Error::new(ErrorCode::WorktreeFailed, message).with("step", step)
}

/// The same where the system refused.
pub(crate) fn refused(step: &'static str, what: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorCode::WorktreeFailed, format!("{what}: {error}")).with("step", step)
}

impl Repository {
    /// Finds the repository that this folder is in.
    ///
    /// # Errors
    /// `INVALID_OPTION` beginning with `option` where there is no working tree; `WORKTREE_FAILED` where git refuses.
    pub async fn find(cwd: &Path, option: &str) -> Result<Repository, Error> {
        // A path may have line feeds, so the name of the format goes between two paths.
        let format = "--show-object-format";
        let asked = ["rev-parse", "--path-format=absolute", format, "--absolute-git-dir", format];
        let asked =
            [&asked[..], &["--git-common-dir", format, "--show-toplevel", format, "--show-prefix"]].concat();
        let told = Call::new(asked).at(cwd).run().await.map_err(|fault| unusable(cwd, option, &fault))?;
        let not_text = || {
            let problem = format!("the repository of {} has a path that is not UTF-8 text", cwd.display());
            Error::invalid_option(option, problem)
        };
        let told = String::from_utf8(told).map_err(|_| not_text())?;
        let (format, paths) = told.split_once('\n').unwrap_or_default();
        let paths: Vec<&str> =
            paths.strip_suffix('\n').unwrap_or(paths).split(&format!("\n{format}\n")).collect();
        let [own, common, top, prefix] = *paths.as_slice() else { return Err(not_text()) };
        let ask = |args: &[&'static str]| Call::new(args.iter().copied()).at(cwd);
        let head = ask(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
        let branch = ask(&["symbolic-ref", "--quiet", "--short", "HEAD"]);
        let (head, branch) = futures_util::future::join(head.line(), branch.line()).await;
        Ok(Repository {
            top: PathBuf::from(top),
            prefix: PathBuf::from(prefix.trim_end_matches('/')),
            common: PathBuf::from(common),
            own: PathBuf::from(own),
            format: format.to_owned(),
            head: head.ok(),
            branch: branch.ok(),
        })
    }

    /// The index of the working tree, which is the user's.
    pub(crate) fn index(&self) -> PathBuf {
        self.own.join("index")
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.common.join("objects")
    }

    /// Writes a ref, or removes it. Hooks are off in every call.
    pub(crate) async fn set_ref(common: &Path, id: &str, commit: Option<&str>) -> Result<(), CallFault> {
        let name = ref_of(id);
        let set = || {
            let call = match commit {
                Some(commit) => Call::new(["update-ref", &name, commit]),
                None => Call::new(["update-ref", "-d", &name]),
            };
            call.bare().at(common).path("GIT_DIR", common).outlives_host().run()
        };
        let began = SystemTime::now();
        let Err(fault) = set().await else { return Ok(()) };
        let was_killed = matches!(fault, CallFault::Said { code: None, .. });
        let (at, locked, killed) = (common.to_owned(), name.clone(), was_killed.then_some(began));
        let was_locked = on_disk(move || remove_ref_locks(&at, &locked, killed)).await.unwrap_or(false);
        if was_locked || was_killed { set().await.map(drop) } else { Err(fault) }
    }
}

/// The ref in the user's repository that keeps what belongs to a checkout.
pub(crate) fn ref_of(id: &str) -> String {
    format!("refs/sheepdog/{id}")
}

fn unusable(cwd: &Path, option: &str, fault: &CallFault) -> Error {
    let words = fault.words();
    let invalid = |what: &str| Error::invalid_option(option, format!("{} {what}", cwd.display()));
    match fault {
        CallFault::Said { .. } if words.contains("not a git repository") => {
            invalid("is not in a git repository: run `git init` there, or use another `cwd`")
        }
        CallFault::Said { .. } if words.contains("must be run in a work tree") => {
            invalid("has no working tree: use a `cwd` in a clone that is not bare")
        }
        fault => failed("repository", &format!("git cannot use {}", cwd.display()), fault),
    }
}
