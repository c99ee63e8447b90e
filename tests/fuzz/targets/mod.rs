//! The fuzz targets. Each one takes any bytes and asserts what must hold for every input.
//!
//! `npm run trial -- fuzz` feeds them with libFuzzer (`fuzz/`), guided by which code was reached; `cargo test` feeds the inputs that
//! were kept (`fuzz/corpus`), each as it is and with pieces changed. A target that needs more than the bytes takes it from the
//! first ones: see [`input::Input`].

mod agent_output;
mod input;
mod text;
mod transcript;
mod wire_frames;

#[cfg(fuzzing)]
use agents::acp::fuzz_face;
#[cfg(fuzzing)]
use agents::harness::fuzz_commands;
use copilot::event_log::fuzz_event_log;
use process::guard::fuzz_lifeline;

/// A name, and what takes the bytes.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All targets, by name. Two of them use private parts of `agents`: they are public when it is built for libFuzzer, and
/// `cargo test` feeds them among the tests of that crate.
pub(crate) const TARGETS: &[Target] = &[
    ("lines", text::lines),
    ("json_filter", text::json_filter),
    ("json_index", text::json_index),
    ("redaction", text::redaction),
    ("sse", text::sse),
    ("framing", wire_frames::framing),
    ("message", wire_frames::message),
    ("client_frame", wire_frames::client_frame),
    ("runtime_frame", wire_frames::runtime_frame),
    ("lifeline", fuzz_lifeline),
    ("provider_lines", agent_output::provider_lines),
    ("resume", agent_output::resume),
    ("transcript", transcript::transcript),
    #[cfg(fuzzing)]
    ("face", fuzz_face),
    #[cfg(fuzzing)]
    ("commands", fuzz_commands),
    ("session_event", agent_output::session_event),
    ("event_log", fuzz_event_log),
];
