//! Windows has no process groups that could be asked or killed: a job is what holds a tree.

use crate::signal::Signal;

/// Nobody is in a group.
pub fn group_exists(_: i32) -> bool {
    false
}

/// Does nothing.
pub fn signal_group(_: i32, _: Signal) {}
