//! Whole files: read up to a bound, and written so that a reader never finds half of one.

use super::system::file::set_mode;
use super::system::held_folder::HeldFolder;
use super::system::regular_file::open_regular;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::path::Path;

/// Reads a short text file. A longer file is an error rather than cut, because half of it would mean something else.
pub fn read_short_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    let bytes = read_at_most(open_regular(path)?, max_bytes)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn read_at_most((file, facts): (File, Metadata), most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    if facts.len() > most || file.take(most.saturating_add(1)).read_to_end(&mut bytes)? as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too long"));
    }
    Ok(bytes)
}

impl HeldFolder {
    /// Reads a whole regular file. A file of more than `most` bytes is an error.
    pub fn read(&self, name: impl AsRef<OsStr>, most: u64) -> io::Result<Vec<u8>> {
        read_at_most(self.open_file(name)?, most)
    }

    /// Writes a file atomically: a reader never finds half of it. An existing entry of this name is replaced.
    pub fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put_with_mode(name, bytes, 0o600)
    }

    /// Does the same as [`HeldFolder::put`], with these permissions, where the system has such.
    pub fn put_with_mode(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
        // No file of a user's is called so.
        let unfinished = format!(".{name}.unfinished");
        // Left by a writer that was killed, or planted by another program, as a folder too.
        self.remove_all(&unfinished)?;
        let written = self
            .create(&unfinished)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                set_mode(&file, mode)
            })
            .and_then(|()| self.rename(&unfinished, name));
        if written.is_err() {
            let _ = self.remove(&unfinished);
        }
        written
    }
}
