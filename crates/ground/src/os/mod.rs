//! The seam for the system: what Linux and macOS do differently, under the same names.
//!
//! | name | Linux | macOS (never run by us) |
//! |---|---|---|
//! | [`ProcessTable`], [`walk_descendants`], [`start_time`] | /proc | no table: the process group alone is known |
//! | [`wait_for_exit`] | a pidfd, else a thread in waitid(2) | a thread in waitid(2) |
//! | [`Host`] | the boot and the namespace of process ids, pid and start time | nothing can be said of another |
//! | [`kill_process`] | a pidfd, so that a recycled pid is never hit | nothing: without a table nobody is known by pid |
//! | [`signal_group`], [`group_exists`] | killpg(2) | killpg(2) |
//! | [`Pipe`], [`PipeWriter`] | wide where the system allows it | as it is |
//! | [`Claim`] | a socket's name in the abstract namespace | nobody else is known to hold a name |
//! | [`Terminal`] | posix_openpt(3) | the same |
//!
//! And what every system can refuse or take away: [`blocking`] is the one home of work that blocks (a thread that can't be had is
//! an error, never a panic; [`addresses_of`] and [`connect_to`] look names up on it, [`on_disk`] and its
//! like read and write files), [`Awake`] the clock that rests while this process is stopped, [`sleep_until`] a wait for a time that may
//! not be set. [`HeldFolder`] is the one way to files that a contained program could replace. [`at_exit`] is called at this process's own end.

mod address;
mod at_exit;
mod awake;
pub mod blocking;
mod claim;
mod deadline;
mod disk;
mod exit;
mod group;
mod held_folder;
mod host;
#[cfg(target_os = "linux")]
pub mod pidfd;
mod pipe;
mod process_table;
mod regular_file;
mod terminal;

pub use address::{addresses_of, connect_to};
pub(crate) use at_exit::at_exit;
pub use awake::Awake;
pub use blocking::blocking;
pub use claim::Claim;
pub use deadline::sleep_until;
pub use disk::{on_disk, read_piece, write_piece};
pub use exit::wait_for_exit;
pub use group::{group_exists, signal_group};
pub use held_folder::HeldFolder;
pub use held_folder::{
    ContainedFolders, EntryKind, FileIdentity, open_input, open_output, place_below, place_of_folder,
};
pub use host::{Host, HostState};
pub use pipe::{Pipe, PipeWriter, widen};
pub use process_table::TreeUsage;
pub use process_table::{
    ProcessEntry, ProcessIdentity, ProcessTable, command_names, kill_process, rss_bytes, signal_process,
    start_time, ticks_now, variables_of, walk_descendants, was_alive_for,
};
pub use regular_file::{open_in_place, open_regular, read_short_text};
pub use terminal::Terminal;
pub use terminal::TerminalSize;
