//! Waiting for several descriptors at once.

use crate::syscall::{O_CLOEXEC, number, plain, raw};

pub(crate) const READABLE: u32 = 1;
/// The peer will not write any more. Unread data may remain.
pub(crate) const PEER_ENDED: u32 = 0x2000;

/// Descriptors to wait for together. It does not use poll(2), which fails once the limit of open descriptors is lower than their
/// number. A program of the same user may lower that limit.
pub(crate) struct Waiter(isize);

/// struct epoll_event, which is packed on x86-64.
#[cfg_attr(target_arch = "x86_64", repr(C, packed))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
#[derive(Clone, Copy)]
struct Event {
    events: u32,
    place: u64,
}

impl Waiter {
    /// `Err`: the negative errno.
    pub(crate) fn new() -> Result<Waiter, isize> {
        const EPOLL_CLOEXEC: usize = O_CLOEXEC;
        let descriptor = plain(number::EPOLL_CREATE1, EPOLL_CLOEXEC, 0, 0, 0);
        if descriptor < 0 { Err(descriptor) } else { Ok(Waiter(descriptor)) }
    }

    /// From now on `wait` sets the bit `place` when one of the events `wanted`, or an error, occurs on the descriptor.
    pub(crate) fn add(&self, place: u64, descriptor: isize, wanted: u32) -> isize {
        const ADD: usize = 1;
        let event = Event { events: wanted, place };
        plain(number::EPOLL_CTL, self.0 as usize, ADD, descriptor as usize, &raw const event as usize)
    }

    pub(crate) fn remove(&self, descriptor: isize) {
        const REMOVE: usize = 2;
        let unused = Event { events: 0, place: 0 };
        plain(number::EPOLL_CTL, self.0 as usize, REMOVE, descriptor as usize, &raw const unused as usize);
    }

    /// The bits of the places where an event occurred; 0 after the timeout (`None`: no limit).
    pub(crate) fn wait(&self, timeout_ms: Option<u64>) -> u32 {
        let mut events = [Event { events: 0, place: 0 }; 4];
        let limit = timeout_ms.map_or(-1, |ms| ms as isize);
        let start = events.as_mut_ptr() as usize;
        // SAFETY: the kernel writes into the four events; no mask is given.
        let count = unsafe { raw(number::EPOLL_PWAIT, [self.0 as usize, start, 4, limit as usize, 0, 8]) };
        let mut bits = 0;
        for event in events.iter().take(count.max(0) as usize) {
            bits |= 1 << (event.place & 31);
        }
        bits
    }
}
