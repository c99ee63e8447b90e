//! A coding agent behind the runtime. Shell scripts play the CLIs, and the harness reads their output.

use super::support::{Peer, is_terminal, reader_until_all_are_gone, server_with};
use agents::harness::{ConcurrencyLimit, Provider, TurnRequest};
use runtime::agent::HarnessAgent;
use runtime::handler::AgentHandler;
use runtime::server::RuntimeServer;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The output of a successful codex session around the output of a script.
fn codex(script: &str) -> String {
    let begin = r#"{"type":"thread.started","thread_id":"t"}"#;
    let end =
        r#"{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":2}}"#;
    format!("echo '{begin}'; echo '{{\"type\":\"turn.started\"}}'; {script}; echo '{end}'")
}

/// Makes codex say the value of a shell expression. The caller escapes quotes in it.
fn says(expression: &str) -> String {
    format!(
        r#"printf '{{"type":"item.completed","item":{{"id":"1","type":"agent_message","text":"%s"}}}}\n' "{expression}""#
    )
}

fn agent(provider: Provider, script: &str, change: impl FnOnce(&mut TurnRequest)) -> HarnessAgent {
    let mut defaults = TurnRequest::new(provider, "");
    defaults.agent.binary = Some(["/bin/sh", "-c", script, "agent"].map(str::to_owned).to_vec());
    change(&mut defaults);
    HarnessAgent::new(defaults, vec![ConcurrencyLimit::new(4)])
}

async fn serving(agent: HarnessAgent) -> RuntimeServer {
    server_with(|options| options.handler = Arc::new(agent)).await
}

fn asked(more: &Value) -> Value {
    let mut message = json!({"message_type": "invocation_message", "system_prompt": "", "user_prompt": "hello", "model": ""});
    for (name, value) in more.as_object().unwrap() {
        message[name] = value.clone();
    }
    message
}

fn said(messages: &[Value]) -> Vec<String> {
    messages
        .iter()
        .filter(|message| message["message_type"] == "assistant_message")
        .flat_map(|message| message["text_blocks"].as_array().unwrap().clone())
        .map(|block| block.as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn an_agent_answers_and_its_pieces_are_joined_and_told_once() {
    let lines = [
        json!({"type": "init", "session_id": "g", "model": "m"}),
        json!({"type": "message", "role": "assistant", "content": "It is hun", "delta": true}),
        json!({"type": "message", "role": "assistant", "content": "ter2 é漢🐑", "delta": true}),
        json!({"type": "result", "status": "success", "stats": {"input_tokens": 3, "output_tokens": 4}}),
    ]
    .map(|line| format!("echo '{line}'"))
    .join("; sleep 0.05; ");
    let server = serving(agent(Provider::Gemini, &lines, |_| ())).await;
    let mut peer = Peer::connect(&server).await;
    peer.send(asked(&json!({"secrets_to_redact": ["hunter2"]}))).await;
    let messages = peer.until_terminal().await;
    assert_eq!(said(&messages), ["It is [REDACTED] é漢🐑"]);
    let result = messages.last().unwrap();
    assert_eq!(result["data"], json!({"type": "text", "text": "It is [REDACTED] é漢🐑"}));
    assert_eq!(result["metadata"]["session_id"], "g");
    assert_eq!(
        (&result["metadata"]["attempts"], &result["metadata"]["usage"]["outputTokens"]),
        (&json!(1), &json!(4))
    );
    assert_eq!(peer.run("echo too").await["results"][0]["stdout"], "too\n");
}

#[tokio::test]
async fn model_system_prompt_and_environment_of_the_client_go_before_the_defaults() {
    let script = codex(&says("$MINE $OURS $API_KEY; $(echo $* | tr -d '\\\\\"')"));
    let server = serving(agent(Provider::Codex, &script, |defaults| {
        defaults.agent.model = Some("default-model".to_owned());
        defaults.agent.environment.changes = [("MINE", "default"), ("OURS", "kept")]
            .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
            .to_vec();
    }))
    .await;
    let mut peer = Peer::connect(&server).await;
    peer.send(asked(&json!({"agent_env": {"MINE": "given", "API_KEY": "sk-12345"}, "model": "asked-model"})))
        .await;
    let text = peer.terminal().await["data"]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("given kept [REDACTED]; "), "{text}");
    assert!(text.contains("asked-model") && !text.contains("default-model"), "{text}");
    peer.send(asked(&json!({}))).await;
    let text = peer.terminal().await["data"]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("default kept ; ") && text.contains("default-model"), "{text}");
}

#[tokio::test]
async fn an_answer_that_fits_the_schema_comes_as_a_structure() {
    let script = codex(&says(r#"{\\\"answer\\\":42}"#));
    let server = serving(agent(Provider::Codex, &script, |_| ())).await;
    let mut peer = Peer::connect(&server).await;
    let schema =
        json!({"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"]});
    for format in [json!({"type": "json_schema", "schema": schema}), schema.clone()] {
        peer.send(asked(&json!({"output_format_json_schema_str": format.to_string()}))).await;
        let result = peer.terminal().await;
        assert_eq!(
            result["data"],
            json!({"type": "structured_output", "structured_output": {"answer": 42}}),
            "{result}"
        );
    }
    peer.send(asked(&json!({"output_format_json_schema_str": "{\"type\": 5}"}))).await;
    let error = peer.terminal().await;
    assert_eq!(error["metadata"]["code"], "INVALID_OPTION", "{error}");
}

#[tokio::test]
async fn a_failure_is_told_with_code_and_kind_and_without_facts_of_this_machine() {
    let failed = r#"echo '{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: no hunter2"}}'; echo private >&2; exit 1"#;
    let server = serving(agent(Provider::Codex, &codex(failed), |_| ())).await;
    let mut peer = Peer::connect(&server).await;
    peer.send(asked(&json!({"secrets_to_redact": ["hunter2"]}))).await;
    let error = peer.terminal().await;
    assert_eq!(error["metadata"], json!({"code": "AGENT_FAILED", "kind": "auth"}), "{error}");
    assert!(error["error"].as_str().unwrap().contains("401"), "{error}");
    assert!(!error.to_string().contains("hunter2") && !error.to_string().contains("private"), "{error}");
    let server = serving(agent(Provider::Codex, "", |defaults| {
        let missing = std::env::current_dir().unwrap().join("no-such-agent");
        defaults.agent.binary = Some(vec![missing.to_str().unwrap().to_owned()]);
    }))
    .await;
    let mut peer = Peer::connect(&server).await;
    peer.send(asked(&json!({}))).await;
    let error = peer.terminal().await;
    assert_eq!(error["metadata"]["code"], "AGENT_NOT_FOUND", "{error}");
    let here = std::env::current_dir().unwrap();
    assert!(!error.to_string().contains(here.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn cancel_disconnect_end_and_stop_kill_the_agent_s_whole_tree() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("alive");
    // Each process that is still alive holds the pipe's writing end. The reader sees the end of file when all are gone.
    let script = codex(&format!("exec 3<>{}; setsid sleep 60 & {}; sleep 60", fifo.display(), says("up")));
    for how in ["cancel", "disconnect", "end", "stop"] {
        let _ = std::fs::remove_file(&fifo);
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let agent = agent(Provider::Codex, &script, |_| ());
        let server = serving(agent.clone()).await;
        let mut peer = Peer::connect(&server).await;
        peer.send(asked(&json!({}))).await;
        peer.next_of("assistant_message").await;
        let reader = reader_until_all_are_gone(&fifo).await;
        let mut terminal = None;
        match how {
            "disconnect" => drop(peer),
            "stop" => {
                agent.stop();
                terminal = Some(peer.terminal().await);
                assert_eq!(terminal.as_ref().unwrap()["metadata"]["code"], "AGENT_ABORTED");
            }
            word => {
                let kind = if word == "cancel" { "cancel_message" } else { "end_session_message" };
                peer.send(json!({"message_type": kind})).await;
                terminal = Some(peer.terminal().await);
                assert_eq!(terminal.as_ref().unwrap()["error"], "Request cancelled");
            }
        }
        assert!(terminal.is_none_or(|terminal| is_terminal(&terminal)));
        let gone = tokio::time::timeout(Duration::from_secs(15), reader).await;
        gone.unwrap_or_else(|_| panic!("after {how} somebody lives")).unwrap();
    }
}
