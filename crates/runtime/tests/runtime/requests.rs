//! Requests and their terminal messages, over real sockets.

use super::support::{Peer, invocation, is_terminal, reader_until_all_are_gone, server, server_with};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::Message;

fn output(messages: &[Value], stream: &str) -> String {
    messages
        .iter()
        .filter(|message| message["message_type"] == "command_output_message" && message["stream"] == stream)
        .map(|message| message["text"].as_str().unwrap())
        .collect()
}

fn commands(commands: &[&str]) -> Value {
    let commands: Vec<Value> = commands.iter().map(|command| json!({"command": command})).collect();
    json!({"message_type": "command_execution_message", "commands": commands})
}

#[tokio::test]
async fn a_query_is_answered_with_text_and_metadata() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    peer.query("say hello").await;
    let messages = peer.until_terminal().await;
    assert_eq!(messages[0]["message_type"], "assistant_message");
    assert_eq!(messages[0]["text_blocks"], json!(["hello"]));
    assert_eq!(messages[1]["message_type"], "result_message");
    assert_eq!(messages[1]["data"], json!({"type": "text", "text": "hello"}));
    assert_eq!(messages[1]["metadata"], json!({"model": "m"}));
    peer.query("json {\"a\":[1]}").await;
    assert_eq!(
        peer.terminal().await["data"],
        json!({"type": "structured_output", "structured_output": {"a": [1]}})
    );
    assert_eq!(peer.end().await["undelivered"], json!([]));
    assert_eq!(peer.next().await, None, "closed after the confirm");
}

#[tokio::test]
async fn commands_stream_and_stop_at_the_first_failure() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    peer.send(commands(&["echo one; echo err >&2", "echo two; exit 300", "echo never"])).await;
    let messages = peer.until_terminal().await;
    assert_eq!(output(&messages, "stdout"), "one\ntwo\n");
    assert_eq!(output(&messages, "stderr"), "err\n");
    let results = &messages.last().unwrap()["results"];
    assert_eq!(results[0], json!({"command": "echo one; echo err >&2", "exit_code": 0, "stdout": "one\n"}));
    assert_eq!(results[1]["exit_code"], 44);
    assert_eq!(results[1]["stdout"], "two\n", "rule 10: a failed command keeps its output");
    assert_eq!(results.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn the_order_of_an_invocation_is_kept() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    let mut message = invocation("say agent");
    message["pre_agent_invocation_commands"] = json!([{"command": "echo pre"}]);
    message["post_agent_invocation_commands"] = json!([{"command": "echo post; exit 3"}]);
    peer.send(message.clone()).await;
    let messages = peer.until_terminal().await;
    let said: Vec<&str> = messages.iter().map(|message| message["message_type"].as_str().unwrap()).collect();
    assert_eq!(
        said,
        ["command_output_message", "assistant_message", "command_output_message", "error_message"]
    );
    assert_eq!(messages[3]["error"], "post-agent command failed with exit code: 3");
    message["pre_agent_invocation_commands"] = json!([{"command": "exit 7"}]);
    peer.send(message.clone()).await;
    assert_eq!(peer.terminal().await["error"], "pre-agent command failed with exit code: 7");
    message["pre_agent_invocation_commands"] = json!([{"command": "echo ran"}]);
    message["output_format_json_schema_str"] = "{broken".into();
    peer.send(message).await;
    let messages = peer.until_terminal().await;
    assert_eq!(output(&messages, "stdout"), "ran\n");
    assert!(messages.last().unwrap()["error"].as_str().unwrap().contains("is not valid JSON"));
}

#[tokio::test]
async fn rule_1_nothing_that_a_peer_sends_ends_the_session() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    for junk in [
        "{broken",
        "null",
        "[1]",
        "42",
        "\"text\"",
        "{}",
        "{\"message_type\":\"unknown\"}",
        "{\"message_type\":5}",
    ] {
        peer.send_raw(Message::text(junk)).await;
    }
    peer.send_raw(Message::binary(vec![0xff, 0xfe])).await;
    peer.send(json!({"message_type": "command_execution_message", "commands": 5})).await;
    peer.send(json!({"message_type": "artifact_upload_response_message", "filename": "passwd", "filepath": "/etc/passwd",
                     "presigned_url": "http://127.0.0.1:1/", "content_type": "x"})).await;
    peer.send_raw(Message::binary(invocation("say alive").to_string().into_bytes())).await;
    let mut errors = Vec::new();
    let answer = loop {
        let message = peer.next().await.unwrap();
        match message["message_type"].as_str() {
            Some("error_message") => errors.push(message.to_string()),
            Some("result_message") => break message,
            _ => {}
        }
    };
    assert_eq!(answer["data"]["text"], "alive", "also as a binary frame");
    assert_eq!(errors.len(), 4, "{errors:?}");
    for error in errors {
        assert!(!error.contains("stack") && !error.contains(".rs") && !error.contains("src/"), "{error}");
    }
}

#[tokio::test]
async fn rule_1_a_handler_that_panics_ends_its_request_only() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    peer.query("panic").await;
    let terminal = peer.terminal().await;
    assert_eq!(terminal["message_type"], "error_message");
    assert!(!terminal.to_string().contains("runtime_support"), "{terminal}");
    peer.query("say on").await;
    assert_eq!(peer.terminal().await["data"]["text"], "on");
}

#[tokio::test]
async fn rule_2_a_second_request_is_refused_and_the_first_goes_on() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    peer.query("wait").await;
    peer.next_of("assistant_message").await;
    peer.query("say second").await;
    let refusal = peer.next().await.unwrap();
    assert!(refusal["error"].as_str().unwrap().contains("another is in flight"));
    peer.send(json!({"message_type": "cancel_message"})).await;
    assert_eq!(peer.terminal().await["error"], "Request cancelled");
    peer.send(json!({"message_type": "cancel_message"})).await;
    peer.query("say third").await;
    assert_eq!(peer.terminal().await["data"]["text"], "third", "a cancel in between is nothing");
}

#[tokio::test]
async fn rule_2_an_error_of_the_handler_is_the_terminal_and_nothing_follows() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    peer.query("error first").await;
    peer.query("many 3").await;
    let mut messages = Vec::new();
    while messages.iter().filter(|message| is_terminal(message)).count() < 2 {
        messages.push(peer.next().await.unwrap());
    }
    assert_eq!(messages[0]["error"], "first");
    assert_eq!(messages[0]["request_id"], "request-1");
    assert_eq!(messages[4]["data"]["text"], "done");
    for message in &messages[1..] {
        assert_eq!(message["request_id"], "request-2", "{message}");
    }
}

#[tokio::test]
async fn rule_2_the_next_request_is_taken_while_a_stubborn_handler_winds_down() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    peer.query("stubborn").await;
    peer.next_of("assistant_message").await;
    peer.send(json!({"message_type": "cancel_message"})).await;
    assert_eq!(peer.terminal().await["error"], "Request cancelled");
    peer.query("say next").await;
    assert_eq!(peer.terminal().await["data"]["text"], "next");
}

#[tokio::test]
async fn rule_2_a_running_request_gets_its_terminal_before_the_confirm() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    peer.send(commands(&["sleep 30"])).await;
    peer.send(json!({"message_type": "end_session_message"})).await;
    assert_eq!(peer.next().await.unwrap()["error"], "Request cancelled");
    assert_eq!(peer.next().await.unwrap()["message_type"], "end_session_confirm_message");
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn rule_3_output_without_end_comes_whole_in_frames_under_1_mib() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    // Each of the 3 million bytes is escaped to six.
    peer.send(commands(&["head -c 3000000 /dev/zero; printf the-end"])).await;
    let messages = peer.until_terminal().await;
    assert_eq!(output(&messages, "stdout").len(), 3_000_007);
    let result = &messages.last().unwrap()["results"][0];
    assert_eq!(result["truncated"], true);
    assert!(result["stdout"].as_str().unwrap().ends_with("the-end"));
}

#[tokio::test]
async fn rule_10_stdin_is_empty_and_a_background_child_holds_nothing_up() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    let started = Instant::now();
    assert_eq!(peer.run("cat; echo read").await["results"][0]["stdout"], "read\n");
    assert_eq!(peer.run("sleep 30 & echo hi").await["results"][0]["stdout"], "hi\n");
    assert!(
        started.elapsed() < Duration::from_secs(25),
        "the child sleeps for 30 s: {:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn rule_10_cancel_and_disconnect_kill_the_whole_tree() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("alive");
    // Each process that is still alive holds the pipe's writing end. The reader sees the end of file when all are gone.
    let command = format!("mkfifo {0}; exec 3<>{0}; setsid sleep 60 & echo up; sleep 60", fifo.display());
    for how in ["cancel", "disconnect", "end"] {
        let _ = std::fs::remove_file(&fifo);
        let mut peer = Peer::connect(&server).await;
        peer.send(commands(&[&command])).await;
        peer.next_of("command_output_message").await;
        let reader = reader_until_all_are_gone(&fifo).await;
        match how {
            "cancel" => peer.send(json!({"message_type": "cancel_message"})).await,
            "end" => peer.send(json!({"message_type": "end_session_message"})).await,
            _ => drop(peer),
        }
        tokio::time::timeout(Duration::from_secs(10), reader)
            .await
            .unwrap_or_else(|_| panic!("{how}"))
            .unwrap();
    }
}

#[tokio::test]
async fn rule_10_a_cancel_is_heard_in_every_stage() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    let waiting = json!([{"command": "echo here; sleep 60"}]);
    for (stage, prompt) in [("pre", "say never"), ("handler", "wait"), ("post", "say done"), ("commands", "")]
    {
        let (request, sign) = match stage {
            "commands" => (
                json!({"message_type": "command_execution_message", "commands": waiting}),
                "command_output_message",
            ),
            "handler" => (invocation(prompt), "assistant_message"),
            _ => {
                let mut request = invocation(prompt);
                request[format!("{stage}_agent_invocation_commands")] = waiting.clone();
                (request, "command_output_message")
            }
        };
        peer.send(request).await;
        peer.next_of(sign).await;
        let started = Instant::now();
        peer.send(json!({"message_type": "cancel_message"})).await;
        assert_eq!(peer.terminal().await["error"], "Request cancelled", "{stage}");
        assert!(started.elapsed() < Duration::from_secs(10), "{stage}: {:?}", started.elapsed());
    }
    peer.query("say on").await;
    assert_eq!(peer.terminal().await["data"]["text"], "on");
}

#[tokio::test]
async fn rule_10_environment_and_directory_of_a_command_are_its_own() {
    let server = server().await;
    let directory = tempfile::tempdir().unwrap();
    let cwd = directory.path().join("made/anew");
    let mut peer = Peer::connect(&server).await;
    peer.send(json!({"message_type": "command_execution_message",
        "commands": [{"command": "pwd; echo $WORD", "cwd": cwd, "env": {"WORD": "given"}}]}))
        .await;
    let terminal = peer.terminal().await;
    assert_eq!(terminal["results"][0]["stdout"], format!("{}\ngiven\n", cwd.display()));
    std::fs::write(directory.path().join("file"), "").unwrap();
    peer.send(json!({"message_type": "command_execution_message",
        "commands": [{"command": "true", "cwd": directory.path().join("file")}]}))
        .await;
    assert_eq!(peer.terminal().await["message_type"], "error_message");
    assert_eq!(peer.run("kill -9 $$").await["results"][0]["exit_code"], -1);
    assert_eq!(peer.run("no-such-program").await["results"][0]["exit_code"], 127);
}

#[tokio::test]
async fn rule_11_secrets_are_taken_out_of_all_that_is_said() {
    let server = server().await;
    let mut peer = Peer::connect(&server).await;
    let mut message = invocation("say hunter2 and command_output_message");
    message["secrets_to_redact"] = json!(["hunter2", "result_message", "hunter2-longer"]);
    message["agent_env"] = json!({"API_TOKEN": "from-the-name"});
    message["pre_agent_invocation_commands"] = json!([{"command": "printf hunt; sleep 0.1; echo er2-longer $API_KEY", "env": {"API_KEY": "also-by-name"}}]);
    peer.send(message).await;
    let messages = peer.until_terminal().await;
    assert_eq!(output(&messages, "stdout"), "[REDACTED] [REDACTED]\n");
    assert_eq!(messages.last().unwrap()["message_type"], "result_message", "a word of the protocol stays");
    assert_eq!(messages.last().unwrap()["data"]["text"], "[REDACTED] and command_output_message");
    // The secrets of all requests of the session count, not only those of the latest one.
    let terminal = peer.run("echo hunter2 from-the-name; exit 1").await;
    assert_eq!(terminal["results"][0]["stdout"], "[REDACTED] [REDACTED]\n");
    assert_eq!(terminal["results"][0]["command"], "echo [REDACTED] [REDACTED]; exit 1");
    peer.query("fail hunter2 failed").await;
    assert_eq!(peer.terminal().await["error"], "[REDACTED] failed");
}

#[tokio::test]
async fn heartbeats_come_while_a_request_runs_and_only_then() {
    let server = server_with(|options| options.heartbeat_interval = Some(Duration::from_millis(50))).await;
    let mut peer = Peer::connect(&server).await;
    peer.query("wait").await;
    let first = peer.next_of("heartbeat_message").await;
    assert_eq!(first["phase"], "request_in_flight");
    assert!(first["elapsed_ms"].as_u64().unwrap() >= 50);
    assert_eq!(first["request_id"], "request-1");
    peer.send(json!({"message_type": "cancel_message"})).await;
    peer.terminal().await;
    tokio::time::sleep(Duration::from_millis(120)).await;
    let confirm = peer.end().await;
    assert_eq!(confirm["message_type"], "end_session_confirm_message");
}

#[tokio::test]
async fn sessions_do_not_disturb_each_other() {
    let server = server().await;
    let sessions = (0..50).map(|number| {
        let server = server.clone();
        ground::task::spawn(async move {
            let mut peer = Peer::connect(&server).await;
            peer.query(&format!("say {number}")).await;
            assert_eq!(peer.terminal().await["data"]["text"], number.to_string());
            peer.end().await;
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.unwrap();
    }
}
