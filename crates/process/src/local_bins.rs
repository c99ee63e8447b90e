//! PURE. The search path of a program that is first looked for in the folders of its project.

use ground::os::DEFAULT_PATH;
use std::env::{join_paths, split_paths};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// `node_modules/.bin` of the folder and of each folder above it, the innermost first.
pub(super) fn local_bins(folder: &Path) -> impl Iterator<Item = PathBuf> {
    folder.ancestors().map(|folder| folder.join("node_modules/.bin"))
}

/// The local folders of programs, then `path`. A folder with a colon in its name cannot be in a search path and is left out.
pub(super) fn with_local_bins(folder: &Path, path: Option<&OsStr>) -> OsString {
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    let bins = local_bins(folder).filter(|bin| join_paths([bin]).is_ok());
    // The parts of a path can always be joined again.
    join_paths(bins.chain(split_paths(path))).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_folder_comes_first_and_the_usual_path_last() {
        assert_eq!(
            with_local_bins(Path::new("/a/b"), Some(OsStr::new("/bin"))),
            "/a/b/node_modules/.bin:/a/node_modules/.bin:/node_modules/.bin:/bin"
        );
    }

    #[test]
    fn without_a_path_the_usual_folders_stay() {
        assert_eq!(
            with_local_bins(Path::new("/"), None),
            format!("/node_modules/.bin:{DEFAULT_PATH}").as_str()
        );
    }

    #[test]
    fn a_folder_that_a_search_path_can_not_hold_is_left_out() {
        assert_eq!(with_local_bins(Path::new("/a:b/c"), Some(OsStr::new("/bin"))), "/node_modules/.bin:/bin");
    }
}
