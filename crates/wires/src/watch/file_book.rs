//! PURE record of the files that were reported, so that each content is reported once.

use ground::os::FileStamp;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

#[derive(Debug, Default)]
pub(crate) struct FileBook {
    reported: HashMap<PathBuf, FileStamp>,
}

impl FileBook {
    /// Whether this content has not been reported yet.
    pub(crate) fn is_news(&self, path: &Path, stamp: FileStamp) -> bool {
        self.reported.get(path) != Some(&stamp)
    }

    /// Records the content as reported. False when it was reported before.
    pub(crate) fn report(&mut self, path: &Path, stamp: FileStamp) -> bool {
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
        let first = FileStamp { bytes: 1, modified_nanos: 10, ..FileStamp::default() };
        assert!(book.report(path, first));
        assert!(!book.report(path, first), "the same once more");
        assert!(!book.is_news(path, first));
        assert!(book.report(path, FileStamp { bytes: 2, ..first }), "another size");
        let last = FileStamp { bytes: 2, modified_nanos: 11, ..first };
        assert!(book.report(path, last), "another time");
        assert!(book.report(path, FileStamp { changed_nanos: 1, ..last }), "the time was set back");
        assert!(book.report(path, FileStamp { inode: 1, ..last }), "another file");
        book.forget(path);
        assert!(book.report(path, FileStamp { inode: 1, ..last }), "made anew");
    }
}
