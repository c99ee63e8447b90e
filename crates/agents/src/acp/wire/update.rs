//! PURE: the agent's progress messages, with one vocabulary for both versions of the protocol.
//!
//! Every field is read by itself from the raw JSON: an unknown word in one field must not cost the others (a tool whose end is
//! missed would be waited for). A wholly unknown message is [`Update::Unknown`], never an error.

use crate::harness::Usage;
use crate::harness::evidence::reset::Reset;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ground::error::Error;
use ground::tokens;
use serde_json::{Value, json};

/// One `session/update`.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Words of the answer. `message`: which message, where the agent counts them; `whole`: all of it, not a piece.
    Text {
        text: String,
        message: Option<String>,
        whole: bool,
        usage: Option<Usage>,
    },
    Thought {
        text: String,
    },
    /// Text of the user's prompt, which the agent repeats.
    Prompt {
        text: String,
        message: Option<String>,
    },
    Tool(ToolUpdate),
    /// Output of a terminal that a tool call refers to: a piece of it, or all so far.
    Terminal {
        id: String,
        data: Option<String>,
        whole: bool,
        exit_code: Option<i64>,
    },
    State(StateUpdate),
    Plan(Value),
    Mode(String),
    /// The options of the session, as they came.
    Options(Value),
    /// The usage of the session so far.
    Used {
        /// Money, in US dollars.
        cost: Option<f64>,
        /// Tokens in the model's context, and the most that it takes.
        context: Option<(u64, u64)>,
        /// The account is at its usage limit, which ends so.
        limit: Option<Reset>,
    },
    /// The session's title.
    Title(String),
    /// The commands that a prompt can begin with.
    Commands(Value),
    /// The agent tries again by itself.
    Retry {
        message: String,
    },
    Warning {
        message: String,
    },
    /// A known message with nothing to report.
    Quiet,
    Unknown,
}

/// The facts about a tool call in an update; an absent field is unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolUpdate {
    pub id: String,
    pub name: Option<String>,
    pub kind: Option<String>,
    pub title: Option<String>,
    pub status: Option<ToolStatus>,
    pub input: Option<Value>,
    pub output: Option<String>,
    /// The output is a piece, to be added.
    pub adds: bool,
    pub exit_code: Option<i64>,
    pub locations: Option<Value>,
    pub terminals: Vec<String>,
    /// Files that the call changes: path, old text, new text.
    pub diffs: Vec<(String, Option<String>, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolStatus {
    Pending,
    Running,
    Completed,
    Failed,
}

/// State of the session, in version 2 only.
#[derive(Clone, Debug, PartialEq)]
pub struct StateUpdate {
    pub state: SessionState,
    /// Background work behind the turns, if the agent reports it.
    pub background: Option<Vec<Value>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SessionState {
    Running,
    /// A question is open.
    Waiting,
    /// `end`: the end of a turn, if one ended.
    Idle {
        end: Option<TurnEnd>,
    },
    Unknown,
}

/// The agent's own word on how a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    pub reason: StopReason,
    pub usage: Option<Usage>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
    /// Version 2 alone.
    Error(AgentFault),
    Unknown(String),
}

/// An error in the agent's words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentFault {
    pub code: i64,
    pub message: String,
    /// Text of `data`, with details that the message leaves out.
    pub details: Option<String>,
    pub kind: Option<String>,
}

impl Update {
    /// Reads `params.update` of a `session/update`.
    pub fn read(update: &Value) -> Update {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => Update::Text {
                text: content_text(&update["content"]),
                message: owned(&update["messageId"]),
                whole: false,
                usage: usage(&update["_meta"]["usage"]),
            },
            "agent_message" => Update::Text {
                text: content_text(&update["content"]),
                message: owned(&update["messageId"]),
                whole: true,
                usage: None,
            },
            "agent_thought_chunk" | "agent_thought" => {
                Update::Thought { text: content_text(&update["content"]) }
            }
            "user_message_chunk" | "user_message" => Update::Prompt {
                text: content_text(&update["content"]),
                message: owned(&update["messageId"]),
            },
            "tool_call" | "tool_call_update" => {
                ToolUpdate::read(update).map_or(Update::Unknown, Update::Tool)
            }
            "tool_call_content_chunk" => ToolUpdate::read_piece(update).map_or(Update::Unknown, Update::Tool),
            "terminal_update" => terminal(update, true),
            "terminal_output_chunk" => terminal(update, false),
            "state_update" => Update::State(StateUpdate::read(update)),
            "plan" => Update::Plan(update["entries"].clone()),
            "plan_update" => plan_update(&update["plan"]),
            "current_mode_update" => owned(&update["currentModeId"]).map_or(Update::Unknown, Update::Mode),
            "config_option_update" => Update::Options(update["configOptions"].clone()),
            "usage_update" => {
                let size = update["size"].as_u64().filter(|size| *size > 0);
                Update::Used {
                    cost: cost(&update["cost"]),
                    context: update["used"].as_u64().zip(size),
                    limit: rate_limit(&update["_meta"]["_claude/rateLimit"]),
                }
            }
            "session_info_update" => session_info(update),
            "notice" => Update::Warning { message: joined([&update["title"], &update["description"]]) },
            "available_commands_update" => Update::Commands(update["availableCommands"].clone()),
            "plan_removed" => Update::Plan(Value::Array(Vec::new())),
            "compaction_update" | "compaction_summary_chunk" => Update::Quiet,
            _ => Update::Unknown,
        }
    }
}

impl ToolUpdate {
    /// Reads a tool call of an update, or of a question's subject.
    pub fn read(call: &Value) -> Option<ToolUpdate> {
        let meta = &call["_meta"];
        let raw = &call["rawOutput"];
        let printed = meta["terminal_output"]["data"].as_str().map(str::to_owned);
        let output = Some(tool_text(&call["content"])).filter(|text| !text.is_empty());
        Some(ToolUpdate {
            id: owned(&call["toolCallId"])?,
            name: owned(&call["name"])
                .or_else(|| owned(&meta["toolName"]))
                .or_else(|| owned(&meta["claudeCode"]["toolName"])),
            kind: owned(&call["kind"]),
            title: owned(&call["title"]),
            status: call["status"].as_str().and_then(ToolStatus::read),
            input: Some(&call["rawInput"]).filter(|input| !is_empty(input)).cloned(),
            output: output.or(printed).or_else(|| raw_text(raw)),
            adds: false,
            exit_code: exit_code(meta, raw),
            locations: call["locations"]
                .as_array()
                .filter(|all| !all.is_empty())
                .map(|_| call["locations"].clone()),
            terminals: items(&call["content"]).filter_map(|item| owned(&item["terminalId"])).collect(),
            diffs: items(&call["content"]).filter_map(diff).collect(),
        })
    }

    fn read_piece(update: &Value) -> Option<ToolUpdate> {
        Some(ToolUpdate {
            id: owned(&update["toolCallId"])?,
            output: Some(tool_text(&update["content"])).filter(|text| !text.is_empty()),
            adds: true,
            terminals: items(&update["content"]).filter_map(|item| owned(&item["terminalId"])).collect(),
            ..ToolUpdate::default()
        })
    }
}

impl ToolStatus {
    fn read(word: &str) -> Option<ToolStatus> {
        match word {
            "pending" | "paused" => Some(ToolStatus::Pending),
            "in_progress" => Some(ToolStatus::Running),
            "completed" => Some(ToolStatus::Completed),
            "failed" | "cancelled" => Some(ToolStatus::Failed),
            _ => None,
        }
    }

    pub fn is_end(self) -> bool {
        matches!(self, ToolStatus::Completed | ToolStatus::Failed)
    }
}

impl StateUpdate {
    fn read(update: &Value) -> StateUpdate {
        let state = match update["state"].as_str().unwrap_or_default() {
            "running" => SessionState::Running,
            "requires_action" => SessionState::Waiting,
            "idle" => SessionState::Idle { end: TurnEnd::read(update) },
            _ => SessionState::Unknown,
        };
        StateUpdate { state, background: update["background"].as_array().cloned() }
    }
}

impl TurnEnd {
    /// Reads the answer to a prompt (version 1), or the state after it (version 2).
    pub fn read(end: &Value) -> Option<TurnEnd> {
        let reason = match end["stopReason"].as_str()? {
            "end_turn" => StopReason::EndTurn,
            "max_tokens" => StopReason::MaxTokens,
            "max_turn_requests" => StopReason::MaxTurnRequests,
            "refusal" => StopReason::Refusal,
            "cancelled" => StopReason::Cancelled,
            "error" => StopReason::Error(AgentFault::read(&end["error"])),
            other => StopReason::Unknown(other.to_owned()),
        };
        let quota = &end["_meta"]["quota"]["token_count"];
        Some(TurnEnd { reason, usage: usage(&end["usage"]).or_else(|| usage(quota)) })
    }
}

impl AgentFault {
    /// Reads a JSON-RPC error object.
    pub fn read(error: &Value) -> AgentFault {
        AgentFault {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            details: details(&error["data"]),
            kind: owned(&error["data"]["errorKind"]),
        }
    }

    /// The agent's own error, from the one that the connection made of it.
    pub(crate) fn of(error: &Error) -> AgentFault {
        let facts = error.facts();
        AgentFault::read(&json!({
            "code": facts.get("rpcCode"), "message": error.message(), "data": facts.get("data"),
        }))
    }

    /// All that it says, in one line.
    pub fn words(&self) -> String {
        match &self.details {
            Some(details) if !self.message.contains(details.as_str()) => {
                format!("{}: {details}", self.message)
            }
            _ => self.message.clone(),
        }
    }
}

fn details(data: &Value) -> Option<String> {
    let fields = ["details", "message", "error", "uri"];
    data.as_str().or_else(|| fields.iter().find_map(|field| data[field].as_str())).map(str::to_owned)
}

/// The reset time of a subscription's limit; `None` unless the limit is reached.
fn rate_limit(info: &Value) -> Option<Reset> {
    let is_met = info["status"] == "rejected";
    info["resetsAt"].as_i64().filter(|_| is_met).and_then(Reset::at_epoch)
}

pub fn owned(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The items of an array, or the one thing that stands in its place.
fn items(value: &Value) -> impl Iterator<Item = &Value> {
    let (many, one) = match value {
        Value::Array(items) => (items.as_slice(), None),
        Value::Null => (&[] as &[Value], None),
        other => (&[] as &[Value], Some(other)),
    };
    many.iter().chain(one)
}

/// The words of a content block, or of several.
fn content_text(content: &Value) -> String {
    items(content)
        .filter_map(|block| block["text"].as_str().or_else(|| block["resource"]["text"].as_str()))
        .collect()
}

/// The words of a tool's content: blocks of text, and the paths of what it changed.
fn tool_text(content: &Value) -> String {
    let mut text = String::new();
    for item in items(content) {
        let words = content_text(&item["content"]);
        let path = || item["path"].as_str().map(|path| format!("changed {path}\n"));
        text.push_str(&if words.is_empty() { path().unwrap_or_default() } else { words });
    }
    text
}

fn diff(item: &Value) -> Option<(String, Option<String>, String)> {
    let is_diff = item["type"] == "diff";
    let new_text = item["newText"].as_str().filter(|_| is_diff)?.to_owned();
    Some((owned(&item["path"])?, item["oldText"].as_str().map(str::to_owned), new_text))
}

fn raw_text(raw: &Value) -> Option<String> {
    let fields = ["output", "content", "stdout", "text", "message", "error"];
    raw.as_str()
        .or_else(|| fields.iter().find_map(|field| raw[field].as_str()))
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

fn exit_code(meta: &Value, raw: &Value) -> Option<i64> {
    let shell = items(&raw["contents"]).find_map(|item| item["exitCode"].as_i64());
    meta["terminal_exit"]["exit_code"]
        .as_i64()
        .or_else(|| raw["exitCode"].as_i64())
        .or_else(|| raw["exit_code"].as_i64())
        .or_else(|| raw["metadata"]["exit"].as_i64())
        .or(shell)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn terminal(update: &Value, whole: bool) -> Update {
    let Some(id) = owned(&update["terminalId"]) else { return Update::Unknown };
    let data = if whole { &update["output"]["data"] } else { &update["data"] };
    Update::Terminal {
        id,
        data: owned(data).map(decoded),
        whole,
        exit_code: update["exitStatus"]["exitCode"].as_i64(),
    }
}

/// The protocol says base64; what is none is taken as it is.
fn decoded(data: String) -> String {
    match STANDARD.decode(&data) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => data,
    }
}

fn plan_update(plan: &Value) -> Update {
    Update::Plan(plan.get("entries").or_else(|| plan.get("items")).unwrap_or(plan).clone())
}

/// Codex tells here that it tries again, as everywhere the last try's error is repeated with the end.
fn session_info(update: &Value) -> Update {
    let error = &update["_meta"]["codex"]["error"];
    let is_active = update["_meta"]["codex"]["threadStatus"]["type"] == "active";
    if !(error["willRetry"] == true && is_active) {
        return owned(&update["title"]).map_or(Update::Quiet, Update::Title);
    }
    Update::Retry { message: joined([&error["message"], &error["additionalDetails"]]) }
}

fn joined(words: [&Value; 2]) -> String {
    words.into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join(": ")
}

fn cost(cost: &Value) -> Option<f64> {
    let amount = (cost["currency"] == "USD").then(|| cost["amount"].as_f64()).flatten();
    amount.filter(|amount| *amount >= 0.0)
}

/// Tokens, in whichever case the agent writes its names.
fn usage(usage: &Value) -> Option<Usage> {
    // Most updates tell none, and the names are many.
    usage.as_object()?;
    let count = |path: &str| {
        let told = path.split('.').try_fold(usage, |inner, name| inner.get(name))?;
        // Some languages write every number with a point.
        told.as_u64().or_else(|| told.as_f64().filter(|count| *count >= 0.0).map(|count| count as u64))
    };
    tokens::told(count, None).map(Usage::from)
}

#[cfg(test)]
mod tests;
