//! PURE. What is known of a process. Times are in clock ticks, which are hundredths of a second everywhere.

/// Clock ticks in a second. Linux reports times to user space in this unit on every supported architecture.
pub const TICKS_PER_SECOND: u64 = 100;

/// A process that can't be mistaken for a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    pub pid: i32,
    /// Clock ticks since boot.
    pub start_time: u64,
}

/// A living process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEntry {
    pub identity: ProcessIdentity,
    pub parent: i32,
    pub group: i32,
    pub cpu_ticks: u64,
}
