//! An agent by a command: a shell that prints what pi prints. Each start plays the next part of its script.

use crate::support::{PATIENCE, millis};
use agents::harness::{AgentEvent, ConcurrencyLimit, Level, Provider, Turn, TurnOutcome, TurnRequest, start};
use ground::retry::RetryPolicy;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The words of the scripts.
const WORDS: &str = r#"
printf x >> "$0"
message() { printf '{"type":"message_end","message":{"role":"assistant",%s}}\n' "$1"; }
usage() { printf '"usage":{"input":%s,"output":%s,"cacheRead":0,"cacheWrite":0,"cost":{"total":%s}}' "$1" "$2" "$3"; }
say() { message '"content":[{"type":"text","text":"'"$1"'"}],"stopReason":"stop",'"$(usage "$2" "$3" "$4")"; }
over() { echo '{"type":"agent_end","messages":[]}'; }
fail() { message '"content":[],"stopReason":"error","errorMessage":"'"$1"'"'; over; }
tool() { echo '{"type":"tool_execution_start","toolCallId":"t","toolName":"bash","args":{}}'; }
begin() { echo '{"type":"session","id":"s"}'; }
"#;

/// A turn that works in a folder of its own.
pub(crate) struct Played {
    pub(crate) request: TurnRequest,
    folder: TempDir,
}

impl Played {
    /// `parts`: what the first start runs, the second, and the last from then on.
    pub(crate) fn new(parts: &[&str]) -> Played {
        let folder = tempfile::tempdir().unwrap();
        let mut request = TurnRequest::new(Provider::Pi, "hi");
        let cases: String =
            parts.iter().enumerate().map(|(at, part)| format!("{}) {part} ;;\n", at + 1)).collect();
        let last = parts.last().unwrap();
        let script = format!("{WORDS}case $(wc -c < \"$0\" | tr -d ' ') in\n{cases}*) {last} ;;\nesac\n");
        let starts = folder.path().join("starts");
        request.agent.binary =
            Some(vec!["sh".into(), "-c".into(), script, starts.to_string_lossy().into_owned()]);
        request.agent.cwd = Some(folder.path().to_owned());
        let temporary = folder.path().join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        let temporary = Some(temporary.to_string_lossy().into_owned());
        request.agent.environment.changes.push(("TMPDIR".to_owned(), temporary));
        request.agent.level = Level::Auto;
        request.agent.kill_grace = millis(500);
        request.retry = RetryPolicy { attempts: 3, base_delay: millis(1), max_delay: millis(1) };
        request.has_listener = true;
        Played { request, folder }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut TurnRequest)) -> Played {
        change(&mut self.request);
        self
    }

    /// How often the agent was started.
    pub(crate) fn starts(&self) -> usize {
        std::fs::read(self.path("starts")).map_or(0, |bytes| bytes.len())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn start(&self, limits: &[ConcurrencyLimit]) -> Turn {
        start(self.request.clone(), limits.to_vec(), None)
    }

    /// Runs it to its end, and looks that nothing of it is left.
    pub(crate) async fn run(&self) -> Ran {
        let turn = self.start(&[]);
        let ran = Ran::of(&turn).await;
        self.is_gone();
        ran
    }

    /// No temporary folder of the turn is left, and no process whose number is in the file `pids`.
    pub(crate) fn is_gone(&self) {
        let left: Vec<PathBuf> =
            std::fs::read_dir(self.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, Vec::<PathBuf>::new());
        let pids = std::fs::read_to_string(self.path("pids")).unwrap_or_default();
        for pid in pids.lines() {
            assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is left");
        }
    }
}

/// A turn that is over.
pub(crate) struct Ran {
    pub(crate) outcome: Arc<TurnOutcome>,
    pub(crate) events: Vec<Value>,
}

impl Ran {
    pub(crate) async fn of(turn: &Turn) -> Ran {
        let mut reader = turn.events();
        let mut events = Vec::new();
        while let Some(more) = tokio::time::timeout(PATIENCE, reader.next()).await.unwrap() {
            events.extend(more.iter().map(|event| serde_json::to_value(event).unwrap()));
        }
        Ran { outcome: tokio::time::timeout(PATIENCE, turn.outcome()).await.unwrap(), events }
    }

    /// The types of these events, in their order.
    pub(crate) fn told(&self, types: &[&str]) -> Vec<String> {
        let all = self.events.iter().map(|event| event["type"].as_str().unwrap());
        all.filter(|kind| types.contains(kind)).map(str::to_owned).collect()
    }

    pub(crate) fn fact(&self, name: &str) -> Value {
        self.outcome.error().and_then(|error| error.facts().get(name).cloned()).unwrap_or_default()
    }
}

/// Waits for the first event that is meant.
pub(crate) async fn heard(turn: &Turn, is_meant: impl Fn(&AgentEvent) -> bool) -> Vec<Value> {
    crate::support::until(&mut turn.events(), is_meant).await
}

pub(crate) fn is_retry(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::Retry { .. })
}

/// The outcome of a turn that was aborted just now: it comes at once.
pub(crate) async fn aborted(turn: &Turn) -> (Arc<TurnOutcome>, Duration) {
    let begun = Instant::now();
    turn.abort();
    let outcome = tokio::time::timeout(PATIENCE, turn.outcome()).await.unwrap();
    (outcome, begun.elapsed())
}
