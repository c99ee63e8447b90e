//! Events and verdict of a run whose output is in files, on a thread where reading may block. However long the files are, only an
//! [`Excerpt`](crate::harness::event::excerpt::Excerpt) of the events is in memory.

use super::{Replay, feed, judge};
use crate::harness::event::excerpt::Excerpt;
use crate::harness::provider::Provider;
use crate::harness::verdict::Ending;
use crate::harness::verdict::transcript::Transcript;
use ground::error::{Error, ErrorCode};
use ground::keep::Tail;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes at the end of stderr that are kept, as in a live turn.
const STDERR_TAIL_BYTES: usize = 64 << 10;
const READ_BYTES: usize = 64 << 10;

/// The files of a recorded run; `/dev/stdin` is this process's own input, whatever that is.
#[derive(Clone, Debug)]
pub struct RecordedFiles {
    pub stdout: PathBuf,
    pub stderr: Option<PathBuf>,
    pub ending: Ending,
}

/// Reads a recording to its end, as if its run had just ended.
///
/// # Errors
/// `INVALID_OPTION` for a file that can't be read.
pub async fn replay_files(provider: Provider, recorded: RecordedFiles) -> Result<Replay, Error> {
    let read = ground::os::blocking(move || read(provider, &recorded)).await;
    read.unwrap_or_else(|error| {
        Err(Error::new(ErrorCode::ProcessSpawnFailed, format!("the files could not be read: {error}")))
    })
}

fn read(provider: Provider, recorded: &RecordedFiles) -> Result<Replay, Error> {
    let RecordedFiles { stdout, stderr, ending } = recorded;
    let unreadable = |option: &'static str, path: &Path| {
        let path = path.display().to_string();
        move |error| Error::invalid_option(option, format!("{path} could not be read: {error}"))
    };
    let (mut transcript, mut events) = (Transcript::new(provider, true, None), Excerpt::default());
    let printed = open(stdout).map_err(unreadable("file", stdout))?;
    feed(&mut transcript, printed, &mut events).map_err(unreadable("file", stdout))?;
    let stderr = match stderr {
        Some(path) => open(path).and_then(tail_of).map_err(unreadable("stderrFile", path))?,
        None => String::new(),
    };
    Ok(judge(provider, transcript, events, &stderr, ending))
}

fn open(path: &Path) -> std::io::Result<File> {
    if path == Path::new("/dev/stdin") {
        return ground::os::own_input();
    }
    // The user names it, and a pipe is as good as a file.
    File::open(path)
}

/// The last bytes of the file.
pub(super) fn tail_of(mut file: File) -> std::io::Result<String> {
    // A pipe can't be skipped by seeking; it is read through instead.
    let length = file.metadata().map_or(0, |facts| facts.len());
    let _ = file.seek(SeekFrom::Start(length.saturating_sub(STDERR_TAIL_BYTES as u64)));
    let (mut tail, mut buffer) = (Tail::new(STDERR_TAIL_BYTES), vec![0; READ_BYTES]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(String::from_utf8_lossy(&tail.into_linear()).into_owned());
        }
        tail.push(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &str = "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n\
        {\"type\":\"turn.started\"}\n\
        {\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"agent_message\",\"text\":\"Hello.\"}}\n\
        {\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}\n";

    #[tokio::test]
    async fn a_recording_is_read_from_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("stdout"), DONE).unwrap();
        std::fs::write(path("stderr"), format!("{}Error: 401 no key", "x\n".repeat(200_000))).unwrap();
        let recorded = |stdout: &str, code| RecordedFiles {
            stdout: path(stdout),
            stderr: Some(path("stderr")),
            ending: Ending::Exited(code),
        };
        let good = replay_files(Provider::Codex, recorded("stdout", 0)).await.unwrap();
        assert_eq!((good.result.text.as_str(), good.fault.is_none()), ("Hello.", true));
        std::fs::write(path("nothing"), "").unwrap();
        let bad = replay_files(Provider::Codex, recorded("nothing", 1)).await.unwrap();
        let fault = bad.fault.unwrap();
        assert!(fault.error.message().ends_with("Error: 401 no key"), "{}", fault.error);
        let missing = replay_files(Provider::Codex, recorded("absent", 0)).await.map(|_| ()).unwrap_err();
        assert!(missing.message().starts_with("file: "), "{missing}");
    }
}
