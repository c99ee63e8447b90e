//! Writes a run's output to files as it is read, on threads that may block. The output never passes through JavaScript.

use super::handle::Process;
use super::sink::{ChunkReader, Missed, Streams};
use super::stream::Stream;
use bytes::Bytes;
use futures_util::FutureExt;
use ground::error::{Error, ErrorCode, Result};
use ground::os::{ContainedFolders, Fault, blocking, open_output};
use std::fs::File;
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of one write.
const BATCH_BYTES: usize = 1 << 20;
/// Longest wait for the disk after the end of the run, before the rest is given up. During the run its own time limits end the
/// wait.
const GIVE_UP: Duration = Duration::from_secs(10);

/// Paths for a run's output. One path for both streams is one file, in the order in which they were read.
#[derive(Clone, Debug, Default)]
pub struct SavePlan {
    pub stdout: Option<PathBuf>,
    pub stderr: Option<PathBuf>,
    /// Whether to append to the files; otherwise they are emptied first.
    pub append: bool,
}

/// Bytes that were written of each stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

impl Process {
    /// Takes the place of the run's reader, now; resolves when both streams have ended and all is written. A disk that is slower than
    /// the program slows the program.
    ///
    /// # Errors
    /// `PROCESS_OUTPUT_FAILED` when a file can't be opened or written, and when a part of the output was dropped before the call.
    /// The run goes on; its output is drained and kept.
    pub fn save(&self, plan: SavePlan) -> impl Future<Output = Result<Saved>> + Send + 'static + use<> {
        let streams = Streams { stdout: plan.stdout.is_some(), stderr: plan.stderr.is_some() };
        let chunks = self.chunks_of(streams);
        let (process, contained) = (self.clone(), self.contained());
        async move {
            let disk_hangs = async {
                process.outcome().await;
                tokio::time::sleep(GIVE_UP).await;
            };
            tokio::select! {
                saved = async {
                    // Files are for the output of a program: where none was started, they stay as they are.
                    match process.started().await {
                        Ok(_) => write_all(chunks, plan, contained).await,
                        Err(_) => Ok(Saved::default()),
                    }
                } => saved,
                () = disk_hangs => {
                    let waited = GIVE_UP.as_secs();
                    let message = format!("the output was not written within {waited} s after the end of the run: the disk is too slow");
                    Err(Error::new(ErrorCode::ProcessOutputFailed, message))
                }
            }
        }
    }
}

/// A file that a stream goes to.
struct Target {
    path: PathBuf,
    file: File,
}

struct Targets {
    stdout: Option<Target>,
    stderr: Option<Target>,
}

impl Targets {
    fn open(plan: SavePlan, contained: &[PathBuf]) -> Result<Targets> {
        let contained = ContainedFolders::of(contained.iter().map(PathBuf::as_path));
        let open = |path: PathBuf| {
            let file = opened(&path, plan.append, &contained)
                .map_err(|error| failed("opened", &Fault::of("open", Some(&path), &error)))?;
            Ok(Target { path, file })
        };
        Ok(Targets { stdout: plan.stdout.map(open).transpose()?, stderr: plan.stderr.map(open).transpose()? })
    }

    /// Blocks.
    fn write(&self, batch: &[(Stream, Bytes)]) -> Result<()> {
        for (stream, bytes) in batch {
            let target = match stream {
                Stream::Stdout => &self.stdout,
                Stream::Stderr => &self.stderr,
            };
            if let Some(Target { path, file }) = target {
                let mut file = file;
                file.write_all(bytes)
                    .map_err(|error| failed("written", &Fault::of("write", Some(path), &error)))?;
            }
        }
        Ok(())
    }
}

async fn write_all(mut chunks: ChunkReader, plan: SavePlan, contained: Arc<[PathBuf]>) -> Result<Saved> {
    let paths = plan.clone();
    let targets = Arc::new(blocked(blocking(move || Targets::open(plan, &contained)).await)?);
    let mut saved = Saved::default();
    while let Some(batch) = next_batch(&mut chunks).await {
        for (stream, bytes) in &batch {
            match stream {
                Stream::Stdout if targets.stdout.is_some() => saved.stdout_bytes += bytes.len() as u64,
                Stream::Stderr if targets.stderr.is_some() => saved.stderr_bytes += bytes.len() as u64,
                Stream::Stdout | Stream::Stderr => {}
            }
        }
        let targets = targets.clone();
        blocked(blocking(move || targets.write(&batch)).await)?;
    }
    match chunks.missed() {
        Some(Missed::Dropped { stream, bytes }) => Err(too_late(stream, bytes, &paths)),
        Some(Missed::LineTooLong(_)) | None => Ok(saved),
    }
}

/// Opens a file to append to. Two paths may lead to one file, and then neither overwrites the output of the other.
fn opened(path: &Path, keeps: bool, contained: &ContainedFolders) -> io::Result<File> {
    let file = open_output(path, contained)?;
    // Only a regular file can be emptied.
    if !keeps && file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// All chunks that are ready, after waiting for the first of them.
async fn next_batch(chunks: &mut ChunkReader) -> Option<Vec<(Stream, Bytes)>> {
    let first = chunks.next().await?;
    let mut size = first.1.len();
    let mut batch = vec![first];
    while size < BATCH_BYTES
        && let Some(Some(chunk)) = chunks.next().now_or_never()
    {
        size += chunk.1.len();
        batch.push(chunk);
    }
    Some(batch)
}

fn blocked<T>(done: io::Result<Result<T>>) -> Result<T> {
    done.unwrap_or_else(|error| {
        Err(Error::new(
            ErrorCode::ProcessOutputFailed,
            format!("the system refused a thread to write the output: {error}"),
        ))
    })
}

fn too_late(stream: Stream, bytes: u64, plan: &SavePlan) -> Error {
    let file = match stream {
        Stream::Stdout => &plan.stdout,
        Stream::Stderr => &plan.stderr,
    };
    let file = file.as_deref().unwrap_or(Path::new("")).to_string_lossy().into_owned();
    let message = format!(
        "{file:?} cannot have the whole output: {bytes} bytes were dropped before saveOutput() was called. Call it right after spawn(), \
         or raise `maxOutputBytes`"
    );
    Error::new(ErrorCode::ProcessOutputFailed, message).with("file", file)
}

/// `what` could not be done.
fn failed(what: &str, fault: &Fault) -> Error {
    let message =
        format!("the file could not be {what}: {fault}: the run goes on, and `result` keeps its output");
    let file = fault.file.as_deref().unwrap_or(Path::new("")).to_string_lossy().into_owned();
    Error::new(ErrorCode::ProcessOutputFailed, message).with("file", file).with("errno", fault.errno)
}
