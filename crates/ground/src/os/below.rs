//! Folders below a held one. No link is followed on the way.

use super::file_fault::fault;
use super::missing::Missing;
use super::system::held_folder::HeldFolder;
use std::io;
use std::path::{Component, Path};

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
