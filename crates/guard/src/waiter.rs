//! Waiting for several descriptors at once.

use crate::failure::{Failure, check};
use crate::protocol::{CALL_EPOLL_CREATE, STAGE_SUPERVISE};
use crate::syscall::{Alarm, O_CLOEXEC, number, plain, raw};

pub(crate) const READABLE: u32 = 1;
/// The peer will not write any more. Unread data may remain.
pub(crate) const PEER_ENDED: u32 = 0x2000;

/// A wait is divided into turns of so many milliseconds, and each sets the alarm anew.
const TURN_MS: u64 = 5_000;
/// A guard that is stopped wakes after so many seconds. No other event does that if it was stopped after the host's end.
const ALARM_S: usize = 10;

/// Descriptors to wait for together. It does not use poll(2), which fails once the limit of open descriptors is lower than their
/// number. A program of the same user may lower that limit.
pub(crate) struct Waiter {
    descriptor: isize,
    alarm: Alarm,
}

/// struct epoll_event, which is packed on x86-64.
#[cfg_attr(target_arch = "x86_64", repr(C, packed))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
#[derive(Clone, Copy)]
struct Event {
    events: u32,
    place: u64,
}

impl Waiter {
    pub(crate) fn new() -> Result<Waiter, Failure> {
        const EPOLL_CLOEXEC: usize = O_CLOEXEC;
        let made = plain(number::EPOLL_CREATE1, EPOLL_CLOEXEC, 0, 0, 0);
        let descriptor = check(STAGE_SUPERVISE, CALL_EPOLL_CREATE, made)?;
        Ok(Waiter { descriptor, alarm: Alarm::new() })
    }

    /// From now on `wait` sets the bit `place` when one of the events `wanted`, or an error, occurs on the descriptor.
    pub(crate) fn add(&self, place: u64, descriptor: isize, wanted: u32) -> isize {
        const ADD: usize = 1;
        let event = Event { events: wanted, place };
        plain(
            number::EPOLL_CTL,
            self.descriptor as usize,
            ADD,
            descriptor as usize,
            &raw const event as usize,
        )
    }

    pub(crate) fn remove(&self, descriptor: isize) {
        const REMOVE: usize = 2;
        let unused = Event { events: 0, place: 0 };
        plain(
            number::EPOLL_CTL,
            self.descriptor as usize,
            REMOVE,
            descriptor as usize,
            &raw const unused as usize,
        );
    }

    /// The bits of the places where an event occurred; 0 after the timeout (`None`: no limit).
    pub(crate) fn wait(&self, timeout_ms: Option<u64>) -> u32 {
        let mut left_ms = timeout_ms;
        loop {
            self.alarm.set(ALARM_S);
            let turn = left_ms.unwrap_or(TURN_MS).min(TURN_MS);
            let there = self.wait_once(turn);
            left_ms = left_ms.map(|left| left.saturating_sub(turn));
            if there != 0 || left_ms == Some(0) {
                return there;
            }
        }
    }

    fn wait_once(&self, limit_ms: u64) -> u32 {
        let mut events = [Event { events: 0, place: 0 }; 4];
        let start = events.as_mut_ptr() as usize;
        let arguments = [self.descriptor as usize, start, 4, limit_ms as usize, 0, 8];
        // SAFETY: the kernel writes into the four events; no mask is given.
        let count = unsafe { raw(number::EPOLL_PWAIT, arguments) };
        let mut bits = 0;
        for event in events.iter().take(count.max(0) as usize) {
            bits |= 1 << (event.place & 31);
        }
        bits
    }
}
