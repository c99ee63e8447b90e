//! The numbers that Node.js has for signals on Windows. No process ends by one: they are requests only.

use crate::signal::Signal;

/// The signal with this number.
pub fn signal_of(number: i32) -> Option<Signal> {
    match number {
        1 => Some(Signal::Hup),
        2 => Some(Signal::Int),
        3 => Some(Signal::Quit),
        9 => Some(Signal::Kill),
        15 => Some(Signal::Term),
        _ => None,
    }
}
