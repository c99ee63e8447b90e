//! A permanent identity for a host process. Process ids alone are reused, and are counted separately in each namespace and after
//! each boot.
//!
//! PLACE stands for one boot of the machine and for the namespace in which process ids count. Ids of another place can't be
//! checked from here. PID and START identify a process within a place. Where the system does not tell the place, it is written
//! as 0.

use super::system::machine::{may_be_alive, place_of_processes};
use super::system::process::start_time;
use std::fmt;
use std::sync::OnceLock;

/// A process that runs other programs. Written as `PLACE-PID-START`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    place: u32,
    pub pid: u32,
    start: u64,
}

/// The state of a host as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostState {
    Alive,
    Gone,
    /// The host belongs to another place, so its state can't be determined here.
    Elsewhere,
}

impl Host {
    /// This process.
    pub fn own() -> Host {
        static OWN: OnceLock<Host> = OnceLock::new();
        *OWN.get_or_init(|| {
            let pid = std::process::id();
            let start = start_time(pid.cast_signed()).unwrap_or(0);
            Host { place: place_of_processes().unwrap_or(0), pid, start }
        })
    }

    pub fn parse(text: &str) -> Option<Host> {
        let mut parts = text.split('-');
        let place = u32::from_str_radix(parts.next()?, 16).ok()?;
        let (pid, start) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(Host { place, pid, start })
    }

    /// The host that a run's mark names after its random part.
    pub fn parse_mark(mark: &str) -> Option<Host> {
        let (random, host) = mark.split_once('-')?;
        let is_random = random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_random.then(|| Host::parse(host)).flatten()
    }

    pub fn state(&self) -> HostState {
        let here = Host::own().place;
        if here == 0 || here != self.place {
            return HostState::Elsewhere;
        }
        match start_time(self.pid.cast_signed()) {
            Some(start) if start == self.start => HostState::Alive,
            Some(_) => HostState::Gone,
            None if may_be_alive(self.pid) => HostState::Alive,
            None => HostState::Gone,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:06x}-{}-{}", self.place, self.pid, self.start)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_told_from_one_that_has_its_number_later() {
        let own = Host::own();
        assert_eq!(Host::parse(&own.to_string()), Some(own));
        assert_eq!(own.state(), HostState::Alive);
        assert_eq!(Host { start: own.start + 1, ..own }.state(), HostState::Gone);
        // This id is higher than any that the system assigns.
        assert_eq!(Host { pid: 4_194_999, ..own }.state(), HostState::Gone);
        assert_eq!(Host { place: own.place ^ 1, ..own }.state(), HostState::Elsewhere);
        assert_eq!(Host::parse("12-34"), None);
        assert_eq!(Host::parse("12-34-56-78"), None);
    }

    #[test]
    fn a_zombie_is_no_host_any_more() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let start = start_time(child.id().cast_signed()).expect("alive");
        let host = Host { pid: child.id(), start, ..Host::own() };
        assert_eq!(host.state(), HostState::Alive);
        child.kill().expect("killed");
        let id = nix::sys::wait::Id::Pid(nix::unistd::Pid::from_raw(child.id().cast_signed()));
        let flags = nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT;
        nix::sys::wait::waitid(id, flags).expect("an exit");
        assert_eq!(host.state(), HostState::Gone);
        child.wait().expect("the zombie");
    }
}
