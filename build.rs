//! Sets up the linking of the addon.

use std::env;

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    set_up_addon()
}

/// Does what `napi_build::setup` does for Linux and macOS, with one difference. That function makes cargo build again whenever
/// NAPI_TYPE_DEF_TMP_FOLDER or NAPI_FORCE_BUILD_SHEEPDOG changes, so that `cargo test` and a build of the addon would undo each
/// other's work. (scripts/addon.mjs makes sure that the types are of the current build.)
fn set_up_addon() -> Result<(), String> {
    if variable("CARGO_CFG_TARGET_OS")? == "macos" {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-undefined,dynamic_lookup");
    }
    if variable("CARGO_CFG_TARGET_OS")? == "linux" && variable("CARGO_CFG_TARGET_ENV")? == "gnu" {
        // Destructors of threads outlive a library that is unloaded: never unload it (rust-lang/rust#134820).
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
    Ok(())
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}
