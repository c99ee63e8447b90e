//! PURE book of a session's artifacts on their way home: found, asked for, answered, on the wire, arrived.
//!
//! ```text
//! found -> queued --(fewer than 8 unanswered)--> asked --answer--> uploading --> delivered
//!                                                     --decline, end--> undelivered (with a reason)
//! ```
//! Answers are matched by id, or by the full path of a request that is open. Never by basename: two directories can
//! hold files of one name, and a client must not be able to name any file of this machine.

use super::wire::client_message::{UploadDecline, UploadResponse};
use super::wire::runtime_message::{Undelivered, UploadResult, UploadStatus};
use ground::os::FileStamp;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};

/// Requests that may be unanswered at a time: what clients with small queues can take.
pub const MAX_UNANSWERED: usize = 8;
/// Uploads at a time. A file is asked for when its turn comes: a presigned URL may live for a second only.
pub const PARALLEL_UPLOADS: usize = 8;

/// A file that should get home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The last part of the path.
    pub filename: String,
    /// As the client knows it: its directory, joined with the part below.
    pub filepath: String,
    /// As the system knows it.
    pub path: PathBuf,
    pub stamp: FileStamp,
    /// Told to the client with the request.
    pub warning: Option<String>,
}

/// An answered request: what to send where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    pub id: u64,
    pub artifact: Artifact,
    pub url: String,
    pub content_type: String,
}

/// The facts about a file that was uploaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uploaded {
    /// Size and modification time of the file when it was opened for the last attempt.
    pub stamp: FileStamp,
    /// Length of the content that was sent, in bytes.
    pub bytes: u64,
    /// SHA-256 of the content that was sent, in hexadecimal.
    pub sha256: String,
    pub attempts: u32,
    /// The file changed while it was sent, each time.
    pub torn: bool,
}

/// The reason why a file was not sent, worded for the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadFailure {
    pub reason: String,
    pub attempts: u32,
    pub kind: FailureKind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureKind {
    #[default]
    Final,
    /// The store refuses the URL, which may be too old by now.
    Refused,
    /// The file is not there any more. Programs save by another name, and rename the file.
    Gone,
}

/// The reason why a client's answer is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No open request has this id or path.
    NotAsked,
}

#[derive(Debug, Default)]
pub struct ArtifactBook {
    queued: VecDeque<Artifact>,
    asked: BTreeMap<u64, Artifact>,
    uploading: BTreeMap<u64, Artifact>,
    /// The stamp of the content that the client has, for each delivered file.
    sent: HashMap<PathBuf, FileStamp>,
    undelivered: Vec<Undelivered>,
    /// Files of which a URL was refused.
    asked_again: HashSet<PathBuf>,
    delivered: u64,
    last_id: u64,
}

impl ArtifactBook {
    /// A finished content. One that waits for an answer is replaced: what is sent is the file as it is then.
    pub fn found(&mut self, artifact: Artifact) {
        if self.sent.get(&artifact.path) == Some(&artifact.stamp) {
            return;
        }
        // By the system's path: what a client is told of two names that are no text may be the same.
        let same = |other: &&mut Artifact| other.path == artifact.path;
        let waiting = self.queued.iter_mut().find(same).or_else(|| self.asked.values_mut().find(same));
        match waiting {
            Some(waiting) => *waiting = artifact,
            None => self.queued.push_back(artifact),
        }
    }

    /// The next file to ask for, while the limits allow. A file being uploaded is not asked for until it has arrived.
    pub fn ask(&mut self) -> Option<(String, Artifact)> {
        if self.asked.len() >= MAX_UNANSWERED || self.asked.len() + self.uploading.len() >= PARALLEL_UPLOADS {
            return None;
        }
        let busy = |path: &Path| self.uploading.values().any(|other| other.path == path);
        let at = self.queued.iter().position(|artifact| !busy(&artifact.path))?;
        let artifact = self.queued.remove(at)?;
        self.last_id += 1;
        self.asked.insert(self.last_id, artifact.clone());
        Some((upload_id(self.last_id), artifact))
    }

    /// Accepts the client's answer to an upload request.
    ///
    /// # Errors
    /// When no open request has the id or path that the answer names.
    pub fn answer(&mut self, response: UploadResponse) -> Result<Upload, Refused> {
        let id = self.asked_as(response.upload_id.as_deref(), &response.filepath).ok_or(Refused::NotAsked)?;
        let artifact = self.asked.remove(&id).ok_or(Refused::NotAsked)?;
        self.uploading.insert(id, artifact.clone());
        Ok(Upload { id, artifact, url: response.presigned_url, content_type: response.content_type })
    }

    /// The client does not want a file. True when it had been asked.
    pub fn decline(&mut self, decline: &UploadDecline) -> bool {
        let Some(id) = self.asked_as(decline.upload_id.as_deref(), &decline.filepath) else { return false };
        if let Some(artifact) = self.asked.remove(&id) {
            let reason = if decline.reason.is_empty() { "declined by the client" } else { &decline.reason };
            self.miss(artifact.filepath, reason.to_owned());
        }
        true
    }

    fn asked_as(&self, upload_id: Option<&str>, filepath: &str) -> Option<u64> {
        let (&id, _) = self.asked.iter().find(|(id, artifact)| {
            artifact.filepath == filepath && upload_id.is_none_or(|given| given == self::upload_id(**id))
        })?;
        Some(id)
    }

    /// Records the end of an upload. Returns the message for the client, if there is one.
    pub fn uploaded(&mut self, id: u64, outcome: Result<Uploaded, UploadFailure>) -> Option<UploadResult> {
        let artifact = self.uploading.remove(&id)?;
        let kind = outcome.as_ref().err().map(|failure| failure.kind);
        if kind == Some(FailureKind::Refused) && self.asked_again.insert(artifact.path.clone()) {
            // A newer content of it waits already.
            if !self.queued.iter().any(|other| other.path == artifact.path) {
                self.queued.push_front(artifact);
            }
            return None;
        }
        let mut result = UploadResult {
            upload_id: upload_id(id),
            filename: artifact.filename,
            filepath: artifact.filepath,
            status: UploadStatus::Failed,
            bytes: None,
            sha256: None,
            attempts: 0,
            error: None,
            warning: artifact.warning,
        };
        match outcome {
            Ok(uploaded) => {
                self.delivered += 1;
                self.undelivered.retain(|file| file.path != result.filepath);
                // The file may have changed during the upload. Then the queued entry is the newer content and stays queued.
                self.queued.retain(|other| other.path != artifact.path || other.stamp != uploaded.stamp);
                self.sent.insert(artifact.path, uploaded.stamp);
                result.status = UploadStatus::Uploaded;
                result.bytes = Some(uploaded.bytes);
                result.sha256 = Some(uploaded.sha256);
                result.attempts = uploaded.attempts;
                if uploaded.torn {
                    result.warning.get_or_insert_with(|| "the file changed while it was sent".to_owned());
                }
            }
            Err(failure) => {
                if failure.kind != FailureKind::Gone {
                    self.miss(result.filepath.clone(), failure.reason.clone());
                }
                result.attempts = failure.attempts;
                result.error = Some(failure.reason);
            }
        }
        Some(result)
    }

    fn miss(&mut self, path: String, reason: String) {
        self.undelivered.retain(|file| file.path != path);
        self.undelivered.push(Undelivered { path, reason });
    }

    /// Found or asked for, but without an answer.
    pub fn unanswered(&self) -> usize {
        self.queued.len() + self.asked.len()
    }

    pub fn uploading(&self) -> usize {
        self.uploading.len()
    }

    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// All files that were not delivered. A file that is still on its way gets the reason that the time is up.
    pub fn undelivered(&self, still_written: impl IntoIterator<Item = String>) -> Vec<Undelivered> {
        let late =
            |path: &str, reason: &str| Undelivered { path: path.to_owned(), reason: reason.to_owned() };
        let mut all = self.undelivered.clone();
        all.extend(
            self.uploading
                .values()
                .map(|artifact| late(&artifact.filepath, "the upload had not ended in time")),
        );
        all.extend(
            self.asked
                .values()
                .map(|artifact| late(&artifact.filepath, "the client did not answer the request")),
        );
        all.extend(
            self.queued
                .iter()
                .map(|artifact| late(&artifact.filepath, "there was no time left to ask for it")),
        );
        all.extend(still_written.into_iter().map(|path| late(&path, "the file was still open for writing")));
        all
    }
}

fn upload_id(id: u64) -> String {
    format!("upload-{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(filepath: &str) -> Artifact {
        Artifact {
            filename: filepath.rsplit('/').next().unwrap().to_owned(),
            filepath: filepath.to_owned(),
            path: PathBuf::from("/root").join(filepath),
            stamp: FileStamp::default(),
            warning: None,
        }
    }

    fn response(id: Option<&str>, filepath: &str) -> UploadResponse {
        UploadResponse {
            upload_id: id.map(str::to_owned),
            filepath: filepath.to_owned(),
            ..UploadResponse::default()
        }
    }

    #[test]
    fn rule_7_at_most_eight_are_unanswered() {
        let mut book = ArtifactBook::default();
        (0..100).for_each(|number| book.found(artifact(&format!("out/{number}"))));
        let asked: Vec<_> = std::iter::from_fn(|| book.ask()).collect();
        assert_eq!(asked.len(), MAX_UNANSWERED);
        let upload = book.answer(response(None, "out/3")).unwrap();
        assert_eq!(book.ask(), None);
        assert_eq!((book.unanswered(), book.uploading()), (99, 1));
        book.uploaded(upload.id, Ok(Uploaded::default())).unwrap();
        assert_eq!(book.ask().unwrap().1.filepath, "out/8");
    }

    #[test]
    fn a_url_is_asked_for_when_the_turn_of_its_file_comes_and_again_once_when_it_was_refused() {
        let mut book = ArtifactBook::default();
        (0..PARALLEL_UPLOADS + 1).for_each(|number| book.found(artifact(&format!("{number}"))));
        while book.ask().is_some() {}
        let uploads: Vec<Upload> = (0..PARALLEL_UPLOADS)
            .map(|number| book.answer(response(None, &number.to_string())).unwrap())
            .collect();
        assert_eq!(book.ask(), None, "its URL would wait for a place");
        let refused = || UploadFailure { kind: FailureKind::Refused, ..UploadFailure::default() };
        assert_eq!(book.uploaded(uploads[3].id, Err(refused())), None);
        assert_eq!(book.ask().unwrap().1.filepath, "3");
        let again = book.answer(response(None, "3")).unwrap();
        assert!(book.uploaded(again.id, Err(refused())).is_some());
        assert_eq!(book.undelivered([]).iter().filter(|file| file.path == "3").count(), 1);
        // A file that was there for a moment is not missed.
        let gone = UploadFailure { kind: FailureKind::Gone, ..UploadFailure::default() };
        assert!(book.uploaded(uploads[4].id, Err(gone)).is_some());
        assert!(book.undelivered([]).iter().all(|file| file.path != "4"));
    }

    #[test]
    fn rule_7_files_of_one_name_are_not_mixed_up() {
        let mut book = ArtifactBook::default();
        book.found(artifact("a/same.txt"));
        book.found(artifact("b/same.txt"));
        let (first, _) = book.ask().unwrap();
        book.ask().unwrap();
        assert_eq!(book.answer(response(None, "b/same.txt")).unwrap().artifact.filepath, "b/same.txt");
        assert_eq!(
            book.answer(response(Some(&first), "a/same.txt")).unwrap().artifact.filepath,
            "a/same.txt"
        );
    }

    #[test]
    fn rule_7_an_answer_that_was_not_asked_for_is_refused() {
        let mut book = ArtifactBook::default();
        assert_eq!(book.answer(response(None, "/etc/passwd")), Err(Refused::NotAsked));
        book.found(artifact("out/a"));
        let (id, _) = book.ask().unwrap();
        for wrong in [
            response(None, "out/../../etc/passwd"),
            response(Some(&id), "/etc/passwd"),
            response(Some("upload-99"), "out/a"),
            response(None, "a"),
        ] {
            assert_eq!(book.answer(wrong.clone()), Err(Refused::NotAsked), "{wrong:?}");
        }
        book.answer(response(None, "out/a")).unwrap();
        assert_eq!(book.answer(response(None, "out/a")), Err(Refused::NotAsked), "the same answer twice");
    }

    #[test]
    fn rule_6_a_file_that_changed_while_it_was_sent_is_asked_for_when_it_has_arrived() {
        let mut book = ArtifactBook::default();
        book.found(artifact("out/a"));
        book.ask().unwrap();
        book.found(artifact("out/a"));
        assert_eq!(book.unanswered(), 1, "not sent yet: the answer is for the newest content");
        let upload = book.answer(response(None, "out/a")).unwrap();
        book.found(Artifact { stamp: FileStamp { bytes: 9, ..FileStamp::default() }, ..artifact("out/a") });
        assert_eq!(book.ask(), None);
        book.uploaded(upload.id, Ok(Uploaded::default())).unwrap();
        assert!(book.ask().is_some());
    }

    #[test]
    fn rule_6_a_content_that_is_home_is_not_asked_for_again() {
        let stamp = FileStamp { bytes: 5, modified_nanos: 5, ..FileStamp::default() };
        let changed = Artifact { stamp, ..artifact("out/a") };
        let mut book = ArtifactBook::default();
        book.found(artifact("out/a"));
        book.ask().unwrap();
        let upload = book.answer(response(None, "out/a")).unwrap();
        book.found(changed.clone());
        // The change came in time: what was sent in the end is the new content.
        book.uploaded(upload.id, Ok(Uploaded { stamp, ..Uploaded::default() })).unwrap();
        assert_eq!((book.ask(), book.unanswered()), (None, 0));
        book.found(changed);
        assert_eq!(book.ask(), None, "told of late");
        book.found(Artifact { stamp: FileStamp { bytes: 6, ..stamp }, ..artifact("out/a") });
        assert!(book.ask().is_some());
    }

    #[test]
    fn rule_9_what_did_not_get_home_is_named_with_a_reason() {
        let mut book = ArtifactBook::default();
        ["declined", "failed", "slow", "mute"].into_iter().for_each(|name| book.found(artifact(name)));
        while book.ask().is_some() {}
        assert!(book.decline(&UploadDecline { filepath: "declined".into(), ..UploadDecline::default() }));
        let failed = book.answer(response(None, "failed")).unwrap();
        book.answer(response(None, "slow")).unwrap();
        let failure = UploadFailure { reason: "status 403".into(), attempts: 1, ..UploadFailure::default() };
        let fate = book.uploaded(failed.id, Err(failure)).unwrap();
        assert_eq!((fate.status, fate.error.as_deref()), (UploadStatus::Failed, Some("status 403")));
        (0..8).for_each(|number| book.found(artifact(&format!("{number}"))));
        while book.ask().is_some() {}
        let named = book.undelivered(["open".to_owned()]);
        let reason = |path: &str| named.iter().find(|file| file.path == path).unwrap().reason.clone();
        assert_eq!(named.len(), 13);
        assert_eq!(reason("declined"), "declined by the client");
        assert_eq!(reason("failed"), "status 403");
        assert!(reason("slow").contains("upload"));
        assert!(reason("mute").contains("answer"));
        assert!(reason("7").contains("no time"));
        assert!(reason("open").contains("open for writing"));
        assert_eq!(book.delivered(), 0);
        // A later content of the same file makes good for the failed one.
        book.found(artifact("declined"));
        assert_eq!(book.undelivered([]).iter().filter(|file| file.path == "failed").count(), 1);
    }
}
