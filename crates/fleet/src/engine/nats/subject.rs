//! PURE names of a fleet on its server: streams, subjects, consumers, message ids. Two fleets differ by their prefix.
//!
//! | subject | stream | holds |
//! |---|---|---|
//! | `sd.job.<queue>.<class>.<id>` | `SD_JOBS` | a job that waits or runs: its spec, or the name of the object with a long spec |
//! | `$KV.SD_RUN.<id>` | `KV_SD_RUN` | the job's record; every change is published on `sd.record.<id>` |
//! | `$KV.SD_RUN.<kind>.<name>` | `KV_SD_RUN` | a setting: a paused queue, a schedule; published on `sd.record.<kind>.<name>` |
//! | `sd.log.<id>.<attempt>` | `SD_LOG` | events, one batch per message, one JSON object per line; its sequence is published on `sd.record.log.<id>.<attempt>` |
//! | `sd.dead.<queue>.<id>` | `SD_DEAD` | the spec of a job that did not get done |
//! | `$KV.SD_LEASE.<kind>.<name>` | `KV_SD_LEASE` | entries that expire: workers, slots of keys, holds |
//! | `$O.SD_ART.C.<number>`, `$O.SD_ART.M.<name>` | `OBJ_SD_ART` | chunks of objects; their metadata, in NATS's own format |
//!
//! Ids and queues may have any characters: one that a subject can't hold is written as `=` and two hexadecimal digits.

use crate::engine::value::{Group, Key};
use crate::name::{digest, escape, unescape};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use std::collections::BTreeSet;

/// Longest name of a consumer that a server takes is 255 bytes.
const MAX_CONSUMER_BYTES: usize = 240;
/// The names of a fleet's streams, subjects and consumers on the server.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
    upper: String,
}

impl Names {
    /// `prefix`: letters, digits and `-`, checked by [`is_prefix`].
    pub(crate) fn new(prefix: &str) -> Self {
        Names { prefix: prefix.to_owned(), upper: prefix.to_uppercase() }
    }

    pub(crate) fn jobs_stream(&self) -> String {
        format!("{}_JOBS", self.upper)
    }

    pub(crate) fn log_stream(&self) -> String {
        format!("{}_LOG", self.upper)
    }

    pub(crate) fn dead_stream(&self) -> String {
        format!("{}_DEAD", self.upper)
    }

    /// The bucket of a key-value store; its stream has `KV_` before it.
    pub(crate) fn run_bucket(&self) -> String {
        format!("{}_RUN", self.upper)
    }

    pub(crate) fn lease_bucket(&self) -> String {
        format!("{}_LEASE", self.upper)
    }

    /// The bucket of the object store; its stream has `OBJ_` before it.
    pub(crate) fn blob_bucket(&self) -> String {
        format!("{}_ART", self.upper)
    }

    pub(crate) fn blob_stream(&self) -> String {
        format!("OBJ_{}", self.blob_bucket())
    }

    /// The stream that keeps a subject of this fleet. A subject may be a filter for several.
    pub(crate) fn stream_of(&self, subject: &str) -> String {
        for (prefix, stream) in [
            (format!("$KV.{}.", self.run_bucket()), self.run_stream()),
            (format!("$KV.{}.", self.lease_bucket()), self.lease_stream()),
            ("$O.".to_owned(), self.blob_stream()),
            (format!("{}.log.", self.prefix), self.log_stream()),
            (format!("{}.dead.", self.prefix), self.dead_stream()),
        ] {
            if subject.starts_with(&prefix) {
                return stream;
            }
        }
        self.jobs_stream()
    }

    pub(crate) fn run_stream(&self) -> String {
        format!("KV_{}", self.run_bucket())
    }

    pub(crate) fn lease_stream(&self) -> String {
        format!("KV_{}", self.lease_bucket())
    }

    /// The streams of the fleet.
    pub(crate) fn streams(&self) -> BTreeSet<String> {
        BTreeSet::from([
            self.jobs_stream(),
            self.run_stream(),
            self.lease_stream(),
            self.log_stream(),
            self.dead_stream(),
            self.blob_stream(),
        ])
    }

    /// The name of an object that is known by this subject.
    pub(crate) fn object_of(subject: &str) -> Option<String> {
        let encoded = subject.rsplit('.').next()?;
        String::from_utf8(URL_SAFE.decode(encoded).ok()?).ok()
    }

    pub(crate) fn all_objects(&self) -> String {
        format!("$O.{}.M.*", self.blob_bucket())
    }

    /// Subject of an object's metadata: the number of its last version, its length, its digest.
    pub(crate) fn object(&self, name: &str) -> String {
        format!("$O.{}.M.{}", self.blob_bucket(), URL_SAFE.encode(name))
    }

    /// Subject of the chunks of an object's version.
    pub(crate) fn chunks(&self, number: &str) -> String {
        format!("$O.{}.C.{number}", self.blob_bucket())
    }

    /// Prefix under which an account without JetStream of its own reaches the fleet's JetStream API.
    pub(crate) fn api(&self) -> String {
        format!("{}.api", self.prefix)
    }

    pub(crate) fn all_jobs(&self) -> String {
        format!("{}.job.>", self.prefix)
    }

    pub(crate) fn job(&self, queue: &str, priority: u8, id: &str) -> String {
        format!("{}.job.{}.{priority}.{}", self.prefix, escape(queue), escape(id))
    }

    /// Subject filter for a job's message in any queue and class.
    pub(crate) fn anywhere(&self, id: &str) -> String {
        format!("{}.job.*.*.{}", self.prefix, escape(id))
    }

    /// Subject filter for all jobs of a queue.
    pub(crate) fn queue(&self, queue: &str) -> String {
        format!("{}.job.{}.>", self.prefix, escape(queue))
    }

    /// Queue, class and id that a job's subject says.
    pub(crate) fn job_of(subject: &str) -> Option<(String, u8, String)> {
        let mut parts = subject.rsplit('.');
        let (id, class, queue) = (parts.next()?, parts.next()?, parts.next()?);
        Some((unescape(queue)?, class.parse().ok()?, unescape(id)?))
    }

    pub(crate) fn class(&self, queue: &str, priority: u8) -> String {
        format!("{}.job.{}.{priority}.*", self.prefix, escape(queue))
    }

    pub(crate) fn consumer(queue: &str, priority: u8) -> String {
        let name = escape(queue);
        // No escaped name has two of these signs in a row.
        let name = if name.len() <= MAX_CONSUMER_BYTES { name } else { format!("=={}", digest(queue)) };
        format!("w_{name}_{priority}")
    }

    pub(crate) fn all_records(&self) -> String {
        format!("$KV.{}.>", self.run_bucket())
    }

    /// Settings are stored beside the records, so that their changes are published as well. A job's id has no dot here.
    pub(crate) fn entry(&self, key: &Key) -> String {
        self.stored(&Group::One(key.clone()))
    }

    /// Subject filter for a group of entries.
    pub(crate) fn stored(&self, group: &Group) -> String {
        let bucket = match group.first() {
            Key::Worker(_) | Key::Place(..) | Key::Hold(_) => self.lease_bucket(),
            Key::Record(_) | Key::Pause(_) | Key::Drain(_) | Key::Schedule(_) => self.run_bucket(),
        };
        format!("$KV.{bucket}.{}", path(group))
    }

    /// Subject on which the server publishes the changes of these records or settings.
    pub(crate) fn told(&self, group: &Group) -> String {
        format!("{}.record.{}", self.prefix, path(group))
    }

    /// The key of the entry that is stored or published under this subject.
    pub(crate) fn key_of(&self, subject: &str) -> Option<Key> {
        let parts: Vec<&str> = subject.split('.').skip(2).collect();
        let name = unescape(parts.get(1).or(parts.first())?)?;
        Some(match parts[..] {
            [_] => Key::Record(name),
            ["pause", _] => Key::Pause(name),
            ["drain", _] => Key::Drain(name),
            ["schedule", _] => Key::Schedule(name),
            ["worker", _] => Key::Worker(name),
            ["hold", _] => Key::Hold(name),
            ["key", _, number] => Key::Place(name, number.parse().ok()?),
            _ => return None,
        })
    }

    pub(crate) fn all_records_told(&self) -> String {
        format!("{}.record.>", self.prefix)
    }

    pub(crate) fn all_logs(&self) -> String {
        format!("{}.log.>", self.prefix)
    }

    pub(crate) fn log(&self, id: &str, attempt: u32) -> String {
        format!("{}.log.{}.{attempt}", self.prefix, escape(id))
    }

    pub(crate) fn logs(&self, id: &str) -> String {
        format!("{}.log.{}.*", self.prefix, escape(id))
    }

    /// Subject on which the server publishes that it has stored a batch of the job's logs.
    pub(crate) fn logs_told(&self, id: &str) -> String {
        format!("{}.record.log.{}.*", self.prefix, escape(id))
    }

    pub(crate) fn all_logs_told(&self) -> String {
        format!("{}.record.log.>", self.prefix)
    }

    /// The attempt that a log's subject names.
    pub(crate) fn attempt_of(subject: &str) -> Option<u32> {
        subject.rsplit('.').next()?.parse().ok()
    }

    pub(crate) fn all_dead(&self) -> String {
        format!("{}.dead.>", self.prefix)
    }

    pub(crate) fn dead(&self, queue: &str, id: &str) -> String {
        format!("{}.dead.{}.{}", self.prefix, escape(queue), escape(id))
    }

    pub(crate) fn dead_anywhere(&self, id: &str) -> String {
        format!("{}.dead.*.{}", self.prefix, escape(id))
    }

    pub(crate) fn all_leases(&self) -> String {
        format!("$KV.{}.>", self.lease_bucket())
    }
}

/// The part of a subject that tells entries of one bucket apart.
fn path(group: &Group) -> String {
    let first = group.first();
    let (kind, name) = match &first {
        Key::Record(name) => ("", name),
        Key::Pause(name) => ("pause.", name),
        Key::Drain(name) => ("drain.", name),
        Key::Schedule(name) => ("schedule.", name),
        Key::Worker(name) => ("worker.", name),
        Key::Place(name, _) => ("key.", name),
        Key::Hold(name) => ("hold.", name),
    };
    let name = escape(name);
    match (group, first.number()) {
        (Group::One(_), None) => format!("{kind}{name}"),
        (Group::One(_), Some(number)) => format!("{kind}{name}.{number}"),
        (Group::PlacesOf(_), _) => format!("{kind}{name}.*"),
        (Group::Places, _) => format!("{kind}>"),
        _ => format!("{kind}*"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{MAX_NAME_BYTES, artifact_object};

    fn record(id: &str) -> Key {
        Key::Record(id.to_owned())
    }

    #[test]
    fn any_id_becomes_one_token_and_no_two_the_same() {
        let names = Names::new("sd");
        assert_eq!(names.job("default", 4, "a1"), "sd.job.default.4.a1");
        assert_eq!(names.entry(&record("repo:x/1.2")), "$KV.SD_RUN.repo=3ax=2f1=2e2");
        let ids = ["a.b", "a=2eb", "a b", "a>", "*", "ä", "A", "a"];
        let subjects: std::collections::HashSet<String> =
            ids.iter().map(|id| names.entry(&record(id))).collect();
        assert_eq!(subjects.len(), ids.len());
        for subject in subjects {
            assert_eq!(subject.matches('.').count(), 2, "{subject}");
            assert!(!subject.contains(['*', '>', ' ']), "{subject}");
        }
    }

    #[test]
    fn a_job_s_subject_says_its_queue() {
        let names = Names::new("sd");
        assert_eq!(Names::job_of("sd.job.=g.4.x"), None);
        let subject = names.job("a.b", 7, "ä/1");
        assert_eq!(Names::job_of(&subject), Some(("a.b".to_owned(), 7, "ä/1".to_owned())));
        assert_eq!(Names::job_of("sd.job.a.x.b"), None);
    }

    #[test]
    fn the_subject_of_an_entry_says_its_key() {
        let names = Names::new("team-2");
        let groups =
            [Group::Records, Group::Pauses, Group::Drains, Group::Schedules, Group::Workers, Group::Places];
        for group in groups {
            for name in ["pause", "a.b", "ä/1", "*"] {
                let key = match group.first() {
                    Key::Record(_) => record(name),
                    Key::Pause(_) => Key::Pause(name.into()),
                    Key::Drain(_) => Key::Drain(name.into()),
                    Key::Schedule(_) => Key::Schedule(name.into()),
                    Key::Worker(_) => Key::Worker(name.into()),
                    Key::Place(..) => Key::Place(name.into(), 12),
                    Key::Hold(_) => Key::Hold(name.into()),
                };
                for subject in [names.entry(&key), names.told(&Group::One(key.clone()))] {
                    assert_eq!(names.key_of(&subject).as_ref(), Some(&key), "{subject}");
                }
                assert!(group.has(&key) && !Group::PlacesOf("other".into()).has(&key));
            }
        }
        assert_eq!(names.stored(&Group::PlacesOf("a.b".into())), "$KV.TEAM-2_LEASE.key.a=2eb.*");
        assert_eq!(names.stored(&Group::Places), "$KV.TEAM-2_LEASE.key.>");
        assert_eq!(names.told(&Group::Pauses), "team-2.record.pause.*");
    }

    #[test]
    fn no_name_is_longer_than_a_server_takes() {
        let names = Names::new("sd");
        let longest = "ü".repeat(MAX_NAME_BYTES / 2);
        let consumer = Names::consumer(&longest, 9);
        assert!(consumer.len() <= 255, "{}", consumer.len());
        assert_ne!(consumer, Names::consumer(&"ä".repeat(MAX_NAME_BYTES / 2), 9));
        let object = artifact_object(&longest, 1, &"d/".repeat(2000));
        assert!(names.object(&object).len() < 3000, "{}", names.object(&object).len());
    }

    #[test]
    fn every_subject_says_its_stream() {
        let names = Names::new("sd");
        for (subject, stream) in [
            (names.job("default", 4, "a"), names.jobs_stream()),
            (names.anywhere("a"), names.jobs_stream()),
            (names.entry(&record("a")), names.run_stream()),
            (names.stored(&Group::Pauses), names.run_stream()),
            (names.entry(&Key::Hold("k".into())), names.lease_stream()),
            (names.stored(&Group::Places), names.lease_stream()),
            (names.log("a", 1), names.log_stream()),
            (names.logs("a"), names.log_stream()),
            (names.dead("default", "a"), names.dead_stream()),
            (names.dead_anywhere("a"), names.dead_stream()),
            (names.all_objects(), names.blob_stream()),
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
        assert_ne!(one.entry(&record("a")), two.entry(&record("a")));
    }
}
