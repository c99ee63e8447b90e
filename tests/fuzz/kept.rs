//! Feeds the inputs of fuzz/corpus to the `TARGETS` of the module above, each as it is and with pieces changed.

use super::{TARGETS, Target};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use std::path::Path;
use std::sync::LazyLock;

type Kept = (&'static str, fn(&[u8]), Vec<Vec<u8>>);

/// Inputs that were kept, by target: a line of base64 each.
static CORPUS: LazyLock<Vec<Kept>> = LazyLock::new(|| {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = above.map(|folder| folder.join("fuzz/corpus")).find(|folder| folder.is_dir()).unwrap();
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
    // A failing input is kept as a line of the corpus. A seed would mean another input as soon as the corpus grows.
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
