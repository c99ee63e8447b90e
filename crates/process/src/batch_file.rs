//! Reads the batch files of Windows, to start what they start. All functions here block.

use super::shim::{self, Shim};
use ground::os::{is_batch_file, read_short_text};
use std::path::{Path, PathBuf};

/// A longer batch file is none of npm's.
const MAX_SHIM_BYTES: u64 = 16 << 10;

/// The batch file of npm at this path, if it is one.
pub(crate) fn shim_at(program: &Path) -> Option<Shim> {
    if !is_batch_file(program) {
        return None;
    }
    shim::parse(&read_short_text(program, MAX_SHIM_BYTES).ok()?, program)
}

/// The script or program behind a batch file of npm; `None` for all other files.
pub fn file_behind(program: &Path) -> Option<PathBuf> {
    shim_at(program).map(|shim| shim.file)
}
