//! Finds an agent's program, and the file of its package that is the agent itself.
//!
//! Some of the CLIs are a small launcher that starts the agent as its child: a signal to the launcher misses the agent, and
//! two processes do the work of one. Where the package is laid out as its provider knows, the agent is started itself.

use crate::harness::launch::package::Program;
use crate::harness::launch::path_text;
use crate::harness::provider::Provider;
use ground::os::{PATH_SEPARATOR, is_executable, is_path, program_files, real_path};
use std::path::{Path, PathBuf};

/// The program to start for `provider`: `binary` (program and leading arguments) if given, else what is on `path`. `None`:
/// there is none on `path`.
pub fn locate(provider: Provider, binary: Option<&[String]>, path: &str) -> Option<Program> {
    let (command, arguments) = match binary {
        Some([command, arguments @ ..]) => (command.clone(), arguments.to_vec()),
        _ => (provider.descriptor().program.to_owned(), Vec::new()),
    };
    let file = find(&command, path);
    if binary.is_none() && file.is_none() {
        return None;
    }
    let agent = if arguments.is_empty() {
        file.as_deref().and_then(|file| behind_launcher(provider, file))
    } else {
        None
    };
    let command = match (&file, binary) {
        (Some(file), None) => file.to_string_lossy().into_owned(),
        _ => command,
    };
    Some(agent.unwrap_or(Program { command, arguments, ..Program::default() }))
}

/// The file that a command names: a path as it is, a name by PATH.
pub fn find(command: &str, path: &str) -> Option<PathBuf> {
    if is_path(command) {
        return program_files(PathBuf::from(command)).into_iter().find(|file| file.is_file());
    }
    let folders = std::env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty());
    folders.flat_map(|folder| program_files(folder.join(command))).find(|file| is_executable(file))
}

/// The end of a message about a program that was searched in [`packages_around`] too.
pub(crate) const NOR_AROUND: &str =
    ", nor in node_modules/.bin of the working directory and the folders above it";

/// The folders of programs of the packages in `cwd` and above it, as a search path.
pub(crate) fn packages_around(cwd: &Path) -> String {
    let folders: Vec<String> =
        cwd.ancestors().map(|folder| path_text(&folder.join("node_modules").join(".bin"))).collect();
    folders.join(PATH_SEPARATOR)
}

/// The advice to use a program among these packages, as the end of a message; empty where there is none. Such a program is not
/// started by itself, because it belongs to the folder that the agent works in.
pub(crate) fn advice_of_packages(command: &str, cwd: Option<&Path>) -> String {
    let found = here(cwd).and_then(|cwd| find(command, &packages_around(&cwd)));
    found.map_or_else(String::new, |file| format!(". If you trust {}, name it in `binary`", file.display()))
}

/// This working directory, or that of the process.
pub(super) fn here(cwd: Option<&Path>) -> Option<PathBuf> {
    cwd.map(Path::to_owned).or_else(|| std::env::current_dir().ok())
}

fn behind_launcher(provider: Provider, file: &Path) -> Option<Program> {
    let behind_launcher = provider.descriptor().behind_launcher?;
    let file = process::file_behind(file).unwrap_or_else(|| file.to_owned());
    behind_launcher(&real_path(&file).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::launch::package::npm_platform;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn program(root: &Path, path: &str) -> PathBuf {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    #[test]
    fn the_agent_behind_a_launcher_is_started_itself() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (system, machine) = npm_platform();
        let cases = [
            (
                Provider::Copilot,
                "codex",
                "@github/copilot/npm-loader.js",
                format!("@github/copilot-{system}-{machine}/copilot"),
            ),
            (
                Provider::Qwen,
                "qwen",
                "@qwen-code/qwen-code/cli-entry.js",
                "@qwen-code/qwen-code/cli.js".to_owned(),
            ),
            (
                Provider::Gemini,
                "gemini",
                "@google/gemini-cli/bundle/gemini.js",
                "@google/gemini-cli/bundle/gemini.js".to_owned(),
            ),
        ];
        for (provider, name, launcher, agent) in cases {
            let launcher = program(&root, &format!("node_modules/{launcher}"));
            let agent = program(&root, &format!("node_modules/{agent}"));
            let bin = root.join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            let link = bin.join(if provider == Provider::Copilot { "copilot" } else { name });
            symlink(&launcher, &link).unwrap();
            let found = locate(provider, None, &bin.to_string_lossy()).unwrap();
            let agent = agent.to_string_lossy().into_owned();
            assert!(found.command == agent || found.arguments.last() == Some(&agent), "{found:?}");
            let given = locate(provider, Some(&[link.to_string_lossy().into_owned()]), "").unwrap();
            assert_eq!(given, found);
        }
    }

    #[test]
    fn a_binary_that_is_given_with_arguments_is_taken_as_it_is() {
        let given = ["node".to_owned(), "fake.mjs".to_owned()];
        let found = locate(Provider::Codex, Some(&given), "/nowhere").unwrap();
        assert_eq!((found.command.as_str(), found.arguments.as_slice()), ("node", &given[1..]));
    }

    #[test]
    fn a_program_among_the_packages_of_a_folder_is_named() {
        let root = tempfile::tempdir().unwrap();
        let file = program(root.path(), "node_modules/.bin/codex");
        let below = root.path().join("a/b");
        let advice = advice_of_packages("codex", Some(&below));
        assert_eq!(advice, format!(". If you trust {}, name it in `binary`", file.display()));
        assert_eq!(advice_of_packages("no-such-program", Some(&below)), "");
    }

    #[test]
    fn what_is_not_on_path_is_not_found() {
        assert_eq!(locate(Provider::Pi, None, "/nowhere:/also/nowhere"), None);
    }
}
