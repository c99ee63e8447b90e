//! PURE: whether a turn succeeded. Neither `end_turn` nor its absence is believed alone.
//!
//! | the agent's word | what else is known | verdict |
//! |---|---|---|
//! | any | we cancelled it | the reason of the cancel: `AGENT_ABORTED`, `AGENT_IDLE`, `AGENT_TIMED_OUT` |
//! | `end_turn` | text or a tool call | success |
//! | `end_turn` | neither | `AGENT_TRUNCATED` |
//! | `end_turn` | the agent's log reports that the model failed (pi, copilot) | `AGENT_FAILED` + kind of the words there |
//! | `end_turn` | no tokens from an agent that always reports them, and an error's text | `AGENT_FAILED` + kind of the text |
//! | `cancelled` | we did not ask | `AGENT_ABORTED`; the message says so if a tool was refused before |
//! | `cancelled` | we did not ask, no tool was refused, and a signal ended the process in the same moment | `AGENT_CRASHED` |
//! | `max_tokens`, `max_turn_requests`, `refusal` | | `AGENT_FAILED`: `context_length`, `invalid_request`, `permission` |
//! | an error | | `AGENT_FAILED` + kind by its word, its code, its text |
//! | none, or one that is unknown | | `AGENT_TRUNCATED` |
//! | none | the process is gone | `AGENT_CRASHED` |

use crate::acp::turn::turn_state::Ending;
use crate::acp::wire::update::{AgentFault, StopReason};
use crate::harness::AgentErrorKind;
use crate::harness::Provider;
use crate::harness::evidence::reset::Reset;
use crate::harness::provider::protocol::Logged;
use crate::harness::verdict::Fault;
use crate::harness::verdict::stop::{Silence, Stop};
use ground::error::ErrorCode;

/// The evidence for a verdict.
pub(crate) struct Evidence<'a> {
    pub agent: Provider,
    pub ending: &'a Ending,
    pub stop: Option<Stop>,
    /// The agent's text after its last tool call.
    pub text: &'a str,
    /// The last piece of that text.
    pub last_piece: &'a str,
    pub tool_calls: u64,
    pub has_usage: bool,
    pub silence: &'a Silence,
    /// The last tool of the turn that was refused.
    pub refused: Option<&'a str>,
    /// The result of the turn in the agent's log.
    pub logged: Option<&'a Logged>,
    /// End of the account's usage limit, as the agent reported it during the turn.
    pub reset: Option<&'a Reset>,
}

/// Whether this end of turn may be the last message of an agent whose process is being killed. A child of that process may
/// answer for it before the exit is known.
pub(crate) fn may_be_crash(ending: &Ending, stop: Option<Stop>, refused: Option<&str>) -> bool {
    stop.is_none() && refused.is_none() && *ending == Ending::Said(StopReason::Cancelled)
}

/// Whether an end of turn that [`may_be_crash`] still counts after the process is gone. `signal`: the signal that ended it.
pub(crate) fn outlives_exit(signal: Option<&str>) -> bool {
    signal.is_none()
}

/// See the table above; `None` is success.
pub(crate) fn verdict(evidence: &Evidence) -> Option<Fault> {
    weigh(evidence).map(|fault| fault.resetting(evidence.reset))
}

fn weigh(evidence: &Evidence) -> Option<Fault> {
    let name = evidence.agent.as_str();
    if let Some(stop) = evidence.stop {
        return Some(stop.error(name, evidence.silence).into());
    }
    let failed = |kind: AgentErrorKind, message: String| Some(failed(kind, &message));
    match evidence.ending {
        Ending::Said(StopReason::EndTurn) => good_end(evidence),
        Ending::Said(StopReason::MaxTokens) => failed(
            AgentErrorKind::ContextLength,
            format!("{name} stopped at the longest answer that its model gives (max_tokens)"),
        ),
        Ending::Said(StopReason::MaxTurnRequests) => failed(
            AgentErrorKind::InvalidRequest,
            format!("{name} stopped after as many model calls as a turn may have (max_turn_requests)"),
        ),
        Ending::Said(StopReason::Refusal) => {
            failed(AgentErrorKind::Permission, format!("the model of {name} refused to go on (refusal)"))
        }
        Ending::Said(StopReason::Cancelled) => {
            let message = match evidence.refused {
                // Codex is offered no other refusal than one that ends the turn.
                Some(title) => {
                    format!("{name} ended its turn because {title} was refused: prompt it again to go on")
                }
                None => format!("{name} says that its turn was cancelled, though it was not asked to"),
            };
            Some(Fault::new(ErrorCode::AgentAborted, None, &message))
        }
        Ending::Said(StopReason::Error(fault)) | Ending::Refused(fault) => {
            let words = fault.words();
            let message =
                if words.is_empty() { format!("{name} reported that its turn failed") } else { words };
            failed(kind(evidence.agent, fault), message)
        }
        Ending::Said(StopReason::Unknown(word)) => {
            truncated(format!("{name} ended its turn for a reason that is unknown: {word}"))
        }
        Ending::Silent => truncated(format!("{name} went idle without saying how its turn ended")),
    }
}

fn good_end(evidence: &Evidence) -> Option<Fault> {
    let Evidence { agent, text, last_piece, tool_calls, has_usage, .. } = *evidence;
    if let Some(Logged::Failed(words)) = evidence.logged {
        return Some(failed(kind_in(agent, None, words), words));
    }
    // Copilot tells of its tries before, without a line's end between: the error is the last that it says.
    let error = match agent.protocol().error_prefix {
        None => Some(text.trim()),
        Some(prefix) => Some(last_piece.trim()).filter(|piece| piece.starts_with(prefix)),
    };
    if let Some(words) = error.filter(|words| !words.is_empty() && !has_usage && agent.protocol().tells_usage)
    {
        return Some(failed(kind_in(agent, None, words), words));
    }
    if text.trim().is_empty() && tool_calls == 0 {
        let message = format!(
            "{} ended its turn without a word and without a tool call: its model may have failed, its own log tells more",
            agent.as_str()
        );
        return truncated(message);
    }
    None
}

fn truncated(message: String) -> Option<Fault> {
    Some(Fault::new(ErrorCode::AgentTruncated, None, &message))
}

fn failed(kind: AgentErrorKind, message: &str) -> Fault {
    Fault::new(ErrorCode::AgentFailed, Some(kind), message)
}

/// The kind by the agent's own phrases, then by those of any service.
fn kind_in(agent: Provider, status: Option<i64>, words: &str) -> AgentErrorKind {
    agent.descriptor().words.failure(status, words).kind
}

/// The kind of a fault by its `kind` field, its code, and its text, in this order.
pub(crate) fn kind(agent: Provider, fault: &AgentFault) -> AgentErrorKind {
    const WORDS: [(&str, AgentErrorKind); 10] = [
        ("auth", AgentErrorKind::Auth),
        ("rate", AgentErrorKind::RateLimit),
        ("billing", AgentErrorKind::Quota),
        ("quota", AgentErrorKind::Quota),
        ("overloaded", AgentErrorKind::Overloaded),
        ("context", AgentErrorKind::ContextLength),
        ("server", AgentErrorKind::Server),
        ("invalid", AgentErrorKind::InvalidRequest),
        ("network", AgentErrorKind::Network),
        ("permission", AgentErrorKind::Permission),
    ];
    const AUTH_REQUIRED: i64 = -32_000;
    let named = fault.kind.as_deref().and_then(|word| WORDS.iter().find(|(sign, _)| word.contains(sign)));
    match (named, fault.code) {
        (Some((_, kind)), _) => *kind,
        (None, AUTH_REQUIRED) => match kind_in(agent, None, &fault.words()) {
            AgentErrorKind::Unknown => AgentErrorKind::Auth,
            // Agents use the code for other errors of their service too.
            named => named,
        },
        (None, status @ 400..600) => kind_in(agent, Some(status), &fault.words()),
        (None, _) => {
            let words = fault.words();
            // The protocol's own words for any error at all.
            kind_in(agent, None, words.trim_start_matches("Internal error").trim_start_matches(": "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Provider;
    use serde_json::json;
    use std::time::Duration;

    fn said(provider: Provider, ending: &Ending, text: &str, tool_calls: u64, has_usage: bool) -> String {
        let error = verdict(&Evidence {
            agent: provider,
            ending,
            stop: None,
            text,
            last_piece: text.rsplit('|').next().unwrap(),
            tool_calls,
            has_usage,
            silence: &Silence::default(),
            refused: None,
            logged: None,
            reset: None,
        });
        error.map_or("ok".into(), |Fault { error, .. }| {
            let kind = AgentErrorKind::of(&error).map_or("", AgentErrorKind::as_str);
            format!("{} {kind}", error.code().as_str()).trim().to_owned()
        })
    }

    #[test]
    fn end_turn_is_not_believed_alone() {
        let end = Ending::Said(StopReason::EndTurn);
        let cases = [
            (Provider::Gemini, "hi", 0, false, "ok"),
            (Provider::Gemini, "", 1, false, "ok"),
            (Provider::Pi, "", 0, false, "AGENT_TRUNCATED"),
            (Provider::Codex, "done", 0, true, "ok"),
            (Provider::Codex, "unexpected status 500 Internal Server Error", 0, false, "AGENT_FAILED server"),
            (Provider::Copilot, "Error: 401 Unauthorized", 0, false, "AGENT_FAILED auth"),
            (
                Provider::Copilot,
                "Info: Request failed. Retrying...|Error: 500 Internal Server Error",
                0,
                false,
                "AGENT_FAILED server",
            ),
            (
                Provider::Copilot,
                "Error: Failed to get response from the AI model; retried 5 times (total retry wait time: 57.26 seconds) Last error: 429 slow down",
                0,
                false,
                "AGENT_FAILED rate_limit",
            ),
            (Provider::Copilot, "Error: no quota left", 0, false, "AGENT_FAILED quota"),
            (Provider::Copilot, "Error: is the first word", 0, true, "ok"),
            (Provider::Copilot, "All good", 0, false, "ok"),
        ];
        for (provider, text, tools, has_usage, expected) in cases {
            assert_eq!(said(provider, &end, text, tools, has_usage), expected, "{provider:?} {text}");
        }
    }

    #[test]
    fn an_agents_own_words_have_their_kind() {
        let cases = [
            (
                Provider::Codex,
                "We’re currently experiencing high demand, which may cause temporary errors.",
                "overloaded",
            ),
            (Provider::Codex, "You've hit your usage limit.", "quota"),
            (Provider::Gemini, "You have exhausted your capacity on this model.", "quota"),
            (Provider::Opencode, "Internal error: Incorrect API key provided", "auth"),
        ];
        for (provider, words, expected) in cases {
            let fault = AgentFault { code: -32_603, message: words.to_owned(), ..AgentFault::default() };
            assert_eq!(kind(provider, &fault).as_str(), expected, "{words}");
        }
    }

    #[test]
    fn the_end_of_a_limit_is_what_a_machine_says_else_what_the_words_say() {
        let reset = |kind: &str, words: &str, told: Option<&Reset>| {
            let fault = AgentFault {
                code: -32_603,
                message: words.to_owned(),
                kind: Some(kind.to_owned()),
                ..AgentFault::default()
            };
            let ending = Ending::Refused(fault);
            let evidence = Evidence {
                agent: Provider::ClaudeCode,
                ending: &ending,
                stop: None,
                text: "",
                last_piece: "",
                tool_calls: 0,
                has_usage: false,
                silence: &Silence::default(),
                refused: None,
                logged: None,
                reset: told,
            };
            verdict(&evidence).unwrap().reset
        };
        let told = Reset::at_epoch(1_777_936_568);
        let minute = Some(Reset::After(Duration::from_secs(60)));
        assert_eq!(reset("rate_limit", "Please try again in 60s.", None), minute);
        assert_eq!(reset("rate_limit", "Please try again in 60s.", told.as_ref()), told);
        assert_eq!(reset("rate_limit", "slow down", None), None);
        assert_eq!(reset("server_error", "Please try again in 60s.", told.as_ref()), None, "no limit");
    }

    #[test]
    fn a_failure_in_the_log_is_one_whatever_was_said_and_used() {
        let failed = Logged::Failed("429 slow down".to_owned());
        let ending = Ending::Said(StopReason::EndTurn);
        let mut evidence = Evidence {
            agent: Provider::Copilot,
            ending: &ending,
            stop: None,
            text: "Error: 429 slow down",
            last_piece: "Error: 429 slow down",
            tool_calls: 1,
            has_usage: true,
            silence: &Silence::default(),
            refused: None,
            logged: Some(&failed),
            reset: None,
        };
        assert_eq!(verdict(&evidence).and_then(|fault| fault.kind()), Some(AgentErrorKind::RateLimit));
        evidence.logged = Some(&Logged::Cut);
        assert!(verdict(&evidence).is_none(), "an answer that was cut is one");
    }

    #[test]
    fn a_refusal_that_ended_the_turn_is_told() {
        let ending = Ending::Said(StopReason::Cancelled);
        let agent = Provider::Codex;
        let evidence = Evidence {
            agent,
            ending: &ending,
            stop: None,
            text: "",
            last_piece: "",
            tool_calls: 1,
            has_usage: true,
            silence: &Silence::default(),
            refused: Some("npm publish"),
            logged: None,
            reset: None,
        };
        let error = verdict(&evidence).unwrap().error;
        assert_eq!(error.code(), ErrorCode::AgentAborted);
        assert!(error.message().contains("npm publish was refused"), "{error}");
    }

    #[test]
    fn every_other_end_has_its_code_and_kind() {
        let fault = |error: serde_json::Value| AgentFault::read(&error);
        let cases = [
            (Ending::Said(StopReason::MaxTokens), "AGENT_FAILED context_length"),
            (Ending::Said(StopReason::MaxTurnRequests), "AGENT_FAILED invalid_request"),
            (Ending::Said(StopReason::Refusal), "AGENT_FAILED permission"),
            (Ending::Said(StopReason::Cancelled), "AGENT_ABORTED"),
            (Ending::Said(StopReason::Unknown("tired".into())), "AGENT_TRUNCATED"),
            (Ending::Silent, "AGENT_TRUNCATED"),
            (Ending::Refused(fault(json!({"code":401,"message":"fake"}))), "AGENT_FAILED auth"),
            (Ending::Refused(fault(json!({"code":500,"message":"terminated"}))), "AGENT_FAILED server"),
            (
                Ending::Refused(fault(json!({"code":-32000,"message":"Authentication required"}))),
                "AGENT_FAILED auth",
            ),
            (
                Ending::Refused(fault(
                    json!({"code":-32603,"message":"Internal error","data":{"details":"HTTP 429"}}),
                )),
                "AGENT_FAILED rate_limit",
            ),
            (
                Ending::Said(StopReason::Error(fault(
                    json!({"code":-32603,"message":"x","data":{"errorKind":"rate_limit"}}),
                ))),
                "AGENT_FAILED rate_limit",
            ),
            (
                Ending::Said(StopReason::Error(fault(
                    json!({"code":-32603,"message":"x","data":{"errorKind":"server_error"}}),
                ))),
                "AGENT_FAILED server",
            ),
            (
                Ending::Refused(fault(json!({"code":-32603,"message":"Internal error","data":{}}))),
                "AGENT_FAILED unknown",
            ),
        ];
        for (ending, expected) in cases {
            assert_eq!(said(Provider::ClaudeCode, &ending, "text", 1, true), expected, "{ending:?}");
        }
    }

    #[test]
    fn an_unasked_cancel_may_be_a_crash_and_a_signal_proves_it() {
        let cancelled = Ending::Said(StopReason::Cancelled);
        let cases = [
            (&cancelled, None, None, true),
            (&cancelled, Some(Stop::Aborted), None, false),
            (&cancelled, None, Some("rm"), false),
            (&Ending::Said(StopReason::EndTurn), None, None, false),
            (&Ending::Silent, None, None, false),
        ];
        for (ending, stop, refused, expected) in cases {
            assert_eq!(may_be_crash(ending, stop, refused), expected, "{ending:?} {stop:?} {refused:?}");
        }
        assert!(outlives_exit(None) && !outlives_exit(Some("SIGKILL")));
    }

    #[test]
    fn after_our_cancel_the_reason_of_it_is_the_verdict() {
        let stops = [
            (Stop::Aborted, "AGENT_ABORTED"),
            (Stop::Idle { ms: 1e3, in_tool: false, before_first_byte: false }, "AGENT_IDLE"),
            (Stop::TimedOut { ms: 1e3 }, "AGENT_TIMED_OUT"),
        ];
        for (stop, code) in stops {
            for ending in
                [Ending::Said(StopReason::EndTurn), Ending::Said(StopReason::Cancelled), Ending::Silent]
            {
                let error = verdict(&Evidence {
                    agent: Provider::Gemini,
                    ending: &ending,
                    stop: Some(stop),
                    text: "x",
                    last_piece: "x",
                    tool_calls: 0,
                    has_usage: false,
                    silence: &Silence::default(),
                    refused: None,
                    logged: None,
                    reset: None,
                });
                assert_eq!(error.map(|fault| fault.error.code().as_str()), Some(code));
            }
        }
    }

    #[test]
    fn copilot_says_in_words_of_its_own_that_a_prompt_is_too_long() {
        let words = "The provider rejected the prompt as too long, but automatic recovery could not reduce it. \
                     Reduce context before retrying.";
        assert_eq!(kind_in(Provider::Copilot, None, words), AgentErrorKind::ContextLength);
    }
}
