//! The treatment of a folder that does not exist.

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Fails,
    /// The folder is created, with permissions for its owner only where the system has such.
    IsMade,
}
