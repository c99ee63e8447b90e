//! An agent behind the runtime that is kept from prompt to prompt: a scripted agent that speaks ACP.

use super::support::{PATIENCE, Peer, server_with};
use agents::acp::OpenRequest;
use agents::harness::{ConcurrencyLimit, Provider};
use runtime::kept_agent::KeptAgent;
use runtime::server::RuntimeServer;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A runtime whose agent logs its input into this folder, over all its processes.
async fn serving(folder: &Path) -> RuntimeServer {
    let agent = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("fixtures/acp/agent.mjs");
    let mut defaults = OpenRequest::new(Provider::ClaudeCode);
    let log = folder.join("log").to_string_lossy().into_owned();
    let words = ["node".into(), agent.to_string_lossy().into_owned(), "--version".into(), "2".into()];
    defaults.agent.binary = Some([words.as_slice(), &["--log".to_owned(), log]].concat());
    defaults.agent.kill_grace = Duration::from_millis(500);
    let kept = KeptAgent::new(defaults, vec![ConcurrencyLimit::new(4)]);
    server_with(|options| options.handler = Arc::new(kept)).await
}

fn asked(prompt: &str, more: &Value) -> Value {
    let mut message = json!({"message_type": "invocation_message", "system_prompt": "", "user_prompt": prompt, "model": ""});
    for (name, value) in more.as_object().unwrap() {
        message[name] = value.clone();
    }
    message
}

fn told(folder: &Path, method: &str) -> usize {
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    log.lines().filter(|line| line.contains(&format!("\"method\":\"{method}\""))).count()
}

#[tokio::test]
async fn one_process_answers_all_the_prompts_of_a_client() {
    let folder = tempfile::tempdir().unwrap();
    let server = serving(folder.path()).await;
    let mut peer = Peer::connect(&server).await;
    for _ in 0..3 {
        peer.send(asked("hello", &json!({}))).await;
        let result = peer.terminal().await;
        assert_eq!(result["data"], json!({"type": "text", "text": "Hello world"}), "{result}");
        assert_eq!(result["metadata"]["session_id"], "session-1");
    }
    assert_eq!((told(folder.path(), "session/new"), told(folder.path(), "session/prompt")), (1, 3));
    let schema = json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]});
    peer.send(asked("fits", &json!({"output_format_json_schema_str": schema.to_string()}))).await;
    assert_eq!(peer.terminal().await["data"]["structured_output"], json!({"a": 7}));
    // Another client has an agent of its own.
    let mut other = Peer::connect(&server).await;
    other.send(asked("hello", &json!({}))).await;
    other.terminal().await;
    assert_eq!(told(folder.path(), "session/new"), 2);
    // Another system prompt: the agent is started anew and resumes its session.
    peer.send(asked("hello", &json!({"system_prompt": "Be brief."}))).await;
    let result = peer.terminal().await;
    assert_eq!(result["data"]["text"], "Hello world", "{result}");
    assert_eq!((told(folder.path(), "session/new"), told(folder.path(), "session/resume")), (2, 1));
    server.close().await;
}

/// Number of the agent's processes. They are recognised by the log's path in their command lines.
fn agents(folder: &Path) -> usize {
    let name = folder.to_string_lossy().into_owned();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let words = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    words.filter(|words| String::from_utf8_lossy(words).contains(&name)).count()
}

async fn until(holds: impl Fn() -> bool) {
    let held = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, held).await.unwrap();
}

#[tokio::test]
async fn a_kept_agent_is_cancelled_lost_and_closed_with_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let server = serving(folder.path()).await;
    let mut peer = Peer::connect(&server).await;
    peer.send(asked("hello", &json!({}))).await;
    peer.terminal().await;
    peer.send(asked("stall", &json!({}))).await;
    until(|| told(folder.path(), "session/prompt") == 2).await;
    peer.send(json!({"message_type": "cancel_message"})).await;
    assert_eq!(peer.terminal().await["error"], "Request cancelled");
    peer.send(asked("hello", &json!({}))).await;
    let result = peer.terminal().await;
    assert_eq!(result["data"]["text"], "Hello world", "{result}");
    assert_eq!(told(folder.path(), "session/new"), 1, "an agent that obeyed is kept");
    peer.send(asked("crash", &json!({}))).await;
    assert_eq!(peer.terminal().await["metadata"]["code"], "AGENT_CRASHED");
    peer.send(asked("hello", &json!({}))).await;
    let result = peer.terminal().await;
    assert_eq!(result["data"]["text"], "Hello world", "{result}");
    assert_eq!(told(folder.path(), "session/resume"), 1);
    let mut other = Peer::connect(&server).await;
    other.send(asked("hello", &json!({}))).await;
    other.terminal().await;
    let both = agents(folder.path());
    drop(peer);
    until(|| agents(folder.path()) < both).await;
    other.send(asked("hello", &json!({}))).await;
    assert_eq!(other.terminal().await["data"]["text"], "Hello world");
    server.close().await;
    assert_eq!(agents(folder.path()), 0, "the server waits for what it has begun");
}
