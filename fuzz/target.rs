#![no_main]
//! One program for all targets: `SHEEPDOG_FUZZ_TARGET` says which.

#[path = "../tests/fuzz/targets/mod.rs"]
mod targets;

use std::sync::LazyLock;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("SHEEPDOG_FUZZ_TARGET").unwrap_or_default();
    let found = targets::TARGETS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no target is called {name:?}")).1
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET(data));
