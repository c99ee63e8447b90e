//! The guard's end of the lifeline, and what is said on it.

use crate::failure::Failure;
use crate::protocol::{FRAME_SPAWN_ERROR, Frame};
use crate::syscall;

/// The descriptor of the guard's end of the lifeline, where the host places it.
pub(crate) const LIFELINE: isize = 3;

pub(crate) fn say(frame: &Frame) {
    // A host that is gone or does not read is not waited for.
    syscall::send(LIFELINE, frame.bytes());
}

pub(crate) fn report_error(origin: u8, failure: Failure) {
    say(&Frame::new(FRAME_SPAWN_ERROR, origin)
        .u32(failure.stage)
        .u32(failure.result.unsigned_abs() as u32)
        .u32(failure.call));
}
