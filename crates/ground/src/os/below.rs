//! Folders below a held one, and their removal. No link is followed on the way.

use super::file_fault::fault;
use super::missing::Missing;
use super::system::held_folder::{ContainedFolders, HeldFolder};
use std::io;
use std::path::{Component, Path};

/// Removes what is at a path; a folder is removed with all that a program left in it (see [`HeldFolder::remove_all`]). Succeeds when there
/// is nothing. Blocks.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(fault(path, "is no folder that can be removed"));
    };
    match HeldFolder::open(parent, &ContainedFolders::default()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        folder => folder?.remove_all(name),
    }
}

impl HeldFolder {
    /// Opens a folder at any depth below this one without following links. Creates its missing parts.
    pub fn make_below(&self, below: &Path) -> io::Result<HeldFolder> {
        self.descend(below, Missing::IsMade)
    }

    /// Opens a folder at any depth below this one without following links.
    pub fn open_below(&self, below: &Path) -> io::Result<HeldFolder> {
        self.descend(below, Missing::Fails)
    }

    fn descend(&self, below: &Path, missing: Missing) -> io::Result<HeldFolder> {
        below.components().try_fold(self.again()?, |held, component| match component {
            Component::Normal(name) => held.step_strictly(name, missing),
            Component::CurDir => Ok(held),
            _ => Err(fault(&held.path().join(below), "leads out of it")),
        })
    }
}
