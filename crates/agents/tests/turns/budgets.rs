//! Caps and shared budgets over several attempts, whatever the reason for another attempt.

use crate::played::Played;
use crate::support::{code, millis};
use agents::harness::spending::{Caps, Prices};
use agents::harness::{Budget, TurnRequest};
use agents::model::Schema;
use serde_json::json;
use std::sync::Arc;

/// Reasons for another attempt: the first one uses 13 tokens and $0.1.
const REASONS: [(&str, &str); 3] = [
    ("a retry", "begin; say Part. 10 3 0.1; fail '503 overloaded'"),
    ("a limit", "begin; say Part. 10 3 0.1; fail 'Rate limit reached. Please try again in 0.1s.'"),
    ("a question", "begin; say Part. 10 3 0.1; over"),
];

fn tokens(max: u64) -> Caps {
    Caps { max_tokens: Some(max), max_cost_usd: None }
}

fn dollars(max: f64) -> Caps {
    Caps { max_tokens: None, max_cost_usd: Some(max) }
}

/// A cent for each of the ten tokens of input.
const PRICES: Prices =
    Prices { input_per_million: 10_000.0, output_per_million: 0.0, cached_per_million: None };

#[tokio::test]
async fn a_cap_is_one_for_all_attempts_whatever_follows_what() {
    // The cap; how often the agent is started; how much is used in the end; whether that is too much, or all of it.
    let cases = [
        (tokens(12), 1, 13, "more than maxTokens"),
        (tokens(13), 1, 13, "nothing is left of maxTokens"),
        (tokens(25), 2, 26, "more than maxTokens"),
        (tokens(26), 2, 26, ""),
        (dollars(0.09), 1, 13, "more than maxCostUsd"),
        (dollars(0.1), 1, 13, "nothing is left of maxCostUsd"),
        (dollars(0.19), 2, 26, "more than maxCostUsd"),
        (dollars(0.2), 2, 26, ""),
        (Caps { max_tokens: Some(25), max_cost_usd: Some(0.09) }, 1, 13, "more than maxCostUsd"),
    ];
    for (reason, first) in REASONS {
        for (caps, starts, used, words) in cases {
            for (prices, is_shared) in
                [(None, false), (Some(PRICES), false), (None, true), (Some(PRICES), true)]
            {
                // By prices the agent's own figure does not count.
                let cost = if prices.is_some() { "7" } else { "0.1" };
                let parts = [first, "begin; say '{}' 10 3 0.1; over"]
                    .map(|part| part.replace("0.1;", &format!("{cost};")));
                let budget = Budget::new(if is_shared { caps } else { tokens(1000) }, prices);
                let played =
                    Played::new(&[parts[0].as_str(), parts[1].as_str()]).with(|turn: &mut TurnRequest| {
                        turn.wait_for_reset = millis(60_000);
                        turn.schema = Some(Arc::new(Schema::compile(json!({}), "schema").unwrap()));
                        turn.agent.budget = Some(budget.clone());
                        if !is_shared {
                            (turn.agent.caps, turn.agent.prices) = (caps, prices);
                        }
                    });
                let name = format!("{reason}, {caps:?}, priced: {}, shared: {is_shared}", prices.is_some());
                let ran = played.run().await;
                let facts = &ran.outcome.result().unwrap().facts;
                assert_eq!(played.starts(), starts, "{name}");
                assert_eq!(budget.spent().tokens, used, "{name}");
                let usage = facts.usage.unwrap();
                assert_eq!(usage.input_tokens + usage.output_tokens, used, "{name}");
                let dollars = used as f64 / 130.0;
                assert!((usage.cost_usd.unwrap() - dollars).abs() < 1e-6, "{name}: {usage:?}");
                // An attempt that met a limit is none of the turn's.
                let attempts = if reason == "a limit" { 1.max(starts - 1) } else { starts };
                assert_eq!(facts.attempts as usize, attempts, "{name}");
                let told: u64 = ran
                    .events
                    .iter()
                    .filter(|event| event["type"] == "usage")
                    .map(|event| {
                        event["inputTokens"].as_u64().unwrap() + event["outputTokens"].as_u64().unwrap()
                    })
                    .sum();
                assert_eq!(told, used, "{name}: the events tell all of it");
                match ran.outcome.error() {
                    None => assert_eq!(words, "", "{name}"),
                    Some(error) => {
                        assert_eq!(code(&ran.outcome), "AGENT_BUDGET", "{name}: {error}");
                        let place =
                            if is_shared { words.replace("max", "budget.max") } else { words.to_owned() };
                        assert!(!words.is_empty() && error.message().contains(&place), "{name}: {error}");
                        assert_eq!(ran.fact("shared"), json!(is_shared), "{name}");
                        assert_eq!(ran.fact("usedTokens"), json!(used), "{name}");
                        assert!(
                            (ran.fact("usedCostUsd").as_f64().unwrap() - dollars).abs() < 1e-6,
                            "{name}: {error}"
                        );
                    }
                }
                let ends = ran.told(&["end"]);
                assert!(ends.len() <= 1, "{name}: {ends:?}");
            }
        }
    }
}
