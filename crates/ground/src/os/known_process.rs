//! Facts about processes, and their end, by the little that every system tells.

use super::process_entry::{ProcessIdentity, TICKS_PER_SECOND};
use super::system::process::{is_there, parents, signal_process, start_time, ticks_now};
use super::system::words::arguments_of;
use crate::signal::Signal;
use std::time::Duration;

/// Start times are counted coarsely.
const TOLERANCE: Duration = Duration::from_secs(2);

/// Kills the process, unless it is gone or its pid belongs to another one by now. True when it was killed.
pub fn kill_process(identity: ProcessIdentity) -> bool {
    signal_process(identity, Signal::Kill)
}

/// The process, its parent, and so on up to the first process. Only the process itself where the system has no table.
pub fn lineage_of(pid: i32) -> Vec<i32> {
    let parent_of = parents();
    let mut lineage = vec![pid];
    let mut last = pid;
    while let Some(parent) = parent_of(last) {
        last = parent;
        if last <= 0 || lineage.contains(&last) {
            break;
        }
        lineage.push(last);
    }
    lineage
}

/// Whether a process with this number has been alive for at least `age` (give or take two seconds). Without a process table:
/// whether there is such a process.
pub fn was_alive_for(pid: i32, age: Duration) -> bool {
    let Some(start) = start_time(pid) else { return is_there(pid) };
    let alive_for = Duration::from_millis(ticks_now().saturating_sub(start) * 1000 / TICKS_PER_SECOND);
    alive_for + TOLERANCE >= age
}

/// Whether a process's command line has this word; false where it can't be read.
pub fn command_names(pid: i32, word: &str) -> bool {
    arguments_of(pid).windows(word.len()).any(|part| part == word.as_bytes())
}
