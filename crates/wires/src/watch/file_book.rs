//! PURE record of the files that were reported, so that each content is reported once.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The facts that distinguish one content of a file from the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    pub bytes: u64,
    /// Modification time since the epoch.
    pub modified_nanos: i128,
    /// Time since the epoch of the last change to the file's metadata. It changes even when a program sets the modification time
    /// back (`cp -p`).
    pub changed_nanos: i128,
    /// The inode: another file may have the same size and times (`mv` of a reproducible build).
    pub inode: u64,
}

impl Stamp {
    pub fn of(metadata: &Metadata) -> Stamp {
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Stamp {
            bytes: metadata.len(),
            modified_nanos: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed_nanos: nanos(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct FileBook {
    reported: HashMap<PathBuf, Stamp>,
}

impl FileBook {
    /// Whether this content has not been reported yet.
    pub(crate) fn is_news(&self, path: &Path, stamp: Stamp) -> bool {
        self.reported.get(path) != Some(&stamp)
    }

    /// Records the content as reported. False when it was reported before.
    pub(crate) fn report(&mut self, path: &Path, stamp: Stamp) -> bool {
        self.reported.insert(path.to_owned(), stamp) != Some(stamp)
    }

    /// Removes a file that is gone. When it comes back, it counts as new even with the same stamp.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.reported.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_6_each_content_is_reported_once() {
        let mut book = FileBook::default();
        let path = Path::new("/out/a");
        let first = Stamp { bytes: 1, modified_nanos: 10, ..Stamp::default() };
        assert!(book.report(path, first));
        assert!(!book.report(path, first), "the same once more");
        assert!(!book.is_news(path, first));
        assert!(book.report(path, Stamp { bytes: 2, ..first }), "another size");
        let last = Stamp { bytes: 2, modified_nanos: 11, ..first };
        assert!(book.report(path, last), "another time");
        assert!(book.report(path, Stamp { changed_nanos: 1, ..last }), "the time was set back");
        assert!(book.report(path, Stamp { inode: 1, ..last }), "another file");
        book.forget(path);
        assert!(book.report(path, Stamp { inode: 1, ..last }), "made anew");
    }
}
