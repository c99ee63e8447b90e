//! The sandbox of an agent: where its CLI may write whatever it is asked to do (its state, a temporary folder of the run's own),
//! and what the user adds. The kernel holds it (`process::sandbox`) for the CLI itself and for all that it starts.

use super::level::Level;
use super::provider::Provider;
use crate::error::{Error, ErrorCode};
use crate::process::Sandbox;
use std::path::{Path, PathBuf};

/// What an agent is held in.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentSandbox {
    /// Its working directory.
    Workspace,
    /// In place of the working directory, these.
    Custom(Sandbox),
}

impl AgentSandbox {
    /// For the kernel: at "plan" nothing of the user's may be written. `state`: what the CLI itself must write; `folder`: the run's own. Makes what is missing of the state.
    pub(crate) fn prepare(
        &self,
        level: Level,
        state: Vec<StatePath>,
        folder: &Path,
    ) -> Result<Sandbox, Error> {
        let mut sandbox = match self {
            AgentSandbox::Workspace => Sandbox { write: vec![".".into()], ..Sandbox::default() },
            AgentSandbox::Custom(sandbox) => sandbox.clone(),
        };
        if level == Level::Plan {
            sandbox.write.clear();
        }
        for place in state {
            place.make()?;
            sandbox.write.push(place.path);
        }
        sandbox.write.push(folder.to_owned());
        Ok(sandbox)
    }
}

/// A folder, or a file, that a CLI keeps its state in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatePath {
    path: PathBuf,
    is_file: bool,
}

impl StatePath {
    fn make(&self) -> Result<(), Error> {
        let made = if self.is_file { make_file(&self.path) } else { make_folder(&self.path) };
        made.map_err(|error| {
            let message = format!(
                "cannot create {}, the state folder of this CLI, for its sandbox: {error}; point HOME, or the variable of the CLI, to a writable folder",
                self.path.display()
            );
            Error::new(ErrorCode::ProcessSpawnFailed, message)
        })
    }
}

/// Its owner's alone: secrets may come into it.
fn make_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// An empty object, as the CLI itself would begin it.
fn make_file(path: &Path) -> std::io::Result<()> {
    use std::io::{ErrorKind, Write};
    use std::os::unix::fs::OpenOptionsExt;
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(b"{}\n"),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Where this provider's CLI keeps its state. Its descriptor writes each place as a shell would, alternatives parted by `|`:
/// the first whose variable is set counts, and `~` always does. A file ends with `.json`.
pub(crate) fn state_of(
    provider: Provider,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<StatePath>, Error> {
    // A relative one would be another folder for the CLI than for us.
    let folder = |name: &str| variable(name).filter(|value| value.starts_with('/'));
    let places = provider.descriptor().state.iter().map(|place| {
        let path = resolve(place, &folder).ok_or_else(|| {
            Error::invalid_option(
                "sandbox",
                format!(
                    "the state folder of {} is unknown without HOME in its environment: set HOME",
                    provider.as_str()
                ),
            )
        })?;
        Ok(StatePath { is_file: path.extension().is_some_and(|end| end == "json"), path })
    });
    places.collect()
}

/// A place as a descriptor writes it. `folder`: a variable that names one.
pub(crate) fn resolve(place: &str, folder: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    place.split('|').find_map(|alternative| {
        let (head, rest) = alternative.split_once('/').unwrap_or((alternative, ""));
        let base = folder(head.strip_prefix('$').unwrap_or("HOME"))?;
        Some(if rest.is_empty() { PathBuf::from(base) } else { Path::new(&base).join(rest) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(provider: Provider, variables: &[(&str, &str)]) -> Vec<String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let state = state_of(provider, variable).unwrap();
        state.iter().map(|place| place.path.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn state_is_where_the_environment_says() {
        let home = ("HOME", "/home/me");
        assert_eq!(state(Provider::Codex, &[home]), ["/home/me/.codex"]);
        assert_eq!(state(Provider::Codex, &[home, ("CODEX_HOME", "/x")]), ["/x"]);
        assert_eq!(state(Provider::Codex, &[home, ("CODEX_HOME", "")]), ["/home/me/.codex"]);
        assert_eq!(state(Provider::Codex, &[home, ("CODEX_HOME", "here")]), ["/home/me/.codex"]);
        assert!(state(Provider::ClaudeCode, &[home]).contains(&"/home/me/.claude.json".to_owned()));
        let moved = state(Provider::ClaudeCode, &[home, ("CLAUDE_CONFIG_DIR", "/x")]);
        assert!(
            moved.contains(&"/x/.claude.json".to_owned())
                && !moved.contains(&"/home/me/.claude.json".to_owned())
        );
        assert!(
            state(Provider::Opencode, &[home, ("XDG_DATA_HOME", "/d")]).contains(&"/d/opencode".to_owned())
        );
    }

    #[test]
    fn every_cli_has_a_state_and_none_is_the_home_itself() {
        for provider in Provider::ALL {
            let state = state(provider, &[("HOME", "/home/me")]);
            assert!(!state.is_empty(), "{provider:?}");
            assert!(state.iter().all(|path| path.starts_with("/home/me/.")), "{state:?}");
        }
        assert!(state_of(Provider::Codex, |_| None).unwrap_err().message().starts_with("sandbox: "));
    }

    #[test]
    fn what_is_missing_is_made_and_what_is_there_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let run = tempfile::tempdir().unwrap();
        let variable = |name: &str| (name == "HOME").then(|| home.path().to_string_lossy().into_owned());
        let prepare = |level| {
            let state = state_of(Provider::ClaudeCode, variable).unwrap();
            AgentSandbox::Workspace.prepare(level, state, run.path()).unwrap()
        };
        assert!(prepare(Level::Edit).write.contains(&".".into()));
        assert!(!prepare(Level::Plan).write.contains(&".".into()), "\"plan\" reads");
        assert!(home.path().join(".claude").is_dir());
        std::fs::write(home.path().join(".claude.json"), "mine").unwrap();
        assert!(prepare(Level::Auto).write.contains(&run.path().to_owned()));
        assert_eq!(std::fs::read_to_string(home.path().join(".claude.json")).unwrap(), "mine");
    }
}
