//! The numbers of signals on this system.

use crate::signal::Signal;
use nix::sys::signal::Signal as Native;
use std::str::FromStr;

/// The signal with this number; `None` for numbers without a signal, and for real-time signals.
pub fn signal_of(number: i32) -> Option<Signal> {
    Native::try_from(number).ok().and_then(|native| Signal::parse(native.as_str()))
}

/// The signal as nix has it; `None` for a signal that this system lacks.
pub fn native(signal: Signal) -> Option<Native> {
    Native::from_str(signal.as_str()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_of_the_system_has_a_name_here_and_keeps_its_number() {
        for expected in Native::iterator() {
            let signal = signal_of(expected as i32);
            assert_eq!(signal.map(Signal::as_str), Some(expected.as_str()));
            assert_eq!(signal.and_then(native), Some(expected));
        }
        assert_eq!(signal_of(0), None);
        assert_eq!(signal_of(64), None);
    }
}
