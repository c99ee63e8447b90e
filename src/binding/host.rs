//! Facts about this process that JavaScript needs: its working folder, and its environment as the system has it. And the removal of
//! folders, which Node.js can't do with all that a program leaves.

use super::promise::{Promised, done};
use ground::os::{HostFolder, on_disk, remove_tree};
use napi_derive::napi;
use std::path::{Path, PathBuf};

/// The working folder of a program, and what its relative paths begin in. On the JavaScript thread: what the call means is the
/// host's folder now, whatever the host changes to before the program starts.
pub(super) fn working_folder(cwd: Option<String>) -> (Option<PathBuf>, HostFolder) {
    let cwd = cwd.map(PathBuf::from);
    if let Some(held) = cwd.as_deref().and_then(HostFolder::of_descriptor) {
        return (None, held);
    }
    let folder = if cwd.as_ref().is_some_and(|cwd| cwd.is_absolute()) {
        HostFolder::default()
    } else {
        HostFolder::now()
    };
    (cwd, folder)
}

/// A path by its name at the time of the call.
pub(super) fn absolute(path: String) -> PathBuf {
    HostFolder::now().named(Path::new(&path))
}

/// Name of the working folder of this process, as the system knows it. `null` where it has none any more, or is not reached by it.
#[napi]
pub fn host_folder() -> Option<String> {
    HostFolder::now().name().ok().map(|name| name.to_string_lossy().into_owned())
}

/// A variable as the system has it. For a proof of what JavaScript's environment is.
#[napi]
pub fn system_variable(name: String) -> Option<String> {
    std::env::var(name).ok()
}

/// Removes a folder with all that is in it. Resolves with whether it is gone.
#[napi]
pub fn remove_folder(path: String) -> Promised<bool> {
    done(async move { on_disk(move || remove_tree(Path::new(&path))).await.is_ok() })
}
