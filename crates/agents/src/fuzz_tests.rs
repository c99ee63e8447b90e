//! The fuzz targets that use private parts of this crate, over the inputs of fuzz/corpus.

use crate::acp::fuzz_face;
use crate::harness::fuzz_commands;

#[path = "../../../tests/fuzz/kept.rs"]
mod kept;

type Target = (&'static str, fn(&[u8]));

const TARGETS: &[Target] = &[("face", fuzz_face), ("commands", fuzz_commands)];
