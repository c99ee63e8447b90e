//! Makes the room of an agent's program: its folder, the files that it starts with, and its sandbox.

use super::AgentRequest;
use crate::harness::folder::sandbox::{SandboxPlace, state_of};
use crate::harness::folder::state_folder::OwnPlace;
use crate::harness::folder::{RunFolder, refused};
use crate::harness::spending::Accounting;
use ground::error::{Error, ErrorCode};
use ground::os::ContainedFolders;
use process::Sandbox;
use std::path::{Path, PathBuf};

impl AgentRequest {
    /// A folder of the run's own, where the request's environment has such things.
    pub(crate) async fn run_folder(&self) -> Result<RunFolder, Error> {
        let (places, contained) = (self.folder_places(), self.sandboxed_folders());
        blocking(move || RunFolder::create(&places, &contained)).await
    }

    /// The state folder that the agent gets in a sandbox, not made yet.
    pub(crate) fn own_place(&self, folder: &RunFolder) -> Result<Option<OwnPlace>, Error> {
        match &self.sandbox {
            Some(_) => OwnPlace::of(self.provider, |name| self.variable(name), folder.path()),
            None => Ok(None),
        }
    }

    /// Writes the files, and makes the folders that the sandbox names. Returns the sandbox. `accounting`: what the agent itself reports.
    pub(crate) async fn make_room(
        &self,
        accounting: Accounting,
        folder: &RunFolder,
        cwd: PathBuf,
        own: Option<OwnPlace>,
        files: Vec<(PathBuf, String)>,
    ) -> Result<Option<Sandbox>, Error> {
        let sandbox = match self.own_sandbox(accounting) {
            Some(sandbox) => Some((sandbox, state_of(self.provider, |name| self.variable(name))?)),
            None => None,
        };
        let (level, home, contained) = (self.level, self.variable("HOME"), self.contained());
        let (held, scratch) = (folder.again(), folder.scratch().to_owned());
        blocking(move || {
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
        })
        .await
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
