//! PURE: the last events of a failed turn, for its error. A turn by a command keeps none: they are read again from the head and
//! tail of stdout, which the process keeps anyway, so that a successful turn pays nothing for them. The messages of a session are
//! kept nowhere, so its prompts keep their [`LastEvents`].

use crate::harness::clip::clip_to;
use crate::harness::event::{AgentEvent, Usage};
use crate::harness::provider::Provider;
use crate::harness::verdict::transcript::Transcript;
use ground::line::is_left_out;
use serde_json::Value;
use std::collections::VecDeque;

/// Most events in an error.
pub(crate) const MAX_EVENTS: usize = 200;
/// Most bytes of these events together, as JSON.
pub(crate) const MAX_BYTES: usize = 256 << 10;
/// Most bytes of one text in an event.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// Bytes of the events that a prompt keeps, about; a longer one is kept alone.
const MAX_KEPT_BYTES: usize = 4 * MAX_BYTES;

/// The events of a prompt under way, as far as its error may tell them.
#[derive(Default)]
pub(crate) struct LastEvents {
    kept: VecDeque<AgentEvent>,
    bytes: usize,
}

impl LastEvents {
    pub(crate) fn add(&mut self, event: AgentEvent) {
        self.bytes += event.weight();
        self.kept.push_back(event);
        while self.kept.len() > MAX_EVENTS || self.bytes > MAX_KEPT_BYTES && self.kept.len() > 1 {
            let oldest = self.kept.pop_front();
            self.bytes -= oldest.map_or(0, |event| event.weight());
        }
    }

    pub(crate) fn take(&mut self) -> Vec<AgentEvent> {
        std::mem::take(self).kept.into()
    }
}

/// The events of one attempt, by what is kept of its stdout. `warnings`: those of the attempt, the harness's own among them.
pub(crate) fn reread(
    provider: Provider,
    before: Option<Usage>,
    stdout: &str,
    is_truncated: bool,
    warnings: &[String],
) -> Vec<AgentEvent> {
    let mut transcript = Transcript::new(provider, true, before);
    transcript.feed(stdout.as_bytes());
    transcript.read_rest();
    // Warnings that are not in the CLI's output came from the harness, before or during the run.
    for warning in warnings {
        if !transcript.digest.warnings.contains(warning) {
            transcript.digest.warning(warning);
        }
    }
    transcript.digest.close();
    let mut events = transcript.digest.take_events();
    if is_truncated {
        events.retain(|event| !is_gap(event));
    }
    events
}

/// The line that stands where the middle of a long output was left out.
fn is_gap(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Noise { line } if is_left_out(line))
}

/// The last of these values that fit, behind the events that came before them.
pub(crate) fn last_behind(events: &[AgentEvent], values: &[Value]) -> Vec<Value> {
    last(events.iter().map(shortened).chain(values.iter().cloned()))
}

fn last(values: impl DoubleEndedIterator<Item = Value>) -> Vec<Value> {
    let mut room = MAX_BYTES;
    let fitting = values.rev().take(MAX_EVENTS).map_while(|value| {
        room = room.checked_sub(value.to_string().len())?;
        Some(value)
    });
    let mut fitting: Vec<Value> = fitting.collect();
    fitting.reverse();
    fitting
}

/// The event as JSON, its long texts shortened. A long input of a tool becomes a text.
fn shortened(event: &AgentEvent) -> Value {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    for (name, field) in value.as_object_mut().into_iter().flatten() {
        let text = match &*field {
            Value::String(text) => text.clone(),
            input if name == "input" => input.to_string(),
            _ => continue,
        };
        if text.len() > MAX_TEXT_BYTES {
            *field = clip_to(&text, MAX_TEXT_BYTES).into();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use crate::harness::verdict::recent::*;

    fn noise(text: &str) -> AgentEvent {
        AgentEvent::Noise { line: text.to_owned() }
    }

    #[test]
    fn the_last_events_are_told_within_bounds() {
        let many: Vec<AgentEvent> = (0..1000).map(|number| noise(&number.to_string())).collect();
        let told = last_behind(&many, &[]);
        assert_eq!(told.len(), MAX_EVENTS);
        assert_eq!((&told[0]["line"], &told[199]["line"]), (&"800".into(), &"999".into()));
        let long: Vec<AgentEvent> = (0..100).map(|_| noise(&"x".repeat(1 << 20))).collect();
        let long = last_behind(&long, &[]);
        assert!(long.iter().map(|value| value.to_string().len()).sum::<usize>() <= MAX_BYTES);
        assert!(long.len() > 10 && long[0]["line"].as_str().unwrap().contains("bytes left out"));
    }

    #[test]
    fn a_prompt_keeps_its_last_events_within_bounds() {
        let mut last = LastEvents::default();
        (0..1000).for_each(|number| last.add(noise(&number.to_string())));
        let kept = last.take();
        assert_eq!((kept.len(), kept.last()), (MAX_EVENTS, Some(&noise("999"))));
        assert_eq!(last_behind(&kept, &["later".into()]).len(), MAX_EVENTS);
        for length in [1, MAX_KEPT_BYTES / 2, 2 * MAX_KEPT_BYTES] {
            (0..5).for_each(|_| last.add(noise(&"x".repeat(length))));
            let bytes: usize = last.kept.iter().map(AgentEvent::weight).sum();
            assert!(last.bytes == bytes && (bytes <= MAX_KEPT_BYTES || last.kept.len() == 1), "{length}");
        }
    }

    #[test]
    fn what_was_left_out_of_the_middle_is_no_event() {
        let stdout = "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n[... 5 bytes left out ...]\nnoise\n";
        let events = reread(Provider::Codex, None, stdout, true, &["its processes are busy".to_owned()]);
        assert_eq!(
            events,
            [
                AgentEvent::Session { session_id: "t".into() },
                noise("noise"),
                AgentEvent::Warning { message: "its processes are busy".into() }
            ]
        );
        assert_eq!(reread(Provider::Codex, None, stdout, false, &[]).len(), 3);
    }
}
