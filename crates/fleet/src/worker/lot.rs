//! PURE: the jobs that a worker keeps because their key has no free place. Each was given back with a delay, so that another
//! worker gets it if this one is lost. Until that delay is over, this worker can take it up again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant, SystemTime};

/// Bytes of the jobs that are kept. More jobs come back after their delay only.
const MOST_BYTES: usize = 64 << 20;
/// Bytes that a job takes besides its spec.
const OVERHEAD: usize = 1 << 10;
/// A job whose delay is over so soon is not given back a second time: another worker might have it by the time that the server
/// hears of it.
const MARGIN: Duration = Duration::from_secs(2);

/// The highest class first, then the oldest message.
type Rank = (Reverse<u8>, SystemTime, u64);

/// A job that waits for a place of its key.
#[derive(Debug)]
pub(super) struct Parked<T> {
    pub delivery: T,
    /// The server returns its message then.
    pub until: Instant,
    pub queue: String,
    pub class: u8,
    /// When its message was stored, and the message's sequence.
    pub age: (SystemTime, u64),
    /// Length of its spec.
    pub bytes: usize,
}

impl<T> Parked<T> {
    fn rank(&self) -> Rank {
        (Reverse(self.class), self.age.0, self.age.1)
    }

    fn may_start(&self, paused: &BTreeSet<String>, now: Instant) -> bool {
        self.until > now && !paused.contains(&self.queue)
    }
}

/// The jobs of a key; never empty.
struct Row<T> {
    limit: u32,
    /// Places that are free, as far as this worker knows.
    free: u32,
    jobs: BTreeMap<Rank, Parked<T>>,
}

/// The jobs that wait in one worker.
pub(super) struct Lot<T> {
    rows: HashMap<String, Row<T>>,
    bytes: usize,
}

impl<T> Lot<T> {
    pub(super) fn new() -> Lot<T> {
        Lot { rows: HashMap::new(), bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether jobs of the key wait: one that comes now is behind them.
    pub(super) fn has(&self, key: &str) -> bool {
        self.rows.contains_key(key)
    }

    /// Takes a job in. One for which there is no room comes back after its delay. `limit`: places of the key.
    pub(super) fn park(&mut self, key: &str, limit: u32, job: Parked<T>) {
        let bytes = job.bytes + OVERHEAD;
        if self.bytes + bytes > MOST_BYTES {
            return;
        }
        self.bytes += bytes;
        let row =
            self.rows.entry(key.to_owned()).or_insert_with(|| Row { limit, free: 0, jobs: BTreeMap::new() });
        row.limit = limit;
        if let Some(old) = row.jobs.insert(job.rank(), job) {
            self.bytes -= old.bytes + OVERHEAD;
        }
    }

    /// Forgets a job whose message came back.
    pub(super) fn forget(&mut self, key: &str, class: u8, age: (SystemTime, u64)) {
        self.remove(key, (Reverse(class), age.0, age.1));
    }

    /// So many places of the key are free.
    pub(super) fn set_free(&mut self, key: &str, free: u32) {
        if let Some(row) = self.rows.get_mut(key) {
            row.free = free.min(row.limit);
        }
    }

    /// One more place of the key is free.
    pub(super) fn add_free(&mut self, key: &str) {
        if let Some(row) = self.rows.get_mut(key) {
            row.free = (row.free + 1).min(row.limit);
        }
    }

    /// Class of the job that [`Lot::take`] takes.
    pub(super) fn first(&self, paused: &BTreeSet<String>, now: Instant) -> Option<u8> {
        self.best(paused, now).map(|(_, (Reverse(class), _, _))| class)
    }

    /// Takes out the first job whose key has a free place, and counts that place as taken.
    pub(super) fn take(&mut self, paused: &BTreeSet<String>, now: Instant) -> Option<Parked<T>> {
        let (key, rank) = self.best(paused, now)?;
        let key = key.to_owned();
        self.rows.get_mut(&key)?.free -= 1;
        self.remove(&key, rank)
    }

    fn remove(&mut self, key: &str, rank: Rank) -> Option<Parked<T>> {
        let row = self.rows.get_mut(key)?;
        let job = row.jobs.remove(&rank)?;
        if row.jobs.is_empty() {
            self.rows.remove(key);
        }
        self.bytes -= job.bytes + OVERHEAD;
        Some(job)
    }

    fn best(&self, paused: &BTreeSet<String>, now: Instant) -> Option<(&str, Rank)> {
        let open = self.rows.iter().filter(|(_, row)| row.free > 0);
        let first = open.filter_map(|(key, row)| {
            let (rank, _) = row.jobs.iter().find(|(_, job)| job.may_start(paused, now))?;
            Some((key.as_str(), *rank))
        });
        first.min_by_key(|(_, rank)| *rank)
    }

    /// Forgets the jobs that the server has returned by now.
    pub(super) fn sweep(&mut self, now: Instant) {
        for row in self.rows.values_mut() {
            row.jobs.retain(|_, job| {
                let stays = job.until > now;
                self.bytes -= if stays { 0 } else { job.bytes + OVERHEAD };
                stays
            });
        }
        self.rows.retain(|_, row| !row.jobs.is_empty());
    }

    /// Takes out all that can be given back a second time.
    pub(super) fn empty(&mut self, now: Instant) -> Vec<T> {
        self.bytes = 0;
        let rows = std::mem::take(&mut self.rows);
        let jobs = rows.into_values().flat_map(|row| row.jobs.into_values());
        jobs.filter(|job| job.until > now + MARGIN).map(|job| job.delivery).collect()
    }

    /// The keys of the jobs, and their limits.
    pub(super) fn keys(&self) -> Vec<(String, u32)> {
        self.rows.iter().map(|(key, row)| (key.clone(), row.limit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_secs(60);

    fn job(class: u8, sequence: u64, now: Instant) -> Parked<u64> {
        let queue = if sequence.is_multiple_of(2) { "even" } else { "odd" };
        Parked {
            delivery: sequence,
            until: now + DELAY,
            queue: queue.to_owned(),
            class,
            age: age(sequence),
            bytes: 100,
        }
    }

    fn age(sequence: u64) -> (SystemTime, u64) {
        (SystemTime::UNIX_EPOCH, sequence)
    }

    fn none() -> BTreeSet<String> {
        BTreeSet::new()
    }

    #[test]
    fn the_highest_class_goes_first_then_the_oldest_and_only_as_many_as_there_are_places() {
        let now = Instant::now();
        let mut lot = Lot::new();
        for (key, class, sequence) in [("a", 4, 3), ("a", 4, 2), ("a", 9, 7), ("b", 9, 5), ("c", 9, 1)] {
            lot.park(key, 2, job(class, sequence, now));
        }
        assert!(lot.first(&none(), now).is_none() && lot.take(&none(), now).is_none());
        lot.set_free("a", 5);
        lot.add_free("b");
        lot.add_free("b");
        lot.add_free("none");
        let mut taken = Vec::new();
        while let Some(class) = lot.first(&none(), now) {
            let job = lot.take(&none(), now).unwrap();
            assert_eq!(job.class, class);
            taken.push(job.delivery);
        }
        assert_eq!(taken, [5, 7, 2], "a key has two places");
        assert!(lot.has("a") && !lot.has("b") && lot.has("c"));
        lot.set_free("a", 1);
        assert_eq!(lot.take(&none(), now).unwrap().delivery, 3);
        lot.set_free("c", 0);
        assert!(lot.take(&none(), now).is_none());
        assert_eq!(lot.keys(), [("c".to_owned(), 2)]);
    }

    #[test]
    fn a_job_whose_delay_is_over_or_whose_queue_is_paused_is_not_taken() {
        let now = Instant::now();
        let mut lot = Lot::new();
        for sequence in 1..5 {
            lot.park("k", 9, job(4, sequence, now));
        }
        lot.set_free("k", 9);
        let paused = BTreeSet::from(["odd".to_owned()]);
        assert_eq!(lot.take(&paused, now).unwrap().delivery, 2);
        assert_eq!(lot.take(&none(), now).unwrap().delivery, 1);
        assert!(lot.take(&none(), now + DELAY).is_none(), "the server has returned them");
        lot.sweep(now + DELAY - Duration::from_millis(1));
        assert!(lot.has("k"));
        lot.sweep(now + DELAY);
        assert!(lot.is_empty() && lot.bytes == 0);
    }

    #[test]
    fn a_job_that_came_back_is_forgotten_and_none_is_given_back_late() {
        let now = Instant::now();
        let mut lot = Lot::new();
        for sequence in 1..4 {
            lot.park("k", 1, job(4, sequence, now));
        }
        lot.park("k", 1, Parked { until: now + MARGIN, ..job(4, 9, now) });
        lot.forget("k", 4, age(2));
        lot.forget("k", 4, age(2));
        lot.forget("other", 4, age(1));
        assert_eq!(lot.empty(now), [1, 3]);
        assert!(lot.is_empty() && lot.bytes == 0);
    }

    #[test]
    fn the_memory_of_a_lot_is_bounded() {
        let now = Instant::now();
        let mut lot = Lot::new();
        for sequence in 0..100 {
            lot.park("k", 1, Parked { bytes: 1 << 20, ..job(4, sequence, now) });
        }
        assert_eq!(lot.rows["k"].jobs.len(), 63);
        // The same one again takes no more.
        lot.forget("k", 4, age(62));
        lot.park("k", 1, job(4, 3, now));
        assert_eq!((lot.rows["k"].jobs.len(), lot.bytes), (62, 61 * ((1 << 20) + OVERHEAD) + 100 + OVERHEAD));
    }
}
