//! Connects to the server, and checks that it meets the needs of a fleet.

use super::streams::{self, Asked};
use super::subject::Names;
use super::trust::{distrust, trusting};
use crate::engine::value::{TOO_LONG, away};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ClientError, ConnectErrorKind, ConnectOptions, Event, ServerError};
use ground::error::{Error, ErrorCode};
use ground::lock::lock;
use ground::login::part;
use ground::os::within;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The oldest server that does all that is asked of it. An older one takes settings that it does not know and ignores them.
const OLDEST: (u64, u64) = (2, 12);
/// The longest record of a job that has neither a result nor artifacts, with some room.
const LEAST_MESSAGE: usize = 256 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// An answer that takes longer is asked for again.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The slowest link that a fleet works on, in bytes a second: a message has so much more time.
const SLOWEST_LINK: u64 = 16 << 10;
/// A transfer in many messages goes on as long as one of them arrives within this time.
pub(super) const STALLED_AFTER: Duration = Duration::from_secs(30);
/// A server that is gone is looked for so often: it may be back in 50 ms.
const MAX_RECONNECT_DELAY: Duration = Duration::from_millis(250);
/// A refused login is the reason for so long, whatever comes of the tries after it.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// Notices a server that is silently gone.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// Longest wait for the answer to a message of `bytes` bytes.
pub(super) fn answer_within(bytes: usize) -> Duration {
    REQUEST_TIMEOUT + Duration::from_millis(bytes as u64 * 1000 / SLOWEST_LINK)
}

/// The address and the credentials of a server, and which fleet there is meant.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub servers: Vec<String>,
    pub token: Option<String>,
    /// A file.
    pub credentials: Option<PathBuf>,
    /// A file with the certificates of who signs servers'; `None`: whom this process trusts everywhere.
    pub ca: Option<PathBuf>,
    /// Two fleets on one server differ by it.
    pub prefix: String,
    /// The fleet's lease; `None`: whatever the fleet has, or the default when it is new.
    pub lease: Option<Duration>,
    /// Copies of everything, when the fleet is new.
    pub replicas: Option<usize>,
}

/// A connection to a server with the streams of one fleet. Clones share it.
#[derive(Clone)]
pub(crate) struct Nats(pub(super) Arc<Parts>);

pub(super) struct Parts {
    pub client: Client,
    pub context: Context,
    /// A context with a longer timeout, for the messages of a transfer.
    pub transfers: Context,
    /// Prefix of the subjects of JetStream's API.
    api: String,
    pub names: Names,
    pub lease: Duration,
    pub connections: watch::Receiver<u64>,
    pub is_connected: watch::Receiver<bool>,
    denied: Denied,
    /// Why there is no connection.
    away: Away,
    /// This user may not purge the stream of objects.
    pub may_not_purge: AtomicBool,
    /// Whether the records' room is used up, and until when that is good.
    pub records_room: Mutex<Option<(Instant, bool)>>,
}

/// Subjects that the server said we may not publish to. It answers such a message with nothing else.
#[derive(Clone, Default)]
struct Denied(Arc<Mutex<HashSet<String>>>);

impl Denied {
    const MOST: usize = 100;

    /// `said`: `Permissions Violation for Publish to "sd.job.default.4.x"`.
    fn note(&self, said: &str) {
        let said = said.to_ascii_lowercase();
        let Some((_, rest)) = said.split_once("permissions violation for publish to \"") else { return };
        let mut subjects = lock(&self.0);
        if subjects.len() < Self::MOST {
            subjects.extend(rest.split('"').next().map(str::to_owned));
        }
    }

    fn has(&self, subject: &str) -> bool {
        lock(&self.0).remove(&subject.to_ascii_lowercase())
    }
}

/// The reason why the connection could not be made anew, and the servers as they are shown.
#[derive(Clone, Default)]
struct Away {
    servers: Arc<str>,
    tried: Arc<Mutex<Tried>>,
}

/// The tries to connect since the last one that worked.
#[derive(Default)]
struct Tried {
    last: Option<String>,
    /// When the server refused the login.
    refused_at: Option<Instant>,
}

impl Away {
    fn on_connected(&self) {
        *lock(&self.tried) = Tried::default();
    }

    /// `why`: as the client words it.
    fn on_failed(&self, why: String) {
        let mut tried = lock(&self.tried);
        if why.to_ascii_lowercase().contains("authorization") {
            tried.refused_at = Some(Instant::now());
        }
        tried.last = Some(why);
    }

    /// The error for a server that does not answer. `why`: as it looks here.
    fn error(&self, why: &str) -> Error {
        let tried = lock(&self.tried);
        // A server closes the connection after it has refused the login. The refusal may be lost with that in one of many tries.
        if tried.refused_at.is_some_and(|at| at.elapsed() < REFUSED_FOR) {
            return no_login(&self.servers);
        }
        match &tried.last {
            Some(last) => away(format!("{why}; the last try to connect: {last}")),
            None => away(why),
        }
    }
}

impl Nats {
    /// The error for a server that does not answer.
    pub(super) fn away(&self, why: &str) -> Error {
        self.0.away.error(why)
    }

    pub(crate) async fn connect(access: &Access) -> Result<Nats, Error> {
        let (count, connections) = watch::channel(0_u64);
        let (here, is_connected) = watch::channel(true);
        let denied = Denied::default();
        let noted = denied.clone();
        let away = Away { servers: shown(access).into(), ..Away::default() };
        let tried = away.clone();
        let options = options().event_callback(move |event| {
            match event {
                Event::Connected => {
                    here.send_replace(true);
                    tried.on_connected();
                    count.send_modify(|count| *count += 1);
                }
                Event::Disconnected => {
                    here.send_replace(false);
                }
                Event::ServerError(error) => {
                    if error == ServerError::AuthorizationViolation {
                        tried.on_failed(error.to_string());
                    }
                    noted.note(&error.to_string());
                }
                Event::ClientError(ClientError::Other(error)) => tried.on_failed(error),
                _ => {}
            }
            async {}
        });
        let options = trusting(options, &access.servers, access.ca.as_deref()).await?;
        let options = with_login(options, access).await?;
        let connected = within(CONNECT_TIMEOUT * 2, options.connect(plain_servers(access))).await;
        let client = match connected {
            Some(Ok(client)) => client,
            Some(Err(error)) => return Err(refused(access, &error)),
            None => return Err(unreachable_server(access, "it did not answer in time")),
        };
        check_server(&client)?;
        let names = Names::new(&access.prefix);
        let (context, api, lease) = open_streams(&client, &names, access).await?;
        let mut transfers = context.clone();
        transfers.set_timeout(STALLED_AFTER);
        Ok(Nats(Arc::new(Parts {
            client,
            context,
            transfers,
            api,
            names,
            lease,
            connections,
            is_connected,
            denied,
            away,
            may_not_purge: AtomicBool::new(false),
            records_room: Mutex::default(),
        })))
    }

    pub(crate) fn names(&self) -> &Names {
        &self.0.names
    }

    /// A subject of JetStream's API.
    pub(super) fn api(&self, call: &str) -> String {
        format!("{}.{call}", self.0.api)
    }

    /// Resolves when the connection was lost and made anew: what was asked before it has no answer.
    pub(super) fn reconnected(&self) -> impl Future<Output = ()> + use<> {
        let mut connections = self.0.connections.clone();
        connections.mark_unchanged();
        async move {
            if connections.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whether the server refused the last message to this subject for want of rights.
    pub(super) fn is_denied(&self, subject: &str) -> bool {
        self.0.denied.has(subject)
    }
}

fn options() -> ConnectOptions {
    ConnectOptions::new()
        .name("sheepdog")
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .request_timeout(Some(REQUEST_TIMEOUT))
        .reconnect_delay_callback(|attempts| {
            let millis = 10_u64.saturating_mul(1 << attempts.min(6));
            Duration::from_millis(millis).min(MAX_RECONNECT_DELAY)
        })
}

async fn with_login(mut options: ConnectOptions, access: &Access) -> Result<ConnectOptions, Error> {
    if let Some(token) = &access.token {
        options = options.token(token.clone());
    }
    // The client takes no notice of what stands in an address.
    if let Some(login) = access.servers.iter().find_map(|server| part(server).1) {
        let user = login.user.expose().to_owned();
        if login.password.is_some() && is_plain(&user) {
            // Rights may give each user its own answers, and nobody else's.
            options = options.custom_inbox_prefix(format!("_INBOX.{user}"));
        }
        options = match login.password {
            Some(password) => options.user_and_password(user, password.expose().to_owned()),
            None => options.token(user),
        };
    }
    let Some(file) = &access.credentials else { return Ok(options) };
    options.credentials_file(file).await.map_err(|error| {
        Error::invalid_option("credentials", format!("{} can't be read: {error}", file.display()))
    })
}

/// The fleet's streams: the context that reaches them, the prefix of its API, and the fleet's lease.
async fn open_streams(
    client: &Client,
    names: &Names,
    access: &Access,
) -> Result<(Context, String, Duration), Error> {
    let mut context = jetstream::new(client.clone());
    context.set_timeout(REQUEST_TIMEOUT);
    let Access { lease, replicas, .. } = *access;
    let asked = Asked { lease, replicas };
    match streams::ensure(&context, names, asked).await {
        // Every user but the admin has an account of its own, in which the fleet's JetStream has this name.
        Err(_) if streams::is_without_jetstream(&context, names).await => {
            let api = names.api();
            context = jetstream::with_prefix(client.clone(), &api);
            context.set_timeout(REQUEST_TIMEOUT);
            let lease = streams::ensure(&context, names, asked).await?;
            Ok((context, api, lease))
        }
        lease => Ok((context, "$JS.API".to_owned(), lease?)),
    }
}

/// Whether a name is one part of a subject.
fn is_plain(name: &str) -> bool {
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-' || letter == b'_';
    !name.is_empty() && name.bytes().all(is_plain)
}

fn check_server(client: &Client) -> Result<(), Error> {
    let info = client.server_info();
    let mut numbers = info.version.split(['.', '-']).map(|part| part.parse::<u64>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < OLDEST {
        let message = format!(
            "the nats-server has version {}, but a fleet needs {}.{} or newer, because older versions ignore some settings: update it",
            info.version, OLDEST.0, OLDEST.1
        );
        return Err(Error::new(ErrorCode::FleetServerTooOld, message).with("version", info.version));
    }
    if !info.jetstream {
        let message = "the nats-server runs without JetStream: start it with -js, or a jetstream block in its configuration";
        return Err(Error::new(ErrorCode::FleetStorage, message));
    }
    if info.max_payload < LEAST_MESSAGE {
        let message = format!(
            "the nats-server takes messages of at most {} bytes, and a fleet needs {LEAST_MESSAGE}: raise its max_payload to 8 MB",
            info.max_payload
        );
        return Err(Error::new(ErrorCode::FleetStorage, message).with(TOO_LONG, true));
    }
    Ok(())
}

fn refused(access: &Access, error: &async_nats::ConnectError) -> Error {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            no_login(&shown(access))
        }
        ConnectErrorKind::ServerParse => Error::invalid_option(
            "servers",
            format!("{} is not an address of a server: expected one such as nats://host:4222", shown(access)),
        ),
        kind => match distrust(error) {
            Some(what) => Error::new(ErrorCode::FleetUnreachable, format!("{} {what}", shown(access)))
                .with("servers", plain_servers(access)),
            None if kind == ConnectErrorKind::Tls => {
                let message = format!(
                    "{} does not speak TLS as it should ({error}): give the server a certificate, or connect to it by nats://",
                    shown(access)
                );
                Error::new(ErrorCode::FleetUnreachable, message).with("servers", plain_servers(access))
            }
            None if kind == ConnectErrorKind::Io => unreachable_server(access, &error.to_string()),
            None => unreachable_server(access, &kind.to_string()),
        },
    }
}

fn no_login(servers: &str) -> Error {
    let message = format!("{servers} refused the login: check `token` or `credentials`");
    Error::new(ErrorCode::FleetUnauthorized, message)
}

fn unreachable_server(access: &Access, why: &str) -> Error {
    let message =
        format!("no nats-server at {} ({why}): start one there, or correct `servers`", shown(access));
    Error::new(ErrorCode::FleetUnreachable, message).with("servers", plain_servers(access))
}

fn shown(access: &Access) -> String {
    plain_servers(access).join(", ")
}

/// An address may have a login in it.
fn plain_servers(access: &Access) -> Vec<String> {
    access.servers.iter().map(|server| part(server).0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_be_said_is_known_by_its_subject_once() {
        let denied = Denied::default();
        denied.note("nats: Permissions Violation for Publish to \"sd.job.default.4.aB\"");
        denied.note("nats: Permissions Violation for Subscription to \"x\"");
        assert!(denied.has("sd.job.default.4.aB"));
        assert!(!denied.has("sd.job.default.4.aB"), "rights may be given meanwhile");
        assert!(!denied.has("x"));
    }

    #[test]
    fn a_refused_login_is_the_reason_until_there_is_a_connection() {
        let away = Away { servers: "nats://host".into(), ..Away::default() };
        let code = |away: &Away| away.error("no answer").code();
        away.on_failed("IO error".to_owned());
        assert_eq!(code(&away), ErrorCode::FleetUnreachable);
        away.on_failed("authorization violation".to_owned());
        assert_eq!(code(&away), ErrorCode::FleetUnauthorized);
        // The server closed the connection before its refusal was read.
        away.on_failed("IO error".to_owned());
        assert_eq!(code(&away), ErrorCode::FleetUnauthorized);
        lock(&away.tried).refused_at = Instant::now().checked_sub(REFUSED_FOR);
        assert_eq!(code(&away), ErrorCode::FleetUnreachable, "the server may be down by now");
        away.on_failed("authorization violation".to_owned());
        away.on_connected();
        assert_eq!(code(&away), ErrorCode::FleetUnreachable);
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        let access = Access {
            servers: vec![
                "nats://me:secret@host:4222".into(),
                "me:secret@other".into(),
                "tls://third".into(),
            ],
            ..Access::default()
        };
        assert_eq!(shown(&access), "nats://host:4222, other, tls://third");
    }
}
