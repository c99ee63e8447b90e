//! A program, and the layout of the npm package that contains it.

use std::path::{Path, PathBuf};

/// A program with its leading arguments, and what has to be in its environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    pub command: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// A folder to put before PATH.
    pub path_before: Option<String>,
}

/// Loaded before a script, it has what that prints written when it is printed. Node writes to a pipe in its own time, and a CLI
/// that ends by `process.exit` loses what has not gone out by then: all above what the pipe holds. No `?` may stand in it.
const WHOLE_OUTPUT: &str = "--import=data:text/javascript,process.stdout._handle&&process.stdout._handle.setBlocking&&process.stdout._handle.setBlocking(true)";

/// A script that ends before its pipe is read, run by node so that nothing of its output is lost.
pub(crate) fn whole_script(file: &Path) -> Program {
    Program {
        command: "node".into(),
        arguments: vec![WHOLE_OUTPUT.into(), file.to_string_lossy().into_owned()],
        ..Program::default()
    }
}

/// The folder of the package `scope/name` that holds `file`.
pub(crate) fn package<'a>(file: &'a Path, scope: &str, name: &str) -> Option<&'a Path> {
    file.ancestors().skip(1).find(|folder| {
        folder.file_name().is_some_and(|last| last == name)
            && folder.parent().and_then(Path::file_name).is_some_and(|last| last == scope)
    })
}

/// Folders in which npm may put the platform's package: beside the launcher's, or inside it.
pub(crate) fn siblings(root: &Path, scope: &str, name: &str) -> Vec<PathBuf> {
    let beside = root.parent().map(|scope| scope.join(name));
    let inside = root.join("node_modules").join(scope).join(name);
    beside.into_iter().chain([inside]).collect()
}

/// npm's names for this system and this processor.
pub(crate) fn npm_platform() -> (&'static str, &'static str) {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        _ => "linux",
    };
    let machine = if std::env::consts::ARCH == "aarch64" { "arm64" } else { "x64" };
    (system, machine)
}
