//! Runs one command of a client: by the system's shell, its output streamed as it comes, its process tree killed at the end.

use super::request::{NoResult, RequestContext};
use super::secrets::own_environment;
use super::text_stream::TextStream;
use super::wire::client_message::CommandSpec;
use super::wire::reply;
use super::wire::runtime_message::{CommandResult, OutputStream};
use ground::os::{SHELL, blocking};
use process::{Environment, ProcessSpec, StopReason, Stream, spawn};
use std::path::PathBuf;

/// Output kept by the process runner. It can be small, because the runtime keeps a redacted copy of its own.
const PROCESS_KEEPS: usize = 256 << 10;

fn shell_of(command: &str) -> ProcessSpec {
    let (shell, arguments) = SHELL;
    ProcessSpec::new(shell, arguments.iter().copied().chain([command]))
}

impl RequestContext {
    /// The result of a command, or why it has none: it was cancelled, or could not be started.
    pub(super) async fn command(&self, command: &CommandSpec) -> Result<CommandResult, NoResult> {
        if self.cancel.reason().is_some() {
            return Err(NoResult::Cancelled);
        }
        let process = spawn(self.spec_of(command).await);
        let mut chunks = process.chunks();
        let mut stdout = TextStream::new(self.redactor.clone());
        let mut stderr = TextStream::new(self.redactor.clone());
        let shown = self.redactor.redact(&command.command);
        let streaming = async {
            while let Some((stream, bytes)) = chunks.next().await {
                let text = match stream {
                    Stream::Stdout => stdout.push(&bytes),
                    Stream::Stderr => stderr.push(&bytes),
                };
                self.stream(stream, &shown, &text).await;
            }
            for (stream, text) in [(Stream::Stdout, stdout.end()), (Stream::Stderr, stderr.end())] {
                self.stream(stream, &shown, &text).await;
            }
        };
        let mut cancel = self.cancel.clone();
        let cancelled = tokio::select! {
            () = streaming => false,
            () = cancel.cancelled() => true,
        };
        if cancelled {
            process.detach_output();
            process.stop(StopReason::Aborted);
            process.outcome().await;
            return Err(NoResult::Cancelled);
        }
        let outcome = tokio::select! {
            outcome = process.outcome() => outcome,
            () = cancel.cancelled() => {
                process.stop(StopReason::Aborted);
                process.outcome().await;
                return Err(NoResult::Cancelled);
            }
        };
        match (&outcome.result, &outcome.error) {
            (Some(result), None) => {
                let (stdout, truncated) = stdout.into_kept();
                Ok(CommandResult {
                    command: shown,
                    exit_code: result.exit_code.unwrap_or(-1),
                    signal: result.signal.clone(),
                    stdout,
                    truncated,
                })
            }
            (_, Some(error)) => Err(error.clone().into()),
            (None, None) => Err(process::Outcome::nothing_started().into()),
        }
    }

    async fn spec_of(&self, command: &CommandSpec) -> ProcessSpec {
        let mut spec = shell_of(&command.command);
        spec.environment =
            Environment { base: self.environment.clone(), changes: own_environment(&command.env) };
        spec.idle_timeout = None;
        spec.timeout = None;
        spec.max_output_bytes = PROCESS_KEEPS;
        if let Some(cwd) = &command.cwd {
            // The folder is created when it is missing. If that fails, the start of the process reports the error.
            let folder = cwd.clone();
            let _ = blocking(move || std::fs::create_dir_all(folder)).await;
            spec.cwd = Some(PathBuf::from(cwd));
        }
        spec
    }

    async fn stream(&self, stream: Stream, command: &str, text: &str) {
        let stream = match stream {
            Stream::Stdout => OutputStream::Stdout,
            Stream::Stderr => OutputStream::Stderr,
        };
        for body in reply::command_output(stream, command, text) {
            if !self.outbox.stream(&self.ticket, body).await {
                return;
            }
        }
    }
}
