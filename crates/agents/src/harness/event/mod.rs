//! PURE: the events of an agent, the same for all agents. The shapes are those of `AgentEvent` in lib/harness/event.ts.

pub(crate) mod excerpt;
pub(crate) mod sink;

use ground::error::Error;
use ground::json::Json;
use ground::tokens::{self, CachedInput, Tokens};
use process::RefusedKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that an agent did or said.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AgentEvent {
    /// The session that the turn belongs to; `resume` takes this id.
    Session {
        session_id: String,
    },
    /// Words of the answer: a piece of it (`delta`), or a whole message.
    Text {
        text: String,
        delta: bool,
    },
    /// Words of the model's thinking.
    Reasoning {
        text: String,
        delta: bool,
    },
    ToolStart {
        id: String,
        name: String,
        input: Value,
    },
    ToolEnd {
        id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i64>,
        is_error: bool,
    },
    /// Tokens spent since the last event of this type: their sum is the turn's usage.
    Usage(Usage),
    /// The agent, or the harness, tries again. The turn goes on.
    Retry {
        message: String,
        /// When, if that is known and worth a word: milliseconds since 1970.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
    Warning {
        message: String,
    },
    /// The sandbox refused a connection to this host or Unix socket, for the first time.
    Refused {
        kind: RefusedKind,
        what: String,
    },
    Error {
        kind: AgentErrorKind,
        message: String,
    },
    /// The agent's own end of turn; at most once, the last event.
    End {
        ok: bool,
    },
    /// A line that is not an event of this provider.
    Noise {
        line: String,
    },
    // The events below occur in sessions only (`crate::acp`).
    /// A permission request of the agent, its answer, and the source of the answer: `policy`, `handler` or `timeout`.
    Permission {
        request: Value,
        answer: Value,
        by: &'static str,
    },
    /// Input that the agent asked of the user, and what became of the request: `accept`, `decline` or `cancel`. The input is
    /// not part of it. `by`: `handler` or `timeout`.
    Elicitation {
        request: Value,
        action: &'static str,
        by: &'static str,
    },
    /// The agent's mode, as it is now.
    Mode {
        mode: String,
    },
    /// The session's title, as the agent tells it.
    Title {
        title: String,
    },
    /// All commands that a prompt can begin with, as the agent describes them.
    Commands {
        commands: Value,
    },
    /// How much of the model's context is used, in tokens.
    Context {
        used_tokens: u64,
        max_tokens: u64,
    },
    /// A file that a tool call has changed. Without `old_text` the file is new.
    Diff {
        id: String,
        path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        old_text: Option<String>,
        new_text: String,
    },
    /// The agent's whole plan, as it is now.
    Plan {
        entries: Value,
    },
    /// All background work between turns, as it is now.
    Background {
        items: Vec<Value>,
    },
    /// Text of an earlier prompt, which a resumed agent repeats.
    Prompt {
        text: String,
    },
    /// A turn starts; later events belong to it. `by` is `prompt`, or `agent` for a turn that the agent began by itself.
    TurnStart {
        turn: u32,
        by: &'static str,
    },
    TurnEnd {
        turn: u32,
    },
}

impl AgentEvent {
    /// The event's approximate size in memory.
    pub fn weight(&self) -> usize {
        let inner = match self {
            AgentEvent::Text { text, .. } | AgentEvent::Reasoning { text, .. } => text.len(),
            AgentEvent::ToolStart { input, .. } => input.to_string().len(),
            AgentEvent::ToolEnd { output, .. } => output.as_ref().map_or(0, String::len),
            AgentEvent::Noise { line } => line.len(),
            AgentEvent::Prompt { text } => text.len(),
            AgentEvent::Permission { request, .. } | AgentEvent::Elicitation { request, .. } => {
                request.to_string().len()
            }
            AgentEvent::Plan { entries } => entries.to_string().len(),
            AgentEvent::Commands { commands } => commands.to_string().len(),
            AgentEvent::Diff { old_text, new_text, .. } => {
                new_text.len() + old_text.as_ref().map_or(0, String::len)
            }
            AgentEvent::Session { .. }
            | AgentEvent::Usage(_)
            | AgentEvent::Retry { .. }
            | AgentEvent::Warning { .. }
            | AgentEvent::Refused { .. }
            | AgentEvent::Error { .. }
            | AgentEvent::End { .. }
            | AgentEvent::Mode { .. }
            | AgentEvent::Title { .. }
            | AgentEvent::Context { .. }
            | AgentEvent::Background { .. }
            | AgentEvent::TurnStart { .. }
            | AgentEvent::TurnEnd { .. } => 0,
        };
        inner + 64
    }

    /// Whether it tells where a turn begins or ends, and how: what no listener may miss.
    pub(crate) fn is_boundary(&self) -> bool {
        matches!(
            self,
            AgentEvent::End { .. }
                | AgentEvent::Error { .. }
                | AgentEvent::TurnStart { .. }
                | AgentEvent::TurnEnd { .. }
                | AgentEvent::ToolEnd { .. }
        )
    }
}

/// Tokens as the provider counts them, and money where it says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_input_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Set where the usage is told to the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_source: Option<CostSource>,
}

/// Source of the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CostSource {
    /// The agent reported it.
    Agent,
    /// It was computed from the tokens by the caller's prices.
    Prices,
}

impl From<Tokens> for Usage {
    fn from(Tokens { input, output, cached }: Tokens) -> Usage {
        Usage { input_tokens: input, output_tokens: output, cached_input_tokens: cached, ..Usage::default() }
    }
}

impl Usage {
    /// The tokens that an object tells, in whatever names. `None`: it is none.
    pub(crate) fn told(usage: Json, cached: CachedInput) -> Option<Usage> {
        usage.is_object().then(|| tokens::told_in(usage, Some(cached)).unwrap_or_default().into())
    }

    /// Tokens in both directions.
    pub fn tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_input_tokens: self.cached_input_tokens.saturating_add(other.cached_input_tokens),
            cost_usd: match (self.cost_usd, other.cost_usd) {
                (None, None) => None,
                (left, right) => Some(exact(left.unwrap_or(0.0) + right.unwrap_or(0.0))),
            },
            cost_source: self.cost_source.or(other.cost_source),
        }
    }

    /// The usage since `earlier`. A count that is lower than before was reset, so it is returned whole.
    pub fn since(self, earlier: Usage) -> Usage {
        if self.input_tokens < earlier.input_tokens || self.output_tokens < earlier.output_tokens {
            return self;
        }
        Usage {
            input_tokens: self.input_tokens - earlier.input_tokens,
            output_tokens: self.output_tokens - earlier.output_tokens,
            cached_input_tokens: self.cached_input_tokens.saturating_sub(earlier.cached_input_tokens),
            cost_usd: self.cost_usd.map(|cost| exact((cost - earlier.cost_usd.unwrap_or(0.0)).max(0.0))),
            cost_source: self.cost_source,
        }
    }
}

/// Money without the crumbs that binary fractions leave: a billionth of a dollar is the least that is told.
pub(crate) fn exact(cost: f64) -> f64 {
    // An agent may tell any number, and infinity cannot be written as JSON.
    let cost = cost.min(MOST_MONEY);
    (cost * 1e9).round() / 1e9
}

const MOST_MONEY: f64 = 1e18;

ground::named! {
    /// Why the agent says that it failed.
    pub enum AgentErrorKind {
        Auth = "auth",
        RateLimit = "rate_limit",
        Quota = "quota",
        Overloaded = "overloaded",
        ContextLength = "context_length",
        InvalidRequest = "invalid_request",
        Network = "network",
        Server = "server",
        Permission = "permission",
        /// The turns that it was allowed are used up.
        MaxTurns = "max_turns",
        Unknown = "unknown",
    }
}

impl AgentErrorKind {
    /// The kind that an error tells among its facts.
    pub(crate) fn of(error: &Error) -> Option<AgentErrorKind> {
        AgentErrorKind::parse(error.facts().get("kind")?.as_str()?)
    }

    /// Whether the failure has an end that somebody may have named: a usage limit, or an overload.
    pub(crate) fn may_reset(self) -> bool {
        self.is_usage_limit() || self == AgentErrorKind::Overloaded
    }

    /// Whether the account is at a usage limit.
    pub(crate) fn is_usage_limit(self) -> bool {
        matches!(self, AgentErrorKind::Quota | AgentErrorKind::RateLimit)
    }

    /// Whether the same turn may well succeed when it is tried again.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            AgentErrorKind::RateLimit
                | AgentErrorKind::Overloaded
                | AgentErrorKind::Network
                | AgentErrorKind::Server
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_have_the_shape_that_the_api_promises() {
        let shapes = [
            (AgentEvent::Session { session_id: "s".into() }, json!({"type":"session","sessionId":"s"})),
            (
                AgentEvent::ToolEnd {
                    id: "1".into(),
                    name: None,
                    output: None,
                    exit_code: Some(3),
                    is_error: true,
                },
                json!({"type":"tool_end","id":"1","exitCode":3,"isError":true}),
            ),
            (
                AgentEvent::Usage(Usage {
                    input_tokens: 1,
                    output_tokens: 2,
                    cached_input_tokens: 3,
                    cost_usd: None,
                    cost_source: None,
                }),
                json!({"type":"usage","inputTokens":1,"outputTokens":2,"cachedInputTokens":3}),
            ),
            (
                AgentEvent::Error { kind: AgentErrorKind::RateLimit, message: "m".into() },
                json!({"type":"error","kind":"rate_limit","message":"m"}),
            ),
        ];
        for (event, shape) in shapes {
            assert_eq!(serde_json::to_value(&event).unwrap(), shape);
        }
    }

    #[test]
    fn a_count_that_fell_began_anew() {
        let earlier = Usage {
            input_tokens: 100,
            output_tokens: 10,
            cached_input_tokens: 0,
            cost_usd: None,
            cost_source: None,
        };
        let anew = Usage {
            input_tokens: 50,
            output_tokens: 5,
            cached_input_tokens: 0,
            cost_usd: None,
            cost_source: None,
        };
        assert_eq!(anew.since(earlier), anew);
    }
}
