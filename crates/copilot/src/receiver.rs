//! Distributes the messages of a connection: events to their sessions, all other messages to the host.

use super::outbox::Outbox;
use super::runtime_process::{Exit, ExitWatch, WeakRuntimeProcess};
use super::session_event::parse_session_event;
use super::sessions::Sessions;
use ground::error::{Error, ErrorCode};
use ground::lock::lock;
use ground::os::within;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wires::jsonrpc::{Client, Handler, Noise};

/// Longest wait between the end of a stream and the exit of its process.
const EXIT_WAIT: Duration = Duration::from_millis(1000);

/// Closes the connection when the process is gone, even while another process holds its pipes open.
pub(crate) async fn close_after_exit(process: ExitWatch, client: Client) {
    let exit = tokio::select! {
        exit = process.exited() => exit,
        () = client.ended() => return,
    };
    if within(EXIT_WAIT, client.ended()).await.is_none() {
        client.close(&exit.to_error());
    }
}

/// The parts that the receiver and the handle of a connection share.
pub(crate) struct Shared {
    pub sessions: Sessions,
    pub outbox: Arc<Outbox>,
    /// Notifications that go to the host.
    pub notifications: Mutex<HashSet<String>>,
    /// Bytes that were no messages.
    pub noise: AtomicU64,
    /// The connection is being ended on purpose, so an exit need not be reported.
    pub stopping: AtomicBool,
}

impl Shared {
    pub(crate) fn new(outbox: Arc<Outbox>) -> Shared {
        Shared {
            sessions: Sessions::default(),
            outbox,
            notifications: Mutex::default(),
            noise: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        }
    }
}

pub(crate) struct Receiver {
    pub process: Option<(ExitWatch, WeakRuntimeProcess)>,
    pub shared: Arc<Shared>,
    /// Sessions and host have been informed of the end.
    pub told: bool,
}

impl Receiver {
    fn tell_end(&mut self, error: &Error, exit: &Exit) {
        self.told = true;
        self.shared.sessions.close_all(error);
        if !self.shared.stopping.load(Ordering::SeqCst) {
            self.shared.outbox.push_exit(&exit.to_json());
        }
    }
}

/// The reader ended without reaching the end of the stream: it was closed from outside, or panicked. Turns end all the same.
impl Drop for Receiver {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        let exit = self.process.as_ref().and_then(|(watch, _)| watch.get());
        let error = match &exit {
            Some(exit) => exit.to_error(),
            None => Error::new(
                ErrorCode::ConnectionLost,
                "Connection is closed: its reader is gone. Start the client again",
            ),
        };
        self.tell_end(&error, &exit.unwrap_or_default());
    }
}

impl Handler for Receiver {
    fn take_frame(&mut self, frame: &[u8]) -> bool {
        let Some(event) = parse_session_event(frame) else { return false };
        self.shared.sessions.on_event(&event, &self.shared.outbox);
        true
    }

    fn on_notification(&mut self, method: &str, params: &str) {
        if method == "session.event" {
            // The notification has an unknown form, otherwise `take_frame` would have handled it.
            self.shared.noise.fetch_add(params.len() as u64, Ordering::Relaxed);
            return;
        }
        let wanted = lock(&self.shared.notifications);
        if wanted.contains(method) || wanted.contains("*") {
            self.shared.outbox.push_notification(method, params);
        }
    }

    fn on_request(&mut self, id: &str, method: &str, params: &str) {
        self.shared.outbox.push_request(id, method, params);
    }

    fn on_noise(&mut self, noise: Noise<'_>) {
        match noise {
            Noise::Garbage { bytes } | Noise::BadBody { bytes } => {
                self.shared.noise.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Noise::Fault(message) => {
                // Told like the runtime's own complaints.
                self.shared.outbox.push_stderr(&format!("the runtime could not read a message: {message}\n"));
            }
            Noise::Line(_) | Noise::StrayReply => {}
        }
    }

    async fn ready(&mut self) {
        self.shared.outbox.ready().await;
    }

    async fn on_end(&mut self, cause: Error) -> Error {
        let (mut exit, mut was_ended_by_us) = (None, false);
        if let Some((watch, process)) = &self.process {
            exit = within(EXIT_WAIT, watch.exited()).await;
            if exit.is_none() {
                // No message can reach the process any more, so it is of no use.
                process.kill().await;
                (exit, was_ended_by_us) = (watch.get(), true);
            }
        }
        let error = match &exit {
            Some(exit) if !was_ended_by_us => exit.to_error().caused_by(cause),
            exit => {
                let end = if was_ended_by_us { "; the CLI server was ended" } else { "" };
                let facts = exit.clone().unwrap_or_default();
                Error::new(
                    ErrorCode::ConnectionLost,
                    format!("Connection is closed: {}{end}", cause.message()),
                )
                .with("exitCode", facts.exit_code)
                .with("signal", facts.signal)
                .with("stderr", facts.stderr)
            }
        };
        self.tell_end(&error, &exit.unwrap_or_default());
        error
    }
}
