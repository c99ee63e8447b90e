//! Builds the guard program, which `src/lib.rs` embeds. The program is this same crate, compiled once more as a binary.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A larger guard contains something that it should not: a C library, or core's formatting.
const MAX_GUARD_BYTES: usize = 32 << 10;

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    if variable("CARGO_CFG_TARGET_OS")? == "linux" {
        let guard = Path::new(&variable("OUT_DIR")?).join("sheepdog-guard");
        build_guard(&guard)?;
        println!("cargo::rustc-env=SHEEPDOG_GUARD={}", guard.display());
    }
    Ok(())
}

/// Compiles the program for the addon's target by a plain call of rustc: it needs nothing but the core library. Cargo has no
/// stable way to embed a binary of one crate in another. The linker that comes with rustc is tried first, so that a cross build
/// needs no cross linker; then the C compiler that cargo links this target with.
fn build_guard(guard: &Path) -> Result<(), String> {
    let mut problems = String::new();
    for linker in [Linker::Bundled, Linker::C] {
        // Remove the program of an earlier build, so that it is not mistaken for this build's.
        let _ = fs::remove_file(guard);
        let output = compile(guard, linker)?.output();
        match output {
            Ok(output) if output.status.success() => return check(guard),
            Ok(output) => problems.push_str(&String::from_utf8_lossy(&output.stderr)),
            Err(error) => problems.push_str(&error.to_string()),
        }
    }
    Err(format!("the guard could not be built for {}:\n{problems}", variable("TARGET")?))
}

#[derive(Clone, Copy, PartialEq)]
enum Linker {
    /// rust-lld
    Bundled,
    C,
}

fn compile(guard: &Path, linker: Linker) -> Result<Command, String> {
    let mut rustc = Command::new(variable("RUSTC")?);
    rustc.args([
        "--edition",
        "2024",
        "--crate-name",
        "sheepdog_guard",
        "--crate-type",
        "bin",
        "--cfg",
        "guard_program",
    ]);
    rustc.args(["--target", &variable("TARGET")?, "src/lib.rs", "-o"]).arg(guard);
    let code_generation = [
        "panic=abort",
        "opt-level=s",
        "lto=fat",
        "codegen-units=1",
        "strip=symbols",
        "debug-assertions=off",
        "overflow-checks=off",
        "force-unwind-tables=no",
        // A fixed address: no relocations, and one page fewer to write.
        "relocation-model=static",
        "target-feature=+crt-static",
    ];
    for option in code_generation {
        rustc.args(["-C", option]);
    }
    if variable("CARGO_CFG_TARGET_ENV")? == "musl" {
        // No start files of musl, which rustc carries. For glibc it carries none, and some of those targets refuse the option.
        rustc.args(["-C", "link-self-contained=no"]);
    }
    for option in link_options(linker)? {
        rustc.arg("-C").arg(option);
    }
    Ok(rustc)
}

/// The linker, and how it lays the program out.
fn link_options(linker: Linker) -> Result<Vec<String>, String> {
    let layout = ["-znorelro", "-znoseparate-code", "--build-id=none", "--gc-sections", "--no-eh-frame-hdr"];
    let (mut options, prefix) = match linker {
        Linker::Bundled => {
            let options = ["linker=rust-lld", "linker-flavor=ld.lld", "link-arg=--no-rosegment"];
            (options.map(str::to_owned).to_vec(), "link-arg=")
        }
        Linker::C => {
            let options = ["link-arg=-nostartfiles", "link-arg=-nostdlib", "link-arg=-static"];
            let path = c_linker()?.map(|path| format!("linker={}", path.display()));
            (options.map(str::to_owned).into_iter().chain(path).collect(), "link-arg=-Wl,")
        }
    };
    options.extend(layout.map(|option| format!("{prefix}{option}")));
    Ok(options)
}

/// The linker as cargo chooses it: `RUSTC_LINKER` for build scripts, else the configuration of the target.
fn c_linker() -> Result<Option<PathBuf>, String> {
    let of_target =
        format!("CARGO_TARGET_{}_LINKER", variable("TARGET")?.to_uppercase().replace(['-', '.'], "_"));
    println!("cargo::rerun-if-env-changed={of_target}");
    Ok(env::var_os("RUSTC_LINKER").or_else(|| env::var_os(of_target)).map(PathBuf::from))
}

fn check(guard: &Path) -> Result<(), String> {
    let bytes = fs::read(guard).map_err(|error| format!("{}: {error}", guard.display()))?;
    if !bytes.starts_with(b"\x7fELF") || bytes.len() > MAX_GUARD_BYTES {
        return Err(format!("{}: {} bytes that are no guard", guard.display(), bytes.len()));
    }
    Ok(())
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}
