//! PURE. Reasons for which a system does not start a program.

/// The meaning of the system's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such file: the program, its interpreter or a folder.
    Missing,
    /// The file is a folder, or this user may not execute or reach it.
    NotExecutable,
    /// The file is no program of a known kind.
    NoProgram,
    /// Arguments and environment together.
    TooLong,
    NoDescriptors,
    NoProcesses,
    NoMemory,
    Other,
}
