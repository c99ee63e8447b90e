use super::*;

/// Messages of a partition: their sequences, and the seconds at which they were stored.
type Messages<'a> = &'a [(u64, u64)];

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A page as an engine reads it.
fn page(messages: Messages, from: u64, most: usize) -> JobPage {
    let mut rest = messages.iter().filter(|(sequence, _)| *sequence >= from);
    let read: Vec<_> = rest.by_ref().take(most).collect();
    let until = read.last().map_or(SystemTime::UNIX_EPOCH, |(_, seconds)| at(*seconds));
    let jobs = read.into_iter().map(|(sequence, seconds)| Waiting {
        part: 0,
        sequence: *sequence,
        stored_at: at(*seconds),
        spec: JobSpec::new(),
        problem: None,
    });
    JobPage { jobs: jobs.collect(), next: rest.next().map(|(sequence, _)| Place::at(*sequence)), until }
}

/// Partition, sequence and time of all messages in the order in which they are listed.
fn listed(parts: &[Messages], most: usize) -> Vec<(usize, u64, u64)> {
    let (mut all, mut from) = (Vec::new(), Place::default());
    for _ in 0..1000 {
        let pages = parts.iter().enumerate();
        let pages = pages.map(|(n, part)| (from.of(n), page(part, from.of(n), most))).collect();
        let found = first_jobs(pages);
        all.extend(found.jobs.iter().map(|waiting| {
            let seconds = waiting.stored_at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            (waiting.part, waiting.sequence, seconds)
        }));
        match found.next {
            Some(next) => from = next,
            None => return all,
        }
    }
    panic!("the pages do not end: {from:?}");
}

#[test]
fn pages_of_any_length_have_each_job_once_in_the_same_order() {
    let parts: [Messages; 4] =
        [&[(3, 1), (4, 5), (9, 6)], &[], &[(1, 2), (2, 2), (3, 5), (4, 5), (5, 9)], &[(7, 5), (8, 6)]];
    let whole = listed(&parts, 100);
    assert_eq!(whole.len(), 10);
    assert!(whole.is_sorted_by_key(|(part, _, seconds)| (*seconds, *part)), "{whole:?}");
    for most in 1..6 {
        assert_eq!(listed(&parts, most), whole, "pages of {most}");
    }
}

#[test]
fn a_clock_that_is_set_back_stops_no_list() {
    let parts: [Messages; 2] =
        [&[(1, 100), (2, 101), (3, 50), (4, 51)], &[(1, 100), (2, 40), (3, 41), (4, 102)]];
    for most in 1..6 {
        let mut found = listed(&parts, most);
        for part in 0..2 {
            let of_part: Vec<_> = found.iter().filter(|job| job.0 == part).map(|job| job.1).collect();
            assert_eq!(of_part, [1, 2, 3, 4], "in the order of their sequences");
        }
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 8, "pages of {most}");
    }
}
