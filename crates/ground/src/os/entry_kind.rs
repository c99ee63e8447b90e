//! The kind of an entry of a folder.

/// The kind of a folder's entry. A link is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    Folder,
    File { bytes: u64 },
    Link,
    Other,
}
