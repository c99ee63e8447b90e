//! The folder in which this user's mirrors and checkouts lie.

use ground::os::native_variable;
use std::path::PathBuf;
use std::time::Duration;

/// Options for the repositories of a worker, and the folder for checkouts.
#[derive(Clone, Debug)]
pub struct GitPlace {
    pub folder: PathBuf,
    /// A git command without output for this long is ended.
    pub idle_timeout: Duration,
}

impl GitPlace {
    /// The folder with a note of each checkout of an agent.
    pub(crate) fn notes(&self) -> PathBuf {
        self.folder.join("worktrees")
    }

    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

    /// In the caches of this process's user.
    pub fn of_user() -> GitPlace {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches =
            folder("XDG_CACHE_HOME").or_else(|| Some(folder(native_variable("HOME"))?.join(".cache")));
        let folder = caches.unwrap_or_else(std::env::temp_dir).join("sheepdog/git");
        GitPlace { folder, idle_timeout: GitPlace::IDLE_TIMEOUT }
    }
}
