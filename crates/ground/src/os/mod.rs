//! The interface to the operating system: functions that differ between Linux and macOS, under the same names.
//!
//! | name | Linux | macOS (never run by this project) |
//! |---|---|---|
//! | [`ProcessTable`], [`walk_descendants`], [`start_time`] | /proc | no table: only the process group is known |
//! | [`wait_for_exit`] | a pidfd, else a thread in waitid(2) | a thread in waitid(2) |
//! | [`Host`] | the boot and the namespace of process ids, pid and start time | the state of another host is unknown |
//! | [`kill_process`] | a pidfd, so that a recycled pid is never hit | does nothing: without a table no process is identified by
//! pid |
//! | [`signal_group`], [`group_exists`] | killpg(2) | killpg(2) |
//! | [`Pipe`], [`PipeWriter`] | wide where the system allows it | default size |
//! | [`Claim`] | a socket's name in the abstract namespace | no other holder of a name is known |
//! | [`Terminal`] | posix_openpt(3) | the same |
//! | [`MemoryUser`] | malloc_trim(3) of glibc | nothing is given back |
//!
//! The module also wraps what any system may refuse. [`blocking`] runs all work that blocks; a thread that the system refuses is
//! an error, never a panic. [`addresses_of`] and [`connect_to`] look names up on it, [`on_disk`] and similar functions read and
//! write files. [`Awake`] is a clock that stops while this process is stopped. [`sleep_until`] waits for an optional deadline.
//! [`Screen`] is the host's own stdout or stderr. [`HeldFolder`] is the only way to open files that a contained program could replace. [`at_exit`] registers a function for this
//! process's own end.

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
mod memory;
#[cfg(target_os = "linux")]
pub mod pidfd;
mod pipe;
mod process_table;
mod regular_file;
mod screen;
mod terminal;

pub use address::{addresses_of, connect_to};
pub(crate) use at_exit::at_exit;
pub use awake::Awake;
pub use blocking::{HandedOver, blocking, hand_over};
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
pub use memory::MemoryUser;
pub use pipe::{Pipe, PipeWriter, widen};
pub use process_table::TreeUsage;
pub use process_table::{
    ProcessEntry, ProcessIdentity, ProcessTable, command_names, kill_process, lineage_of, rss_bytes,
    signal_process, start_time, ticks_now, variables_of, walk_descendants, was_alive_for,
};
pub use regular_file::{open_in_place, open_regular, read_short_text};
pub use screen::Screen;
pub use terminal::Terminal;
pub use terminal::TerminalSize;
