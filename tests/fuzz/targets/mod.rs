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

use agents::acp::fuzz_face;
use agents::harness::fuzz_commands;
use copilot::event_log::fuzz_event_log;
use process::guard::fuzz_lifeline;

/// A name, and what takes the bytes.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All targets, by name.
pub(crate) const TARGETS: &[Target] = &[
    ("lines", text::lines),
    ("json_filter", ground::json_filter::fuzz),
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
    ("face", fuzz_face),
    ("commands", fuzz_commands),
    ("session_event", agent_output::session_event),
    ("event_log", fuzz_event_log),
];
