//! A session's event as the turn logic needs it, PURE: borrowed from the wire, and mostly not parsed.

use super::reported_error::ReportedError;
use ground::json;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The fields that every event has.
#[derive(Debug)]
pub struct EventHead<'a> {
    pub session_id: Cow<'a, str>,
    pub kind: Cow<'a, str>,
    /// The event comes from a sub-agent.
    pub is_sub_agent: bool,
    /// JSON text of the event's id.
    id: Option<&'a str>,
    /// The whole event as JSON text.
    pub event: &'a str,
    data: &'a str,
}

#[derive(Deserialize)]
struct Notification<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    event: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    agent_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// Reads a `session.event` notification, in one pass that builds nothing; `None` when the frame is something else.
pub fn parse_session_event(frame: &[u8]) -> Option<EventHead<'_>> {
    parse_usual(frame).or_else(|| parse_unusual(frame))
}

/// Reads the form that the runtimes write: the text around the event is compared, not parsed.
fn parse_usual(frame: &[u8]) -> Option<EventHead<'_>> {
    const HEAD: &[u8] = br#"{"jsonrpc":"2.0","method":"session.event","params":{"sessionId":""#;
    const MIDDLE: &[u8] = br#"","event":"#;
    const TAIL: &[u8] = b"}}";
    let rest = frame.strip_prefix(HEAD)?;
    let (session_id, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
    // Escapes and control characters are left to the JSON parser.
    if session_id.iter().any(|&byte| byte == b'\\' || byte < b' ') {
        return None;
    }
    let rest = rest.strip_prefix(MIDDLE)?;
    let (envelope, length) = json::read_first::<Envelope<'_>>(rest)?;
    let (event, tail) = rest.split_at(length);
    if tail != TAIL {
        return None;
    }
    let session_id = std::str::from_utf8(session_id).ok()?;
    Some(EventHead::new(Cow::Borrowed(session_id), envelope, std::str::from_utf8(event).ok()?))
}

fn parse_unusual(frame: &[u8]) -> Option<EventHead<'_>> {
    const METHOD: &[u8] = b"\"session.event\"";
    /// The method is near the beginning. Frames in which it is not are parsed like any other.
    const NEAR: usize = 128;
    memchr::memmem::find(&frame[..frame.len().min(NEAR)], METHOD)?;
    let notification: Notification<'_> = json::read_borrowed(frame).ok()?;
    if notification.id.is_some() || notification.method != "session.event" {
        return None;
    }
    let Params { session_id, event } = notification.params;
    Some(EventHead::new(session_id, json::read_borrowed(event.get()).ok()?, event.get()))
}

/// Work that a session reported as still running.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Background {
    pub agents: Vec<String>,
    pub shells: Vec<String>,
}

impl Background {
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty() && self.shells.is_empty()
    }
}

/// The meaning of an event for turns.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnEvent {
    /// A user's message. `continuation`: the agent itself injected it.
    UserMessage {
        message_id: Option<String>,
        continuation: bool,
    },
    /// The whole event as JSON text when it has content. An empty one is not an answer.
    AssistantMessage {
        origin: Option<String>,
        answer: Option<String>,
    },
    /// The foreground is done; background work may be left.
    AssistantIdle {
        aborted: bool,
    },
    SessionIdle {
        background: Background,
        aborted: bool,
        autopilot: bool,
    },
    /// An autopilot run reported its end.
    AutopilotEnd,
    /// The autopilot stopped working on one request.
    AutopilotStopped {
        /// Message id of that request.
        request: String,
        reason: String,
    },
    /// A policy refused the prompt with this message id: no `user.message` will come for it.
    PromptBlocked {
        origin: String,
    },
    Error(Box<ReportedError>),
    Abort,
    Shutdown {
        reason: Option<String>,
    },
    /// A tool, a question or a permission is open until the matching [`TurnEvent::Closed`].
    Opened {
        id: String,
        name: String,
    },
    Closed {
        id: String,
    },
    /// The main agent continues to work.
    Work,
    /// The event has no meaning for turns.
    Other,
}

/// Names of the tasks of a list. A task of unknown form counts too.
fn task_names(list: Option<&Value>) -> Vec<String> {
    let name = |task: &Value| {
        let field = |name: &str| task.get(name).and_then(Value::as_str);
        let id = ["agentId", "shellId", "id", "agentType"].into_iter().find_map(field).or(task.as_str());
        let id = id.unwrap_or("unnamed").to_owned();
        match field("description") {
            Some(description) => format!("{id} ({description})"),
            None => id,
        }
    };
    match list {
        None | Some(Value::Null | Value::Bool(false)) => Vec::new(),
        Some(Value::Array(tasks)) => tasks.iter().map(name).collect(),
        Some(Value::Object(tasks)) => tasks.keys().cloned().collect(),
        Some(other) => vec![other.to_string()],
    }
}

/// The data of an event, field by field. A field of unknown form does not hide the others.
#[derive(Default, Deserialize)]
#[serde(transparent)]
struct Data(serde_json::Map<String, Value>);

impl Data {
    fn text(&self, name: &str) -> Option<String> {
        self.0.get(name)?.as_str().map(str::to_owned)
    }

    fn is_true(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    /// The value, unless it is null.
    fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }
}

impl<'a> EventHead<'a> {
    fn new(session_id: Cow<'a, str>, envelope: Envelope<'a>, event: &'a str) -> Self {
        let Envelope { kind, id, agent_id, data } = envelope;
        let is_sub_agent = agent_id.is_some();
        let (id, data) = (id.map(RawValue::get), data.map_or("null", RawValue::get));
        EventHead { session_id, kind, is_sub_agent, id, event, data }
    }

    /// The event's id, where the event may be the end of a request: the main agent's idle, stopped autopilot or error.
    pub fn ending_id(&self) -> Option<String> {
        let is_ending = matches!(&*self.kind, "session.idle" | "session.autopilot_stopped" | "session.error");
        if self.is_sub_agent || !is_ending {
            return None;
        }
        json::read(self.id?).ok()
    }

    /// The meaning of the event for turns. Data of unknown form counts as absent.
    pub fn turn_event(&self) -> TurnEvent {
        // From a sub-agent, only waiting for people and tools concerns the turn.
        match &*self.kind {
            "tool.execution_start" | "external_tool.requested" => self.opened("tool", "toolCallId"),
            "tool.execution_complete" | "external_tool.completed" => self.closed("tool", "toolCallId"),
            "permission.requested" => self.opened("permission", "requestId"),
            "permission.completed" => self.closed("permission", "requestId"),
            "user_input.requested" => self.opened("user input", "requestId"),
            "user_input.completed" => self.closed("user input", "requestId"),
            "elicitation.requested" => self.opened("elicitation", "requestId"),
            "elicitation.completed" => self.closed("elicitation", "requestId"),
            "session.shutdown" => TurnEvent::Shutdown { reason: self.shutdown_reason() },
            _ if self.is_sub_agent => TurnEvent::Other,
            "session.idle" => self.idle(),
            "assistant.idle" => TurnEvent::AssistantIdle { aborted: self.data().is_true("aborted") },
            "user.message" => {
                let message = self.data();
                // Messages by which agents steer, and injected skills, are not prompts of a user either.
                let injected = message.text("source").is_some_and(|source| source != "user");
                let continuation = message.is_true("isAutopilotContinuation") || injected;
                TurnEvent::UserMessage { message_id: message.text("messageId"), continuation }
            }
            "assistant.message" => {
                let message = self.data();
                let has_content = match message.value("content") {
                    Some(Value::String(text)) => !text.trim().is_empty(),
                    Some(Value::Array(parts)) => !parts.is_empty(),
                    _ => false,
                };
                let answer = has_content.then(|| self.event.to_owned());
                TurnEvent::AssistantMessage { origin: message.text("originatingMessageId"), answer }
            }
            "session.error" => TurnEvent::Error(Box::new(self.reported_error())),
            "session.autopilot_stopped" => {
                let stopped = self.data();
                match stopped.text("requestId") {
                    Some(request) => {
                        let reason = stopped.text("reason").unwrap_or_default();
                        TurnEvent::AutopilotStopped { request, reason }
                    }
                    None => TurnEvent::AutopilotEnd,
                }
            }
            "session.task_complete" => TurnEvent::AutopilotEnd,
            "session.warning" => {
                let warning = self.data();
                let kind = warning.text("warningType").or_else(|| warning.text("code"));
                match warning.text("originatingMessageId") {
                    Some(origin) if kind.as_deref() == Some("policy_blocked") => {
                        TurnEvent::PromptBlocked { origin }
                    }
                    _ => TurnEvent::Other,
                }
            }
            "abort" => TurnEvent::Abort,
            kind if is_work(kind) => TurnEvent::Work,
            _ => TurnEvent::Other,
        }
    }

    fn data(&self) -> Data {
        match json::read(self.data) {
            Ok(Value::Object(fields)) => Data(fields),
            _ => Data::default(),
        }
    }

    fn idle(&self) -> TurnEvent {
        let idle = self.data();
        let tasks = |kind| task_names(idle.value("backgroundTasks").and_then(|tasks| tasks.get(kind)));
        TurnEvent::SessionIdle {
            background: Background { agents: tasks("agents"), shells: tasks("shells") },
            aborted: idle.is_true("aborted"),
            autopilot: idle.text("mode").as_deref() == Some("autopilot"),
        }
    }

    fn reported_error(&self) -> ReportedError {
        let error = self.data();
        ReportedError {
            error_type: error.text("errorType").unwrap_or_default(),
            message: error.text("message").unwrap_or_default(),
            error_code: error.value("errorCode").cloned(),
            status_code: error.value("statusCode").cloned(),
            origin: error.text("originatingMessageId"),
            url: error.text("url"),
            stack: error.text("stack"),
        }
    }

    fn opened(&self, what: &str, id: &str) -> TurnEvent {
        let open = self.data();
        let kind = |request: &Value| request.get("kind").and_then(Value::as_str).map(str::to_owned);
        let detail = open.text("toolName").or_else(|| open.value("permissionRequest").and_then(kind));
        let name = match detail {
            Some(detail) => format!("{what} {detail}"),
            None => what.to_owned(),
        };
        match open.text(id) {
            Some(id) => TurnEvent::Opened { id: format!("{what} {id}"), name },
            None => TurnEvent::Work,
        }
    }

    fn closed(&self, what: &str, id: &str) -> TurnEvent {
        match self.data().text(id) {
            Some(id) => TurnEvent::Closed { id: format!("{what} {id}") },
            None => TurnEvent::Work,
        }
    }

    fn shutdown_reason(&self) -> Option<String> {
        self.data().text("errorReason")
    }
}

/// Whether an event (JSON text) is a message of the main agent.
pub fn is_main_answer(event: &str) -> bool {
    json::read_borrowed::<Envelope<'_>>(event)
        .is_ok_and(|event| event.kind == "assistant.message" && event.agent_id.is_none())
}

/// Whether an event of the main agent shows that it continues. The end of a model call, its cost and its hooks do not.
fn is_work(kind: &str) -> bool {
    match kind {
        "assistant.turn_end" | "assistant.usage" | "assistant.turn_retry" | "model.call_failure" => false,
        "model.call_start" | "auto_mode_switch.requested" | "session_limits_exhausted.requested" => true,
        "exit_plan_mode.requested" | "session.compaction_start" | "command.execute" => true,
        kind => kind.starts_with("assistant.") || kind.starts_with("tool.") || kind.starts_with("subagent."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(session: &str, event: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session.event","params":{{"sessionId":"{session}","event":{event}}}}}"#
        )
    }

    fn event(kind: &str, data: &str) -> TurnEvent {
        let event = format!(r#"{{"id":"1","type":"{kind}","data":{data}}}"#);
        parse_session_event(frame("s", &event).as_bytes()).unwrap().turn_event()
    }

    #[test]
    fn reads_the_head_without_the_rest() {
        let text = frame("s\\u00e4", r#"{"type":"x.y","agentId":"a","extra":{"deep":[1]},"data":7}"#);
        let head = parse_session_event(text.as_bytes()).unwrap();
        assert_eq!((&*head.session_id, &*head.kind, head.is_sub_agent), ("sä", "x.y", true));
        assert_eq!(head.event, r#"{"type":"x.y","agentId":"a","extra":{"deep":[1]},"data":7}"#);
        assert_eq!(head.turn_event(), TurnEvent::Other);
    }

    #[test]
    fn the_usual_form_and_any_other_say_the_same() {
        let event = r#"{"type":"a.b","agentId":"x","data":{"k":"}}"}}"#;
        let usual = frame("s", event);
        let head = parse_usual(usual.as_bytes()).unwrap();
        for other in [
            format!(r#"{{"method":"session.event","params":{{"event":{event},"sessionId":"s"}}}}"#),
            format!(
                r#"{{"jsonrpc":"2.0","method":"session.event","params":{{"sessionId":"s","event":{event},"more":{{}}}}}}"#
            ),
            format!(
                r#"{{"jsonrpc":"2.0","method":"session.event","params":{{"sessionId":"\u0073","event":{event}}}}}"#
            ),
            format!(
                r#"{{"jsonrpc":"2.0","method":"session.event","params":{{"sessionId":"s","event":{event} }}}}"#
            ),
        ] {
            assert!(parse_usual(other.as_bytes()).is_none(), "{other}");
            let its = parse_session_event(other.as_bytes()).unwrap();
            assert_eq!(
                (&*its.session_id, &*its.kind, its.is_sub_agent, its.event, its.data),
                (&*head.session_id, &*head.kind, head.is_sub_agent, head.event, head.data)
            );
        }
        assert_eq!((&*head.session_id, &*head.kind, head.event), ("s", "a.b", event));
        // An id makes it a request, wherever it stands.
        let request = format!(r#"{},"id":1}}"#, usual.strip_suffix('}').unwrap());
        assert!(parse_session_event(request.as_bytes()).is_none(), "{request}");
    }

    #[test]
    fn a_frame_that_is_something_else_is_none() {
        for frame in [
            // A control character that is not escaped is no JSON, in the usual form neither.
            frame("\u{0}s", "{\"type\":\"a\"}").as_str(),
            r#"{"method":"session.event","params":null}"#,
            r#"{"method":"session.event","params":{"sessionId":"s"}}"#,
            r#"{"id":1,"method":"session.event","params":{"sessionId":"s","event":{"type":"x"}}}"#,
            r#"{"method":"other","params":{"sessionId":"s","event":{"type":"session.event"}}}"#,
            r#"{"method":"session.event","params":{"sessionId":"s","event":{"type":"x"}}"#,
            "",
        ] {
            assert!(parse_session_event(frame.as_bytes()).is_none(), "{frame}");
        }
    }

    #[test]
    fn an_idle_names_its_background_work() {
        let idle = |background| TurnEvent::SessionIdle { background, aborted: false, autopilot: false };
        assert_eq!(event("session.idle", "{}"), idle(Background::default()));
        assert_eq!(event("session.idle", "null"), idle(Background::default()));
        assert_eq!(event("session.idle", r#"{"backgroundTasks":null}"#), idle(Background::default()));
        assert_eq!(
            event("session.idle", r#"{"backgroundTasks":{"agents":[],"shells":[]}}"#),
            idle(Background::default())
        );
        let named = r#"{"backgroundTasks":{"agents":[{"agentId":"a1","agentType":"task","description":"look"}],"shells":[{"shellId":"s1"}]}}"#;
        let background = Background { agents: vec!["a1 (look)".into()], shells: vec!["s1".into()] };
        assert_eq!(event("session.idle", named), idle(background));
    }

    #[test]
    fn a_sub_agents_message_answers_nothing() {
        let event_text = r#"{"type":"assistant.message","agentId":"x","data":{"content":"hi"}}"#;
        let theirs = frame("s", event_text);
        assert_eq!(parse_session_event(theirs.as_bytes()).unwrap().turn_event(), TurnEvent::Other);
        assert_eq!(
            event("assistant.message", r#"{"content":"","toolRequests":[{}],"originatingMessageId":"m"}"#),
            TurnEvent::AssistantMessage { origin: Some("m".into()), answer: None }
        );
    }

    #[test]
    fn data_of_an_unknown_form_counts_as_absent() {
        assert_eq!(
            event("user.message", "[1]"),
            TurnEvent::UserMessage { message_id: None, continuation: false }
        );
        assert_eq!(event("session.error", r#""text""#), TurnEvent::Error(Box::default()));
        let odd = r#"{"messageId":7,"content":"hi","originatingMessageId":"m"}"#;
        assert!(matches!(
            event("assistant.message", odd),
            TurnEvent::AssistantMessage { origin: Some(_), answer: Some(_) }
        ));
        let odd = r#"{"aborted":"no","mode":7,"backgroundTasks":{"agents":[{"agentId":"a"}]}}"#;
        let background = Background { agents: vec!["a".into()], shells: vec![] };
        assert_eq!(
            event("session.idle", odd),
            TurnEvent::SessionIdle { background, aborted: false, autopilot: false }
        );
        let odd = r#"{"message":"m","url":{},"stack":1,"statusCode":null}"#;
        let error = ReportedError { message: "m".into(), ..ReportedError::default() };
        assert_eq!(event("session.error", odd), TurnEvent::Error(Box::new(error)));
    }

    #[test]
    fn half_a_character_hides_nothing() {
        let cut = r#"{"content":"cut \ud83d","originatingMessageId":"m"}"#;
        let TurnEvent::AssistantMessage { origin, answer } = event("assistant.message", cut) else {
            panic!()
        };
        assert_eq!(origin.as_deref(), Some("m"));
        assert!(answer.unwrap().contains(r"cut \ud83d"));
        let cut = r#"{"backgroundTasks":{"shells":[{"shellId":"s","description":"\ud83d"}]}}"#;
        let background = Background { agents: vec![], shells: vec!["s (\u{fffd})".into()] };
        assert_eq!(
            event("session.idle", cut),
            TurnEvent::SessionIdle { background, aborted: false, autopilot: false }
        );
    }
}
