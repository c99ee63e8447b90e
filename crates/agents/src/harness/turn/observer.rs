//! Shows an observer the turns that run behind a runtime or in a fleet's worker. The observer may add variables to an agent's
//! environment.

use super::Turn;
use super::mirror::Mirror;
use super::request::TurnRequest;
use crate::harness::agent_request::AgentRequest;
use ground::redaction::Redactor;
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Variables for an agent's environment.
pub type Variables = Vec<(String, String)>;

/// Called for each turn as it begins, with a handle that can't end the turn.
pub type OnTurn = Arc<dyn Fn(Value, Turn) -> Pin<Box<dyn Future<Output = Variables> + Send>> + Send + Sync>;

/// Longest time that an agent waits for the observer's answer.
const LONGEST: Duration = Duration::from_secs(1);

/// Shows a turn that is about to begin, and gives its agent the observer's variables. They come first, so that any other change to
/// the same variable overrides them.
pub async fn show_request(on_turn: &OnTurn, request: &mut TurnRequest, secrets: &Redactor) -> Mirror {
    let (mirror, variables) = show(on_turn, &request.agent, &request.prompt, secrets).await;
    let variables = variables.into_iter().map(|(name, value)| (name, Some(value)));
    request.agent.environment.changes.splice(0..0, variables);
    mirror
}

/// Shows a turn that is about to begin. `secrets` are redacted in everything that the observer gets.
pub async fn show(
    on_turn: &OnTurn,
    agent: &AgentRequest,
    prompt: &str,
    secrets: &Redactor,
) -> (Mirror, Variables) {
    let (mirror, seen) = Mirror::hiding(secrets);
    let facts = json!({
        "provider": agent.provider.as_str(),
        "prompt": secrets.redact(prompt),
        "model": agent.model,
        "cwd": agent.cwd,
        "resume": agent.resume,
    });
    let variables = tokio::time::timeout(LONGEST, on_turn(facts, seen)).await.unwrap_or_default();
    (mirror, variables)
}
