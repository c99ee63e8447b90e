//! The interface to the operating system. Everything that differs between systems is in one folder for each family of them, under
//! the same names: [`unix`] for Linux and macOS, and `windows`.
//!
//! | name | Linux | macOS (never run by this project) | Windows (run under wine only) |
//! |---|---|---|---|
//! | [`ProcessTable`], [`walk_descendants`], [`start_time`] | /proc | no table: only the process group is known | a snapshot of Toolhelp |
//! | [`wait_for_exit`] | a pidfd, else a thread in waitid(2) | a thread in waitid(2) | a registered wait |
//! | [`Host`] | the boot and the namespace of process ids, pid and start time | the state of another host is unknown | pid and start time |
//! | [`kill_process`] | a pidfd, so that a recycled pid is never hit | does nothing: without a table no process is identified by pid | a handle, as the pidfd |
//! | [`signal_group`], [`group_exists`] | killpg(2) | killpg(2) | do nothing: the job holds the tree |
//! | [`Pipe`], [`PipeWriter`] | wide where the system allows it | default size | a named pipe |
//! | [`Claim`] | a socket's name in the abstract namespace | no other holder of a name is known | a named mutex |
//! | [`Terminal`] | posix_openpt(3) | the same | unsupported |
//! | [`MemoryUser`] | malloc_trim(3) of glibc | nothing is given back | nothing is given back |
//! | [`watch_folder`] | inotify | unsupported: the caller scans | unsupported: the caller scans |
//! | [`held_for_writing`] | /proc | unknown | unknown |
//! | [`can_write`] | a file without a name | the permission bits | the attribute |
//! | [`HeldFolder`] | open folders | open folders | paths: there is no sandbox |
//! | [`program_files`] | the path itself | the path itself | with the endings of PATHEXT |
//! | [`native_variable`] | the name itself | the name itself | USERPROFILE for HOME, TEMP for TMPDIR |
//! | [`SHELL`] | /bin/sh | /bin/sh | cmd.exe |
//!
//! Another system gets a folder beside them with the same names, and one column here. Nothing outside of these folders, of the guard
//! and of `process/launch` names a system (`tests/layers.rs`).
//!
//! The module also wraps what any system may refuse. [`blocking`] runs all work that blocks; a thread that the system refuses is
//! an error, never a panic. [`addresses_of`] and [`connect_to`] look names up on it, [`on_disk`] and similar functions read and
//! write files. [`Awake`] is a clock that stops while this process is stopped. [`sleep_until`] waits for an optional deadline.
//! [`Screen`] is the host's own stdout or stderr. [`HeldFolder`] is the only way to open files that a contained program could
//! replace. `at_exit` registers a function for this process's own end.

mod address;
mod awake;
pub mod blocking;
mod deadline;
mod disk;
mod file_stamp;
mod folder_event;
mod host;
mod memory;
pub mod own_folder;
mod process_entry;
mod process_table;
mod refusal;
mod terminal_size;
#[cfg(unix)]
pub mod unix;
#[cfg(windows)]
pub mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use address::{addresses_of, connect_to};
pub use awake::Awake;
pub use blocking::{HandedOver, blocking, hand_over};
pub use deadline::sleep_until;
pub use disk::{on_disk, read_piece, write_piece};
pub use file_stamp::FileStamp;
pub use folder_event::{FolderChange, FolderEvent};
pub use host::{Host, HostState};
pub use memory::MemoryUser;
pub use process_entry::{ProcessEntry, ProcessIdentity, TICKS_PER_SECOND};
pub use process_table::{ProcessTable, TreeUsage, walk_descendants};
pub use refusal::Refusal;
pub(crate) use system::at_exit;
pub use system::{
    Claim, ContainedFolders, DEFAULT_PATH, EntryKind, FileIdentity, FolderWatch, HeldFolder, IS_A_DIRECTORY,
    LONGEST_ARGUMENT, PATH_SEPARATOR, Pipe, PipeWriter, SHELL, Screen, TEMPORARY_VARIABLES, Terminal,
    arguments_of, can_write, command_names, group_exists, held_for_writing, is_executable, is_path,
    is_same_variable, kill_process, lineage_of, link, machine_name, make_writable, may_execute,
    native_variable, open_in_place, open_input, open_output, open_regular, own_input, place_below,
    place_of_folder, private_files, private_folders, program_files, read_short_text, refusal_of, rss_bytes,
    runtime_folder, set_mode, short_name_of, signal_group, signal_of, signal_process, start_time, ticks_now,
    user_id, variables_of, wait_for_exit, was_alive_for, watch_folder,
};
pub use terminal_size::TerminalSize;
