//! A folder of files, and the git directory that looks at it.

use crate::command::Call;
use crate::repository::Repository;
use std::path::{Path, PathBuf};

/// The place of the calls that read one folder. Each desk has an index of its own.
#[derive(Clone)]
pub(crate) struct Desk {
    /// The folder with the files.
    pub tree: PathBuf,
    pub index: PathBuf,
    git: PathBuf,
    /// The folder and its repository are the user's, and so the user's configuration applies. Elsewhere none does.
    is_user: bool,
    /// The folder that new objects are written to; the git directory's own when `None`.
    objects: Option<PathBuf>,
}

impl Desk {
    pub(crate) fn user(repository: &Repository, index: PathBuf) -> Desk {
        Desk {
            tree: repository.top.clone(),
            index,
            git: repository.own.clone(),
            is_user: true,
            objects: None,
        }
    }

    pub(crate) fn own(git: PathBuf, tree: PathBuf) -> Desk {
        let index = git.join("index");
        Desk { tree, index, git, is_user: false, objects: None }
    }

    /// New objects go to this folder, which borrows the others by its `info/alternates`.
    pub(crate) fn writing_to(self, objects: PathBuf) -> Desk {
        Desk { objects: Some(objects), ..self }
    }

    /// The same with another index in the same folder.
    pub(crate) fn beside(&self, index: &str) -> Desk {
        Desk { index: self.index.with_file_name(index), ..self.clone() }
    }

    pub(crate) fn call<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Call {
        let mut call = Call::new(args).at(&self.tree).path("GIT_INDEX_FILE", &self.index);
        // git asks for `safe.directory` only where it has to find the repository, which was done before.
        call = call.path("GIT_DIR", &self.git).path("GIT_WORK_TREE", &self.tree);
        if let Some(objects) = &self.objects {
            call = call.path("GIT_OBJECT_DIRECTORY", objects);
        }
        // Files that are there count, although the user's git was told to skip them.
        if self.is_user { call } else { call.bare().setting("core.sparseCheckout", "true") }
    }

    /// A commit by this program of a tree.
    pub(crate) async fn commit(
        &self,
        tree: &str,
        parent: Option<&str>,
        message: &str,
    ) -> Result<String, crate::command::CallFault> {
        let mut args = vec!["commit-tree", tree, "-m", message];
        if let Some(parent) = parent {
            args.extend(["-p", parent]);
        }
        let mut call = self.call(args).setting("commit.gpgSign", "false");
        for who in ["AUTHOR", "COMMITTER"] {
            call = call
                .variable(&format!("GIT_{who}_NAME"), "Sheepdog")
                .variable(&format!("GIT_{who}_EMAIL"), "sheepdog@localhost");
        }
        call.line().await
    }
}

/// A copy of an index, beside which nothing else is changed. A repository without a commit may have none.
pub(crate) fn copy_index(from: &Path, to: &Path) -> std::io::Result<()> {
    match std::fs::copy(from, to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        copied => copied.map(drop),
    }
}
