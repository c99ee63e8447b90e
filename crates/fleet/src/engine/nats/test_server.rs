//! A real nats-server for tests of the engine, and a proxy to it with which a test can disturb the connection.

use super::connection::{Access, Nats};
use super::subject::Names;
use crate::engine::interface::Shared;
use crate::engine::value::{RetryFor, Room};
use async_nats::jetstream::stream::Config;
use bytes::Bytes;
use futures_util::TryStreamExt;
use ground::error::Error;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Longer than any working operation takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A connection of a test, which knows the names on the server.
#[derive(Clone)]
pub(crate) struct TestEngine {
    pub(crate) shared: Shared,
    pub(super) nats: Nats,
}

impl Deref for TestEngine {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl TestEngine {
    fn of(nats: Nats) -> TestEngine {
        TestEngine { shared: Arc::new(nats.clone()), nats }
    }

    pub(crate) fn names(&self) -> &Names {
        self.nats.names()
    }

    /// Stores a message past every check, as any other client of the server may.
    pub(crate) async fn publish_raw(&self, subject: &str, pairs: &[(&str, &str)], payload: Bytes) {
        self.nats.publish_raw(subject, pairs, payload).await;
    }

    pub(crate) async fn room(&self, stream: &str, retry_for: RetryFor) -> Result<Room, Error> {
        self.nats.room(stream, retry_for).await
    }
}

pub(crate) struct TestServer {
    child: Child,
    pub(crate) url: String,
    _folder: tempfile::TempDir,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None`, loudly, where there is no server; in CI that is a failure.
pub(crate) fn program() -> Option<PathBuf> {
    let own = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/nats/bin/nats-server"));
    let found = std::env::var_os("SHEEPDOG_NATS_SERVER").map(PathBuf::from).or(own.is_file().then_some(own));
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "no nats-server: `npm test` brings one");
        eprintln!("NOT TESTED: no nats-server, set SHEEPDOG_NATS_SERVER");
    }
    found
}

impl TestServer {
    /// `None` where there is no server.
    pub(crate) async fn start() -> Option<TestServer> {
        let program = program()?;
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("server.conf");
        let text = format!(
            "listen: \"127.0.0.1:-1\"\nports_file_dir: {0:?}\nmax_payload: 8MB\njetstream {{ store_dir: {1:?}, max_file_store: 4GB }}\n",
            folder.path(),
            folder.path().join("store"),
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(program);
        command.arg("-c").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let file = folder.path().join(format!("nats-server_{}.ports", child.id()));
        let begun = Instant::now();
        let url = loop {
            let ports = std::fs::read(&file).ok();
            let ports = ports.and_then(|text| ground::json::read::<serde_json::Value>(&text).ok());
            if let Some(url) = ports.as_ref().and_then(|ports| ports["nats"][0].as_str()) {
                break url.to_owned();
            }
            assert!(begun.elapsed() < PATIENCE, "the server does not start");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        Some(TestServer { child, url, _folder: folder })
    }

    pub(crate) async fn engine(&self) -> TestEngine {
        connect(&self.url).await
    }

    /// A fleet with this lease; the first connection to it decides.
    pub(crate) async fn leased(&self, lease: Duration) -> Shared {
        let access = Access {
            servers: vec![self.url.clone()],
            prefix: "sd".to_owned(),
            lease: Some(lease),
            ..Access::default()
        };
        super::connect(&access).await.unwrap()
    }

    /// Deletes the streams, as if the server had come back with an empty store.
    pub(crate) async fn delete_streams(&self) {
        let engine = self.engine().await;
        for name in engine.names().streams() {
            engine.nats.0.context.delete_stream(name).await.unwrap();
        }
    }

    /// Purges the logs, as an administrator of the server may do.
    pub(crate) async fn purge_logs(&self) {
        let engine = self.engine().await;
        let logs = engine.nats.0.context.get_stream(engine.names().log_stream()).await.unwrap();
        logs.purge().await.unwrap();
    }
}

impl TestServer {
    /// Deletes every consumer of the queue, as somebody at the server's own command line may do.
    pub(crate) async fn delete_lanes(&self) {
        let engine = self.engine().await;
        let jobs = engine.nats.0.context.get_stream(engine.names().jobs_stream()).await.unwrap();
        let names: Vec<String> = jobs.consumer_names().try_collect().await.unwrap();
        assert!(!names.is_empty());
        for name in names {
            jobs.delete_consumer(&name).await.unwrap();
        }
    }
}

impl TestServer {
    async fn configure(&self, stream: &str, change: impl FnOnce(&mut Config)) {
        let engine = self.engine().await;
        let found = engine.nats.0.context.get_stream(stream).await.unwrap();
        let mut config = found.cached_info().config.clone();
        change(&mut config);
        engine.nats.0.context.update_stream(config).await.unwrap();
    }

    pub(crate) async fn set_max_bytes(&self, stream: &str, bytes: i64) {
        self.configure(stream, |config| config.max_bytes = bytes).await;
    }

    /// Leaves the stream no room for one more message.
    pub(crate) async fn fill(&self, stream: &str) {
        let engine = self.engine().await;
        let found = engine.nats.0.context.get_stream(stream).await.unwrap();
        let bytes = i64::try_from(found.cached_info().state.bytes).unwrap();
        self.set_max_bytes(stream, bytes.max(1)).await;
    }

    /// Makes the stream refuse every message, even if it would make room by itself.
    pub(crate) async fn seal(&self, stream: &str) {
        self.configure(stream, |config| config.max_message_size = 1).await;
    }
}

pub(crate) async fn connect(url: &str) -> TestEngine {
    let access = Access { servers: vec![url.to_owned()], prefix: "sd".to_owned(), ..Access::default() };
    TestEngine::of(Nats::connect(&access).await.unwrap())
}

/// A proxy between a client and its server. It counts client messages with a given text, and can hold the server's answers back.
pub(crate) struct Road {
    pub(crate) url: String,
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// Messages with the text, counted before they are passed on, so that their answers can be held back.
    found: usize,
    /// Messages with the text, counted after they were passed on.
    seen: usize,
    /// Once a message was found, answers are held back until this many were seen.
    held_until: usize,
    /// Connections before this one are broken.
    cuts: u64,
    /// Bytes a second in each direction; 0: as they come.
    rate: usize,
    /// Bytes in both directions.
    carried: usize,
    /// Each piece takes so long in each direction.
    latency: Duration,
}

impl Road {
    pub(crate) async fn to(server: &TestServer, text: &'static str) -> Road {
        let address = server.url.trim_start_matches("nats://").to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let state = watch::Sender::new(State::default());
        let shared = state.clone();
        ground::task::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&address).await else { continue };
                // Otherwise a short message may wait 40 ms for the acknowledgement of the one before it.
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                ground::task::spawn(carry(client, server, text.as_bytes(), shared.clone()));
            }
        });
        Road { url, state }
    }

    pub(crate) fn hold_until(&self, seen: usize) {
        self.state.send_modify(|state| state.held_until = seen);
    }

    pub(crate) fn seen(&self) -> usize {
        self.state.borrow().seen
    }

    pub(crate) async fn until(&self, count: usize) {
        let mut state = self.state.subscribe();
        let waited = tokio::time::timeout(PATIENCE, state.wait_for(|state| state.seen >= count)).await;
        assert!(waited.is_ok(), "{} of {count} were seen", self.seen());
    }

    /// Limits the speed in each direction to `rate` bytes per second.
    pub(crate) fn slow_down(&self, rate: usize) {
        self.state.send_modify(|state| state.rate = rate);
    }

    /// Lets everything arrive this much later, in each direction.
    pub(crate) fn lengthen(&self, latency: Duration) {
        self.state.send_modify(|state| state.latency = latency);
    }

    /// Bytes in both directions so far.
    pub(crate) fn carried(&self) -> usize {
        self.state.borrow().carried
    }

    /// Breaks the connections that are there.
    pub(crate) fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }
}

async fn carry(client: TcpStream, server: TcpStream, text: &[u8], state: watch::Sender<State>) {
    let mut broken = state.subscribe();
    let before = state.borrow().cuts;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        // The broken connection is checked first, so that bytes that were held back are not passed on after it.
        biased;
        _ = broken.wait_for(|state| state.cuts > before) => {}
        () = up(from_client, to_server, text, &state) => {}
        () = down(from_server, to_client, &state) => {}
    }
}

async fn up(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, text: &[u8], state: &watch::Sender<State>) {
    // With the end of what was read before: the text may stand on a border.
    let (mut buffer, mut seen) = (vec![0; 64 << 10], Vec::new());
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        seen.extend_from_slice(&buffer[..length]);
        let found = seen.windows(text.len()).filter(|some| *some == text).count();
        seen.drain(..(seen.len() + 1).saturating_sub(text.len()));
        if found > 0 {
            state.send_modify(|state| state.found += found);
        }
        toll(state, length).await;
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
        if found > 0 {
            state.send_modify(|state| state.seen += found);
        }
    }
}

async fn down(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &watch::Sender<State>) {
    let (mut buffer, mut held) = (vec![0; 64 << 10], state.subscribe());
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let open = held.wait_for(|state| state.found == 0 || state.seen >= state.held_until).await.is_ok();
        toll(state, length).await;
        if !open || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// Takes the time that the bytes take on the road.
async fn toll(state: &watch::Sender<State>, bytes: usize) {
    state.send_modify(|state| state.carried += bytes);
    let (rate, latency) = (state.borrow().rate, state.borrow().latency);
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    if rate > 0 {
        tokio::time::sleep(Duration::from_secs_f64(bytes as f64 / rate as f64)).await;
    }
}
