//! The session's files: finding them, requesting URLs for them and uploading them.

use super::{Session, SessionEvent};
use crate::artifact::{Artifact, UploadFailure, Uploaded};
use crate::request::NewRoot;
use crate::wire::capability::Capability;
use crate::wire::client_message::ArtifactDirs;
use crate::wire::reply;
use ground::text::told;
use std::path::Path;
use tokio::time::Instant;
use wires::watch::{FoundFile, Sweep, TreeWatch, WatchSpec};

impl Session {
    /// The directories that this session does not watch yet, with their numbers.
    pub(super) fn new_roots(&mut self, dirs: ArtifactDirs) -> Vec<NewRoot> {
        let mut new_roots = Vec::new();
        for directory in dirs.dirs {
            if !self.files.root_names.insert(directory.clone()) {
                continue;
            }
            new_roots.push(NewRoot {
                number: self.files.roots.len(),
                directory: directory.clone(),
                ignore: dirs.ignore.clone(),
            });
            self.files.roots.push(Some(directory));
        }
        if !new_roots.is_empty() && self.files.watch.is_none() {
            self.files.watch = Some(TreeWatch::start(WatchSpec::default()));
        }
        new_roots
    }

    pub(super) fn on_found(&mut self, file: FoundFile) {
        self.files.written.retain(|written| written.path != file.path);
        self.take(&file, None);
    }

    pub(super) fn take(&mut self, file: &FoundFile, warning: Option<&str>) {
        let Some(Some(root)) = self.files.roots.get(file.root) else { return };
        let Some(filename) = file.relative.file_name() else { return };
        self.files.artifacts.found(Artifact {
            filename: told(filename.as_encoded_bytes()),
            filepath: told(Path::new(root).join(&file.relative).as_os_str().as_encoded_bytes()),
            path: file.path.clone(),
            stamp: file.stamp,
            warning: warning.map(str::to_owned),
        });
    }

    /// Starts a sweep of all directories and returns its number.
    pub(super) fn look(&mut self) -> u64 {
        let Some((watch, _)) = &self.files.watch else { return self.files.sweeps_done };
        let (watch, events) = (watch.clone(), self.files.swept.clone());
        self.files.sweeps_started += 1;
        self.files.last_sweep = Instant::now();
        ground::task::spawn(async move {
            // The sweep of a watch that has ended is empty.
            let sweep = watch.sweep().await.unwrap_or_default();
            let _ = events.send(SessionEvent::Swept(sweep)).await;
        });
        self.files.sweeps_started
    }

    pub(super) fn on_swept(&mut self, sweep: Sweep) {
        self.files.sweeps_done += 1;
        // Files that were reported before the sweep are older than its result, so they are taken first.
        while let Some(file) = self.files.watch.as_mut().and_then(|(_, found)| found.try_recv().ok()) {
            self.take(&file, None);
        }
        sweep.finished.iter().for_each(|file| self.take(file, None));
        let taken = self.ending.as_ref().is_some_and(|ending| ending.taken_open_files);
        self.files.written = if taken { Vec::new() } else { sweep.writing };
    }

    pub(super) fn note_progress(&mut self) {
        if let Some(deciding) = self.requests.running.as_mut().and_then(|running| running.deciding.as_mut()) {
            deciding.last_progress = Instant::now();
        }
    }

    pub(super) fn on_uploaded(&mut self, id: u64, outcome: Result<Uploaded, UploadFailure>) {
        if let Some(result) = self.files.artifacts.uploaded(id, outcome)
            && self.client.capabilities.has(Capability::ArtifactUploadResult)
        {
            self.client.outbox.push_tagged(reply::upload_result(result));
        }
    }

    pub(super) fn path_of(&self, file: &FoundFile) -> String {
        let root = self.files.roots.get(file.root).and_then(Option::as_deref).unwrap_or_default();
        told(Path::new(root).join(&file.relative).as_os_str().as_encoded_bytes())
    }
}
