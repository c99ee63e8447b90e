//! The system's functions on Windows, under the names of the twin `unix`. Nothing here was run on Windows itself, only under wine.

pub(super) mod at_exit;
mod child;
pub(super) mod claim;
pub(super) mod exit;
pub(super) mod file;
#[path = "../unix/folder_watch_absent.rs"]
pub(super) mod folder_watch;
pub(super) mod group;
pub(super) mod held_folder;
pub(super) mod host_folder;
pub mod job;
pub(super) mod machine;
pub(super) mod open_files;
mod opened;
pub(super) mod pipe;
pub(super) mod process;
pub(super) mod program;
pub(super) mod regular_file;
pub(super) mod screen;
pub(super) mod signal;
pub(super) mod start;
#[path = "../unix/tcp_socket_absent.rs"]
pub(super) mod tcp_socket;
pub(super) mod terminal;
pub(super) mod words;

pub use child::{break_group, exit_code, resume};
pub use pipe::{output_pipe, stdin_pipe};
