//! The sandbox of an agent: the places that its CLI needs to write for any task (its state, the run's temporary folder), and
//! those that the user adds. The kernel enforces it (`process::sandbox`) for the CLI and for everything that it starts.

use super::refused;
use crate::harness::level::Level;
use crate::harness::provider::Provider;
use crate::harness::provider::place::resolve;
use ground::error::Error;
use ground::os::{ContainedFolders, HeldFolder, place_below, place_of_folder};
use process::Sandbox;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// The places that an agent may write.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentSandbox {
    /// Its working directory.
    Workspace,
    /// These places instead of the working directory.
    Custom(Sandbox),
}

/// Folders of an agent's run from which its sandbox is made.
pub(crate) struct SandboxPlace<'a> {
    pub cwd: &'a Path,
    pub home: Option<&'a str>,
    /// The part of the run's own folder that the agent may write.
    pub scratch: &'a Path,
    /// Folders that a program in an earlier sandbox could write.
    pub contained: &'a ContainedFolders,
}

impl AgentSandbox {
    pub(crate) fn is_workspace(&self) -> bool {
        *self == AgentSandbox::Workspace
    }

    /// The sandbox for the kernel; at level "plan" none of the user's folders may be written. `state`: places that the CLI
    /// itself must write, created if they are missing.
    ///
    /// # Errors
    /// `INVALID_OPTION` where the working directory is too much to be a workspace.
    pub(crate) fn prepare(
        &self,
        level: Level,
        state: Vec<StatePath>,
        place: &SandboxPlace<'_>,
    ) -> Result<Sandbox, Error> {
        let mut sandbox = match self {
            AgentSandbox::Workspace => Sandbox { write: vec![".".into()], ..Sandbox::default() },
            AgentSandbox::Custom(sandbox) => sandbox.clone(),
        };
        if level == Level::Plan {
            sandbox.write.clear();
        }
        if sandbox.write.iter().any(|path| is_here(path)) {
            check_workspace(place)?;
        }
        for one in &state {
            one.make(place.contained)?;
        }
        let is_folder = |one: &&StatePath| one.is_granted && !one.is_file;
        let folders: Vec<&PathBuf> = state.iter().filter(is_folder).map(|one| &one.path).collect();
        for one in state.iter().filter(|one| one.is_granted) {
            // A state path inside another one is writable already. By now it may be a link that an earlier run of the CLI made.
            if !folders.iter().any(|folder| one.path != **folder && one.path.starts_with(folder)) {
                sandbox.write.push(one.granted(place.contained)?);
            }
        }
        sandbox.write.push(place.scratch.to_owned());
        Ok(sandbox)
    }
}

/// Whether a path says "the working directory" without naming it.
fn is_here(path: &Path) -> bool {
    path.components().all(|part| part == Component::CurDir)
}

/// The whole disk, and the whole home, are a workspace only when they are named.
fn check_workspace(place: &SandboxPlace<'_>) -> Result<(), Error> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let cwd = real(place.cwd);
    let holds_home = place.home.is_some_and(|home| real(Path::new(home)).starts_with(&cwd));
    if cwd != Path::new("/") && !holds_home {
        return Ok(());
    }
    let what = if cwd == Path::new("/") { "the whole disk" } else { "all of your home" };
    let problem = format!(
        "the working directory is {}, so the agent could write {what}: use another `cwd`, or name the folder itself in `sandbox: {{ write: [{:?}] }}` if you mean that",
        cwd.display(),
        cwd.to_string_lossy()
    );
    Err(Error::invalid_option("sandbox", problem))
}

/// A folder, or a file, that a CLI keeps its state in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatePath {
    path: PathBuf,
    is_file: bool,
    /// Whether it may be written in the sandbox.
    is_granted: bool,
}

impl StatePath {
    pub(crate) fn folder(path: PathBuf) -> StatePath {
        StatePath { path, is_file: false, is_granted: true }
    }

    pub(crate) fn file(path: PathBuf) -> StatePath {
        StatePath { is_file: true, ..Self::folder(path) }
    }

    /// Makes the folder, its owner's alone: secrets may come into it.
    pub(crate) fn make(&self, contained: &ContainedFolders) -> Result<(), Error> {
        let made = if self.is_file { Ok(()) } else { HeldFolder::make(&self.path, contained).map(drop) };
        made.map_err(|error| {
            let message = format!(
                "cannot create {}, the state folder of this CLI, for its sandbox: {error}; point HOME, or the variable of the CLI, to a writable folder",
                self.path.display()
            );
            refused(message, "mkdir", &error)
        })
    }

    /// The real path, with links resolved.
    ///
    /// # Errors
    /// `INVALID_OPTION` if the path goes through a link that a program in an earlier sandbox could have made. The CLI's state
    /// then lies in the workspace.
    pub(crate) fn granted(&self, contained: &ContainedFolders) -> Result<PathBuf, Error> {
        let placed = match self.is_file {
            true => place_below(&self.path, contained),
            false => place_of_folder(&self.path, contained),
        };
        match placed {
            Ok(Some(real)) => Ok(real),
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                Err(Error::invalid_option("sandbox", format!("the state of this CLI: {error}")))
            }
            // A link of the user's own may lead elsewhere.
            _ => Ok(self.path.canonicalize().unwrap_or_else(|_| self.path.clone())),
        }
    }
}

/// The state paths of this provider's CLI. Its descriptor writes each path as a shell would, with alternatives separated by
/// `|`: the first whose variable is set counts, and `~` always does. A folder that is only created, and not made writable, ends
/// with `/`. A file ends with `.json`, and is left out if it does not exist. Blocks.
pub(crate) fn state_of(
    provider: Provider,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<StatePath>, Error> {
    let mut state = Vec::new();
    for place in provider.descriptor().state {
        let path = place_of(provider, place, &variable)?;
        let is_file = path.extension().is_some_and(|end| end == "json");
        if !is_file || path.is_file() {
            state.push(StatePath { path, is_file, is_granted: !place.ends_with('/') });
        }
    }
    Ok(state)
}

/// A place of the provider's CLI; `INVALID_OPTION` where the environment does not say where that is.
pub(crate) fn place_of(
    provider: Provider,
    place: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, Error> {
    resolve(place, variable).ok_or_else(|| {
        let problem = format!(
            "the state folder of {} is unknown without HOME in its environment: set HOME",
            provider.as_str()
        );
        Error::invalid_option("sandbox", problem)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::error::ErrorCode;

    fn state(provider: Provider, variables: &[(&str, &str)]) -> Vec<String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let state = state_of(provider, variable).unwrap();
        let granted = state.iter().filter(|place| place.is_granted);
        granted.map(|place| place.path.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn state_is_where_the_environment_says() {
        let home = ("HOME", "/home/me");
        let has = |variables: &[(&str, &str)], path: &str| {
            state(Provider::ClaudeCode, variables).contains(&path.to_owned())
        };
        assert!(has(&[home], "/home/me/.claude/projects"));
        assert!(has(&[home, ("CLAUDE_CONFIG_DIR", "")], "/home/me/.claude/projects"));
        assert!(has(&[home, ("CLAUDE_CONFIG_DIR", "here")], "/home/me/.claude/projects"));
        let moved = [home, ("CLAUDE_CONFIG_DIR", "/x")];
        assert!(has(&moved, "/x/projects") && !has(&moved, "/home/me/.claude/projects"));
        assert!(
            state(Provider::Opencode, &[home, ("XDG_DATA_HOME", "/d")]).contains(&"/d/opencode".to_owned())
        );
    }

    #[test]
    fn no_cli_is_granted_its_home_or_a_folder_of_configuration() {
        for provider in Provider::ALL {
            let state = state(provider, &[("HOME", "/home/me")]);
            assert!(!state.is_empty() || provider.descriptor().own_state.is_some(), "{provider:?}");
            for path in state {
                let has_state_alone = path.starts_with("/home/me/.claude/")
                    || [".cache/", ".local/share/", ".local/state/"].iter().any(|of| path.contains(of));
                assert!(has_state_alone && !path.ends_with(".claude.json"), "{path}");
            }
        }
        assert!(state_of(Provider::ClaudeCode, |_| None).unwrap_err().message().starts_with("sandbox: "));
    }

    #[test]
    fn what_is_missing_is_made_and_what_is_there_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let run = tempfile::tempdir().unwrap();
        let variable = |name: &str| (name == "HOME").then(|| home.path().to_string_lossy().into_owned());
        let prepare = |level| {
            let state = state_of(Provider::ClaudeCode, variable).unwrap();
            let contained = ContainedFolders::default();
            let place =
                SandboxPlace { cwd: run.path(), home: None, scratch: run.path(), contained: &contained };
            AgentSandbox::Workspace.prepare(level, state, &place).unwrap()
        };
        assert!(prepare(Level::Edit).write.contains(&".".into()));
        assert!(!prepare(Level::Plan).write.contains(&".".into()), "\"plan\" reads");
        assert!(home.path().join(".claude/projects").is_dir());
        let login = home.path().join(".claude/.credentials.json");
        assert!(!login.exists() && !prepare(Level::Auto).write.contains(&login), "a file is not made");
        std::fs::write(&login, "mine").unwrap();
        assert!(prepare(Level::Auto).write.contains(&login));
        assert_eq!(std::fs::read_to_string(login).unwrap(), "mine");
        assert!(prepare(Level::Auto).write.contains(&run.path().to_owned()));
    }

    #[test]
    fn a_home_or_the_disk_is_a_workspace_only_when_it_is_named() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let project = home.join("project");
        std::fs::create_dir(&project).unwrap();
        let prepare = |sandbox: &AgentSandbox, level, cwd: &Path| {
            let contained = ContainedFolders::default();
            let place = SandboxPlace { cwd, home: home.to_str(), scratch: &home, contained: &contained };
            sandbox.prepare(level, Vec::new(), &place)
        };
        let custom = |path: &Path| {
            AgentSandbox::Custom(Sandbox { write: vec![path.to_owned()], ..Sandbox::default() })
        };
        let [workspace, here, named] = [AgentSandbox::Workspace, custom(Path::new("./")), custom(&home)];
        for cwd in [home.as_path(), home.parent().unwrap(), Path::new("/")] {
            for sandbox in [&workspace, &here] {
                let error = prepare(sandbox, Level::Edit, cwd).unwrap_err();
                assert_eq!(error.code(), ErrorCode::InvalidOption);
                assert!(error.message().starts_with("sandbox: the working directory is "), "{error:?}");
                assert!(prepare(sandbox, Level::Plan, cwd).is_ok(), "nothing is written at \"plan\"");
            }
            assert!(prepare(&named, Level::Edit, cwd).is_ok());
        }
        assert!(prepare(&workspace, Level::Edit, &project).is_ok());
    }

    #[test]
    fn a_state_is_where_its_link_leads() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let (real, state) = (home.join("dotfiles"), home.join(".claude"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &state).unwrap();
        let variable = |name: &str| {
            let known = [("HOME", &home), ("CLAUDE_CONFIG_DIR", &state)];
            known
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, path)| path.to_string_lossy().into_owned())
        };
        let contained = ContainedFolders::default();
        let place =
            SandboxPlace { cwd: &real, home: None, scratch: Path::new("/run"), contained: &contained };
        let paths = state_of(Provider::ClaudeCode, variable).unwrap();
        let write = AgentSandbox::Workspace.prepare(Level::Plan, paths, &place).unwrap().write;
        assert!(write.contains(&real.join("projects")) && !write.contains(&real), "{write:?}");
    }

    #[test]
    fn a_state_in_the_workspace_is_granted_behind_no_link_that_a_program_could_have_made() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let [work, outside] = ["work", "outside"].map(|name| top.join(name));
        std::fs::create_dir_all(work.join("state")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let variable = |name: &str| {
            let known = [("HOME", &outside), ("CLAUDE_CONFIG_DIR", &work.join("state"))];
            let found = known.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_string_lossy().into_owned())
        };
        let contained = ContainedFolders::of([work.as_path()]);
        let place =
            SandboxPlace { cwd: &work, home: None, scratch: Path::new("/run"), contained: &contained };
        let prepare = || {
            let state = state_of(Provider::ClaudeCode, variable).unwrap();
            AgentSandbox::Workspace.prepare(Level::Plan, state, &place)
        };
        assert!(prepare().unwrap().write.contains(&work.join("state/projects")));
        for (planted, target) in [("state/projects", "."), ("state", "."), ("state", "absent")] {
            let planted = work.join(planted);
            std::fs::remove_dir_all(&planted).or_else(|_| std::fs::remove_file(&planted)).unwrap();
            std::os::unix::fs::symlink(outside.join(target), &planted).unwrap();
            let error = prepare().unwrap_err();
            assert!(error.message().contains("is a symbolic link"), "{}", error.message());
        }
        let made: Vec<_> =
            std::fs::read_dir(&outside).unwrap().flatten().map(|one| one.file_name()).collect();
        assert_eq!(made, [".cache"], "what its own variables name elsewhere is made");
    }
}
