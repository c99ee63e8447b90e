//! What every other crate stands on: values (pure), the operating system, records, and the log.

// Values.
pub mod error;
pub mod hex;
pub mod line;
pub mod lock;
pub mod percent;
pub mod random;
pub mod redaction;
pub mod retry;

// The system, and what is written down.
pub mod os;
pub mod record;
pub mod trace;
