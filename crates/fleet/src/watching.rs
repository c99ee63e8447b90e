//! Watches jobs: which ones changed since the last look. A look costs two questions, however many jobs there are.

use super::engine::{Found, Shared, Waiting};
use super::filter::Filter;
use super::listed::Listed;
use super::record::JobRecord;
use futures_util::StreamExt;
use ground::error::Error;
use std::time::Duration;

/// Pause between two looks that find nothing.
const PAUSE: Duration = Duration::from_millis(500);
/// Changes that are told at once.
const PAGE: usize = 256;

/// Tells of jobs that change.
pub struct JobWatch {
    engine: Shared,
    filter: Filter,
    /// The revision and the sequence after those of the last record and the last message that were looked at.
    records: u64,
    jobs: u64,
}

impl JobWatch {
    pub(crate) async fn open(engine: &Shared, filter: Filter) -> Result<JobWatch, Error> {
        let (records, jobs) = engine.last_changes().await?;
        Ok(JobWatch { engine: engine.clone(), filter, records, jobs })
    }

    /// Jobs that changed since the last call; waits for one. A job that changed several times is told of once, as it is.
    pub async fn next(&mut self) -> Result<Vec<Listed>, Error> {
        loop {
            let mut found = self.new_jobs().await?;
            found.extend(self.changed_records().await?);
            if !found.is_empty() {
                return Ok(found);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn changed_records(&mut self) -> Result<Vec<Listed>, Error> {
        let mut records = self.engine.records_from(self.records);
        let mut found = Vec::new();
        while found.len() < PAGE
            && let Some(change) = records.next().await
        {
            let Found { record, revision, .. } = change?;
            self.records = revision + 1;
            if self.filter.matches_listed(&record) {
                found.push(record);
            }
        }
        Ok(found)
    }

    /// Jobs that were submitted; they have no record yet.
    async fn new_jobs(&mut self) -> Result<Vec<Listed>, Error> {
        let page = self.engine.jobs_from(&Filter::default(), self.jobs, PAGE).await?.jobs;
        let Some(last) = page.last() else { return Ok(Vec::new()) };
        self.jobs = last.sequence + 1;
        let ids: Vec<&str> = page.iter().map(|waiting| waiting.spec.id.as_str()).collect();
        let records = self.engine.records_of(&ids).await?;
        let new = page.into_iter().filter(|waiting| !records.contains_key(&waiting.spec.id));
        let new = new.map(|Waiting { spec, .. }| JobRecord::queued(&spec));
        Ok(new
            .filter(|record| self.filter.matches(record))
            .map(|record| Listed::Known(Box::new(record)))
            .collect())
    }
}
