//! Reaches the runtime: an own process over its pipes, an own process over the port that it prints, or an existing server.

use super::outbox::Outbox;
use super::runtime_process::{RuntimeProcess, StdinSink, StdoutSource};
use ground::error::{Error, ErrorCode};
use ground::os::{connect_to, within};
use process::ProcessSpec;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use wires::jsonrpc::ByteSource;

/// The way to reach the runtime.
#[derive(Clone, Debug)]
pub enum Target {
    /// An own process, over its stdin and stdout.
    Stdio(ProcessSpec),
    /// An own process, over the port that it prints.
    Tcp(ProcessSpec),
    /// An existing server.
    Address { host: String, port: u16 },
}

pub(crate) enum Streams {
    Pipes(StdoutSource, StdinSink),
    Socket(TcpStream),
}

pub(crate) struct Reached {
    pub streams: Streams,
    pub port: Option<u16>,
}

/// Reaches the runtime. `held` gets the process as soon as there is one.
pub(crate) async fn reach(
    target: Target,
    to_host: Option<Arc<Outbox>>,
    held: &mut Option<RuntimeProcess>,
) -> Result<Reached, Error> {
    match target {
        Target::Stdio(spec) => {
            let process = held.insert(RuntimeProcess::start(spec, true, to_host).await?);
            let stdin = process
                .stdin()
                .ok_or_else(|| Error::new(ErrorCode::ConnectionLost, "the CLI server has no stdin"))?;
            Ok(Reached { streams: Streams::Pipes(stdout_of(process)?, stdin), port: None })
        }
        Target::Tcp(spec) => {
            let process = held.insert(RuntimeProcess::start(spec, false, to_host).await?);
            let port = read_port(&mut stdout_of(process)?, process).await?;
            let socket = connect("localhost", port).await?;
            Ok(Reached { streams: Streams::Socket(socket), port: Some(port) })
        }
        Target::Address { host, port } => {
            let socket = connect(&host, port).await?;
            Ok(Reached { streams: Streams::Socket(socket), port: Some(port) })
        }
    }
}

fn stdout_of(process: &RuntimeProcess) -> Result<StdoutSource, Error> {
    process.take_stdout().ok_or_else(|| Error::new(ErrorCode::ConnectionLost, "the CLI server has no stdout"))
}

async fn connect(host: &str, port: u16) -> Result<TcpStream, Error> {
    const TIMEOUT: Duration = Duration::from_secs(10);
    let failed = |why: String| {
        let message = format!("Failed to connect to CLI server: {why} ({host}:{port})");
        Error::new(ErrorCode::ConnectionLost, message).with("host", host).with("port", port)
    };
    match within(TIMEOUT, connect_to(host, port)).await {
        Some(Ok(socket)) => {
            // Send small requests without delay.
            let _ = socket.set_nodelay(true);
            Ok(socket)
        }
        Some(Err(error)) => Err(failed(error.to_string())),
        None => {
            let message = format!("Timeout connecting to CLI server ({host}:{port})");
            Err(Error::new(ErrorCode::ConnectionTimedOut, message).with("host", host).with("port", port))
        }
    }
}

/// Reads the port that the process prints.
async fn read_port(stdout: &mut StdoutSource, process: &RuntimeProcess) -> Result<u16, Error> {
    const MAX_BANNER: usize = 64 << 10;
    let mut printed = String::new();
    loop {
        match stdout.next().await {
            Ok(Some(bytes)) => printed.push_str(&String::from_utf8_lossy(&bytes)),
            _ => return Err(process.exit().exited().await.to_error()),
        }
        if let Some(port) = find_port(&printed) {
            return Ok(port);
        }
        if printed.len() > MAX_BANNER {
            return Err(Error::new(
                ErrorCode::ConnectionLost,
                "the CLI server does not say the port it listens on",
            ));
        }
    }
}

fn find_port(printed: &str) -> Option<u16> {
    const MARK: &str = "listening on port ";
    let lower = printed.to_ascii_lowercase();
    let start = lower.find(MARK)? + MARK.len();
    let digits = lower[start..].split(|letter: char| !letter.is_ascii_digit()).next()?;
    // The line must be complete: the rest of the number may be on its way.
    (start + digits.len() < lower.len()).then(|| digits.parse().ok())?
}
