//! The meter: how many tokens the models' answers to one program used. [`usage`], [`answer`], [`scan`] and [`text`] are PURE.
//!
//! Each exchange of a request and its answer is followed ([`Passing`]). It counts from the moment when the request's body says that
//! it asks a model: by an estimate, until the answer tells more. Whenever one tells something new, the sum over all of them is
//! reported. A sum can get smaller: when an estimate was too high, or when the server refuses a request.
//!
//! | the answer | counts |
//! | --- | --- |
//! | a model's, of any request | what it says, or the estimate of its text and of the request's |
//! | none, or another one with a good status, to a request of a model | the estimate of both texts |
//! | an error, or an answer to another request | nothing |
//!
//! An answer that is only looked at again, by a request that makes nothing, counts once, by its id.
//!
//! Nothing here may panic, since an exchange can end while a panic unwinds. So numbers are added with saturation.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::string_slice))]

pub(crate) mod answer;
pub(crate) mod asked;
mod scan;
mod text;
mod usage;

use answer::{Answer, Message, Spent, tokens_in, unpacked};
use asked::AskedText;
use ground::lock::lock;
pub use ground::tokens::Metered;
use hyper::{HeaderMap, Method, StatusCode};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

/// Most models that are named.
const MOST_MODELS: usize = 50;
/// Most answers that are known by their ids.
const MOST_IDS: usize = 10_000;

/// Takes the sum whenever it changes.
pub type OnMetered = Arc<dyn Fn(Metered) + Send + Sync>;

/// The sum of one program.
pub(crate) struct Meter {
    state: Mutex<State>,
    report: OnMetered,
}

#[derive(Default)]
struct State {
    over: Metered,
    open: HashMap<u64, Spent>,
    /// The tokens that answers that are over counted, by their ids.
    known: HashMap<u64, Spent>,
    next: u64,
}

impl State {
    fn sum(&self) -> Metered {
        self.open.values().fold(self.over.clone(), plus)
    }

    /// A message is over. `is_made`: its request made it, and did not look at it again.
    fn count(&mut self, message: &Message, spent: &Spent, is_made: bool) {
        if let Some(model) = message.model.as_ref().filter(|_| self.over.models.len() < MOST_MODELS)
            && !self.over.models.contains(model)
        {
            self.over.models.push(model.clone());
        }
        let id = message.id.as_ref().map(hash);
        if let Some(known) = id.and_then(|id| self.known.get_mut(&id)).filter(|_| !is_made) {
            let more = more(known, spent);
            let over = &mut self.over;
            over.input_tokens = over.input_tokens.saturating_add(more.input);
            over.output_tokens = over.output_tokens.saturating_add(more.output);
            over.cached_input_tokens = over.cached_input_tokens.saturating_add(more.cached);
            let is_exact_now = known.is_estimated && !spent.is_estimated;
            over.estimated = over.estimated.saturating_sub(u64::from(is_exact_now));
            known.is_estimated &= spent.is_estimated;
            known.input = known.input.max(spent.input);
            known.output = known.output.max(spent.output);
            known.cached = known.cached.max(spent.cached);
            return;
        }
        if let Some(id) = id.filter(|_| self.known.len() < MOST_IDS) {
            self.known.insert(id, spent.clone());
        }
        self.over = plus(std::mem::take(&mut self.over), spent);
    }
}

fn hash(id: &String) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// The tokens that are news.
fn more(known: &Spent, spent: &Spent) -> Spent {
    Spent {
        input: spent.input.saturating_sub(known.input),
        output: spent.output.saturating_sub(known.output),
        cached: spent.cached.saturating_sub(known.cached),
        is_estimated: spent.is_estimated,
    }
}

fn plus(mut sum: Metered, spent: &Spent) -> Metered {
    sum.input_tokens = sum.input_tokens.saturating_add(spent.input);
    sum.output_tokens = sum.output_tokens.saturating_add(spent.output);
    sum.cached_input_tokens = sum.cached_input_tokens.saturating_add(spent.cached);
    sum.requests = sum.requests.saturating_add(1);
    sum.estimated = sum.estimated.saturating_add(u64::from(spent.is_estimated));
    sum
}

impl Meter {
    pub(crate) fn new(report: OnMetered) -> Arc<Meter> {
        Arc::new(Meter { state: Mutex::default(), report })
    }

    /// A request begins.
    pub(crate) fn ask(self: &Arc<Meter>, method: &Method, path: &str, headers: &HeaderMap) -> Passing {
        let number = {
            let mut state = lock(&self.state);
            state.next = state.next.wrapping_add(1);
            state.next
        };
        let is_made = !matches!(*method, Method::GET | Method::HEAD);
        let meter = self.clone();
        let on_asked = Box::new(move |bytes| meter.on_asked(number, bytes));
        let asked = if is_made { AskedText::new(path, headers, on_asked) } else { AskedText::default() };
        Passing {
            meter: self.clone(),
            number,
            is_made,
            asked: Arc::new(Mutex::new(asked)),
            answer: None,
            is_over: false,
        }
    }

    /// A request asks a model, by a text that is so long so far.
    fn on_asked(&self, number: u64, bytes: u64) {
        self.set_open(number, Spent { input: tokens_in(bytes), is_estimated: true, ..Spent::default() });
    }

    fn set_open(&self, number: u64, spent: Spent) {
        let mut state = lock(&self.state);
        if state.open.get(&number) == Some(&spent) {
            return;
        }
        state.open.insert(number, spent);
        // Within the lock, so that the last report is the last sum.
        (self.report)(state.sum());
    }
}

/// A request on its way, and its answer. It is over when this is dropped.
pub(crate) struct Passing {
    meter: Arc<Meter>,
    number: u64,
    is_made: bool,
    asked: Arc<Mutex<AskedText>>,
    answer: Option<Answered>,
    is_over: bool,
}

struct Answered {
    answer: Answer,
    is_good: bool,
    length: Option<u64>,
    is_compressed: bool,
}

impl Passing {
    /// The text of the request, which its body has to tell.
    pub(crate) fn asked(&self) -> Arc<Mutex<AskedText>> {
        self.asked.clone()
    }

    /// An answer begins. `length`: its bytes, if its head tells them.
    pub(crate) fn on_answer(
        &mut self,
        status: StatusCode,
        content_type: &str,
        length: Option<u64>,
        is_compressed: bool,
    ) {
        let answer = Answer::new(content_type);
        self.answer = Some(Answered { answer, is_good: status.is_success(), length, is_compressed });
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        let Some(Answered { answer, .. }) = &mut self.answer else { return };
        if !answer.push(piece) {
            return;
        }
        let asked = Some(lock(&self.asked).bytes());
        let mut over = answer.take_over();
        if !over.is_empty() {
            let mut state = lock(&self.meter.state);
            for message in over.drain(..) {
                state.count(&message, &message.spent(None), self.is_made);
            }
        }
        let mut spent = answer.last().spent(asked.filter(|_| self.is_made));
        if let (false, Some(id)) = (self.is_made, &answer.last().id)
            && let Some(known) = lock(&self.meter.state).known.get(&hash(id))
        {
            // It is looked at again. Its count is its own, until it tells more.
            spent = more(known, &spent);
        }
        self.meter.set_open(self.number, spent);
    }

    /// The request is not sent in whole.
    pub(crate) fn forget(&mut self) {
        lock(&self.asked).end();
        self.end(false);
    }

    pub(crate) fn end(&mut self, is_whole: bool) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let (asked, is_model) = lock(&self.asked).end();
        let mut state = lock(&self.meter.state);
        let was_open = state.open.remove(&self.number).is_some();
        let before = (state.over.requests, state.over.unread);
        match &mut self.answer {
            None if is_model => state.count(&Message::default(), &estimate(asked, 0), true),
            None => {}
            Some(answered) => {
                // A reader that knows the length does not wait for the end.
                let is_whole = is_whole || Some(answered.answer.bytes()) == answered.length;
                answered.answer.end(is_whole);
                state.on_answered(answered, is_whole, asked, is_model, self.is_made);
            }
        }
        if was_open || before != (state.over.requests, state.over.unread) {
            (self.meter.report)(state.sum());
        }
    }
}

fn estimate(asked: u64, answered: u64) -> Spent {
    Spent { input: tokens_in(asked), output: tokens_in(answered), cached: 0, is_estimated: true }
}

impl State {
    fn on_answered(
        &mut self,
        answered: &mut Answered,
        is_whole: bool,
        asked: u64,
        is_model: bool,
        is_made: bool,
    ) {
        let Answered { answer, is_good, is_compressed, .. } = answered;
        if answer.is_model() {
            for message in answer.take_over() {
                self.count(&message, &message.spent(None), is_made);
            }
            let message = answer.last();
            self.count(message, &message.spent(Some(asked)), is_made);
            return;
        }
        let is_unread = answer.bytes() > 0
            && *is_good
            && (*is_compressed || (is_model && is_whole && !answer.is_error()));
        self.over.unread = self.over.unread.saturating_add(u64::from(is_unread));
        if is_model && *is_good && !answer.is_error() {
            let text = answer.unread_bytes();
            let text = if *is_compressed { unpacked(text) } else { text };
            self.count(&Message::default(), &estimate(asked, text), true);
        }
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
    use hyper::header::CONTENT_TYPE;

    type Seen = Arc<Mutex<Vec<Metered>>>;

    fn meter() -> (Arc<Meter>, Seen) {
        let seen = Seen::default();
        let report = seen.clone();
        (Meter::new(Arc::new(move |metered| lock(&report).push(metered))), seen)
    }

    fn last(seen: &Seen) -> Metered {
        lock(seen).last().cloned().unwrap_or_default()
    }

    fn ask(meter: &Arc<Meter>, body: &str) -> Passing {
        let passing = meter.ask(&Method::POST, "/v1/messages", &HeaderMap::new());
        lock(&passing.asked()).push(body.as_bytes());
        passing
    }

    fn answer(passing: &mut Passing, text: &str) {
        passing.on_answer(StatusCode::OK, "application/json", None, false);
        passing.push(text.as_bytes());
        passing.end(true);
    }

    fn event(data: &str) -> Vec<u8> {
        format!("data: {data}\n\n").into_bytes()
    }

    /// 40 bytes, which are 10 tokens.
    const BODY: &str = r#"{"model":"model","messages":["12345678"]"#;

    #[test]
    fn the_sum_counts_answers_under_way_and_each_once() {
        let (meter, seen) = meter();
        let start = event(r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":10}}}"#);
        let end = event(r#"{"type":"message_delta","usage":{"output_tokens":5}}"#);
        let begin = || {
            let mut passing = meter.ask(&Method::GET, "/", &HeaderMap::new());
            passing.on_answer(StatusCode::OK, "text/event-stream", None, false);
            passing
        };
        let (mut one, mut other) = (begin(), begin());
        one.push(&start);
        other.push(&start);
        assert_eq!((last(&seen).input_tokens, last(&seen).requests, last(&seen).estimated), (20, 2, 2));
        one.push(&end);
        one.end(true);
        assert_eq!((last(&seen).input_tokens, last(&seen).output_tokens, last(&seen).estimated), (20, 5, 1));
        drop(one);
        drop(other);
        let last = last(&seen);
        assert_eq!((last.input_tokens, last.output_tokens, last.requests), (20, 5, 2));
        assert_eq!((last.estimated, last.models), (1, vec!["m".to_owned()]));
    }

    #[test]
    fn a_request_of_a_model_counts_from_its_beginning() {
        let (meter, seen) = meter();
        let all: Vec<_> = (0..20).map(|_| ask(&meter, BODY)).collect();
        assert_eq!((last(&seen).input_tokens, last(&seen).requests, last(&seen).estimated), (200, 20, 20));
        // No answer comes.
        drop(all);
        assert_eq!((last(&seen).input_tokens, last(&seen).requests, last(&seen).estimated), (200, 20, 20));
    }

    #[test]
    fn an_answer_replaces_the_estimate_and_a_refusal_takes_it_back() {
        let (meter, seen) = meter();
        let mut good = ask(&meter, BODY);
        answer(&mut good, r#"{"type":"message","usage":{"input_tokens":3,"output_tokens":2}}"#);
        let expected = Metered { input_tokens: 3, output_tokens: 2, requests: 1, ..Metered::default() };
        assert_eq!(last(&seen), expected);
        let mut refused = ask(&meter, BODY);
        assert_eq!(last(&seen).requests, 2);
        refused.on_answer(StatusCode::TOO_MANY_REQUESTS, "text/html", None, false);
        refused.push(b"<html>");
        refused.end(true);
        assert_eq!(last(&seen), expected);
        let mut failed = ask(&meter, BODY);
        failed.on_answer(StatusCode::OK, "text/event-stream", None, false);
        failed.push(&event(r#"{"type":"error","error":{"type":"overloaded_error"}}"#));
        failed.end(true);
        assert_eq!(last(&seen), expected);
        let mut leaking = ask(&meter, BODY);
        leaking.forget();
        assert_eq!(last(&seen), expected);
    }

    #[test]
    fn an_answer_that_can_t_be_read_is_told_and_estimated() {
        for (kind, body, is_compressed, output) in [
            ("application/x-protobuf", &b"\x0aeight by"[..], false, 3),
            ("application/json", b"\x1f\x8b 567890", true, 9),
        ] {
            let (meter, seen) = meter();
            let mut passing = ask(&meter, BODY);
            passing.on_answer(StatusCode::OK, kind, None, is_compressed);
            passing.push(body);
            passing.end(true);
            let last = last(&seen);
            assert_eq!((last.requests, last.estimated, last.unread), (1, 1, 1), "{kind}");
            assert_eq!((last.input_tokens, last.output_tokens), (10, output), "{kind}");
        }
    }

    #[test]
    fn other_requests_count_what_their_answers_tell_only() {
        let (meter, seen) = meter();
        let other = |path: &str, kind: &str, body: &str| {
            let headers = [(CONTENT_TYPE, kind.parse().unwrap())].into_iter().collect();
            let mut passing = meter.ask(&Method::POST, path, &headers);
            lock(&passing.asked()).push(body.as_bytes());
            passing.on_answer(StatusCode::OK, "text/plain", None, false);
            passing.push(b"ok");
            passing.end(true);
            last(&seen)
        };
        for (path, kind, body) in [
            ("/telemetry", "application/json", r#"{"events":[{"messages":1}]}"#),
            ("/repository", "application/x-git", "data"),
            ("/v1/messages/count_tokens", "application/json", BODY),
            ("/v1/files", "multipart/form-data; boundary=x", "--x"),
        ] {
            assert_eq!(other(path, kind, body), Metered::default(), "{path}");
        }
        let form = other("/v1/audio/transcriptions", "multipart/form-data; boundary=x", "--x");
        assert_eq!((form.requests, form.unread, form.input_tokens), (1, 1, 0));
    }

    #[test]
    fn an_answer_that_is_looked_at_again_counts_once() {
        let (meter, seen) = meter();
        let response = |usage: &str| format!(r#"{{"object":"response","id":"resp_1","usage":{usage}}}"#);
        answer(&mut ask(&meter, BODY), &response("null"));
        assert_eq!((last(&seen).input_tokens, last(&seen).estimated), (10, 1));
        for _ in 0..5 {
            let mut polled = meter.ask(&Method::GET, "/v1/responses/resp_1", &HeaderMap::new());
            answer(&mut polled, &response(r#"{"input_tokens":2000,"output_tokens":1000}"#));
        }
        let last = last(&seen);
        assert_eq!((last.input_tokens, last.output_tokens, last.requests), (2000, 1000, 1));
        assert_eq!(last.estimated, 0);
    }

    #[test]
    fn requests_that_make_something_count_whatever_their_ids() {
        let (meter, seen) = meter();
        for _ in 0..3 {
            answer(
                &mut ask(&meter, BODY),
                r#"{"id":"0","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
            );
        }
        assert_eq!((last(&seen).input_tokens, last(&seen).requests), (9, 3));
    }

    #[test]
    fn numbers_that_a_server_made_up_end_at_the_largest_there_is() {
        let (meter, seen) = meter();
        for _ in 0..2 {
            let mut passing = ask(&meter, BODY);
            passing.on_answer(StatusCode::OK, "text/event-stream", None, false);
            passing.push(&event(
                r#"{"type":"message_start","message":{"usage":{"input_tokens":18446744073709551615,"cache_read_input_tokens":1}}}"#,
            ));
            passing.push(b"data: {\"type\":");
        }
        assert_eq!((last(&seen).input_tokens, last(&seen).requests), (u64::MAX, 2));
    }
}
