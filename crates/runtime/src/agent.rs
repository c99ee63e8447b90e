//! A coding agent of this machine as the handler of prompts, through the harness.
//!
//! Each prompt is a turn. The turn's events are read as they come: text is sent as assistant messages, and a slow client slows
//! the agent down. When the request has to stop, the turn is aborted and its process tree killed. Of a failure, the client gets
//! the message, the code and the kind. The partial result and the facts about the process stay on this machine.

use super::handler::{
    AgentAnswer, AgentData, AgentFault, AgentFuture, AgentHandler, AgentInvocation, AgentSender, CancelSignal,
};
use super::secrets::own_environment;
use super::speech::Speech;
use agents::harness::observer::{OnTurn, show_request};
use agents::harness::{AgentRequest, ConcurrencyLimit, Mirror, Turn, TurnOutcome, TurnRequest};
use agents::model::Schema;
use agents::start;
use ground::error::Error;
use ground::os::native_variable;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// An agent that answers prompts, by requests of this kind. Clones are the same agent, with the same limits.
#[derive(Clone)]
pub struct Served<Request> {
    pub(super) on_turn: Option<OnTurn>,
    pub(super) defaults: Request,
    pub(super) limits: Vec<ConcurrencyLimit>,
    /// Cancelled when the agent is served no more.
    pub(super) stopped: CancellationToken,
}

impl<Request> Served<Request> {
    /// `defaults`: the options that a client's invocation does not set. The prompt in it is ignored.
    pub fn new(defaults: Request, limits: Vec<ConcurrencyLimit>) -> Served<Request> {
        Served { on_turn: None, defaults, limits, stopped: CancellationToken::new() }
    }

    /// Shows each turn to `on_turn`.
    pub fn showing(mut self, on_turn: OnTurn) -> Served<Request> {
        self.on_turn = Some(on_turn);
        self
    }
}

/// Runs an agent for each prompt.
pub type HarnessAgent = Served<TurnRequest>;

impl HarnessAgent {
    fn request(&self, invocation: &AgentInvocation) -> Result<TurnRequest, Error> {
        let mut request = self.defaults.clone();
        request.prompt.clone_from(&invocation.user_prompt);
        set_up(&mut request.agent, &invocation.system_prompt, &invocation.model);
        let environment = invocation.env.clone().unwrap_or_default();
        request.agent.environment.changes.extend(own_environment(&environment));
        if let Some(schema) = schema_of(invocation)? {
            request.schema = Some(schema);
        }
        request.agent.redact = request.agent.redact.with(invocation.secrets.clone());
        request.has_listener = true;
        Ok(request)
    }
}

/// Sets what an invocation names; empty texts name nothing.
pub(super) fn set_up(agent: &mut AgentRequest, system_prompt: &str, model: &str) {
    for (given, option) in [(system_prompt, &mut agent.system_prompt), (model, &mut agent.model)] {
        if !given.is_empty() {
            *option = Some(given.to_owned());
        }
    }
}

/// The schema that an answer has to fit.
pub(super) fn schema_of(invocation: &AgentInvocation) -> Result<Option<Arc<Schema>>, Error> {
    let source = invocation.output_format.clone().and_then(schema_in);
    let compile = |source| Schema::compile(source, "output_format_json_schema_str").map(Arc::new);
    source.map(compile).transpose()
}

/// Takes the schema out of `{"type": "json_schema", "schema": {...}}`. A bare schema is returned unchanged.
fn schema_in(mut output_format: Value) -> Option<Value> {
    if output_format.is_null() {
        return None;
    }
    let is_wrapped = output_format.get("type").and_then(Value::as_str) == Some("json_schema");
    match output_format.get_mut("schema") {
        Some(schema) if is_wrapped && schema.is_object() => Some(schema.take()),
        _ => Some(output_format),
    }
}

impl AgentHandler for HarnessAgent {
    fn stop(&self) {
        self.stopped.cancel();
    }

    fn is_sandboxed(&self) -> bool {
        self.defaults.agent.sandbox.is_some()
    }

    fn run(&self, mut invocation: AgentInvocation, sender: AgentSender) -> AgentFuture {
        let request = self.request(&invocation);
        let (limits, stopped) = (self.limits.clone(), self.stopped.clone());
        let on_turn = self.on_turn.clone();
        Box::pin(async move {
            let mut request = request.map_err(|error| fault_of(&error))?;
            let mut mirror = None;
            if let Some(on_turn) = on_turn {
                let secrets = request.agent.redact.clone();
                mirror = Some(show_request(&on_turn, &mut request, &secrets).await);
            }
            let turn = start(request, limits);
            let ended = Ended { cancel: &mut invocation.cancel, stopped: &stopped };
            follow(&turn, &sender, mirror, ended).await
        })
    }
}

/// The signals that a turn has to stop.
pub(super) struct Ended<'a> {
    pub cancel: &'a mut CancelSignal,
    /// The server's signal to stop all turns.
    pub stopped: &'a CancellationToken,
}

impl Ended<'_> {
    pub(super) async fn wait(&mut self) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.stopped.cancelled() => {}
        }
    }
}

/// Sends the turn's text to the client as it comes, and aborts the turn when it has to stop.
pub(super) async fn follow(
    turn: &Turn,
    sender: &AgentSender,
    mut mirror: Option<Mirror>,
    mut ended: Ended<'_>,
) -> Result<AgentAnswer, AgentFault> {
    let work = async {
        tell(turn, sender, &mut mirror).await;
        turn.outcome().await
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        () = ended.wait() => {
            turn.leave();
            turn.abort();
            turn.outcome().await
        }
    };
    if let Some(mirror) = mirror {
        mirror.end(outcome.clone());
    }
    answer_of(&outcome)
}

/// Sends the agent's text to the client until the turn's last event.
async fn tell(turn: &Turn, sender: &AgentSender, mirror: &mut Option<Mirror>) {
    let mut events = turn.events();
    let mut speech = Speech::default();
    while let Some(some) = events.next().await {
        if let Some(mirror) = mirror {
            mirror.hear(&some).await;
        }
        for event in &some {
            for message in speech.hear(event) {
                sender.assistant(vec![message]).await;
            }
        }
    }
    if let Some(message) = speech.end() {
        sender.assistant(vec![message]).await;
    }
}

fn answer_of(outcome: &TurnOutcome) -> Result<AgentAnswer, AgentFault> {
    let result = match outcome {
        TurnOutcome::Succeeded(result) => result,
        TurnOutcome::Failed { error, .. } => return Err(fault_of(error)),
    };
    let facts = &result.facts;
    let mut metadata = Map::new();
    if let Some(session_id) = &facts.session_id {
        metadata.insert("session_id".to_owned(), session_id.as_str().into());
    }
    if let Some(usage) = &facts.usage {
        metadata.insert("usage".to_owned(), json!(usage));
    }
    metadata.insert("duration_ms".to_owned(), facts.duration_ms.into());
    metadata.insert("attempts".to_owned(), facts.attempts.into());
    let data = match &facts.structured {
        Some(structured) => AgentData::Structured(structured.clone()),
        None => AgentData::Text(result.text.clone()),
    };
    Ok(AgentAnswer { data, metadata })
}

pub(super) fn fault_of(error: &Error) -> AgentFault {
    let mut metadata = Map::new();
    metadata.insert("code".to_owned(), error.code().as_str().into());
    if let Some(kind) = error.facts().get("kind") {
        metadata.insert("kind".to_owned(), kind.clone());
    }
    AgentFault { error: without_own_folders(error.message()), metadata }
}

/// Removes this process's working directory and home directory from a text: a client has no need to know them.
fn without_own_folders(text: &str) -> String {
    let cwd = std::env::current_dir().ok().map(|path| path.to_string_lossy().into_owned());
    [cwd, std::env::var(native_variable("HOME")).ok()]
        .into_iter()
        .flatten()
        .filter(|folder| folder.len() > 1)
        .fold(text.to_owned(), |text, folder| text.replace(&folder, "."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::error::ErrorCode;

    #[test]
    fn a_schema_comes_wrapped_or_bare() {
        let schema = json!({"type": "object"});
        assert_eq!(schema_in(json!({"type": "json_schema", "schema": schema})), Some(schema.clone()));
        assert_eq!(schema_in(schema.clone()), Some(schema));
        assert_eq!(schema_in(Value::Null), None);
    }

    #[test]
    fn a_failure_tells_its_words_and_nothing_of_this_machine() {
        let cwd = std::env::current_dir().unwrap();
        let error = Error::new(ErrorCode::AgentFailed, format!("no key in {}/key", cwd.display()))
            .with("kind", "auth")
            .with("stderr", "private");
        let fault = fault_of(&error);
        assert_eq!(fault.error, "no key in ./key");
        assert_eq!(Value::Object(fault.metadata), json!({"code": "AGENT_FAILED", "kind": "auth"}));
    }
}
