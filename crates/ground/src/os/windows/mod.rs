//! The system's functions on Windows, under the names of the twin `unix`. Nothing here was run on Windows itself, only under wine.

mod at_exit;
mod child;
mod claim;
mod exit;
mod file;
#[path = "../unix/folder_watch_absent.rs"]
mod folder_watch;
mod group;
mod held_folder;
pub mod job;
mod machine;
mod open_files;
mod pipe;
pub(super) mod process;
mod program;
mod regular_file;
mod screen;
mod signal;
mod start;
mod terminal;

pub(crate) use at_exit::at_exit;
pub use child::{break_group, exit_code, resume};
pub use claim::Claim;
pub use exit::wait_for_exit;
pub use file::{
    can_write, link, make_writable, may_execute, own_input, private_files, private_folders, set_mode,
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
pub use pipe::{Pipe, PipeWriter, output_pipe, stdin_pipe};
pub use process::{
    arguments_of, command_names, kill_process, lineage_of, rss_bytes, short_name_of, signal_process,
    start_time, ticks_now, variables_of, was_alive_for,
};
pub use program::{
    DEFAULT_PATH, PATH_SEPARATOR, SHELL, TEMPORARY_VARIABLES, is_executable, is_path, is_same_variable,
    native_variable, program_files,
};
pub use regular_file::{open_in_place, open_regular, read_short_text};
pub use screen::Screen;
pub use signal::signal_of;
pub use start::{IS_A_DIRECTORY, LONGEST_ARGUMENT, refusal_of};
pub use terminal::Terminal;
