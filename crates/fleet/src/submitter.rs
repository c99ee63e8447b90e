//! Submits jobs, cancels them, tries them again.

use super::engine::{Engine, Kept, Refused, RetryFor, Waiting};
use super::fault::no_random;
use super::record::{JobRecord, JobState};
use super::spec::JobSpec;
use super::transition::{JobEvent, Refusal};
use futures_util::{StreamExt, stream};
use ground::error::{Error, ErrorCode};
use ground::os::within;
use ground::random;
use ground::record::epoch_ms;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The holder ends its tree and says so; a holder that was lost is replaced by one that does. A holder that does neither for a
/// lease and this long is not waited for.
const CANCEL_MARGIN: Duration = Duration::from_secs(15);

/// Epoch milliseconds. For people to read: nobody's decision depends on another machine's clock.
pub(crate) fn now() -> u64 {
    epoch_ms(SystemTime::now())
}

/// An id that sorts by its time.
fn new_id() -> Result<String, Error> {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let random = random::secret::<16>().ok_or_else(no_random)?;
    let time = now();
    let stamp = (0..10).rev().map(|place| LETTERS[(time >> (place * 5)) as usize & 31]);
    let rest = random.iter().map(|byte| LETTERS[*byte as usize & 31]);
    Ok(stamp.chain(rest).map(char::from).collect())
}

/// The answer to one of many jobs.
#[derive(Debug)]
pub struct Submitted {
    /// Empty when the job was refused before it had one.
    pub id: String,
    /// The fleet had a job of this id already.
    pub is_known: bool,
    pub error: Option<Error>,
}

/// Jobs in one batch.
const AT_ONCE: usize = 1000;
/// Fewer jobs go one by one: a batch costs as much as about so many.
const WORTH_A_BATCH: usize = 32;
const SINGLES_AT_ONCE: usize = 64;

/// The job as it is stored, and whether its user named it.
fn prepared(spec: JobSpec) -> Result<(JobSpec, bool), Error> {
    let is_named = !spec.id.is_empty();
    let mut spec = spec.with_defaults();
    if !is_named {
        spec.id = new_id()?;
    }
    spec.submitted_at = now();
    spec.at = spec.at.filter(|at| *at > spec.submitted_at);
    spec.check()?;
    Ok((spec, is_named))
}

impl dyn Engine {
    /// Takes a job in. The same id again is the same job, whatever else is said. Returns the id.
    pub(crate) async fn submit(&self, spec: JobSpec) -> Result<String, Error> {
        let (spec, is_named) = prepared(spec)?;
        self.take_in(&spec, is_named, false).await?;
        Ok(spec.id)
    }

    /// Takes many jobs in; one answer for each, in order. A job that is refused does not fail the others.
    pub(crate) async fn submit_many(&self, specs: Vec<Result<JobSpec, Error>>) -> Vec<Submitted> {
        let mut answers = Vec::with_capacity(specs.len());
        let (mut open, mut ids) = (Vec::new(), HashSet::new());
        for spec in specs {
            let answer = match spec.and_then(prepared) {
                Ok((spec, is_named)) => {
                    let answer = Submitted { id: spec.id.clone(), is_known: false, error: None };
                    // Twice in one call is one job.
                    if ids.insert(spec.id.clone()) {
                        open.push((answers.len(), spec, is_named));
                        answer
                    } else {
                        Submitted { is_known: true, ..answer }
                    }
                }
                Err(error) => Submitted { id: String::new(), is_known: false, error: Some(error) },
            };
            answers.push(answer);
        }
        for batch in open.chunks(AT_ONCE) {
            self.submit_batch(batch, &mut answers).await;
        }
        answers
    }

    async fn submit_batch(&self, batch: &[(usize, JobSpec, bool)], answers: &mut [Submitted]) {
        let named: Vec<&str> =
            batch.iter().filter(|(_, _, is_named)| *is_named).map(|(_, spec, _)| spec.id.as_str()).collect();
        // Jobs that are in the queue make the store refuse their batch; jobs that have left it would be put there again.
        let known = if named.is_empty() { Ok(HashMap::new()) } else { self.records_of(&named).await };
        let (has_room, known) = match (self.check_room().await, known) {
            (Ok(()), Ok(known)) => (true, known),
            // One by one, each of them says why it is refused.
            (Err(_), Ok(known)) => (false, known),
            (_, Err(_)) => (false, HashMap::new()),
        };
        let (known, rest): (Vec<_>, Vec<_>) =
            batch.iter().partition(|(_, spec, _)| known.contains_key(&spec.id));
        for (at, ..) in known {
            answers[*at].is_known = true;
        }
        let specs: Vec<JobSpec> = rest.iter().map(|(_, spec, _)| spec.clone()).collect();
        let stored = if has_room && specs.len() >= WORTH_A_BATCH {
            self.put_jobs(&specs).await.unwrap_or_default()
        } else {
            Vec::new()
        };
        let is_again = !stored.is_empty();
        let is_stored = |n: &usize| stored.get(*n).copied().unwrap_or(false);
        let left = rest.into_iter().enumerate().filter(|(n, _)| !is_stored(n));
        let left: Vec<_> = left.map(|(_, entry)| entry.clone()).collect();
        let singles = left.into_iter().map(|(at, spec, is_named)| async move {
            // Looked for first after a batch: it may be there, and only the answer lost.
            (at, is_named, self.take_in(&spec, is_named, is_again).await)
        });
        let mut singles = stream::iter(singles).buffer_unordered(SINGLES_AT_ONCE);
        while let Some((at, is_named, taken)) = singles.next().await {
            match taken {
                Ok(is_known) => answers[at].is_known = is_known && is_named,
                Err(error) => answers[at].error = Some(error),
            }
        }
    }

    /// True when the fleet had the job already. `is_again`: a batch with the job was sent, and may have been stored.
    async fn take_in(&self, spec: &JobSpec, is_named: bool, is_again: bool) -> Result<bool, Error> {
        if is_named || is_again {
            if self.read_record(&spec.id, RetryFor::ASKED).await?.is_some() {
                return Ok(true);
            }
            if let Some(waiting) = self.find_job(&spec.id).await? {
                // The same specification, its time of submission included, was stored by the batch whose answer was lost.
                return Ok(!is_again || waiting.spec != *spec);
            }
        }
        self.check_room().await?;
        let was_there = self.put_job(spec, "").await?;
        if was_there
            && self.look_up(&spec.id).await.err().is_some_and(|error| error.code() == ErrorCode::JobNotFound)
        {
            // The server remembers the id of a job that was removed a moment ago.
            self.put_job(spec, &format!(".{}", spec.submitted_at)).await?;
            return Ok(false);
        }
        // A message that was sent twice, because its answer was lost, is there already too.
        Ok(false)
    }

    /// The job's record; of a job that nobody has claimed yet, what it will begin as. Revision 0: there is none in the store.
    pub(crate) async fn look_up(&self, id: &str) -> Result<Kept, Error> {
        for _ in 0..2 {
            if let Some(kept) = self.read_record(id, RetryFor::ASKED).await? {
                return Ok(kept);
            }
            if let Some(waiting) = self.find_job(id).await? {
                return Ok(Kept { record: JobRecord::queued(&waiting.spec), revision: 0 });
            }
            // Claimed and done between the two looks.
        }
        Err(Error::new(
            ErrorCode::JobNotFound,
            format!("the fleet has no job {id}; it may have been removed"),
        ))
    }

    /// Cancels; resolves with the record once the job is over. A holder that does not answer for long is not waited for.
    pub(crate) async fn cancel(self: &Arc<Self>, id: &str, is_forced: bool) -> Result<JobRecord, Error> {
        let mut is_forced = is_forced;
        loop {
            let kept = self.look_up(id).await?;
            let event = if is_forced {
                JobEvent::CancelForced { now: now() }
            } else {
                JobEvent::CancelAsked { now: now() }
            };
            let next = match kept.record.after(&event) {
                Ok(next) => next,
                Err(_) if kept.record.state.is_over() => return Ok(kept.record),
                Err(_) => match self.until_over(id).await? {
                    Some(record) => return Ok(record),
                    None => {
                        is_forced = true;
                        continue;
                    }
                },
            };
            // Looked for before the record is written: what is put there later is of a later retry, and stays.
            let waiting = if next.state.is_over() { self.find_job(id).await? } else { None };
            if let Some(Waiting { spec, problem: None, .. }) = &waiting {
                // A spec that can't be kept makes a retry impossible, and a cancel all the same possible.
                match self.bury_job(spec, RetryFor::ASKED).await {
                    Err(error) if error.code() == ErrorCode::FleetUnauthorized => return Err(error),
                    _ => {}
                }
            }
            match self.write_record(&next, kept.revision, RetryFor::ASKED).await {
                Ok(_) if next.state == JobState::Running => match self.until_over(id).await? {
                    Some(record) => return Ok(record),
                    None => is_forced = true,
                },
                Ok(_) => {
                    if let Some(waiting) = waiting {
                        self.drop_job(id, waiting.sequence).await?;
                    }
                    return Ok(next);
                }
                // It changed between the two.
                Err(Refused::Conflict) => {}
                Err(refused) => return Err(refused.into()),
            }
        }
    }

    /// `None`: its holder did not answer for long.
    async fn until_over(self: &Arc<Self>, id: &str) -> Result<Option<JobRecord>, Error> {
        let waiting = self.settled(id);
        within(self.lease() + CANCEL_MARGIN, waiting).await.transpose()
    }

    /// The record of the job once it is over.
    pub(crate) async fn settled(self: &Arc<Self>, id: &str) -> Result<JobRecord, Error> {
        let mut watch = self.watch_record(id).await?;
        loop {
            match watch.next().await? {
                Some(kept) if kept.record.state.is_over() => return Ok(kept.record),
                Some(_) => {}
                // Nobody claimed it so far; if there is no job at all this says so.
                None => drop(self.look_up(id).await?),
            }
        }
    }

    /// A new budget of attempts for a job that did not get done.
    pub(crate) async fn retry(&self, id: &str) -> Result<(), Error> {
        loop {
            // Looked for before the record is read: what is put there later is of another retry, and stays.
            let waiting = self.message_of(id).await?;
            let kept = self.look_up(id).await?;
            let next = match kept.record.after(&JobEvent::Retried) {
                Ok(next) => next,
                Err(Refusal::NotRetried(state)) => {
                    let problem =
                        format!("job {id} is {}: only a job that failed is tried again", state.as_str());
                    return Err(Error::invalid_option("id", problem));
                }
                Err(_) if kept.revision == 0 || waiting.is_some() => return Ok(()),
                // It waits without a message: the one who retried it ended before that, or the server lost it.
                Err(_) => JobRecord { message: None, ..kept.record.clone() },
            };
            let Some(mut spec) = self.buried_job(id).await? else {
                let message = format!("the spec of job {id} was removed: submit the job again");
                return Err(Error::new(ErrorCode::JobNotFound, message));
            };
            spec.at = None;
            if let Some(waiting) = waiting {
                // Its worker may not have taken it off the queue yet, and would then take the new one for the old.
                self.drop_job(id, waiting).await?;
            }
            if next != kept.record {
                match self.write_record(&next, kept.revision, RetryFor::ASKED).await {
                    Ok(_) => {}
                    Err(Refused::Conflict) => continue,
                    Err(refused) => return Err(refused.into()),
                }
            }
            // A message that is still there is the one that counts. Not under a name that the server may remember: the message of
            // that name may be gone already.
            return self.put_job(&spec, &format!(".{}", random::name::<8>())).await.map(drop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_differ() {
        let first = new_id().unwrap();
        std::thread::sleep(Duration::from_millis(2));
        let second = new_id().unwrap();
        assert!(first < second && first.len() == 26, "{first} {second}");
    }
}
