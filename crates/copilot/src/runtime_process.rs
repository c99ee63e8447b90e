//! The runtime as an own process: its pipes for the connection, its exit, the tail of its stderr. The process crate supervises
//! and kills its process tree; this module has only the protocol's part.

use super::outbox::Outbox;
use super::stderr_tail::StderrTail;
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use ground::lock::lock;
use ground::mpsc;
use ground::os::within;
use process::{self, ChunkReader, Input, Process, ProcessSpec, StdinWriter, StopReason, Strays, Stream};
use serde_json::{Value, json};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use wires::jsonrpc::{ByteSink, ByteSource};

/// How the process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exit {
    pub exit_code: Option<i32>,
    pub signal: Option<String>,
    pub stderr: String,
}

impl Exit {
    pub(crate) fn to_json(&self) -> Value {
        json!({ "exitCode": self.exit_code, "signal": self.signal, "stderr": self.stderr })
    }

    /// `CONNECTION_LOST` with the facts of the exit.
    pub(crate) fn to_error(&self) -> Error {
        let how = match (&self.exit_code, &self.signal) {
            (Some(code), _) => format!("with code {code}"),
            (None, Some(signal)) => format!("on {signal}"),
            (None, None) => "without a status".to_owned(),
        };
        let message = match self.stderr.is_empty() {
            true => format!("CLI server exited unexpectedly {how}"),
            false => format!("CLI server exited {how}\nstderr: {}", self.stderr),
        };
        Error::new(ErrorCode::ConnectionLost, message)
            .with("exitCode", self.exit_code)
            .with("signal", self.signal.clone())
            .with("stderr", self.stderr.clone())
    }
}

/// The destination of stderr: a bounded tail, and each line to the host if it asked for that.
#[derive(Clone)]
pub(crate) struct Stderr {
    tail: Arc<Mutex<StderrTail>>,
    to_host: Option<Arc<Outbox>>,
}

impl Stderr {
    fn lock(&self) -> MutexGuard<'_, StderrTail> {
        lock(&self.tail)
    }

    fn push(&self, bytes: &[u8]) {
        self.lock().push(bytes, |line| self.tell(line));
    }

    fn finish(&self) {
        self.lock().finish(|line| self.tell(line));
    }

    fn tell(&self, line: &str) {
        if let Some(outbox) = self.to_host.as_ref().filter(|_| !line.is_empty()) {
            outbox.push_stderr(line);
        }
    }

    fn text(&self) -> String {
        self.lock().text()
    }
}

/// A handle; clones share the process. Dropping the last one kills the process.
#[derive(Clone)]
pub(crate) struct RuntimeProcess(Arc<Inner>);

struct Inner {
    process: Process,
    exit: ExitWatch,
    stdout: Mutex<Option<StdoutSource>>,
    stderr: Stderr,
    pid: u32,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The task that waits for the exit also holds the process, so dropping alone would not end it.
        self.process.stop(StopReason::Abandoned);
    }
}

/// Observes the exit without keeping the process alive.
#[derive(Clone)]
pub(crate) struct ExitWatch(watch::Receiver<Option<Exit>>);

impl ExitWatch {
    /// How the process ended, if it has.
    pub(crate) fn get(&self) -> Option<Exit> {
        self.0.borrow().clone()
    }

    /// Resolves when the process and its tree are gone.
    pub(crate) async fn exited(&self) -> Exit {
        let mut exit = self.0.clone();
        let exited = exit.wait_for(Option::is_some).await;
        // The task that reports the exit lives until it has reported.
        exited.ok().and_then(|exit| exit.clone()).unwrap_or_default()
    }
}

/// A handle that does not keep the process alive.
#[derive(Clone)]
pub(crate) struct WeakRuntimeProcess(Weak<Inner>);

impl WeakRuntimeProcess {
    pub(crate) async fn kill(&self) {
        if let Some(inner) = self.0.upgrade() {
            RuntimeProcess(inner).kill().await;
        }
    }
}

/// The stdout of the process, for the connection. Its stderr is read separately. After this is dropped, the rest is read and
/// discarded.
pub(crate) struct StdoutSource(mpsc::Receiver<Bytes>);

pub(crate) struct StdinSink(StdinWriter);

impl RuntimeProcess {
    /// Time between SIGTERM and SIGKILL.
    const KILL_GRACE: Duration = Duration::from_millis(1500);
    /// How long the tree may take to be gone after SIGKILL.
    const KILL_WAIT: Duration = Duration::from_millis(900);
    /// How long to read on after the exit, for output that was printed before it.
    const LAST_WORDS: Duration = Duration::from_millis(500);
    /// The process runner keeps a head and a tail of its own. It can be small, because this module keeps a tail too.
    const KEPT_OUTPUT: usize = 32 << 10;

    /// Starts the process. `with_stdin`: stdin is a pipe, otherwise it is empty.
    pub(crate) async fn start(
        mut spec: ProcessSpec,
        with_stdin: bool,
        to_host: Option<Arc<Outbox>>,
    ) -> Result<Self, Error> {
        spec.input = if with_stdin { Input::Pipe } else { Input::Null };
        spec.idle_timeout = None;
        spec.timeout = None;
        spec.kill_grace = Self::KILL_GRACE;
        spec.max_output_bytes = Self::KEPT_OUTPUT;
        spec.strays = Strays::Kill;
        let process = process::spawn(spec);
        let pid = process.started().await?;
        let stderr = Stderr { tail: Arc::default(), to_host };
        let (told, exit) = watch::channel(None);
        let (to_stdout, stdout) = mpsc::channel(1);
        let reader = ground::task::spawn(read_output(process.chunks(), to_stdout, stderr.clone()));
        ground::task::spawn(watch_exit(process.clone(), stderr.clone(), reader, told));
        let stdout = Mutex::new(Some(StdoutSource(stdout)));
        Ok(RuntimeProcess(Arc::new(Inner { process, exit: ExitWatch(exit), stdout, stderr, pid })))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Takes the stdout. The first call gets it; later calls get `None`.
    pub(crate) fn take_stdout(&self) -> Option<StdoutSource> {
        lock(&self.0.stdout).take()
    }

    pub(crate) fn stdin(&self) -> Option<StdinSink> {
        self.0.process.take_stdin().map(StdinSink)
    }

    pub(crate) fn stderr_tail(&self) -> String {
        self.0.stderr.text()
    }

    pub(crate) fn exit(&self) -> &ExitWatch {
        &self.0.exit
    }

    pub(crate) fn downgrade(&self) -> WeakRuntimeProcess {
        WeakRuntimeProcess(Arc::downgrade(&self.0))
    }

    /// Sends SIGTERM, and SIGKILL to the remaining tree. Whether the tree is gone.
    pub(crate) async fn stop(&self) -> bool {
        self.0.process.stop(StopReason::Killed);
        within(Self::KILL_GRACE + Self::KILL_WAIT, self.exit().exited()).await.is_some()
    }

    /// Sends SIGKILL to the tree at once. Whether the tree is gone.
    pub(crate) async fn kill(&self) -> bool {
        self.abandon();
        within(Self::KILL_WAIT, self.exit().exited()).await.is_some()
    }

    /// Does the same as [`RuntimeProcess::kill`], without waiting.
    pub(crate) fn abandon(&self) {
        self.0.process.stop(StopReason::Abandoned);
    }
}

/// The only reader of both streams, so that stderr is read after the end of stdout: it may contain the reason of a crash.
async fn read_output(mut chunks: ChunkReader, to_stdout: mpsc::Sender<Bytes>, stderr: Stderr) {
    while let Some((stream, bytes)) = chunks.next().await {
        match stream {
            Stream::Stderr => stderr.push(&bytes),
            // A source that was dropped ignores the rest. An empty chunk, the stream's end, is passed on.
            Stream::Stdout => {
                let _ = to_stdout.send(bytes).await;
            }
        }
    }
}

async fn watch_exit(
    process: Process,
    stderr: Stderr,
    reader: JoinHandle<()>,
    told: watch::Sender<Option<Exit>>,
) {
    let outcome = process.outcome().await;
    // The last output may still be on its way. A host that takes no events delays the exit no longer than this.
    within(RuntimeProcess::LAST_WORDS, reader).await;
    let (exit_code, signal) =
        outcome.result.as_ref().map_or((None, None), |result| (result.exit_code, result.signal.clone()));
    stderr.finish();
    told.send_replace(Some(Exit { exit_code, signal, stderr: stderr.text() }));
}

impl ByteSource for StdoutSource {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        Ok(self.0.recv().await.filter(|bytes| !bytes.is_empty()))
    }
}

impl ByteSink for StdinSink {
    async fn write(&mut self, bytes: Bytes) -> io::Result<()> {
        self.0.write(bytes).await.map_err(|error| io::Error::other(error.to_string()))
    }
}
