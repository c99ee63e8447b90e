//! What is fuzzed: each target takes any bytes, and asserts what must hold of whatever they mean.
//!
//! `npm run test:fuzz` feeds them with libFuzzer (`fuzz/`), guided by which code was reached; `cargo test` feeds the inputs that
//! were kept (`fuzz/corpus`), each as it is and with pieces changed. A target that needs more than the bytes takes it from the
//! first ones: see [`input::Input`].

mod agents;
mod input;
mod text;
mod wires;

use crate::acp::fuzz_transcript;
use crate::binding::delivery::fuzz_json_filter;
use crate::copilot::event_log::fuzz_event_log;
use crate::process::guard::fuzz_lifeline;

/// A name, and what takes the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, by name.
pub const TARGETS: &[Target] = &[
    ("lines", text::lines),
    ("json_filter", fuzz_json_filter),
    ("json_index", text::json_index),
    ("redaction", text::redaction),
    ("sse", text::sse),
    ("framing", wires::framing),
    ("message", wires::message),
    ("client_frame", wires::client_frame),
    ("runtime_frame", wires::runtime_frame),
    ("lifeline", fuzz_lifeline),
    ("provider_lines", agents::provider_lines),
    ("resume", agents::resume),
    ("transcript", fuzz_transcript),
    ("session_event", agents::session_event),
    ("event_log", fuzz_event_log),
];

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use std::path::Path;
    use std::sync::LazyLock;

    type Kept = (&'static str, fn(&[u8]), Vec<Vec<u8>>);

    /// Inputs that were kept, by target: a line of base64 each.
    static CORPUS: LazyLock<Vec<Kept>> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        let read = |&(name, target): &Target| {
            let text = std::fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
            let inputs: Vec<_> = text.lines().map(|line| STANDARD.decode(line).unwrap()).collect();
            assert!(!inputs.is_empty(), "{name} has no corpus");
            (name, target, inputs)
        };
        TARGETS.iter().map(read).collect()
    });

    /// The line of the corpus of an input that fails.
    fn fails(target: fn(&[u8]), input: &[u8]) -> Option<String> {
        std::panic::catch_unwind(|| target(input)).err().map(|_| STANDARD.encode(input))
    }

    #[test]
    fn what_was_kept_holds() {
        for (name, target, inputs) in CORPUS.iter() {
            for input in inputs {
                assert_eq!(fails(*target, input), None, "{name}");
            }
        }
    }

    proptest! {
        // What fails is kept by its line in the corpus; by a seed it would be another input after the next line.
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn what_was_kept_holds_with_pieces_changed(
            which in 0..TARGETS.len(),
            input in any::<prop::sample::Index>(),
            other in any::<prop::sample::Index>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..8, prop::collection::vec(any::<u8>(), 0..6)), 1..6),
        ) {
            let (name, target, inputs) = &CORPUS[which];
            let mut bytes = inputs[input.index(inputs.len())].clone();
            for (place, removed, added) in changes {
                let at = place.index(bytes.len() + 1);
                bytes.splice(at..(at + removed).min(bytes.len()), added);
            }
            prop_assert_eq!(fails(*target, &bytes), None, "{}", name);
            bytes.extend_from_slice(&inputs[other.index(inputs.len())]);
            prop_assert_eq!(fails(*target, &bytes), None, "{}", name);
        }
    }
}
