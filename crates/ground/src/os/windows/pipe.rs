//! The host's ends of a program's stdin and output: named pipes, because anonymous ones can't be waited for.

use futures_util::FutureExt;
use std::io;
use std::os::windows::io::OwnedHandle;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::Interest;
use tokio::net::windows::named_pipe::{NamedPipeServer, PipeMode, ServerOptions};

/// Capacity of a pipe.
const BYTES: u32 = 64 << 10;

/// The number of the next pipe of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The reading end of a program's output.
#[derive(Debug)]
pub struct Pipe(NamedPipeServer);

/// The writing end of a program's stdin.
#[derive(Debug)]
pub struct PipeWriter(NamedPipeServer);

/// A pipe that the program writes to, of this capacity if it is wider than the usual one. The second is the program's end. Call it
/// within tokio.
pub fn output_pipe(bytes: Option<usize>) -> io::Result<(Pipe, OwnedHandle)> {
    let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(BYTES).max(BYTES);
    let (server, program) = pipe(Way::FromProgram, bytes)?;
    Ok((Pipe(server), program))
}

/// A pipe that the program reads from. The second is the program's end. Call it within tokio.
pub fn stdin_pipe() -> io::Result<(PipeWriter, OwnedHandle)> {
    let (server, program) = pipe(Way::ToProgram, BYTES)?;
    Ok((PipeWriter(server), program))
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    FromProgram,
    ToProgram,
}

fn pipe(way: Way, bytes: u32) -> io::Result<(NamedPipeServer, OwnedHandle)> {
    // A pipe of this name that somebody else has made is an error, because it must be the first instance.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!(r"\\.\pipe\sheepdog-{}-{number}", std::process::id());
    let reads = way == Way::FromProgram;
    let server = ServerOptions::new()
        .first_pipe_instance(true)
        .reject_remote_clients(true)
        .max_instances(1)
        .pipe_mode(PipeMode::Byte)
        .access_inbound(reads)
        .access_outbound(!reads)
        .in_buffer_size(bytes)
        .out_buffer_size(bytes)
        .create(&name)?;
    // The program's end waits as programs expect. The one instance of the pipe is taken by it, so nobody else comes in.
    let program = std::fs::OpenOptions::new().read(!reads).write(reads).open(&name)?;
    // The program's end is there already; tokio reads from here on.
    server.connect().now_or_never().unwrap_or(Err(io::ErrorKind::NotConnected.into()))?;
    Ok((server, program.into()))
}

impl Pipe {
    pub async fn readable(&self) {
        // The result is ignored: the read that follows clears tokio's readiness if it was wrong.
        let _ = self.0.readable().await;
    }

    /// Reads what has come. 0: the program's end is closed.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
            read => read,
        }
    }

    /// Does the same as [`Pipe::try_read`]: tokio reads ahead, so the pipe itself tells nothing.
    pub fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_read(buffer)
    }

    /// Whether bytes are waiting, or the end.
    pub fn has_bytes(&self) -> bool {
        self.0.ready(Interest::READABLE).now_or_never().is_some_and(|ready| ready.is_ok())
    }

    /// A pipe keeps its size.
    pub fn widen(&self) {}
}

impl PipeWriter {
    /// Writes some of the bytes as soon as the pipe accepts them. Cancel safe.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.0.writable().await?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
        }
    }
}
