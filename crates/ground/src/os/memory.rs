//! Memory of what has ended, given back to the system.
//!
//! malloc keeps what is freed between pieces that are still in use. A thousand runs at a time leave megabytes of that behind. When
//! many have ended, the allocator is asked to give back what it can.

use super::blocking::blocking;
use super::system::machine::give_back_memory;
use crate::lock::lock;
use std::sync::Mutex;
use std::time::Duration;

/// Ended users of memory that are worth the asking.
const WORTH: usize = 100;
/// Between their end and the asking, and between two askings. Mostly more end meanwhile, and JavaScript lets go of its handles.
const AFTER: Duration = Duration::from_secs(2);
const TIMES: usize = 2;

static TIDE: Mutex<Tide> = Mutex::new(Tide { now: 0, highest: 0, is_awaited: false });

/// PURE: how many there are, and the most there were since memory was given back.
#[derive(Debug)]
struct Tide {
    now: usize,
    highest: usize,
    is_awaited: bool,
}

impl Tide {
    fn begin(&mut self) {
        self.now += 1;
        self.highest = self.highest.max(self.now);
    }

    /// True: memory is to be given back soon.
    fn end(&mut self) -> bool {
        self.now = self.now.saturating_sub(1);
        let is_low = self.highest - self.now >= WORTH;
        is_low && !std::mem::replace(&mut self.is_awaited, true)
    }

    fn given_back(&mut self) {
        self.is_awaited = false;
        self.highest = self.now;
    }
}

/// A user of some kilobytes, as long as it lives. The last of many to end give memory back.
#[derive(Debug)]
pub struct MemoryUser(());

impl MemoryUser {
    #[expect(clippy::new_without_default, reason = "it counts")]
    pub fn new() -> MemoryUser {
        lock(&TIDE).begin();
        MemoryUser(())
    }
}

impl Drop for MemoryUser {
    fn drop(&mut self) {
        if !lock(&TIDE).end() {
            return;
        }
        let giving_back = async {
            for _ in 0..TIMES {
                tokio::time::sleep(AFTER).await;
                // Without a thread for it, the memory stays until the next time.
                let _ = blocking(give_back_memory).await;
            }
            lock(&TIDE).given_back();
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(giving_back)),
            Err(_) => lock(&TIDE).given_back(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_many_have_ended() {
        let mut tide = Tide { now: 0, highest: 0, is_awaited: false };
        for _ in 0..250 {
            tide.begin();
        }
        let ends = |tide: &mut Tide, count: usize| (0..count).filter(|_| tide.end()).count();
        assert_eq!(ends(&mut tide, 99), 0, "too few");
        assert_eq!(ends(&mut tide, 100), 1, "once, until it is done");
        tide.given_back();
        assert_eq!(ends(&mut tide, 51), 0, "the rest is not worth it");
        assert_eq!((tide.now, tide.highest), (0, 51));
    }

    #[test]
    fn few_at_a_time_never_ask_for_it() {
        let mut tide = Tide { now: 0, highest: 0, is_awaited: false };
        for _ in 0..10_000 {
            tide.begin();
            assert!(!tide.end());
        }
    }
}
