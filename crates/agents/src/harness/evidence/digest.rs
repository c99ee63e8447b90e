//! PURE: the state of a turn so far. The providers' readers report to it. It makes the events and keeps, within bounds, the
//! content of the result. Without a listener (`detail` is off) no events are built.

use super::answer::{Answer, LEFT_OUT};
use super::background::{Terminal, TurnEnd};
use super::counts::Steps;
use super::failure::{Failure, Words};
use super::last_lines::LastLines;
use super::turn_usage::TurnUsage;
use crate::harness::clip::clip;
use crate::harness::event::{AgentEvent, Usage};
use crate::harness::evidence::reset::Reset;
use ground::json::{Json, Pieces};
use process::Refused;
use serde_json::Value;

mod joined;

const MAX_OPEN_TOOLS: usize = 4096;
/// Most warnings of one turn.
const MAX_WARNINGS: usize = 100;

/// A turn as far as it has been read.
#[derive(Debug, Default)]
pub struct Digest {
    pub(crate) events: Events,
    tools: Tools,
    pub(crate) session: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) answer: Answer,
    thoughts: Pieces,
    pub(crate) usage: TurnUsage,
    pub steps: Steps,
    /// Each once.
    pub(crate) warnings: Vec<String>,
    pub(crate) trouble: Trouble,
    /// The agent's end of turn, and work that goes on behind it.
    pub end: TurnEnd,
    pub(crate) idle: Idle,
}

/// Lines and model calls since the last sign of progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    pub lines: u64,
    pub steps: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Somebody listens.
    pub are_built: bool,
    built: Vec<AgentEvent>,
    /// The CLI printed an event.
    pub are_read: bool,
    /// The last lines since the last event.
    pub other_lines: LastLines,
}

#[derive(Debug, Default)]
struct Tools {
    /// Words by which the CLI says that it refused one, where they are known.
    words: Option<&'static Words>,
    open: Vec<(String, String)>,
}

/// Failures of the turn, and signs of them.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    pub failure: Option<Failure>,
    pub retrying: Option<Failure>,
    /// When the limit that it ran into ends.
    pub reset: Option<Reset>,
    pub is_stuck: bool,
}

impl Digest {
    pub fn new(detail: bool) -> Self {
        Digest { events: Events { are_built: detail, ..Events::default() }, ..Digest::default() }
    }

    /// With the words by which a CLI says that it refused a tool.
    pub fn knowing(mut self, words: &'static Words) -> Self {
        self.tools.words = Some(words);
        self
    }

    pub fn take_events(&mut self) -> Vec<AgentEvent> {
        std::mem::take(&mut self.events.built)
    }

    fn emit(&mut self, event: impl FnOnce() -> AgentEvent) {
        if self.events.are_built {
            self.events.built.push(event());
        }
    }

    // Setters: the providers' readers report here.

    /// The id of the session; told once, and again when it changes.
    pub fn session(&mut self, id: &str) {
        if id.is_empty() || self.session.as_deref() == Some(id) {
            return;
        }
        self.session = Some(id.to_owned());
        self.emit(|| AgentEvent::Session { session_id: id.to_owned() });
    }

    pub fn model(&mut self, model: &str) {
        if !model.is_empty() && self.model.as_deref() != Some(model) {
            self.model = Some(model.to_owned());
        }
    }

    /// A new message begins: what was streamed of one that never ended is no part of it.
    pub fn message_begins(&mut self) {
        self.reopen();
        self.answer.message_begins();
    }

    pub fn text_delta(&mut self, text: &str) {
        let text = self.answer.delta(text);
        if !text.is_empty() {
            self.reopen();
            self.progress();
            self.emit(|| AgentEvent::Text { text: text.into_owned(), delta: true });
        }
    }

    /// A whole message, or a whole part of the message `key`. Nothing is told twice: no event when its deltas were.
    pub fn text(&mut self, key: Option<&str>, text: &str) {
        if !text.is_empty() {
            self.reopen();
        }
        self.text_of(key, text, true);
    }

    fn text_of(&mut self, key: Option<&str>, text: &str, is_told: bool) {
        let is_streamed = self.answer.whole(key, text);
        if text.is_empty() {
            return;
        }
        self.progress();
        if is_told && !is_streamed {
            self.emit(|| AgentEvent::Text { text: text.to_owned(), delta: false });
        }
    }

    /// The streamed message has ended (the provider sends no whole one).
    pub fn message_ends(&mut self) {
        self.answer.message_ends();
    }

    /// The final answer, as the provider's end of turn repeats it.
    pub fn answer(&mut self, text: &str) {
        self.text_of(None, text, false);
    }

    pub fn reasoning(&mut self, text: &str, delta: bool) {
        let text = &*self.thoughts.push(text);
        if !text.is_empty() {
            self.reopen();
            self.progress();
            self.emit(|| AgentEvent::Reasoning { text: text.to_owned(), delta });
        }
    }

    pub fn tool_start(&mut self, id: &str, name: &str, input: impl FnOnce() -> Value) {
        if self.tools.open.iter().any(|(open, _)| open == id) {
            return;
        }
        self.reopen();
        self.progress();
        self.message_ends();
        self.steps.tool_calls += 1;
        if self.tools.open.len() < MAX_OPEN_TOOLS {
            self.tools.open.push((id.to_owned(), name.to_owned()));
        }
        self.emit(|| AgentEvent::ToolStart { id: id.to_owned(), name: name.to_owned(), input: input() });
    }

    /// A tool ended, whether or not it was seen to start.
    pub fn tool_end(
        &mut self,
        id: &str,
        exit_code: Option<i64>,
        is_error: bool,
        output: impl FnOnce() -> Option<String>,
    ) {
        self.progress();
        let open = self.tools.open.iter().position(|(open, _)| open == id);
        let name = open.map(|index| self.tools.open.swap_remove(index).1).filter(|name| !name.is_empty());
        self.steps.answer_ends();
        // A refusal is in the result too, whether or not somebody listens.
        if is_error || self.events.are_built {
            let (id, output) = (id.to_owned(), output());
            self.tell(AgentEvent::ToolEnd { id, name, output, exit_code, is_error });
        }
    }

    /// An event that was built already. That of a tool that was refused is a warning too.
    pub(crate) fn tell(&mut self, event: AgentEvent) {
        let refusal = match &event {
            AgentEvent::ToolEnd { name, output: Some(output), is_error: true, .. } => {
                self.tools.words.and_then(|words| words.refusal(name.as_deref(), output))
            }
            _ => None,
        };
        self.emit(|| event);
        if let Some(refusal) = refusal {
            self.warning(&refusal);
        }
    }

    /// Reads the agent's report on its servers of tools: a server that is neither connected nor still being connected is lacking.
    pub(crate) fn tool_servers(&mut self, servers: Json) {
        for server in servers.items().take(20) {
            let [name, status, error] = server.fields(["name", "status", "error"]);
            let Some(status) = status.text().filter(|status| !matches!(&**status, "connected" | "pending"))
            else {
                continue;
            };
            let name = name.text().unwrap_or("unnamed".into());
            let why = error.text().map(|error| format!(": {error}")).unwrap_or_default();
            self.warning(&format!("the agent lacks the tools of the MCP server {name:?} ({status}){why}"));
        }
    }

    /// Usage of one step or message, to be added.
    pub fn usage(&mut self, usage: Usage) {
        let told = self.usage.add(usage);
        self.emit(|| AgentEvent::Usage(told));
    }

    /// Usage of the whole turn so far: the event tells what is new of it.
    pub fn usage_total(&mut self, total: Usage) {
        let new = self.usage.set(total);
        self.emit(|| AgentEvent::Usage(new));
    }

    /// The model began an answer, or goes on with it; a tool's end closes it.
    pub fn model_speaks(&mut self) {
        self.reopen();
        self.steps.speaks();
    }

    /// One whole answer of the model, for providers that mark it.
    pub fn model_answered(&mut self) {
        self.reopen();
        self.steps.answers();
    }

    /// A sign that work gets done: chatter counts from here.
    pub fn progress(&mut self) {
        self.idle = Idle::default();
    }

    /// The agent tries again by itself.
    pub fn retry(&mut self, failure: Failure) {
        self.reopen();
        self.emit(|| AgentEvent::Retry { message: clip(&failure.message).into_owned(), until: None });
        self.trouble.retrying = Some(failure);
    }

    /// A warning of the result that is no event.
    pub(crate) fn note(&mut self, message: &str) {
        if self.warnings.len() < MAX_WARNINGS && !self.warnings.iter().any(|known| known == message) {
            self.warnings.push(clip(message).into_owned());
        }
    }

    pub fn warning(&mut self, message: &str) {
        self.note(message);
        self.emit(|| AgentEvent::Warning { message: clip(message).into_owned() });
    }

    /// The sandbox refused these, each for the first time.
    pub fn refused(&mut self, targets: Vec<Refused>) {
        for Refused { kind, what, .. } in targets {
            self.emit(|| AgentEvent::Refused { kind, what });
        }
    }

    /// An error that is not yet the end of the turn. The same one is told once.
    pub fn error(&mut self, failure: Failure) {
        if self.trouble.failure.as_ref() != Some(&failure) {
            let (kind, message) = (failure.kind, clip(&failure.message).into_owned());
            self.emit(|| AgentEvent::Error { kind, message });
        }
        self.trouble.failure = Some(failure);
    }

    /// The agent's end of turn. A later one replaces it, so its error is told only when the turn is closed. It stands until
    /// the agent is seen at work again: whatever the provider, a turn that was over and goes on is open.
    pub fn end(&mut self, ok: bool, failure: Option<Failure>) {
        self.end.comes(Terminal { ok, failure });
    }

    /// The agent goes on, or begins anew: what it said of its end counts no longer.
    pub fn reopen(&mut self) {
        // The reason, in case no other comes.
        if let Some(failure) = self.end.reopen() {
            self.trouble.retrying = Some(failure);
        }
    }

    /// Something that goes on whether or not the agent ends its turn. `is_work`: its outcome belongs to the turn.
    pub fn background_begins(&mut self, id: &str, what: &str, is_work: bool) {
        self.end.begins(id, what, is_work);
        self.progress();
    }

    /// It ended. `will_wake`: the agent is told of it, and begins another turn.
    pub fn background_ends(&mut self, id: &str, will_wake: bool) {
        self.end.ends(id, will_wake);
        self.progress();
    }

    /// An event of the CLI was read.
    pub fn event_seen(&mut self) {
        self.events.are_read = true;
        self.events.other_lines.clear();
    }

    pub fn noise(&mut self, line: &[u8]) {
        self.events.other_lines.add(&String::from_utf8_lossy(&line[..line.len().min(4096)]));
        self.emit(|| AgentEvent::Noise { line: String::from_utf8_lossy(line).into_owned() });
    }

    /// Nothing more is read. Before the result is put together, which tells the warnings of all attempts.
    pub fn output_ended(&mut self) {
        if self.answer.take_cut() {
            self.warning(LEFT_OUT);
        }
    }

    /// The last events: what the agent says went wrong, and its own end of turn, where it reported one.
    pub fn close(&mut self) {
        if let Some(Terminal { ok, failure }) = self.end.terminal.clone() {
            if let Some(failure) = failure {
                self.error(failure);
            }
            self.emit(|| AgentEvent::End { ok });
        }
    }

    // Getters: the verdict and the result read here.

    /// The answer; while a message is being streamed, what there is of it.
    pub fn final_text(&self) -> &str {
        self.answer.text()
    }

    /// A model answered, or a tool ran.
    pub fn has_worked(&self) -> bool {
        self.steps.has_answered || self.steps.tool_calls > 0
    }

    /// The name of a tool that runs.
    pub fn open_tool(&self) -> Option<&str> {
        self.tools.open.last().map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests;
