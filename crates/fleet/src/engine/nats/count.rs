//! Counts the jobs of each queue.

use super::connection::Nats;
use super::store::Asked;
use super::subject::Names;
use crate::engine::value::RetryFor;
use futures_util::StreamExt;
use ground::error::Error;
use std::collections::BTreeMap;

impl Nats {
    pub(super) async fn counted(&self) -> Result<BTreeMap<String, u64>, Error> {
        self.ask(RetryFor::ASKED, || async {
            let away = |error: String| Asked::Away(error);
            let stream = self.0.context.get_stream_no_info(self.names().jobs_stream()).await;
            let stream = stream.map_err(|error| away(error.to_string()))?;
            let subjects = stream.info_with_subjects(self.names().all_jobs()).await;
            let mut subjects = subjects.map_err(|error| away(error.to_string()))?;
            let mut counts = BTreeMap::new();
            while let Some(next) = subjects.next().await {
                let (subject, _) = next.map_err(|error| away(error.to_string()))?;
                if let Some((queue, _, _)) = Names::job_of(&subject) {
                    *counts.entry(queue).or_default() += 1;
                }
            }
            Ok(counts)
        })
        .await
    }
}
