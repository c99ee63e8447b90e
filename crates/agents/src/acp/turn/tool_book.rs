//! PURE: the tool calls of a session. Joins the updates of each call, reports the call once, and knows whether it is open.

use crate::acp::wire::update::{ToolStatus, ToolUpdate};
use crate::harness::AgentEvent;
use crate::harness::clip::clip_to;
use serde_json::{Value, json};

/// Most calls that are remembered; the oldest ended one is forgotten first.
const MAX_KNOWN: usize = 4096;
/// Bytes of a terminal's output that are kept. The end is kept, because it is worth more than the beginning.
const MAX_TERMINAL_BYTES: usize = 256 << 10;
/// Longest output that an event tells.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

#[derive(Debug, Default)]
pub struct ToolBook {
    tools: Vec<Tool>,
    terminals: Vec<Terminal>,
}

#[derive(Debug)]
struct Tool {
    known: ToolUpdate,
    /// Its start was told.
    is_told: bool,
    has_ended: bool,
    /// We refused it; the agent may never say that it ended.
    is_refused: bool,
}

#[derive(Debug)]
struct Terminal {
    id: String,
    data: String,
    exit_code: Option<i64>,
}

impl ToolBook {
    /// The events of an update, and whether its call is new.
    pub fn on_update(&mut self, update: ToolUpdate) -> (Vec<AgentEvent>, bool) {
        let known = self.tools.iter().position(|tool| tool.known.id == update.id);
        // An update that is not an end reuses the id of a call that has ended, so it belongs to a new call.
        let is_another = update.status.is_some_and(|status| !status.is_end());
        if let Some(index) = known.filter(|index| is_another && self.tools[*index].has_ended) {
            self.tools.remove(index);
        }
        let (index, is_new) = match self.tools.iter().position(|tool| tool.known.id == update.id) {
            Some(index) => (index, false),
            None => (self.add(&update.id), true),
        };
        let tool = &mut self.tools[index];
        if tool.has_ended {
            return (Vec::new(), false);
        }
        tool.join(update);
        let has_input = tool.known.input.is_some();
        let is_at_work = tool.known.status.is_some_and(|status| status != ToolStatus::Pending);
        let mut events = Vec::new();
        if !tool.is_told && (has_input || is_at_work) {
            events.push(tool.start());
        }
        if tool.known.status.is_some_and(ToolStatus::is_end) {
            // A call that was refused, or that failed, has changed nothing.
            if tool.known.status == Some(ToolStatus::Completed) {
                events.extend(tool.diffs());
            }
            events.push(self.end(index));
        }
        (events, is_new)
    }

    pub fn on_terminal(&mut self, id: &str, data: Option<&str>, whole: bool, exit_code: Option<i64>) {
        let index = self.terminals.iter().position(|terminal| terminal.id == id).unwrap_or_else(|| {
            if self.terminals.len() >= 64 {
                self.terminals.remove(0);
            }
            self.terminals.push(Terminal { id: id.to_owned(), data: String::new(), exit_code: None });
            self.terminals.len() - 1
        });
        let terminal = &mut self.terminals[index];
        if whole && data.is_some() {
            terminal.data.clear();
        }
        terminal.data.push_str(data.unwrap_or_default());
        terminal.exit_code = exit_code.or(terminal.exit_code);
        if terminal.data.len() > MAX_TERMINAL_BYTES {
            let at = terminal.data.ceil_char_boundary(terminal.data.len() - MAX_TERMINAL_BYTES);
            terminal.data.drain(..at);
        }
    }

    /// A question about this call is open: it is told, whatever is known of it.
    pub fn on_asked(&mut self, update: ToolUpdate) -> (Vec<AgentEvent>, bool) {
        let id = update.id.clone();
        let (mut events, is_new) = self.on_update(update);
        if let Some(tool) = self.tools.iter_mut().find(|tool| tool.known.id == id && !tool.is_told) {
            events.push(tool.start());
        }
        (events, is_new)
    }

    pub fn on_refused(&mut self, id: &str) {
        if let Some(tool) = self.tools.iter_mut().find(|tool| tool.known.id == id) {
            tool.is_refused = true;
        }
    }

    /// The turn is over: calls that we refused are over as well.
    pub fn close_refused(&mut self) -> Vec<AgentEvent> {
        self.close(|tool| tool.is_refused)
    }

    /// The turn was cancelled, or the session is over: nothing is open any more.
    pub fn close_all(&mut self) -> Vec<AgentEvent> {
        self.close(|_| true)
    }

    fn close(&mut self, which: impl Fn(&Tool) -> bool) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        for index in 0..self.tools.len() {
            let tool = &mut self.tools[index];
            if tool.has_ended || !which(tool) {
                continue;
            }
            tool.known.status = Some(ToolStatus::Failed);
            if tool.is_told {
                events.push(self.end(index));
            } else {
                tool.has_ended = true;
            }
        }
        events
    }

    /// The facts about a call so far.
    pub fn known(&self, id: &str) -> Option<ToolUpdate> {
        self.tools.iter().find(|tool| tool.known.id == id).map(|tool| tool.known.clone())
    }

    /// The names of the calls that are open.
    pub fn open(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().filter(|tool| !tool.has_ended && !tool.is_refused).map(|tool| tool.known.name())
    }

    /// The names of the calls that are in progress: one that never began is not waited for.
    pub fn in_progress(&self) -> impl Iterator<Item = &str> {
        let open = self.tools.iter().filter(|tool| !tool.has_ended && !tool.is_refused);
        open.filter(|tool| tool.known.status == Some(ToolStatus::Running)).map(|tool| tool.known.name())
    }

    pub fn has_open(&self) -> bool {
        self.open().next().is_some()
    }

    fn add(&mut self, id: &str) -> usize {
        if self.tools.len() >= MAX_KNOWN {
            let oldest = self.tools.iter().position(|tool| tool.has_ended).unwrap_or(0);
            self.tools.remove(oldest);
        }
        let known = ToolUpdate { id: id.to_owned(), ..ToolUpdate::default() };
        self.tools.push(Tool { known, is_told: false, has_ended: false, is_refused: false });
        self.tools.len() - 1
    }

    fn end(&mut self, index: usize) -> AgentEvent {
        let tool = &mut self.tools[index];
        tool.has_ended = true;
        let known = &mut tool.known;
        let terminals: Vec<&Terminal> =
            self.terminals.iter().filter(|terminal| known.terminals.contains(&terminal.id)).collect();
        let printed: String = terminals.iter().map(|terminal| terminal.data.as_str()).collect();
        // It was told; what is remembered of an ended call is only that it ended.
        let output = known.output.take().or(Some(printed)).filter(|text| !text.is_empty());
        let output = output.map(|output| clip_to(&output, MAX_OUTPUT_BYTES).into_owned());
        let event = AgentEvent::ToolEnd {
            id: known.id.clone(),
            name: Some(known.name().to_owned()),
            output,
            exit_code: known.exit_code.or_else(|| terminals.iter().find_map(|terminal| terminal.exit_code)),
            is_error: known.status == Some(ToolStatus::Failed),
        };
        known.input = None;
        event
    }
}

impl Tool {
    fn join(&mut self, update: ToolUpdate) {
        let known = &mut self.known;
        known.name = update.name.or(known.name.take());
        known.kind = update.kind.or(known.kind.take());
        known.title = update.title.or(known.title.take());
        known.status = update.status.or(known.status);
        known.input = update.input.or(known.input.take());
        known.locations = update.locations.or(known.locations.take());
        known.exit_code = update.exit_code.or(known.exit_code);
        known.output = match (known.output.take(), update.output, update.adds) {
            (Some(mut before), Some(more), true) => {
                before.push_str(&more);
                Some(before)
            }
            (before, now, _) => now.or(before),
        };
        if !update.diffs.is_empty() {
            known.diffs = update.diffs;
        }
        for terminal in update.terminals {
            if !known.terminals.contains(&terminal) {
                known.terminals.push(terminal);
            }
        }
    }

    /// The files that the call has changed, to be told once.
    fn diffs(&mut self) -> Vec<AgentEvent> {
        let id = &self.known.id;
        let diffs = std::mem::take(&mut self.known.diffs).into_iter();
        let event =
            |(path, old_text, new_text)| AgentEvent::Diff { id: id.clone(), path, old_text, new_text };
        diffs.map(event).collect()
    }

    fn start(&mut self) -> AgentEvent {
        self.is_told = true;
        let known = &self.known;
        AgentEvent::ToolStart {
            id: known.id.clone(),
            name: known.name().to_owned(),
            input: known.told_input(),
        }
    }
}

impl ToolUpdate {
    /// The agent's name for the tool, or for its kind.
    fn name(&self) -> &str {
        let kind = self.kind.as_deref().filter(|kind| *kind != "other");
        self.name.as_deref().or(kind).or(self.title.as_deref()).unwrap_or("tool")
    }

    /// The input. An agent that reports none (gemini) has the command in its title.
    fn told_input(&self) -> Value {
        match (&self.input, &self.title, self.kind.as_deref()) {
            (Some(input), _, _) => input.clone(),
            (None, Some(title), Some("execute")) => json!({ "command": title }),
            (None, Some(title), _) => json!({ "title": title }),
            (None, None, _) => json!({}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(update: Value) -> ToolUpdate {
        ToolUpdate::read(&update).unwrap()
    }

    fn told(events: &[AgentEvent]) -> Vec<Value> {
        events.iter().map(|event| serde_json::to_value(event).unwrap()).collect()
    }

    #[test]
    fn a_call_is_told_once_with_the_input_that_came_later() {
        let mut book = ToolBook::default();
        let (first, is_new) =
            book.on_update(update(json!({"toolCallId":"1","name":"Bash","status":"pending","rawInput":{}})));
        assert!(first.is_empty() && is_new && book.has_open());
        let (second, is_new) = book.on_update(update(json!({"toolCallId":"1","rawInput":{"command":"ls"}})));
        assert_eq!(
            told(&second),
            [json!({"type":"tool_start","id":"1","name":"Bash","input":{"command":"ls"}})]
        );
        assert!(!is_new);
        assert!(book.on_update(update(json!({"toolCallId":"1","status":"in_progress"}))).0.is_empty());
        let done = json!({"toolCallId":"1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"a\n"}}]});
        let (end, _) = book.on_update(update(done.clone()));
        assert_eq!(
            told(&end),
            [json!({"type":"tool_end","id":"1","name":"Bash","output":"a\n","isError":false})]
        );
        assert!(book.on_update(update(done)).0.is_empty(), "an end is told once");
        assert!(!book.has_open());
        let (again, is_new) = book.on_update(update(json!({"toolCallId":"1","status":"in_progress"})));
        assert!(is_new && again.len() == 1, "the id is used again");
    }

    #[test]
    fn a_call_that_is_seen_only_when_done_has_a_start_too() {
        let mut book = ToolBook::default();
        let (events, _) = book.on_update(update(
            json!({"toolCallId":"1","status":"failed","title":"echo hi","kind":"execute","rawOutput":{"metadata":{"exit":3}}}),
        ));
        assert_eq!(
            told(&events),
            [
                json!({"type":"tool_start","id":"1","name":"execute","input":{"command":"echo hi"}}),
                json!({"type":"tool_end","id":"1","name":"execute","exitCode":3,"isError":true}),
            ]
        );
    }

    #[test]
    fn a_refused_call_is_not_open_and_ends_with_its_turn() {
        let mut book = ToolBook::default();
        let (events, _) = book.on_asked(update(json!({"toolCallId":"1","title":"rm x","kind":"execute"})));
        assert_eq!(told(&events)[0]["type"], "tool_start");
        book.on_refused("1");
        assert!(!book.has_open());
        assert_eq!(told(&book.close_refused())[0]["isError"], true);
        assert!(book.close_refused().is_empty());
    }

    #[test]
    fn what_a_terminal_printed_is_the_output_of_its_call() {
        let mut book = ToolBook::default();
        book.on_update(update(
            json!({"toolCallId":"1","status":"in_progress","content":[{"type":"terminal","terminalId":"t"}]}),
        ));
        book.on_terminal("t", Some("one "), false, None);
        book.on_terminal("t", Some("two"), false, Some(0));
        let (events, _) = book.on_update(update(json!({"toolCallId":"1","status":"completed"})));
        let end = &told(&events)[0];
        assert_eq!((&end["output"], &end["exitCode"]), (&json!("one two"), &json!(0)));
    }

    #[test]
    fn the_book_stays_bounded() {
        let mut book = ToolBook::default();
        for id in 0..MAX_KNOWN * 2 {
            book.on_update(update(json!({"toolCallId":id.to_string(),"status":"completed"})));
        }
        for _ in 0..100 {
            book.on_terminal("t", Some(&"ä".repeat(10_000)), false, None);
        }
        assert_eq!(book.tools.len(), MAX_KNOWN);
        assert!(book.terminals[0].data.len() <= MAX_TERMINAL_BYTES);
    }
}
