use agents::acp::{HostRequest, OpenRequest, PromptRequest, Session, open};
use agents::harness::{AgentEvent, ConcurrencyLimit, EventReader, Provider, TurnOutcome};
use ground::error::{Error, ErrorCode};
use ground::mpsc::{UnboundedReceiver, unbounded_channel};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Options for a session with the scripted agent. `start`: a fault before the first prompt.
pub(crate) fn request(provider: Provider, version: u8, start: &str) -> OpenRequest {
    let agent = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("fixtures/acp/agent.mjs");
    let mut request = OpenRequest::new(provider);
    let words = [
        "node".into(),
        agent.to_string_lossy().into_owned(),
        "--version".into(),
        version.to_string(),
        "--start".into(),
        start.to_owned(),
    ];
    request.agent.binary = Some(words.to_vec());
    request.agent.cwd = Some(PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    request.agent.kill_grace = millis(500);
    request
}

pub(crate) struct Opened {
    pub(crate) session: Session,
    pub(crate) host: UnboundedReceiver<HostRequest>,
}

pub(crate) async fn opened(request: OpenRequest) -> Opened {
    try_open(request).await.unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) async fn try_open(request: OpenRequest) -> Result<Opened, Error> {
    try_open_under(request, Vec::new()).await
}

pub(crate) async fn try_open_under(
    request: OpenRequest,
    limits: Vec<ConcurrencyLimit>,
) -> Result<Opened, Error> {
    let (sender, host) = unbounded_channel();
    let opening = open(request, limits, None, sender, std::future::pending());
    let session = tokio::time::timeout(PATIENCE, opening).await.unwrap()?;
    Ok(Opened { session, host })
}

impl Opened {
    pub(crate) async fn prompt(&self, text: &str) -> Arc<TurnOutcome> {
        self.run(PromptRequest::new(text)).await
    }

    pub(crate) async fn run(&self, request: PromptRequest) -> Arc<TurnOutcome> {
        let turn = self.session.start(request);
        tokio::time::timeout(PATIENCE, turn.outcome()).await.unwrap()
    }

    pub(crate) async fn question(&mut self) -> agents::acp::Question {
        loop {
            let asked = tokio::time::timeout(PATIENCE, self.host.recv()).await.unwrap();
            if let Some(HostRequest::Question(question)) = asked {
                return question;
            }
        }
    }
}

/// The code, with the kind if there is one; `ok` for a success.
pub(crate) fn code(outcome: &Arc<TurnOutcome>) -> String {
    outcome.error().map_or("ok".to_owned(), error_code)
}

pub(crate) fn error_code(error: &Error) -> String {
    let limits = ["startTimeoutMs", "idleTimeoutMs", "toolIdleTimeoutMs", "timeoutMs"];
    let has_limit = limits.iter().any(|limit| error.facts().get(*limit).is_some());
    let is_timeout = matches!(error.code(), ErrorCode::AgentIdle | ErrorCode::AgentTimedOut);
    assert!(has_limit || !is_timeout, "the limit that was reached is no fact of {error}");
    let kind = error.facts().get("kind").and_then(|kind| kind.as_str()).unwrap_or_default();
    format!("{} {kind}", error.code().as_str()).trim().to_owned()
}

pub(crate) fn text(outcome: &Arc<TurnOutcome>) -> String {
    outcome.result().map(|result| result.text.clone()).unwrap_or_default()
}

/// Events up to and including the first one that matches, as JSON.
pub(crate) async fn until(
    reader: &mut EventReader,
    is_meant: impl Fn(&AgentEvent) -> bool,
) -> Vec<serde_json::Value> {
    let mut seen = Vec::new();
    loop {
        let events = tokio::time::timeout(PATIENCE, reader.next()).await.unwrap().unwrap();
        let is_last = events.iter().any(&is_meant);
        seen.extend(events.iter().map(|event| serde_json::to_value(event).unwrap()));
        if is_last {
            return seen;
        }
    }
}
