//! The listener of a turn's events: expected, absent, or an [`EventSink`]. Secrets are removed here, before the listener sees
//! them.
//!
//! The first events are kept for a listener that comes late. When they exceed [`MAX_KEPT`] or [`MAX_KEPT_BYTES`] and nobody has
//! come, no listener is expected any more, and events are no longer built.

use super::Order;
use super::record::TurnRecord;
use crate::harness::event::AgentEvent;
use crate::harness::event::sink::EventSink;
use crate::harness::verdict::result::{TurnFacts, TurnResult};
use ground::error::Error;
use ground::mpsc::UnboundedReceiver;
use ground::redaction::Redactor;
use serde_json::Value;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

const MAX_KEPT: usize = 1000;
const MAX_KEPT_BYTES: usize = 4 << 20;

pub(crate) struct Audience {
    listener: Listener,
    /// Hears everything, whoever else listens.
    pub(crate) record: Option<TurnRecord>,
    kept_bytes: usize,
    redactor: Redactor,
    /// Holds back what may be the beginning of a secret, over the borders of deltas.
    words: Redactor,
    thoughts: Redactor,
}

enum Listener {
    Expected(Vec<AgentEvent>),
    Sink(Box<dyn EventSink>),
    Nobody,
}

impl Audience {
    pub(crate) fn new(is_expected: bool, redactor: Redactor) -> Self {
        Audience {
            listener: if is_expected { Listener::Expected(Vec::new()) } else { Listener::Nobody },
            record: None,
            kept_bytes: 0,
            words: redactor.clone(),
            thoughts: redactor.clone(),
            redactor,
        }
    }

    /// Whether events are worth building.
    pub(crate) fn wants_events(&self) -> bool {
        self.record.is_some() || !matches!(self.listener, Listener::Nobody)
    }

    /// Whether a listener may still come.
    fn is_waiting(&self) -> bool {
        matches!(self.listener, Listener::Expected(_))
    }

    /// A listener comes; it is given what was kept.
    pub(crate) fn listen(&mut self, sink: Box<dyn EventSink>) {
        if let Listener::Expected(kept) = std::mem::replace(&mut self.listener, Listener::Sink(sink))
            && let (Listener::Sink(sink), false) = (&mut self.listener, kept.is_empty())
        {
            sink.tell(kept);
        }
    }

    pub(crate) fn leave(&mut self) {
        self.listener = Listener::Nobody;
    }

    /// Whether there was a listener that takes no more events.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(&self.listener, Listener::Sink(sink) if sink.is_gone())
    }

    pub(crate) fn tell(&mut self, events: Vec<AgentEvent>) {
        if events.is_empty() || !self.wants_events() {
            return;
        }
        let events = if self.redactor.is_empty() { events } else { self.redacted(events) };
        if events.is_empty() {
            return;
        }
        if let Some(record) = &mut self.record {
            record.tell(&events);
        }
        match &mut self.listener {
            Listener::Nobody => {}
            Listener::Expected(kept) => {
                self.kept_bytes += events.iter().map(AgentEvent::weight).sum::<usize>();
                kept.extend(events);
                if kept.len() > MAX_KEPT || self.kept_bytes > MAX_KEPT_BYTES {
                    self.listener = Listener::Nobody;
                }
            }
            Listener::Sink(sink) => sink.tell(events),
        }
    }

    /// The last events were told.
    pub(crate) fn end(&mut self) {
        if let Listener::Sink(sink) = &mut self.listener {
            sink.end();
        }
    }

    /// Carries out an order about the listener. False for an order that ends the turn.
    pub(crate) fn heed(&mut self, order: Option<Order>) -> bool {
        match order {
            Some(Order::Listen(sink)) => self.listen(sink),
            Some(Order::Leave) => self.leave(),
            Some(Order::Abort) | None => return false,
        }
        true
    }

    /// Gives the kept events to a listener that comes after the end of the turn.
    pub(crate) async fn serve_late(&mut self, orders: &mut UnboundedReceiver<Order>) {
        while self.is_waiting() {
            match orders.recv().await {
                None => self.leave(),
                order => _ = self.heed(order),
            }
        }
        self.end();
    }

    /// Resolves when there is room for more events.
    pub(crate) async fn room(&mut self) {
        poll_fn(|context| self.poll_room(context)).await;
    }

    /// Poll form of [`Audience::room`], for a caller that waits for several things.
    pub(crate) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.listener {
            Listener::Sink(sink) => sink.poll_room(context),
            _ => Poll::Ready(()),
        }
    }

    /// Whether the listener is behind right now.
    pub(crate) fn is_full(&mut self) -> bool {
        self.poll_room(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    pub(crate) fn has_secrets(&self) -> bool {
        !self.redactor.is_empty()
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        if self.redactor.is_empty() { text.to_owned() } else { self.redactor.redact(text) }
    }

    /// Removes secrets from the result of a turn before its user gets it.
    pub(crate) fn redact_result(&self, result: &mut TurnResult) {
        if self.redactor.is_empty() {
            return;
        }
        let clean = |text: &mut String| *text = self.redact(text);
        clean(&mut result.text);
        result.facts.warnings.iter_mut().for_each(clean);
        result.facts.session_id.iter_mut().chain(&mut result.facts.model).for_each(clean);
        if let Some(value) = &mut result.facts.structured {
            self.redact_value(value);
        }
        self.redact_sandbox(&mut result.facts);
        if let Some(process) = &mut result.facts.process {
            // The events were read from it. What it says in pieces, over several lines, can't be searched for secrets.
            process.stdout.clear();
            process.args.iter_mut().for_each(clean);
            clean(&mut process.command);
            clean(&mut process.stderr);
        }
    }

    /// A name that was asked for may have been made of a secret.
    fn redact_sandbox(&self, facts: &mut TurnFacts) {
        let of_process = facts.process.iter_mut().filter_map(|process| process.sandbox.as_mut());
        let lists = facts.sandbox.iter_mut().map(|sandbox| &mut sandbox.refused);
        for refused in lists.chain(of_process.map(|sandbox| &mut sandbox.refused)).flatten() {
            refused.what = self.redact(&refused.what);
        }
    }

    pub(crate) fn redact_error(&self, error: &Error) -> Error {
        self.redactor.redact_error(error)
    }

    pub(crate) fn redact_value(&self, value: &mut Value) {
        self.redactor.redact_json(value);
    }

    fn redacted(&mut self, events: Vec<AgentEvent>) -> Vec<AgentEvent> {
        let mut told = Vec::with_capacity(events.len());
        for event in events {
            match event {
                AgentEvent::Text { text, delta: true } => {
                    let text = self.words.push_text(&text);
                    if !text.is_empty() {
                        told.push(AgentEvent::Text { text, delta: true });
                    }
                }
                AgentEvent::Reasoning { text, delta: true } => {
                    let text = self.thoughts.push_text(&text);
                    if !text.is_empty() {
                        told.push(AgentEvent::Reasoning { text, delta: true });
                    }
                }
                other => {
                    told.extend(self.held_back());
                    told.push(self.without_secrets(other));
                }
            }
        }
        told
    }

    /// The events without their secrets, for those who did not listen.
    pub(crate) fn redact_all(&self, events: Vec<AgentEvent>) -> Vec<AgentEvent> {
        if self.redactor.is_empty() {
            return events;
        }
        let mut other = Audience::new(false, self.redactor.clone());
        let mut told = other.redacted(events);
        told.extend(other.held_back());
        told
    }

    /// Text that was held back because it could begin a secret, and turned out to be none.
    fn held_back(&mut self) -> Vec<AgentEvent> {
        let (words, thoughts) = (self.words.flush_text(), self.thoughts.flush_text());
        let words = (!words.is_empty()).then_some(AgentEvent::Text { text: words, delta: true });
        let thoughts =
            (!thoughts.is_empty()).then_some(AgentEvent::Reasoning { text: thoughts, delta: true });
        words.into_iter().chain(thoughts).collect()
    }

    fn without_secrets(&self, mut event: AgentEvent) -> AgentEvent {
        let clean = |text: &mut String| *text = self.redactor.redact(text);
        // Every field that an agent fills; a new kind of event does not compile until it stands here.
        match &mut event {
            AgentEvent::Session { session_id } => clean(session_id),
            AgentEvent::Text { text, .. }
            | AgentEvent::Reasoning { text, .. }
            | AgentEvent::Prompt { text } => {
                clean(text);
            }
            AgentEvent::ToolStart { id, name, input } => {
                [id, name].into_iter().for_each(clean);
                self.redact_value(input);
            }
            AgentEvent::ToolEnd { id, name, output, exit_code: _, is_error: _ } => {
                clean(id);
                name.iter_mut().chain(output).for_each(clean);
            }
            AgentEvent::Retry { message, until: _ }
            | AgentEvent::Warning { message }
            | AgentEvent::Error { kind: _, message } => clean(message),
            AgentEvent::Refused { kind: _, what } => clean(what),
            AgentEvent::Noise { line } => clean(line),
            AgentEvent::Permission { request, answer, by: _ } => {
                self.redact_value(request);
                self.redact_value(answer);
            }
            AgentEvent::Elicitation { request, action: _, by: _ } => self.redact_value(request),
            AgentEvent::Mode { mode } => clean(mode),
            AgentEvent::Title { title } => clean(title),
            AgentEvent::Commands { commands } => self.redact_value(commands),
            AgentEvent::Diff { id, path, old_text, new_text } => {
                [id, path, new_text].into_iter().chain(old_text).for_each(clean);
            }
            AgentEvent::Plan { entries } => self.redact_value(entries),
            AgentEvent::Background { items } => items.iter_mut().for_each(|item| self.redact_value(item)),
            AgentEvent::Usage(_)
            | AgentEvent::Context { used_tokens: _, max_tokens: _ }
            | AgentEvent::End { ok: _ }
            | AgentEvent::TurnStart { turn: _, by: _ }
            | AgentEvent::TurnEnd { turn: _ } => {}
        }
        event
    }
}
