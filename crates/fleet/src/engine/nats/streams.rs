//! The streams of a fleet. The first member that connects creates them; all others find them, and compare them with their
//! options.

use super::subject::Names;
use crate::engine::value::KEPT;
use crate::lease::DEFAULT_LEASE;
use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::{
    Compression, Config, DiscardPolicy, Republish, RetentionPolicy, StorageType, Stream,
};
use async_nats::jetstream::{Context, ErrorCode as ServerCode};
use futures_util::future::join_all;
use ground::error::{Error, ErrorCode};
use std::collections::HashMap;
use std::time::Duration;

/// The lease of a fleet, in the metadata of its head.
const LEASE_KEY: &str = "sheepdog-lease-ms";

/// Time in which the servers of a cluster must find each other.
const CLUSTER_WITHIN: Duration = Duration::from_secs(15);
/// Time in which another member that sets up the same fleet must be done.
const OTHERS_WITHIN: Duration = Duration::from_secs(5);
/// Time within which repeated submits of one id count as one.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// Largest and smallest size of all streams together. On a server with less room the size is halved until it fits.
const MOST_BYTES: i64 = 32 << 30;
const LEAST_BYTES: i64 = 256 << 20;
/// A message queued takes little; a million that wait are a mistake somewhere.
const MAX_JOBS: i64 = 1_000_000;

/// Ten for each queue. A server allows 1,000 when it is not told.
const MAX_CONSUMERS: i32 = 100_000;

/// The wishes of a member that connects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub lease: Option<Duration>,
    /// Copies of everything, when the fleet is new.
    pub replicas: Option<usize>,
}

/// The lease is the one that a member asks for, if it asks for one.
fn check(lease: Duration, asked: Asked) -> Result<Duration, Error> {
    match asked.lease.filter(|asked| *asked != lease) {
        None => Ok(lease),
        Some(asked) => {
            let problem = format!(
                "this fleet's lease is {} ms, stored at its first connect, got {} ms",
                lease.as_millis(),
                asked.as_millis()
            );
            Err(Error::invalid_option("leaseMs", problem))
        }
    }
}

/// Makes what is missing. Returns the fleet's lease.
pub(super) async fn ensure(context: &Context, names: &Names, asked: Asked) -> Result<Duration, Error> {
    let replicas = asked.replicas.unwrap_or(1);
    let present = look_for(context, names.streams()).await;
    if let Some(lease) = found(&present, names)? {
        check(lease, asked)?;
        // A second look at each stream is cheap, and heals a first connect that was cut off.
        make(context, configs(names, lease, replicas), present).await?;
        return Ok(lease);
    }
    let lease = asked.lease.unwrap_or(DEFAULT_LEASE);
    let made = make(context, configs(names, lease, replicas), present).await;
    // Two may have been the first at once: what is stored counts, also if the other one took the room for this one's streams.
    let present = look_for(context, names.streams()).await;
    let lease = match found(&present, names)? {
        Some(lease) => lease,
        None => made.map(|()| lease)?,
    };
    check(lease, asked)?;
    make(context, configs(names, lease, replicas), present).await?;
    Ok(lease)
}

/// Streams by their names.
type Present = HashMap<String, Result<Stream, GetStreamError>>;

/// All at once: a slow link costs one round trip, not one for each stream.
async fn look_for(context: &Context, names: impl IntoIterator<Item = String>) -> Present {
    let asked = names.into_iter().map(async |name| (name.clone(), context.get_stream(&name).await));
    join_all(asked).await.into_iter().collect()
}

fn found(present: &Present, names: &Names) -> Result<Option<Duration>, Error> {
    let lease_in =
        |metadata: &HashMap<String, String>| metadata.get(LEASE_KEY)?.parse().ok().map(Duration::from_millis);
    // The last one that is made says that all are there.
    let Some(head) = present.get(&names.jobs_stream()) else { return Ok(None) };
    match head {
        Ok(stream) => lease_in(&stream.cached_info().config.metadata).map(Some).ok_or_else(|| {
            let message = format!(
                "the server has a stream {} that does not belong to a fleet: give the fleet another `prefix`",
                names.jobs_stream()
            );
            Error::new(ErrorCode::FleetStorage, message)
        }),
        Err(error) if is_missing(error) => Ok(None),
        Err(error) => Err(Error::new(
            ErrorCode::FleetUnreachable,
            format!("the server's JetStream does not answer ({error}): is it enabled for this account?"),
        )),
    }
}

fn is_missing(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(server) if server.error_code() == ServerCode::STREAM_NOT_FOUND)
}

/// Whether the server has no fleet of this name.
pub(super) async fn are_missing(context: &Context, names: &Names) -> bool {
    context.get_stream(names.jobs_stream()).await.is_err_and(|error| is_missing(&error))
}

/// Whether the account of this user has no JetStream.
pub(super) async fn is_without_jetstream(context: &Context, names: &Names) -> bool {
    match context.get_stream(names.jobs_stream()).await.map_err(|error| error.kind()) {
        Err(GetStreamErrorKind::JetStream(server)) => {
            server.error_code() == ServerCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT
        }
        _ => false,
    }
}

async fn make(context: &Context, configs: Vec<Config>, present: Present) -> Result<(), Error> {
    let mut room = MOST_BYTES;
    // Streams that can be shrunk, each with the room it has. Another try never grows one: two members that set up a fleet at the same
    // time would take the room from each other again and again.
    let mut made: Vec<(Config, i64)> = Vec::new();
    let begun = std::time::Instant::now();
    let is_cluster = configs.iter().any(|config| config.num_replicas > 1);
    let all: Vec<String> = configs.iter().map(|config| config.name.clone()).collect();
    let is_set_up = all.last().is_some_and(|head| matches!(present.get(head), Some(Ok(_))));
    for config in configs {
        if let Some(Ok(stream)) = present.get(&config.name)
            && fits(&stream.cached_info().config, &config)
        {
            // Streams of a fleet that was set up in part may have taken all of the room. Nothing of value is in them.
            if !is_set_up {
                let given = stream.cached_info().config.max_bytes / config.max_bytes * WHOLE;
                made.push((config, given));
            }
            continue;
        }
        loop {
            match context.create_stream(sized(&config, room)).await {
                Ok(stream) if fits(&stream.cached_info().config, &config) => {
                    made.push((config, room));
                    break;
                }
                Ok(_) => return Err(ignored(&config.name)),
                Err(error) => match error.kind() {
                    CreateStreamErrorKind::JetStream(server) if is_room(server.error_code()) => {
                        // Members that set up a new fleet at the same time reserve room for the same streams.
                        if context.get_stream(&config.name).await.is_ok() {
                            break;
                        }
                        room /= 2;
                        // The servers of a cluster that is coming up may not know each other yet: it says the same then.
                        let may_pass = if is_cluster {
                            begun.elapsed() < CLUSTER_WITHIN
                        } else {
                            begun.elapsed() < OTHERS_WITHIN && exist(context, &all).await > made.len()
                        };
                        if room < LEAST_BYTES && may_pass {
                            tokio::time::sleep(Duration::from_millis(250)).await;
                            room = MOST_BYTES;
                            continue;
                        }
                        if room < LEAST_BYTES {
                            let message = format!(
                                "the server has no room for a fleet's streams (less than {} MiB): raise max_file_store{}",
                                LEAST_BYTES >> 20,
                                if is_cluster {
                                    "; or the cluster has fewer servers than `replicas` asks for"
                                } else {
                                    ""
                                }
                            );
                            return Err(Error::new(ErrorCode::FleetStorage, message));
                        }
                        // The streams that were already created take too much of the available room, so shrink them.
                        for (larger, given) in made.iter_mut().filter(|(_, given)| *given > room) {
                            let _ = context.update_stream(sized(larger, room)).await;
                            *given = room;
                        }
                    }
                    // Another member created the stream first, with other sizes.
                    CreateStreamErrorKind::JetStream(server)
                        if server.error_code() == ServerCode::STREAM_NAME_EXIST =>
                    {
                        break;
                    }
                    _ => {
                        let message = format!("cannot create the stream {}: {error}", config.name);
                        return Err(Error::new(ErrorCode::FleetStorage, message));
                    }
                },
            }
        }
    }
    Ok(())
}

/// How many of these streams exist.
async fn exist(context: &Context, names: &[String]) -> usize {
    let found = join_all(names.iter().map(|name| context.get_stream(name))).await;
    found.iter().filter(|stream| stream.is_ok()).count()
}

/// Its share of the room.
fn sized(config: &Config, room: i64) -> Config {
    Config { max_bytes: (room / WHOLE).saturating_mul(config.max_bytes), ..config.clone() }
}

fn is_room(code: ServerCode) -> bool {
    matches!(
        code,
        ServerCode::STORAGE_RESOURCES_EXCEEDED
            | ServerCode::INSUFFICIENT_RESOURCES
            | ServerCode::ACCOUNT_RESOURCES_EXCEEDED
            | ServerCode::CLUSTER_NO_PEERS
    )
}

/// Whether the server took what matters: one that does not know a setting leaves it out without a word.
fn fits(got: &Config, asked: &Config) -> bool {
    got.allow_message_ttl == asked.allow_message_ttl
        && got.retention == asked.retention
        && got.discard_new_per_subject == asked.discard_new_per_subject
        && got.max_messages_per_subject == asked.max_messages_per_subject
        && got.republish.is_some() == asked.republish.is_some()
        && got.subjects == asked.subjects
}

fn ignored(name: &str) -> Error {
    let message = format!(
        "the server ignored some settings of the stream {name}: update nats-server, or look for a stream of that name that does not belong to a fleet"
    );
    Error::new(ErrorCode::FleetServerTooOld, message)
}

/// The share of a stream that has all of the room.
const WHOLE: i64 = 10_000;

/// `max_bytes` is a share of the room here.
fn configs(names: &Names, lease: Duration, replicas: usize) -> Vec<Config> {
    let base = Config {
        storage: StorageType::File,
        num_replicas: replicas,
        max_messages: -1,
        max_messages_per_subject: -1,
        max_consumers: MAX_CONSUMERS,
        duplicate_window: DUPLICATE_WINDOW,
        ..Config::default()
    };
    let run = Config {
        name: names.run_stream(),
        subjects: vec![names.all_records()],
        max_messages_per_subject: 1,
        max_bytes: 800,
        discard: DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        allow_message_ttl: true,
        republish: Some(Republish {
            source: names.all_records(),
            destination: names.all_records_told(),
            headers_only: false,
        }),
        ..base.clone()
    };
    let leases = Config {
        name: names.lease_stream(),
        subjects: vec![names.all_leases()],
        max_messages_per_subject: 1,
        max_bytes: 100,
        discard: DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        allow_message_ttl: true,
        ..base.clone()
    };
    let log = Config {
        name: names.log_stream(),
        subjects: vec![names.all_logs()],
        max_bytes: 4000,
        max_age: KEPT,
        discard: DiscardPolicy::Old,
        compression: Some(Compression::S2),
        allow_direct: true,
        republish: Some(Republish {
            source: names.all_logs(),
            destination: names.all_logs_told(),
            headers_only: true,
        }),
        ..base.clone()
    };
    let dead = Config {
        name: names.dead_stream(),
        subjects: vec![names.all_dead()],
        max_messages_per_subject: 1,
        max_bytes: 400,
        max_age: KEPT,
        discard: DiscardPolicy::Old,
        allow_direct: true,
        ..base.clone()
    };
    let blob = Config {
        name: names.blob_stream(),
        subjects: vec![format!("$O.{}.C.>", names.blob_bucket()), format!("$O.{}.M.>", names.blob_bucket())],
        max_bytes: 3500,
        max_age: KEPT,
        discard: DiscardPolicy::New,
        allow_rollup: true,
        allow_direct: true,
        ..base.clone()
    };
    // Made last: it says that all are there.
    let jobs = Config {
        metadata: HashMap::from([(LEASE_KEY.to_owned(), lease.as_millis().to_string())]),
        name: names.jobs_stream(),
        subjects: vec![names.all_jobs()],
        retention: RetentionPolicy::WorkQueue,
        max_messages: MAX_JOBS,
        max_messages_per_subject: 1,
        max_bytes: 800,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        allow_atomic_publish: true,
        // Listing in batches needs direct access.
        allow_direct: true,
        ..base.clone()
    };
    vec![leases, log, dead, blob, run, jobs]
}

#[cfg(test)]
mod tests {
    use super::super::test_server::TestServer;
    use super::*;

    /// Members of a cluster give streams room by figures of its servers that are seconds old, so that none is left for the last one.
    #[tokio::test]
    async fn a_fleet_that_was_set_up_in_part_gives_the_last_stream_room() {
        let Some(server) = TestServer::start().await else { return };
        let engine = server.engine().await;
        let (context, names) = (&engine.nats.0.context, engine.names());
        context.delete_stream(names.jobs_stream()).await.unwrap();
        let account = context.query_account().await.unwrap();
        let log = context.get_stream(names.log_stream()).await.unwrap().cached_info().config.clone();
        let free = (4 << 30) - i64::try_from(account.reserved_storage).unwrap();
        let max_bytes = log.max_bytes + free - (1 << 20);
        context.update_stream(Config { max_bytes, ..log }).await.unwrap();
        server.engine().await;
        context.get_stream(names.jobs_stream()).await.unwrap();
        let log = context.get_stream(names.log_stream()).await.unwrap().cached_info().config.max_bytes;
        assert!(log < max_bytes, "{log}");
    }
}
