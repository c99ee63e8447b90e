//! The system's functions on Linux and macOS. The twin of another system has the same names.

pub(super) mod at_exit;
pub(super) mod claim;
pub(super) mod exit;
pub(super) mod file;
#[cfg(target_os = "linux")]
pub(super) mod folder_watch;
#[cfg(not(target_os = "linux"))]
#[path = "folder_watch_absent.rs"]
pub(super) mod folder_watch;
pub(super) mod group;
pub(super) mod held_folder;
pub(super) mod host_folder;
pub(super) mod lent_terminal;
pub(super) mod machine;
pub(super) mod open_files;
#[cfg(target_os = "linux")]
pub mod pidfd;
pub(super) mod pipe;
pub(super) mod proc_folder;
pub(super) mod process;
pub(super) mod program;
pub(super) mod regular_file;
mod removal;
pub(super) mod screen;
pub(super) mod signal;
pub(super) mod start;
#[cfg(target_os = "linux")]
pub(super) mod tcp_socket;
#[cfg(not(target_os = "linux"))]
#[path = "tcp_socket_absent.rs"]
pub(super) mod tcp_socket;
pub(super) mod terminal;
pub(super) mod words;

pub use lent_terminal::LentTerminal;
pub use pipe::widen;
pub use proc_folder::{ProcFolder, file_of_process, folder_of_process, proc_folder};
pub use signal::native;
