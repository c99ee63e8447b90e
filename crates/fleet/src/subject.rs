//! PURE names of a fleet on its server: streams, subjects, consumers, message ids. Two fleets differ by their prefix.
//!
//! | subject | stream | holds |
//! |---|---|---|
//! | `sd.job.<queue>.<class>.<id>` | `SD_JOBS` | a job that waits or runs: its spec, or the name of the object with a long spec |
//! | `$KV.SD_RUN.<id>` | `KV_SD_RUN` | the job's record; every change is published on `sd.record.<id>` |
//! | `sd.log.<id>.<attempt>` | `SD_LOG` | events, one batch per message, one JSON object per line |
//! | `sd.dead.<queue>.<id>` | `SD_DEAD` | the spec of a job that did not get done |
//! | `$KV.SD_LEASE.<kind>.<name>` | `KV_SD_LEASE` | entries that expire: workers, slots of keys, holds |
//! | `$O.SD_ART.C.<number>`, `$O.SD_ART.M.<name>` | `OBJ_SD_ART` | chunks of objects; their metadata, in NATS's own format |
//!
//! Ids and queues may have any characters: one that a subject can't hold is written as `=` and two hexadecimal digits.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use ground::hex::hex;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Longest id, queue, key or name, in bytes: subjects have a bound.
pub const MAX_NAME_BYTES: usize = 200;

/// Longest name of a consumer that a server takes is 255 bytes.
const MAX_CONSUMER_BYTES: usize = 240;
/// A longer path of an artifact is replaced by its digest: a server ends the connection of a client whose subject is too long.
const MAX_PATH_BYTES: usize = 1000;

/// The highest class; its lane is asked first.
pub const MAX_PRIORITY: u8 = 9;
/// Priority of a job that does not set one.
pub const DEFAULT_PRIORITY: u8 = 4;
pub const DEFAULT_QUEUE: &str = "default";
/// Prefix of a fleet that does not set one.
pub const DEFAULT_PREFIX: &str = "sd";

/// The names of a fleet's streams, subjects and consumers on the server.
#[derive(Clone, Debug)]
pub struct Names {
    prefix: String,
    upper: String,
}

impl Names {
    /// `prefix`: letters, digits and `-`, checked by [`is_prefix`].
    pub fn new(prefix: &str) -> Self {
        Names { prefix: prefix.to_owned(), upper: prefix.to_uppercase() }
    }

    pub fn is_prefix(text: &str) -> bool {
        let is_letter = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
        !text.is_empty() && text.len() <= 32 && text.bytes().all(is_letter)
    }

    pub fn jobs_stream(&self) -> String {
        format!("{}_JOBS", self.upper)
    }

    pub fn log_stream(&self) -> String {
        format!("{}_LOG", self.upper)
    }

    pub fn dead_stream(&self) -> String {
        format!("{}_DEAD", self.upper)
    }

    /// The bucket of a key-value store; its stream has `KV_` before it.
    pub fn run_bucket(&self) -> String {
        format!("{}_RUN", self.upper)
    }

    pub fn lease_bucket(&self) -> String {
        format!("{}_LEASE", self.upper)
    }

    /// The bucket of the object store; its stream has `OBJ_` before it.
    pub fn blob_bucket(&self) -> String {
        format!("{}_ART", self.upper)
    }

    pub fn blob_stream(&self) -> String {
        format!("OBJ_{}", self.blob_bucket())
    }

    /// The stream that keeps a subject of this fleet.
    pub fn stream_of(&self, subject: &str) -> String {
        let (run, lease) = (format!("$KV.{}.", self.run_bucket()), format!("$KV.{}.", self.lease_bucket()));
        if subject.starts_with(&run) {
            self.run_stream()
        } else if subject.starts_with(&lease) {
            self.lease_stream()
        } else if subject.starts_with("$O.") {
            self.blob_stream()
        } else if subject.starts_with(&format!("{}.log.", self.prefix)) {
            self.log_stream()
        } else if subject.starts_with(&format!("{}.dead.", self.prefix)) {
            self.dead_stream()
        } else {
            self.jobs_stream()
        }
    }

    pub fn run_stream(&self) -> String {
        format!("KV_{}", self.run_bucket())
    }

    pub fn lease_stream(&self) -> String {
        format!("KV_{}", self.lease_bucket())
    }

    /// All streams of a fleet.
    pub fn streams(&self) -> [String; 6] {
        [
            self.jobs_stream(),
            self.run_stream(),
            self.lease_stream(),
            self.log_stream(),
            self.dead_stream(),
            self.blob_stream(),
        ]
    }

    /// The name of an object that is known by this subject.
    pub fn object_of(subject: &str) -> Option<String> {
        let encoded = subject.rsplit('.').next()?;
        String::from_utf8(URL_SAFE.decode(encoded).ok()?).ok()
    }

    pub fn all_objects(&self) -> String {
        format!("$O.{}.M.*", self.blob_bucket())
    }

    /// Subject of an object's metadata: the number of its last version, its length, its digest.
    pub fn object(&self, name: &str) -> String {
        format!("$O.{}.M.{}", self.blob_bucket(), URL_SAFE.encode(name))
    }

    /// Subject of the chunks of an object's version.
    pub fn chunks(&self, number: &str) -> String {
        format!("$O.{}.C.{number}", self.blob_bucket())
    }

    /// Prefix under which an account without JetStream of its own reaches the fleet's JetStream API.
    pub fn api(&self) -> String {
        format!("{}.api", self.prefix)
    }

    pub fn all_jobs(&self) -> String {
        format!("{}.job.>", self.prefix)
    }

    pub fn job(&self, queue: &str, priority: u8, id: &str) -> String {
        format!("{}.job.{}.{priority}.{}", self.prefix, escape(queue), escape(id))
    }

    /// Subject filter for a job's message in any queue and class.
    pub fn anywhere(&self, id: &str) -> String {
        format!("{}.job.*.*.{}", self.prefix, escape(id))
    }

    /// Subject filter for all jobs of a queue.
    pub fn queue(&self, queue: &str) -> String {
        format!("{}.job.{}.>", self.prefix, escape(queue))
    }

    /// The queue, and the id as subjects have it, of a job's subject.
    pub fn queue_of(subject: &str) -> Option<(String, String)> {
        let mut parts = subject.rsplit('.');
        let (id, _class, queue) = (parts.next()?, parts.next()?, parts.next()?);
        Some((unescape(queue)?, id.to_owned()))
    }

    /// Queue, class and id that a job's subject says.
    pub fn job_of(subject: &str) -> Option<(String, u8, String)> {
        let mut parts = subject.rsplit('.');
        let (id, class, queue) = (parts.next()?, parts.next()?, parts.next()?);
        Some((unescape(queue)?, class.parse().ok()?, unescape(id)?))
    }

    /// The id that a record's subject says.
    pub fn id_of(subject: &str) -> Option<String> {
        unescape(subject.rsplit('.').next()?)
    }

    /// An id as subjects have it.
    pub fn token(id: &str) -> String {
        escape(id)
    }

    pub fn class(&self, queue: &str, priority: u8) -> String {
        format!("{}.job.{}.{priority}.*", self.prefix, escape(queue))
    }

    pub fn consumer(queue: &str, priority: u8) -> String {
        let name = escape(queue);
        // No escaped name has two of these signs in a row.
        let name = if name.len() <= MAX_CONSUMER_BYTES { name } else { format!("=={}", digest(queue)) };
        format!("w_{name}_{priority}")
    }

    pub fn all_records(&self) -> String {
        format!("$KV.{}.>", self.run_bucket())
    }

    pub fn record(&self, id: &str) -> String {
        format!("$KV.{}.{}", self.run_bucket(), escape(id))
    }

    /// Subject on which the server publishes the changes of a record.
    pub fn record_told(&self, id: &str) -> String {
        format!("{}.record.{}", self.prefix, escape(id))
    }

    pub fn all_records_told(&self) -> String {
        format!("{}.record.>", self.prefix)
    }

    pub fn all_logs(&self) -> String {
        format!("{}.log.>", self.prefix)
    }

    pub fn log(&self, id: &str, attempt: u32) -> String {
        format!("{}.log.{}.{attempt}", self.prefix, escape(id))
    }

    pub fn logs(&self, id: &str) -> String {
        format!("{}.log.{}.*", self.prefix, escape(id))
    }

    /// The attempt that a log's subject names.
    pub fn attempt_of(subject: &str) -> Option<u32> {
        subject.rsplit('.').next()?.parse().ok()
    }

    pub fn all_dead(&self) -> String {
        format!("{}.dead.>", self.prefix)
    }

    pub fn dead(&self, queue: &str, id: &str) -> String {
        format!("{}.dead.{}.{}", self.prefix, escape(queue), escape(id))
    }

    pub fn dead_anywhere(&self, id: &str) -> String {
        format!("{}.dead.*.{}", self.prefix, escape(id))
    }

    pub fn all_leases(&self) -> String {
        format!("$KV.{}.>", self.lease_bucket())
    }

    pub fn worker(&self, worker: &str) -> String {
        format!("$KV.{}.worker.{}", self.lease_bucket(), escape(worker))
    }

    pub fn workers(&self) -> String {
        format!("$KV.{}.worker.*", self.lease_bucket())
    }

    /// One of the places that jobs of a key share.
    pub fn slot(&self, key: &str, slot: u32) -> String {
        format!("$KV.{}.key.{}.{slot}", self.lease_bucket(), escape(key))
    }

    /// All places of a key that are taken.
    pub fn slots(&self, key: &str) -> String {
        format!("$KV.{}.key.{}.*", self.lease_bucket(), escape(key))
    }

    /// A provider that all workers leave alone for a while.
    pub fn hold(&self, provider: &str) -> String {
        format!("$KV.{}.hold.{}", self.lease_bucket(), escape(provider))
    }

    /// Names the job that an agent's session was of last. No job's own object: those have a number there.
    pub fn session(provider: &str, session: &str) -> String {
        format!("session/{provider}/{}", escape(session))
    }

    /// An artifact of an attempt.
    pub fn artifact(id: &str, attempt: u32, path: &str) -> String {
        if path.len() > MAX_PATH_BYTES {
            return format!("{}/{attempt}//long/{}", escape(id), digest(path));
        }
        format!("{}/{attempt}/{path}", escape(id))
    }

    /// The spec of a job that is too long for its message.
    pub fn spec(id: &str) -> String {
        format!("{}/0//spec", escape(id))
    }
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Letters, digits, `-` and `_` stay; every other byte is written as `=` and its hexadecimal digits.
fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "={byte:02x}");
        }
    }
    escaped
}

fn unescape(name: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(name.len()), name.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        if *first == b'=' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_id_becomes_one_token_and_no_two_the_same() {
        let names = Names::new("sd");
        assert_eq!(names.job("default", 4, "a1"), "sd.job.default.4.a1");
        assert_eq!(names.record("repo:x/1.2"), "$KV.SD_RUN.repo=3ax=2f1=2e2");
        let ids = ["a.b", "a=2eb", "a b", "a>", "*", "ä", "A", "a"];
        let subjects: std::collections::HashSet<String> = ids.iter().map(|id| names.record(id)).collect();
        assert_eq!(subjects.len(), ids.len());
        for subject in subjects {
            assert_eq!(subject.matches('.').count(), 2, "{subject}");
            assert!(!subject.contains(['*', '>', ' ']), "{subject}");
        }
    }

    #[test]
    fn a_job_s_subject_says_its_queue() {
        let names = Names::new("sd");
        for queue in ["default", "eu/linux 1.2", "ä="] {
            let found = Names::queue_of(&names.job(queue, 4, "a.7"));
            assert_eq!(found, Some((queue.to_owned(), Names::token("a.7"))));
        }
        assert_eq!(Names::queue_of("sd.job.=g.4.x"), None);
        let subject = names.job("a.b", 7, "ä/1");
        assert_eq!(Names::job_of(&subject), Some(("a.b".to_owned(), 7, "ä/1".to_owned())));
        assert_eq!(Names::job_of("sd.job.a.x.b"), None);
        assert_eq!(Names::id_of(&names.record("ä/1")).as_deref(), Some("ä/1"));
    }

    #[test]
    fn no_name_is_longer_than_a_server_takes() {
        let names = Names::new("sd");
        let longest = "ü".repeat(MAX_NAME_BYTES / 2);
        let consumer = Names::consumer(&longest, 9);
        assert!(consumer.len() <= 255, "{}", consumer.len());
        assert_ne!(consumer, Names::consumer(&"ä".repeat(MAX_NAME_BYTES / 2), 9));
        let path = "d/".repeat(2000);
        let object = Names::artifact(&longest, 1, &path);
        assert!(names.object(&object).len() < 3000, "{}", names.object(&object).len());
        assert_ne!(object, Names::artifact(&longest, 1, &"e/".repeat(2000)));
        assert_eq!(Names::spec("a"), "a/0//spec", "as it was before");
    }

    #[test]
    fn every_subject_says_its_stream() {
        let names = Names::new("sd");
        for (subject, stream) in [
            (names.job("default", 4, "a"), names.jobs_stream()),
            (names.record("a"), names.run_stream()),
            (names.slot("k", 0), names.lease_stream()),
            (names.log("a", 1), names.log_stream()),
            (names.dead("default", "a"), names.dead_stream()),
            (names.object("a/1/x"), names.blob_stream()),
            (names.chunks("n"), names.blob_stream()),
        ] {
            assert_eq!(names.stream_of(&subject), stream, "{subject}");
            assert!(names.streams().contains(&stream));
        }
        assert_eq!(Names::object_of(&names.object("a/1/x y")).as_deref(), Some("a/1/x y"));
    }

    #[test]
    fn a_log_says_its_attempt() {
        let names = Names::new("sd");
        assert_eq!(Names::attempt_of(&names.log("a.7", 12)), Some(12));
        assert_eq!(Names::attempt_of("sd.log.a.end"), None);
    }

    #[test]
    fn two_prefixes_share_no_subject() {
        let (one, two) = (Names::new("sd"), Names::new("team-2"));
        assert_eq!(two.jobs_stream(), "TEAM-2_JOBS");
        assert_ne!(one.record("a"), two.record("a"));
        assert!(Names::is_prefix("team-2"));
        for wrong in ["", "Team", "a.b", "a b", "a_b"] {
            assert!(!Names::is_prefix(wrong), "{wrong}");
        }
    }
}
