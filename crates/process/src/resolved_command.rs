//! A command whose program, arguments, environment and folder are known.

use ground::os::HostFolder;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Ready to be started.
#[derive(Debug)]
pub(crate) struct ResolvedCommand {
    /// Absolute, or relative to `cwd`; never searched for again.
    pub program: PathBuf,
    /// The command's name first.
    pub argv: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    /// Relative to `folder`; that folder itself when `None`.
    pub cwd: Option<PathBuf>,
    pub folder: HostFolder,
    /// The value of `command::MARK`.
    pub mark: String,
    /// The opened file of `Input::File`.
    pub input: Option<File>,
}

impl ResolvedCommand {
    /// The program as this process reaches it.
    pub(crate) fn reach(&self) -> PathBuf {
        let cwd = self.cwd.as_deref().unwrap_or(Path::new(""));
        self.folder.reach(&cwd.join(&self.program))
    }

    /// The program as people know it.
    pub(crate) fn named(&self) -> PathBuf {
        let cwd = self.cwd.as_deref().unwrap_or(Path::new(""));
        self.folder.named(&cwd.join(&self.program))
    }
}
