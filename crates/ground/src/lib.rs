//! The foundation of all other crates: pure values, the operating system, records, and the log.

// Values.
pub mod error;
pub mod hex;
pub mod json;
pub mod json_filter;
pub mod keep;
pub mod line;
pub mod lock;
pub mod login;
pub mod mpsc;
pub mod named;
pub mod percent;
pub mod random;
pub mod redaction;
pub mod retry;
pub mod signal;
pub mod task;
pub mod text;
pub mod tokens;
pub mod window;
pub mod words;

// The operating system, records, and the log.
pub mod os;
pub mod record;
pub mod trace;
