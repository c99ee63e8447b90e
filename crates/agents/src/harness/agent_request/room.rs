//! Makes the room of an agent's program: its folder, the files that it starts with, and its sandbox.

use super::AgentRequest;
use crate::harness::folder::sandbox::{SandboxPlace, state_of};
use crate::harness::folder::state_folder::OwnPlace;
use crate::harness::folder::{RunFolder, refused};
use crate::harness::launch::Launch;
use crate::harness::spending::Accounting;
use ground::error::{Error, ErrorCode};
use ground::os::ContainedFolders;
use std::path::{Path, PathBuf};

impl AgentRequest {
    /// A folder of the run's own, where the request's environment has such things.
    pub(crate) async fn run_folder(&self) -> Result<RunFolder, Error> {
        let (places, contained) = (self.folder_places(), self.sandboxed_folders());
        blocking(move || RunFolder::create(&places, &contained)).await
    }

    /// Writes the files of the launch, and makes its sandbox and the folders that this names. `accounting`: the agent's own reports
    /// of its usage.
    pub(crate) async fn make_room(
        &self,
        accounting: Accounting,
        folder: &RunFolder,
        cwd: PathBuf,
        launch: &mut Launch,
    ) -> Result<(), Error> {
        // In a sandbox the agent gets a state folder of its own.
        let own = match &self.sandbox {
            Some(_) => OwnPlace::of(self.provider, |name| self.variable(name), folder.path())?,
            None => None,
        };
        if let Some((name, value)) = own.as_ref().map(OwnPlace::variable) {
            launch.hold(name, &value);
        }
        let files = std::mem::take(&mut launch.files);
        let sandbox = match self.own_sandbox(accounting) {
            Some(sandbox) => Some((sandbox, state_of(self.provider, |name| self.variable(name))?)),
            None => None,
        };
        let (level, home, contained) = (self.level, self.variable("HOME"), self.contained());
        let (held, scratch) = (folder.again(), folder.scratch().to_owned());
        let made = blocking(move || {
            let held = held.map_err(|error| unwritten(&scratch, &error))?;
            for (path, text) in files {
                held.write(&path, &text).map_err(|error| unwritten(&path, &error))?;
            }
            let contained = ContainedFolders::of(contained.iter().map(PathBuf::as_path));
            let place =
                SandboxPlace { cwd: &cwd, home: home.as_deref(), scratch: &scratch, contained: &contained };
            let Some((sandbox, state)) = sandbox else { return Ok(None) };
            let mut sandbox = sandbox.prepare(level, state, &place)?;
            if let Some(own) = own {
                sandbox.write.extend(own.make(&contained)?);
            }
            Ok(Some(sandbox))
        });
        launch.sandbox = made.await?;
        Ok(())
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Error {
    let message = format!("{} could not be written: {error}", path.display());
    refused(message, "open", error)
}

/// Work on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = ground::os::blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(Error::new(ErrorCode::ProcessSpawnFailed, "the addon's threads are shutting down"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::folder::sandbox::AgentSandbox;
    use crate::harness::provider::Provider;
    use process::EnvironmentBase;

    #[tokio::test]
    async fn a_room_has_its_files_and_a_state_folder_that_the_sandbox_lets_it_write() {
        let root = tempfile::tempdir().unwrap();
        let [home, cwd, temporary] = ["home", "work", "tmp"].map(|name| root.path().join(name));
        for folder in [&home.join(".gemini/tmp"), &cwd, &temporary] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let mut agent = AgentRequest::new(Provider::Gemini);
        agent.cwd = Some(cwd.clone());
        agent.environment.base = EnvironmentBase::Empty;
        let variable =
            |name: &str, folder: &Path| (name.to_owned(), Some(folder.to_str().unwrap().to_owned()));
        agent.environment.changes = vec![variable("HOME", &home), variable("TMPDIR", &temporary)];
        for sandbox in [None, Some(AgentSandbox::Workspace)] {
            agent.sandbox = sandbox;
            let folder = agent.run_folder().await.unwrap();
            let file = folder.path().join("file");
            let mut launch = Launch::default();
            launch.files.push((file.clone(), "text".to_owned()));
            agent.make_room(Accounting::Nothing, &folder, cwd.clone(), &mut launch).await.unwrap();
            let state = launch.held.first().map(|(_, folder)| PathBuf::from(folder));
            let made = launch.sandbox;
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
            assert_eq!((made.is_some(), state.is_some()), (agent.sandbox.is_some(), agent.sandbox.is_some()));
            if let (Some(made), Some(state)) = (made, state) {
                assert!(state.is_dir() && state.starts_with(folder.path()));
                assert!(made.write.iter().any(|path| path.starts_with(&state)), "{:?}", made.write);
            }
        }
    }
}
