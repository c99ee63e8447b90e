//! The trial of a guard: whether the calls that the level rests on do what they say here. A process that lost its parent must come to this
//! guard, be found, and be killed.

use crate::children::{Children, List, Reaped};
use crate::failure::{Failure, check};
use crate::lifeline::LIFELINE;
use crate::protocol::{CALL_CLONE, CALL_LIST_CHILDREN, CALL_SUBREAPER, Header, STAGE_FORK, STAGE_SUPERVISE};
use crate::syscall;

/// An orphan that nobody kills ends by itself after this.
const ORPHAN_US: u64 = 300_000;
const ENOENT: isize = -2;

/// Starts a process whose child loses its parent, and kills what is left.
pub(crate) fn run(header: &Header) -> Result<(), Failure> {
    let pid = check(STAGE_FORK, CALL_CLONE, syscall::fork(0))?;
    if pid == 0 {
        // The host must not wait for the end of these.
        syscall::close(LIFELINE);
        let orphan = syscall::fork(0);
        if orphan == 0 {
            syscall::sleep(ORPHAN_US);
        }
        syscall::exit(usize::from(orphan < 0));
    }
    let mut children = Children::new(0, false, List::open(header));
    let left = loop {
        let mut status = None;
        let left = children.reap(|ended, with| {
            if ended == pid {
                status = Some(with);
            }
        });
        match status {
            Some(0) => break left,
            Some(_) => return Err(Failure { stage: STAGE_FORK, call: CALL_CLONE, result: syscall::EAGAIN }),
            None => syscall::wait_for_child_signal(ORPHAN_US),
        }
    };
    let missing = |call| Failure { stage: STAGE_SUPERVISE, call, result: ENOENT };
    // An orphan has its new parent before its old one can be waited for.
    if let Reaped::None = left {
        return Err(missing(CALL_SUBREAPER));
    }
    children.kill_all(false, &[0]);
    if children.killed == 1 { Ok(()) } else { Err(missing(CALL_LIST_CHILDREN)) }
}
