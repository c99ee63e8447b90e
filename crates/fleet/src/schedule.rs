//! PURE: schedules of jobs: which run is due, and when the next one is.
//!
//! Several members of a fleet start the runs of a schedule. That none is started twice is a matter of ids: the id of a run's job
//! is made of the schedule's id and the run's time, and a fleet has one job of an id.

use super::name::check_name;
use super::spec::JobSpec;
use croner::Cron;
use croner::parser::CronParser;
use ground::error::Error;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A run that is later than this was missed: nobody was there to start it.
pub const MISSED_AFTER: Duration = Duration::from_secs(60);
/// The time of a run is part of its job's id.
const MAX_ID_BYTES: usize = 150;
const DEFAULT_ZONE: &str = "UTC";

/// The policy for runs that were missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CatchUp {
    #[default]
    Skip,
    /// The last one of them is started.
    Once,
}

/// A schedule as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    pub id: String,
    pub cron: String,
    pub time_zone: String,
    #[serde(default)]
    pub catch_up: CatchUp,
    /// The job of each run, without an id.
    pub job: JobSpec,
    /// Epoch milliseconds.
    pub created_at: u64,
    /// Time of the last run that was started or skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<u64>,
}

/// The state of a schedule at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Time of a run that is over or due, and not dealt with.
    pub due: Option<u64>,
    /// Whether that run is to be started; else it is skipped.
    pub is_start: bool,
    /// Time of the next run; `None`: there is none.
    pub next: Option<u64>,
}

impl Schedule {
    pub fn new(
        id: &str,
        cron: &str,
        time_zone: Option<&str>,
        catch_up: CatchUp,
        job: JobSpec,
        now: u64,
    ) -> Result<Schedule, Error> {
        check_name("id", id)?;
        if id.len() > MAX_ID_BYTES {
            let problem = format!("expected at most {MAX_ID_BYTES} bytes, got {}", id.len());
            return Err(Error::invalid_option("id", problem));
        }
        if !job.id.is_empty() || job.at.is_some() {
            let name = if job.id.is_empty() { "job.at" } else { "job.id" };
            return Err(Error::invalid_option(name, "the schedule sets it for each run"));
        }
        let schedule = Schedule {
            id: id.to_owned(),
            cron: cron.trim().to_owned(),
            time_zone: time_zone.unwrap_or(DEFAULT_ZONE).to_owned(),
            catch_up,
            job: job.with_defaults(),
            created_at: now,
            last_at: None,
        };
        schedule.times()?;
        if schedule.plan(now)?.next.is_none() {
            return Err(Error::invalid_option("cron", format!("{cron:?} has no time in the future")));
        }
        schedule.job_at(now).check()?;
        Ok(schedule)
    }

    /// `now`: epoch milliseconds by the wall clock, which may jump.
    pub fn plan(&self, now: u64) -> Result<Plan, Error> {
        let (cron, zone) = self.times()?;
        let Some(at) = zoned(now, &zone) else { return Ok(Plan::default()) };
        let next = cron.find_next_occurrence(&at, false).ok().and_then(|next| millis(&next));
        let last = cron.find_previous_occurrence(&at, true).ok().and_then(|last| millis(&last));
        let due = last.filter(|last| *last > self.last_at.unwrap_or(self.created_at));
        let is_start = due.is_some_and(|due| {
            let late = Duration::from_millis(now.saturating_sub(due));
            late <= MISSED_AFTER || self.catch_up == CatchUp::Once
        });
        Ok(Plan { due, is_start, next })
    }

    /// The job of the run at this time.
    pub fn job_at(&self, time: u64) -> JobSpec {
        let stamp = i64::try_from(time).ok().and_then(|time| Timestamp::from_millisecond(time).ok());
        let stamp = stamp.unwrap_or(Timestamp::UNIX_EPOCH);
        JobSpec { id: format!("{}@{stamp}", self.id), ..self.job.clone() }
    }

    fn times(&self) -> Result<(Cron, TimeZone), Error> {
        let cron = CronParser::new().parse(&self.cron).map_err(|error| {
            let problem = format!("{:?} is not a cron expression: {error}", self.cron);
            Error::invalid_option("cron", problem.trim_end_matches('.').to_owned())
        })?;
        let zone = TimeZone::get(&self.time_zone).map_err(|_| {
            let problem = format!("{:?} is not a time zone such as Europe/Berlin", self.time_zone);
            Error::invalid_option("timeZone", problem)
        })?;
        Ok((cron, zone))
    }
}

/// The time in whole seconds.
fn zoned(time: u64, zone: &TimeZone) -> Option<Zoned> {
    let stamp = Timestamp::from_second(i64::try_from(time / 1000).ok()?).ok()?;
    Some(stamp.to_zoned(zone.clone()))
}

fn millis(time: &Zoned) -> Option<u64> {
    u64::try_from(time.timestamp().as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> u64 {
        u64::try_from(text.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
    }

    fn job() -> JobSpec {
        JobSpec { handler: Some("h".into()), ..JobSpec::new() }
    }

    fn schedule(cron: &str, zone: &str, catch_up: CatchUp, created: &str) -> Schedule {
        Schedule::new("s", cron, Some(zone), catch_up, job(), at(created)).unwrap()
    }

    #[test]
    fn a_run_is_due_once_and_a_missed_one_by_its_policy() {
        use CatchUp::{Once, Skip};
        for (catch_up, last, now, due, is_start) in [
            (Skip, None, "2026-01-01T11:59:59.9Z", None, false),
            (Skip, None, "2026-01-01T12:00:00Z", Some("2026-01-01T12:00:00Z"), true),
            (Skip, None, "2026-01-01T12:01:00Z", Some("2026-01-01T12:00:00Z"), true),
            (Skip, Some("2026-01-01T12:00:00Z"), "2026-01-01T12:00:00.5Z", None, false),
            // Two were missed: one is started, or none.
            (Skip, None, "2026-01-01T13:30:00Z", Some("2026-01-01T13:00:00Z"), false),
            (Once, None, "2026-01-01T13:30:00Z", Some("2026-01-01T13:00:00Z"), true),
            // The clock went back.
            (Once, Some("2026-01-01T13:00:00Z"), "2026-01-01T12:00:00Z", None, false),
        ] {
            let mut schedule = schedule("0 * * * *", "UTC", catch_up, "2026-01-01T11:30:00Z");
            schedule.last_at = last.map(at);
            let plan = schedule.plan(at(now)).unwrap();
            assert_eq!((plan.due, plan.is_start), (due.map(at), is_start), "{catch_up:?} {last:?} {now}");
        }
    }

    #[test]
    fn a_time_is_one_of_its_zone() {
        let plan = |cron, zone, now: &str| schedule(cron, zone, CatchUp::Skip, now).plan(at(now)).unwrap();
        let next = |cron, zone, now| plan(cron, zone, now).next.unwrap();
        assert_eq!(next("0 9 * * *", "UTC", "2026-07-01T08:00:00Z"), at("2026-07-01T09:00:00Z"));
        assert_eq!(next("0 9 * * *", "Europe/Berlin", "2026-07-01T06:00:00Z"), at("2026-07-01T07:00:00Z"));
        assert_eq!(next("0 9 * * *", "Europe/Berlin", "2026-12-01T06:00:00Z"), at("2026-12-01T08:00:00Z"));
        assert_eq!(next("*/5 * * * * *", "UTC", "2026-07-01T08:00:01Z"), at("2026-07-01T08:00:05Z"));
        assert_eq!(next("@daily", "UTC", "2026-07-01T08:00:01Z"), at("2026-07-02T00:00:00Z"));
        assert_eq!(next("0 9 * * MON", "UTC", "2026-07-01T08:00:00Z"), at("2026-07-06T09:00:00Z"));
    }

    #[test]
    fn an_hour_that_is_there_twice_has_one_run() {
        // Clocks go from 3:00 back to 2:00 at 01:00 UTC.
        let mut schedule = schedule("30 2 * * *", "Europe/Berlin", CatchUp::Skip, "2026-10-24T12:00:00Z");
        let mut runs = Vec::new();
        for minute in 0..48 * 60 {
            let now = at("2026-10-24T12:00:00Z") + minute * 60_000;
            let plan = schedule.plan(now).unwrap();
            if let Some(due) = plan.due {
                runs.push(due);
                schedule.last_at = Some(due);
            }
        }
        assert_eq!(runs, [at("2026-10-25T00:30:00Z"), at("2026-10-26T01:30:00Z")]);
    }

    #[test]
    fn what_has_no_time_is_refused_by_its_option() {
        let problem = |id: &str, cron, zone, job| {
            let made = Schedule::new(id, cron, zone, CatchUp::Skip, job, at("2026-01-01T00:00:00Z"));
            made.map_or_else(|error| error.message().to_owned(), |_| String::new())
        };
        assert_eq!(problem("s", "0 * * * *", None, job()), "");
        assert!(problem("s", "often", None, job()).starts_with("cron: "));
        assert!(problem("s", "61 * * * *", None, job()).starts_with("cron: "));
        assert!(problem("s", "0 0 30 2 *", None, job()).starts_with("cron: "));
        assert!(problem("s", "0 * * * *", Some("Berlin"), job()).starts_with("timeZone: "));
        assert!(problem("", "0 * * * *", None, job()).starts_with("id: "));
        assert!(problem(&"s".repeat(151), "0 * * * *", None, job()).starts_with("id: "));
        assert!(problem("s", "0 * * * *", None, JobSpec { id: "x".into(), ..job() }).starts_with("job.id: "));
        assert!(problem("s", "0 * * * *", None, JobSpec::new()).starts_with("provider: "));
    }

    #[test]
    fn the_job_of_a_run_is_named_by_its_time() {
        let schedule = schedule("0 * * * *", "UTC", CatchUp::Skip, "2026-01-01T11:30:00Z");
        assert_eq!(schedule.job_at(at("2026-01-01T12:00:00Z")).id, "s@2026-01-01T12:00:00Z");
    }
}
