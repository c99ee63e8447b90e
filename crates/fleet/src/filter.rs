//! PURE: which jobs are meant, by their states and labels.

use super::listed::Listed;
use super::record::{JobRecord, JobState};

/// The jobs that are meant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Empty: any state.
    pub states: Vec<JobState>,
    pub queue: Option<String>,
    pub tag: Option<String>,
    /// Part of the title, in any case.
    pub title: Option<String>,
}

impl Filter {
    fn takes(&self, state: JobState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }

    pub(super) fn takes_any(&self, is_over: bool) -> bool {
        JobState::ALL.into_iter().any(|state| state.is_over() == is_over && self.takes(state))
    }

    pub(super) fn has_labels(&self) -> bool {
        self.tag.is_some() || self.title.is_some()
    }

    pub(super) fn takes_labels<T: AsRef<str>>(&self, title: Option<&str>, tags: &[T]) -> bool {
        let has_title =
            |part: &String| title.unwrap_or_default().to_lowercase().contains(&part.to_lowercase());
        self.tag.as_ref().is_none_or(|tag| tags.iter().any(|one| one.as_ref() == tag))
            && self.title.as_ref().is_none_or(has_title)
    }

    pub(super) fn takes_queue(&self, queue: &str) -> bool {
        self.queue.as_ref().is_none_or(|wanted| wanted == queue)
    }

    pub(super) fn matches(&self, record: &JobRecord) -> bool {
        self.takes(record.state)
            && self.takes_queue(&record.queue)
            && self.takes_labels(record.title.as_deref(), &record.tags)
    }

    /// A record that can't be read is shown to who asks for everything.
    pub(super) fn matches_listed(&self, record: &Listed) -> bool {
        match record {
            Listed::Known(record) => self.matches(record),
            Listed::Unknown(_) => *self == Filter::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::JobSpec;

    #[test]
    fn a_filter_takes_what_it_names() {
        let spec = JobSpec {
            id: "a".into(),
            handler: Some("h".into()),
            title: Some("Fix the Build".into()),
            tags: vec!["ci".into()],
            ..JobSpec::new()
        };
        let record = JobRecord::queued(&spec.with_defaults());
        let matches = |change: fn(&mut Filter)| {
            let mut filter = Filter::default();
            change(&mut filter);
            filter.matches(&record)
        };
        assert!(matches(|_| {}));
        assert!(matches(|filter| filter.title = Some("fix the".into())));
        assert!(!matches(|filter| filter.title = Some("test".into())));
        assert!(matches(|filter| filter.tag = Some("ci".into())));
        assert!(!matches(|filter| filter.tag = Some("c".into())));
        assert!(matches(|filter| filter.states = vec![JobState::Queued, JobState::Done]));
        assert!(!matches(|filter| filter.states = vec![JobState::Done]));
        assert!(!matches(|filter| filter.queue = Some("other".into())));
    }
}
