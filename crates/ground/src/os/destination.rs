//! The place that a path leads to.

use super::system::file::resolved;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Links and missing names on the way. The system itself follows 40 links.
const MOST_STEPS: usize = 512;

/// The path at which a file is, or would be if it were created here: links are followed in every part, the last one too, also if they lead to
/// nothing yet. Blocks.
///
/// # Errors
/// The system's, for a path that it does not follow: a loop, a folder that may not be entered, a descriptor of `/proc`.
pub fn destination(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    let mut missing: Vec<OsString> = Vec::new();
    for _ in 0..MOST_STEPS {
        match resolved(&path) {
            Ok(mut real) => {
                real.extend(missing.iter().rev());
                return Ok(real);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        path = match path.read_link() {
            Ok(target) => parent.join(target),
            Err(_) => {
                missing.push(name.to_owned());
                parent.to_owned()
            }
        };
    }
    Err(io::Error::other("too many links"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::link;
    use std::fs;

    #[test]
    fn links_are_followed_to_places_that_do_not_exist_yet() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("in/deep")).unwrap();
        fs::create_dir(top.join("out")).unwrap();
        fs::write(top.join("out/file"), "").unwrap();
        link(&top.join("out"), &top.join("in/linked")).unwrap();
        link(Path::new("../out/file"), &top.join("in/file")).unwrap();
        link(&top.join("out/new/er"), &top.join("in/dangling")).unwrap();
        link(Path::new("dangling"), &top.join("in/twice")).unwrap();
        link(Path::new("deep"), &top.join("in/within")).unwrap();
        link(Path::new("loop"), &top.join("in/loop")).unwrap();
        for (path, expected) in [
            ("in/deep/a", "in/deep/a"),
            ("in/a/b/c", "in/a/b/c"),
            ("in/linked/victim", "out/victim"),
            ("in/linked/a/b", "out/a/b"),
            ("in/file", "out/file"),
            ("in/dangling", "out/new/er"),
            ("in/dangling/x", "out/new/er/x"),
            ("in/twice", "out/new/er"),
            ("in/within/x", "in/deep/x"),
            ("in/linked/../x", "x"),
        ] {
            assert_eq!(destination(&top.join(path)).unwrap(), top.join(expected), "{path}");
        }
        assert!(destination(&top.join("in/loop")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_descriptors_and_folders_of_a_process_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        link(Path::new("/proc/self/cwd"), &folder.path().join("magic")).unwrap();
        for path in ["/proc/self/cwd/x".into(), "/proc/self/root/x".into(), folder.path().join("magic/x")] {
            assert!(destination(&path).is_err(), "{path:?}");
        }
    }
}
