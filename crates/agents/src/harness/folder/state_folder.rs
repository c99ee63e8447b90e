//! A state folder of the run's own, for a CLI that keeps the configuration of later runs beside its sessions.
//!
//! Landlock grants a folder with all that is in it. So a CLI in a sandbox gets a new folder in place of its own one, by the
//! variable that moves it. Each entry of the real folder is a link in the new one. The sandbox leaves the real folder
//! read-only, except for the entries that hold sessions and logins ([`OwnState::written`]). Files that the CLI makes for itself
//! ([`OwnState::anew`]) lie in the new folder, which is removed with the run. This process reads nothing back from it.

use super::refused;
use super::sandbox::{StatePath, place_of};
use crate::harness::provider::OwnState;
use crate::harness::provider::Provider;
use ground::error::Error;
use ground::os::ContainedFolders;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of one attempt, not made yet.
#[derive(Debug)]
pub(crate) struct OwnPlace {
    own: PathBuf,
    folder: PathBuf,
    root: PathBuf,
    state: &'static OwnState,
}

impl OwnPlace {
    /// `below`: where the folder is made. `None`: this CLI has no such state.
    pub(crate) fn of(
        provider: Provider,
        variable: impl Fn(&str) -> Option<String>,
        below: &Path,
    ) -> Result<Option<OwnPlace>, Error> {
        let Some(state) = provider.descriptor().own_state.as_ref() else { return Ok(None) };
        let root = place_of(provider, state.root, &variable)?;
        let own = below.join(format!("state-{}", ground::random::name::<6>()));
        let folder = if state.below.is_empty() { own.clone() } else { own.join(state.below) };
        Ok(Some(OwnPlace { own, folder, root, state }))
    }

    /// The variable that leads the CLI there.
    pub(crate) fn variable(&self) -> (&'static str, String) {
        (self.state.variable, self.own.to_string_lossy().into_owned())
    }

    /// Makes it. Returns what the CLI may write. Blocks.
    pub(crate) fn make(&self, contained: &ContainedFolders) -> Result<Vec<PathBuf>, Error> {
        let not_made = |path: &Path| {
            let text = format!("cannot create {}, a state folder for the sandbox", path.display());
            move |error: io::Error| refused(format!("{text}: {error}"), "mkdir", &error)
        };
        let mut write = vec![self.own.clone()];
        make_new_folder(&self.own).map_err(not_made(&self.own))?;
        if self.folder != self.own {
            make_new_folder(&self.folder).map_err(not_made(&self.folder))?;
        }
        for name in self.state.written {
            let real = self.root.join(name.trim_end_matches('/'));
            let state = match name.ends_with('/') {
                true => StatePath::folder(real.clone()),
                false => StatePath::file(real.clone()),
            };
            state.make(contained)?;
            if real.exists() {
                write.push(state.granted(contained)?);
            }
        }
        let unread = |error: io::Error| {
            let message =
                format!("cannot read {}, the state folder of this CLI: {error}", self.root.display());
            refused(message, "scandir", &error)
        };
        for entry in std::fs::read_dir(&self.root).map_err(unread)? {
            let name = entry.map_err(unread)?.file_name();
            let place = self.folder.join(&name);
            if !self.is_anew(&name) {
                ground::os::link(&self.root.join(&name), &place).map_err(|error| {
                    refused(format!("cannot create {}: {error}", place.display()), "symlink", &error)
                })?;
            }
        }
        Ok(write)
    }

    fn is_anew(&self, name: &OsStr) -> bool {
        let name = name.to_string_lossy();
        self.state.anew.iter().any(|anew| match anew.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => name == *anew,
        })
    }
}

/// Fails where anything has this name.
fn make_new_folder(path: &Path) -> io::Result<()> {
    ground::os::private_folders().create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_linked_and_sessions_alone_are_granted() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let below = tempfile::tempdir().unwrap();
        let real = home.join(".codex");
        std::fs::create_dir(&real).unwrap();
        for name in ["config.toml", "auth.json", "state_5.sqlite", "AGENTS.md"] {
            std::fs::write(real.join(name), name).unwrap();
        }
        let variable = |name: &str| (name == "HOME").then(|| home.to_string_lossy().into_owned());
        let place = OwnPlace::of(Provider::Codex, variable, below.path()).unwrap().unwrap();
        let write = place.make(&ContainedFolders::default()).unwrap();
        let (name, own) = place.variable();
        assert_eq!(name, "CODEX_HOME");
        let own = PathBuf::from(own);
        assert!(own.starts_with(below.path()));
        assert_eq!(std::fs::read_link(own.join("config.toml")).unwrap(), real.join("config.toml"));
        assert_eq!(std::fs::read_link(own.join("sessions")).unwrap(), real.join("sessions"));
        assert!(!own.join("state_5.sqlite").exists(), "it is made anew");
        for granted in [own.as_path(), &real.join("sessions"), &real.join("auth.json")] {
            assert!(write.iter().any(|path| path == granted), "{}", granted.display());
        }
        for kept in [real.as_path(), &real.join("config.toml"), &real.join("AGENTS.md"), &home] {
            assert!(!write.iter().any(|path| kept.starts_with(path)), "{}", kept.display());
        }
        assert!(
            place.make(&ContainedFolders::default()).is_err(),
            "what is there already may be somebody else's"
        );
        let again = OwnPlace::of(Provider::Codex, variable, below.path()).unwrap().unwrap();
        assert_ne!(again.variable().1, place.variable().1, "an attempt finds nothing of the one before");
        // An earlier run may have planted a link there if the state lies in the workspace.
        std::fs::remove_dir_all(real.join("sessions")).unwrap();
        std::os::unix::fs::symlink("/", real.join("sessions")).unwrap();
        let error = again.make(&ContainedFolders::of([home.as_path()])).unwrap_err();
        assert!(error.message().contains("sessions is a symbolic link"), "{}", error.message());
    }

    #[test]
    fn no_cli_may_write_what_it_is_configured_by() {
        for provider in Provider::ALL {
            let Some(own) = &provider.descriptor().own_state else { continue };
            let configures = [
                "config",
                "settings",
                "hooks",
                "AGENTS",
                "CLAUDE",
                "GEMINI",
                "QWEN",
                "mcp",
                "plugins",
                "extensions",
                "skills",
                "commands",
                "agents",
                "rules",
            ];
            for name in own.written {
                assert!(!configures.iter().any(|word| name.starts_with(word)), "{provider:?}: {name}");
            }
        }
    }
}
