//! The meter: how many tokens the models' answers to one program used. [`usage`] and [`answer`] are PURE.
//!
//! Each answer that passes is read ([`Passing`]). Whenever one tells something new, the sum over all of them is reported. A sum can
//! get smaller once: when an answer that was estimated comes to its end.

pub(crate) mod answer;
mod usage;

use answer::{Answer, AskedText, Spent};
use ground::lock::lock;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Most models that are named.
const MOST_MODELS: usize = 50;

/// Tokens of all answers to a program so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metered {
    /// Those read from a cache included.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_input_tokens: u64,
    /// Answers of models.
    pub requests: u64,
    /// Those among them that did not say their tokens.
    pub estimated: u64,
    /// Answers that could not be read.
    pub unread: u64,
    /// The models, as they name themselves.
    pub models: Vec<String>,
}

/// Takes the sum whenever it changes.
pub type OnMetered = Arc<dyn Fn(Metered) + Send + Sync>;

/// The sum of one program.
pub(crate) struct Meter {
    state: Mutex<State>,
    report: OnMetered,
}

impl fmt::Debug for Meter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Meter").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    over: Metered,
    open: HashMap<u64, Spent>,
    next: u64,
}

impl State {
    fn sum(&self) -> Metered {
        self.open.values().fold(self.over.clone(), plus)
    }
}

fn plus(mut sum: Metered, spent: &Spent) -> Metered {
    sum.input_tokens = sum.input_tokens.saturating_add(spent.input);
    sum.output_tokens = sum.output_tokens.saturating_add(spent.output);
    sum.cached_input_tokens = sum.cached_input_tokens.saturating_add(spent.cached);
    sum.requests += 1;
    sum.estimated += u64::from(spent.is_estimated);
    sum
}

impl Meter {
    pub(crate) fn new(report: OnMetered) -> Arc<Meter> {
        Arc::new(Meter { state: Mutex::default(), report })
    }

    /// An answer begins. `asked` counts the text of its request.
    pub(crate) fn begin(self: &Arc<Meter>, content_type: &str, asked: Arc<Mutex<AskedText>>) -> Passing {
        let mut state = lock(&self.state);
        state.next += 1;
        Passing {
            meter: self.clone(),
            number: state.next,
            answer: Answer::new(content_type),
            asked,
            is_over: false,
        }
    }

    /// An answer came in a form that can't be read.
    pub(crate) fn on_unread(&self) {
        let mut state = lock(&self.state);
        state.over.unread += 1;
        (self.report)(state.sum());
    }
}

/// An answer on its way. It is over when this is dropped.
pub(crate) struct Passing {
    meter: Arc<Meter>,
    number: u64,
    answer: Answer,
    asked: Arc<Mutex<AskedText>>,
    is_over: bool,
}

impl Passing {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        if !self.answer.push(piece) {
            return;
        }
        let Some(spent) = self.answer.spent(None) else { return };
        let mut state = lock(&self.meter.state);
        if state.open.get(&self.number) == Some(&spent) {
            return;
        }
        state.open.insert(self.number, spent);
        // Within the lock, so that the last report is the last sum.
        (self.meter.report)(state.sum());
    }

    pub(crate) fn end(&mut self, is_whole: bool) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.answer.end(is_whole);
        let asked = lock(&self.asked).end();
        let spent = self.answer.spent(Some(asked));
        let mut state = lock(&self.meter.state);
        state.open.remove(&self.number);
        state.over.unread += u64::from(self.answer.is_torn());
        let Some(spent) = spent else { return };
        if let Some(model) = self.answer.model().filter(|_| state.over.models.len() < MOST_MODELS)
            && !state.over.models.iter().any(|known| known == model)
        {
            state.over.models.push(model.to_owned());
        }
        state.over = plus(std::mem::take(&mut state.over), &spent);
        (self.meter.report)(state.sum());
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.end(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_counts_answers_under_way_and_each_once() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let report = seen.clone();
        let meter = Meter::new(Arc::new(move |metered| lock(&report).push(metered)));
        let last = || lock(&seen).last().cloned().unwrap_or_default();
        let event = |data: &str| format!("data: {data}\n\n").into_bytes();
        let start = event(r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":10}}}"#);
        let end = event(r#"{"type":"message_delta","usage":{"output_tokens":5}}"#);
        let mut one = meter.begin("text/event-stream", Arc::default());
        let mut other = meter.begin("text/event-stream", Arc::default());
        one.push(&start);
        other.push(&start);
        assert_eq!((last().input_tokens, last().requests, last().estimated), (20, 2, 2));
        one.push(&end);
        one.end(true);
        assert_eq!((last().input_tokens, last().output_tokens, last().estimated), (20, 5, 1));
        drop(one);
        drop(other);
        assert_eq!((last().input_tokens, last().output_tokens, last().requests), (20, 5, 2));
        assert_eq!((last().estimated, last().models), (1, vec!["m".to_owned()]));
    }
}
