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
//! | [`HostFolder`] | a descriptor | a descriptor | its name |
//! | [`program_files`] | the path itself | the path itself | with the endings of PATHEXT |
//! | [`native_variable`] | the name itself | the name itself | USERPROFILE for HOME, TEMP for TMPDIR |
//! | [`SHELL`] | /bin/sh | /bin/sh | cmd.exe |
//!
//! Another system gets a folder beside them with the same names, and one column here. Nothing outside of these folders, of the guard
//! and of `process/launch` names a system (`tests/layers`).
//!
//! The module also wraps what any system may refuse. [`blocking`] runs all work that blocks; a thread that the system refuses is
//! an error, never a panic. [`addresses_of`] and [`connect_to`] look names up on it, [`on_disk`] and similar functions read and
//! write files. [`Awake`] is a clock that stops while this process is stopped. [`sleep_until`] waits for an optional deadline.
//! [`Screen`] is the host's own stdout or stderr. [`HeldFolder`] is the only way to open files that a contained program could
//! replace. `at_exit` registers a function for this process's own end.

mod address;
mod awake;
mod below;
pub mod blocking;
mod crew;
mod deadline;
mod destination;
mod disk;
mod entry_kind;
mod fault;
mod file_fault;
mod file_lock;
mod file_stamp;
mod folder_event;
mod host;
mod known_process;
mod memory;
mod missing;
pub mod own_folder;
mod process_entry;
mod process_table;
mod refusal;
mod screen;
mod terminal_size;
mod this_machine;
#[cfg(unix)]
pub mod unix;
mod whole_file;
#[cfg(windows)]
pub mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use address::{addresses_of, connect_to};
pub use awake::{Awake, WallLimit, within};
pub use below::remove_tree;
pub use blocking::{HandedOver, blocking, hand_over};
pub use crew::Crew;
pub use deadline::sleep_until;
pub use destination::destination;
pub use disk::{on_disk, read_piece, write_piece};
pub use entry_kind::EntryKind;
pub use fault::Fault;
pub use file_lock::FileLock;
pub use file_stamp::FileStamp;
pub use folder_event::{FolderChange, FolderEvent};
pub use host::{Host, HostState};
pub use known_process::{command_names, kill_process, lineage_of, was_alive_for};
pub use memory::MemoryUser;
pub use process_entry::{ProcessEntry, ProcessIdentity, TICKS_PER_SECOND};
pub use process_table::{ProcessTable, TreeUsage, walk_descendants};
pub use refusal::Refusal;
pub use screen::Screen;
pub use terminal_size::TerminalSize;
pub use this_machine::{is_loopback, is_own_address, is_own_name, own_names, without_proxy};
pub use whole_file::read_short_text;

// The names that every system has.
pub(crate) use system::at_exit::at_exit;
pub use system::claim::Claim;
#[cfg(unix)]
pub use system::exit::has_exited;
pub use system::exit::wait_for_exit;
pub use system::file::{
    can_write, link, may_execute, own_input, path_of, private_files, private_folders, real_path, set_mode,
};
pub use system::folder_watch::{FolderWatch, watch_folder};
pub use system::group::{group_exists, signal_group};
pub use system::held_folder::{
    ContainedFolders, FileIdentity, HeldFolder, open_input, open_output, place_below, place_of_folder,
};
pub use system::host_folder::HostFolder;
pub use system::machine::{machine_name, runtime_folder, user_id};
pub use system::open_files::held_for_writing;
pub use system::pipe::{Pipe, PipeWriter};
pub use system::process::{rss_bytes, signal_process, start_time, ticks_now};
pub use system::program::{
    DEFAULT_PATH, PATH_SEPARATOR, SHELL, TEMPORARY_VARIABLES, is_batch_file, is_executable, is_path,
    is_same_variable, native_variable, program_files,
};
pub use system::regular_file::{open_in_place, open_regular};
pub use system::signal::signal_of;
pub use system::start::{IS_A_DIRECTORY, LONGEST_ARGUMENT, LONGEST_CWD, SCRIPT_START_BYTES, refusal_of};
#[cfg(target_os = "linux")]
pub use system::tcp_socket::listening_on;
pub use system::tcp_socket::peer_has_left;
pub use system::terminal::Terminal;
pub use system::words::{arguments_of, short_name_of, variables_of};
