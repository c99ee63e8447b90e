//! PURE: the beginning and the end of a long list of events, with a warning about the missing middle. The events of a recording
//! of hundreds of megabytes don't fit into the host's memory or a JavaScript string.

use super::AgentEvent;
use std::collections::VecDeque;

/// Most bytes of the events of a replay: half at the beginning, half at the end. An event counts by its text.
const MAX_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Excerpt {
    /// Most bytes of each half.
    max_bytes: usize,
    head: Vec<AgentEvent>,
    head_bytes: usize,
    tail: VecDeque<AgentEvent>,
    tail_bytes: usize,
    left_out: u64,
    left_out_bytes: u64,
}

impl Default for Excerpt {
    fn default() -> Self {
        Excerpt::of(MAX_BYTES)
    }
}

impl Excerpt {
    fn of(max_bytes: usize) -> Self {
        Excerpt {
            max_bytes: max_bytes / 2,
            head: Vec::new(),
            head_bytes: 0,
            tail: VecDeque::new(),
            tail_bytes: 0,
            left_out: 0,
            left_out_bytes: 0,
        }
    }

    pub(crate) fn extend(&mut self, events: impl IntoIterator<Item = AgentEvent>) {
        for event in events {
            let bytes = event.weight();
            if self.tail.is_empty() && self.left_out == 0 && self.head_bytes + bytes <= self.max_bytes {
                self.head_bytes += bytes;
                self.head.push(event);
                continue;
            }
            self.tail_bytes += bytes;
            self.tail.push_back(event);
            // The last one stays, however long.
            while self.tail_bytes > self.max_bytes && self.tail.len() > 1 {
                let Some(oldest) = self.tail.pop_front() else { break };
                self.tail_bytes -= oldest.weight();
                self.left_out += 1;
                self.left_out_bytes += oldest.weight() as u64;
            }
        }
    }

    pub(crate) fn into_events(self) -> Vec<AgentEvent> {
        let mut events = self.head;
        if self.left_out > 0 {
            let message = format!(
                "{} events of {} MB are left out here: a replay tells the beginning and the end of so many",
                self.left_out,
                self.left_out_bytes.div_ceil(1_000_000)
            );
            events.push(AgentEvent::Warning { message });
        }
        events.extend(self.tail);
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(number: usize) -> AgentEvent {
        AgentEvent::Noise { line: format!("{number:36}") }
    }

    fn numbers(events: &[AgentEvent]) -> Vec<Option<usize>> {
        let number = |event: &AgentEvent| match event {
            AgentEvent::Noise { line } => line.trim().parse().ok(),
            _ => None,
        };
        events.iter().map(number).collect()
    }

    #[test]
    fn what_fits_is_told_whole() {
        let mut excerpt = Excerpt::of(1000);
        excerpt.extend((0..10).map(noise));
        assert_eq!(numbers(&excerpt.into_events()), (0..10).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn of_more_the_beginning_and_the_end_stay_and_what_is_missing_is_told() {
        let mut excerpt = Excerpt::of(1000);
        for number in 0..100_000 {
            excerpt.extend([noise(number)]);
            assert!(excerpt.head_bytes + excerpt.tail_bytes <= 1000);
        }
        let events = excerpt.into_events();
        assert!(
            matches!(&events[5], AgentEvent::Warning { message } if message.starts_with("99990 events of 10 MB "))
        );
        let last = (99_995..100_000).map(Some);
        assert_eq!(numbers(&events), (0..5).map(Some).chain([None]).chain(last).collect::<Vec<_>>());
    }

    #[test]
    fn the_last_event_stays_however_long() {
        let mut excerpt = Excerpt::of(100);
        excerpt.extend([noise(1), AgentEvent::Noise { line: "x".repeat(1000) }]);
        assert_eq!(excerpt.into_events().len(), 2);
    }
}
