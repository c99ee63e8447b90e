//! The system's functions on Linux and macOS. The twin of another system has the same names.

mod at_exit;
mod claim;
mod exit;
mod file;
#[cfg(target_os = "linux")]
mod folder_watch;
#[cfg(not(target_os = "linux"))]
#[path = "folder_watch_absent.rs"]
mod folder_watch;
mod group;
mod held_folder;
mod machine;
mod open_files;
#[cfg(target_os = "linux")]
pub mod pidfd;
mod pipe;
pub(super) mod process;
mod program;
mod regular_file;
mod screen;
mod signal;
mod start;
mod terminal;

pub(crate) use at_exit::at_exit;
pub use claim::Claim;
pub use exit::wait_for_exit;
pub use file::{
    can_write, is_executable, link, make_writable, may_execute, own_input, private_files, private_folders,
    set_mode,
};
pub(super) use file::{change_of, read_at};
pub use folder_watch::{FolderWatch, watch_folder};
pub use group::{group_exists, signal_group};
pub use held_folder::{
    ContainedFolders, EntryKind, FileIdentity, HeldFolder, open_input, open_output, place_below,
    place_of_folder,
};
pub(super) use machine::{give_back_memory, may_be_alive, place_of_processes};
pub use machine::{machine_name, runtime_folder, user_id};
pub use open_files::held_for_writing;
pub use pipe::{Pipe, PipeWriter, widen};
pub use process::{
    arguments_of, command_names, kill_process, lineage_of, rss_bytes, short_name_of, signal_process,
    start_time, ticks_now, variables_of, was_alive_for,
};
pub use program::{
    DEFAULT_PATH, PATH_SEPARATOR, SHELL, TEMPORARY_VARIABLES, is_path, is_same_variable, native_variable,
    program_files,
};
pub use regular_file::{open_in_place, open_regular, read_short_text};
pub use screen::Screen;
pub use signal::{native, signal_of};
pub use start::{IS_A_DIRECTORY, LONGEST_ARGUMENT, refusal_of};
pub use terminal::Terminal;
