//! Moves an agent's session with its job: the CLI's files for it are stored as one object per attempt, and unpacked before a turn
//! that resumes the session elsewhere.
//!
//! They are stored while the agent works too, a little behind it, because a killed worker stores nothing more. At the end of
//! the turn they are stored once more, complete. The record names the object, so the object of a fenced worker is never used.
//! Under the session's own name the store keeps the id of its job, for later jobs that resume the session. If a machine has
//! more of a session than the store (the session ran there last), the machine's own files are kept.

use crate::engine::{RetryFor, Shared};
use crate::name::session_object;
use agents::harness::{SessionPlace, TurnRequest};
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use ground::os::on_disk;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;

/// A longer session stays where it is.
const MAX_BYTES: u64 = 64 << 20;
/// An object that is being replaced is torn for a moment.
const TRIES: u32 = 5;
const TRY_EVERY: Duration = Duration::from_millis(200);

/// The first line of the object. The files follow without separators.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Contents {
    /// The working directory of the turn that wrote the files.
    cwd: String,
    files: Vec<Content>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Content {
    name: String,
    bytes: usize,
}

/// The session's files as one object; `None` when there are none.
pub(super) async fn pack(
    request: &TurnRequest,
    session: &str,
    is_over: bool,
) -> Result<Option<Bytes>, Error> {
    let Some(place) = SessionPlace::of(request, session) else { return Ok(None) };
    let packed = on_disk(move || packed(&place, is_over)).await;
    packed.map_err(|error| {
        let message = format!("session {session} stays on this machine: {error}");
        Error::new(ErrorCode::FleetStorage, message)
    })
}

fn packed(place: &SessionPlace, is_over: bool) -> io::Result<Option<Bytes>> {
    let files = place.list()?;
    let total: u64 = files.iter().map(|file| file.bytes).sum();
    if total > MAX_BYTES {
        return Err(io::Error::other(format!("its files have {total} bytes, more than {MAX_BYTES}")));
    }
    if files.is_empty() {
        return Ok(None);
    }
    let (mut contents, mut all) = (Contents { cwd: place.cwd.clone(), files: Vec::new() }, Vec::new());
    for file in files {
        let mut text = place.read(&file, MAX_BYTES)?;
        if !is_over && file.name.ends_with(".jsonl") {
            // It may be in the middle of a line.
            text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        }
        contents.files.push(Content { name: file.name, bytes: text.len() });
        all.extend(text);
    }
    let mut object = serde_json::to_vec(&contents)?;
    object.push(b'\n');
    object.extend(all);
    Ok(Some(object.into()))
}

/// Brings the session here that a turn is to resume, unless this machine has as much of it. True when files were written.
pub(super) async fn bring(
    engine: &Shared,
    request: &TurnRequest,
    session: &str,
    object: Option<&str>,
) -> Result<bool, Error> {
    let Some(place) = SessionPlace::of(request, session) else { return Ok(false) };
    let told = match object {
        Some(object) => Some(object.to_owned()),
        None => told(engine, request.agent.provider.as_str(), session).await?,
    };
    let Some(name) = told else { return Ok(false) };
    let mut tries = 0;
    let found = loop {
        match engine.object(&name).await {
            Ok(found) => break found,
            Err(error) if error.code() == ErrorCode::JobNotFound => return Ok(false),
            Err(error) if tries == TRIES => return Err(error),
            Err(_) => tries += 1,
        }
        tokio::time::sleep(TRY_EVERY).await;
    };
    on_disk(move || unpack(&place, &found)).await.map_err(|error| {
        let message = format!("session {session} could not be copied to this machine: {error}");
        Error::new(ErrorCode::FleetStorage, message)
    })
}

/// Stores the job of a session, for later jobs that resume it.
pub(super) async fn tell(engine: &Shared, provider: &str, session: &str, job: &str) {
    // When it fails, a later job finds the session on the machine where it ran, or not at all.
    let _ = engine.put_object(&session_object(provider, session), Bytes::from(job.to_owned())).await;
}

/// The object with the session's files, as the record of its job has it: the only one that can't be a fenced worker's.
async fn told(engine: &Shared, provider: &str, session: &str) -> Result<Option<String>, Error> {
    let job = match engine.object(&session_object(provider, session)).await {
        Ok(job) => String::from_utf8_lossy(&job).into_owned(),
        Err(error) if error.code() == ErrorCode::JobNotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let kept = engine.read_record(&job, RetryFor::ASKED).await?;
    let record = kept.map(|kept| kept.record).filter(|record| record.session_id.as_deref() == Some(session));
    Ok(record.and_then(|record| record.session_object))
}

fn unpack(place: &SessionPlace, object: &[u8]) -> io::Result<bool> {
    let damaged = || io::Error::other("its copy in the fleet is damaged");
    let end = object.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let contents: Contents = ground::json::read_own(&object[..end])?;
    let mut rest = object.get(end + 1..).unwrap_or_default();
    // The lengths come from a file that anybody may have damaged: their sum may be more than a number holds.
    let length = contents.files.iter().try_fold(0_usize, |sum, file| sum.checked_add(file.bytes));
    if length != Some(rest.len()) {
        return Err(damaged());
    }
    let mut here = 0;
    for file in place.list()? {
        here += lines(&place.read(&file, MAX_BYTES)?);
    }
    if here >= lines(rest) {
        return Ok(false);
    }
    if let Some((path, text)) = place.marker() {
        place.write(&path, text.as_bytes())?;
    }
    for file in &contents.files {
        let (text, next) = rest.split_at(file.bytes);
        rest = next;
        let path = place.target(&file.name).ok_or_else(damaged)?;
        place.write(&path, &place.at_home(text, &contents.cwd))?;
    }
    Ok(true)
}

/// Length of a session file in lines: logs grow by lines, and a path in them may be longer on another machine.
fn lines(text: &[u8]) -> usize {
    let ends = text.iter().filter(|byte| **byte == b'\n').count();
    ends + usize::from(text.last().is_some_and(|last| *last != b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agents::harness::Provider;
    use std::fs;
    use std::path::Path;

    const ID: &str = "01a20452-919f-74c0-8205-eaeed1c6f1c9";

    fn request(home: &Path, cwd: &Path) -> TurnRequest {
        let mut request = TurnRequest::new(Provider::Qwen, "x");
        request.agent.environment.changes = vec![
            ("HOME".to_owned(), Some(home.to_str().unwrap().to_owned())),
            ("QWEN_HOME".to_owned(), None),
        ];
        request.agent.cwd = Some(cwd.to_owned());
        request
    }

    fn chat(home: &Path, cwd: &Path) -> std::path::PathBuf {
        let cwd = cwd.canonicalize().unwrap();
        let project: String =
            cwd.to_str().unwrap().replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        home.join(format!(".qwen/projects/{project}/chats/{ID}.jsonl"))
    }

    #[tokio::test]
    async fn a_session_goes_to_another_home_and_folder_and_back_only_when_it_grew() {
        let folders: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
        let [home, cwd, other_home, other_cwd] = [0, 1, 2, 3].map(|n| folders[n].path());
        assert_eq!(pack(&request(home, cwd), ID, true).await.unwrap(), None);
        let here = chat(home, cwd);
        fs::create_dir_all(here.parent().unwrap()).unwrap();
        fs::write(&here, format!("{}\n{{\"b\"", serde_json::json!({ "cwd": cwd.canonicalize().unwrap() })))
            .unwrap();
        let place = |home, cwd| SessionPlace::of(&request(home, cwd), ID).unwrap();
        let running = pack(&request(home, cwd), ID, false).await.unwrap().unwrap();
        assert!(unpack(&place(other_home, other_cwd), &running).unwrap());
        let there = chat(other_home, other_cwd);
        let line = |cwd: &Path| format!("{}\n", serde_json::json!({ "cwd": cwd.canonicalize().unwrap() }));
        assert_eq!(fs::read_to_string(&there).unwrap(), line(other_cwd), "no torn line, its own folder");
        let whole = pack(&request(home, cwd), ID, true).await.unwrap().unwrap();
        assert!(unpack(&place(other_home, other_cwd), &whole).unwrap());
        assert_eq!(fs::read_to_string(&there).unwrap(), format!("{}{{\"b\"", line(other_cwd)));
        assert!(!unpack(&place(home, cwd), &whole).unwrap(), "it is here already");
        fs::write(&there, "1\n2\n3\n").unwrap();
        assert!(!unpack(&place(other_home, other_cwd), &whole).unwrap(), "there is more of it here");
    }

    /// pi works where the first line of the session says, wherever it is started.
    #[tokio::test]
    async fn a_session_of_pi_works_in_its_new_folder() {
        let folders: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
        let [home, cwd, other_home, other_cwd] = [0, 1, 2, 3].map(|n| folders[n].path());
        let request = |home: &Path, cwd: &Path| {
            let mut request = TurnRequest::new(Provider::Pi, "x");
            request.agent.environment.changes =
                vec![("PI_CODING_AGENT_DIR".to_owned(), Some(home.to_str().unwrap().to_owned()))];
            request.agent.cwd = Some(cwd.to_owned());
            request
        };
        let path = |home: &Path, cwd: &Path| {
            let cwd = cwd.canonicalize().unwrap();
            let project = cwd.to_str().unwrap().trim_start_matches('/').replace(['/', ':'], "-");
            home.join(format!("sessions/--{project}--/2026_{ID}.jsonl"))
        };
        let line = |cwd: &Path| {
            let cwd = cwd.canonicalize().unwrap();
            format!("{}\n", serde_json::json!({ "type": "session", "id": ID, "cwd": cwd }))
        };
        let here = path(home, cwd);
        fs::create_dir_all(here.parent().unwrap()).unwrap();
        fs::write(&here, line(cwd)).unwrap();
        let packed = pack(&request(home, cwd), ID, true).await.unwrap().unwrap();
        let place = SessionPlace::of(&request(other_home, other_cwd), ID).unwrap();
        assert!(unpack(&place, &packed).unwrap());
        assert_eq!(fs::read_to_string(path(other_home, other_cwd)).unwrap(), line(other_cwd));
    }

    #[tokio::test]
    async fn a_session_is_read_and_written_through_no_link_that_its_agent_made() {
        let (home, cwd) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let outside = tempfile::tempdir().unwrap();
        let [secret, file] = ["secret", "file"].map(|name| outside.path().join(name));
        fs::write(&secret, "secret\n").unwrap();
        fs::write(&file, "content").unwrap();
        let here = chat(home.path(), cwd.path());
        let place = || SessionPlace::of(&request(home.path(), cwd.path()), ID).unwrap();
        fs::create_dir_all(here.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&secret, &here).unwrap();
        assert_eq!(pack(&request(home.path(), cwd.path()), ID, true).await.unwrap(), None);
        fs::remove_file(&here).unwrap();
        fs::write(&here, "1\n2\n").unwrap();
        let whole = pack(&request(home.path(), cwd.path()), ID, true).await.unwrap().unwrap();
        // Links in place of the file, of what is written before it has its name, and of a folder on the way.
        let unfinished = [format!(".{ID}.jsonl"), format!("{ID}.{}.part", std::process::id())];
        for name in unfinished.map(|name| here.with_file_name(name)).iter().chain([&here]) {
            let _ = fs::remove_file(name);
            std::os::unix::fs::symlink(&file, name).unwrap();
        }
        assert!(unpack(&place(), &whole).unwrap());
        assert_eq!(fs::read_to_string(&here).unwrap(), "1\n2\n");
        assert_eq!(fs::read_to_string(&file).unwrap(), "content");
        fs::remove_dir_all(here.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(outside.path(), here.parent().unwrap()).unwrap();
        unpack(&place(), &whole).unwrap_err();
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 2);
    }

    #[tokio::test]
    async fn a_damaged_object_writes_nothing_outside_of_the_session() {
        let (home, cwd) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let place = SessionPlace::of(&request(home.path(), cwd.path()), ID).unwrap();
        for object in [
            "no JSON\n",
            "{\"cwd\":\"/w\",\"files\":[{\"name\":\"settings.json\",\"bytes\":2}]}\n{}",
            "{\"cwd\":\"/w\",\"files\":[{\"name\":\"projects/../settings.json\",\"bytes\":2}]}\n{}",
            "{\"cwd\":\"/w\",\"files\":[{\"name\":\"projects/{project}/chats/x.jsonl\",\"bytes\":3}]}\n{}",
            "{\"cwd\":\"/w\",\"files\":[{\"name\":\"a\",\"bytes\":18446744073709551615},{\"name\":\"b\",\"bytes\":3}]}\n{}",
            "",
        ] {
            assert!(unpack(&place, object.as_bytes()).is_err(), "{object}");
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
