//! What the formats of the seven CLIs say beyond what the recordings happen to hold: one line or a few, and what they mean.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use serde_json::{Value, json};
use sheepdog::harness::verdict::Ending;
use sheepdog::harness::{Provider, Recording, Replay, Transcript, replay};

fn read(provider: Provider, lines: &[Value]) -> Replay {
    let stdout: String = lines.iter().map(|line| format!("{line}\n")).collect();
    replay(provider, &Recording { stdout: stdout.as_bytes(), stderr: "", ending: Ending::Exited(0) })
}

fn events(replay: &Replay, kind: &str) -> Vec<Value> {
    let all = serde_json::to_value(&replay.events).unwrap();
    let all = all.as_array().unwrap().iter();
    all.filter(|event| event["type"] == kind).cloned().collect()
}

mod background {
    use super::*;

    #[test]
    fn a_turn_is_over_when_what_it_left_running_is_done_and_the_agent_has_answered_again() {
        let recorded = include_str!("../../fixtures/streams/claude-code/background.jsonl");
        let mut transcript = Transcript::new(Provider::ClaudeCode, false, None);
        let mut settled = Vec::new();
        for line in recorded.lines() {
            transcript.feed(format!("{line}\n").as_bytes());
            let line: Value = serde_json::from_str(line).unwrap();
            let digest = transcript.digest();
            match (line["type"].as_str(), line["subtype"].as_str()) {
                (Some("result"), _) | (_, Some("task_notification")) => {
                    settled.push((digest.terminal().is_some(), digest.is_settled()));
                }
                _ => {}
            }
        }
        // The first result, the end of the command, the second result.
        assert_eq!(settled, [(true, false), (true, false), (true, true)]);
        assert_eq!(transcript.digest().final_text(), "The fake model says hello.");
    }
}

mod words {
    use super::*;

    fn kind(provider: Provider, words: &str) -> String {
        let line = match provider {
            Provider::Codex => json!({"type": "turn.failed", "error": {"message": words}}),
            Provider::Gemini => {
                json!({"type": "result", "status": "error", "error": {"type": "Error", "message": words}})
            }
            Provider::Copilot => {
                let failed =
                    json!({"type": "session.error", "data": {"errorType": "query", "message": words}});
                return kind_of(&read(provider, &[failed, json!({"type": "result", "exitCode": 1})]));
            }
            Provider::Pi => {
                let message =
                    json!({"role": "assistant", "content": [], "stopReason": "error", "errorMessage": words});
                let failed = json!({"type": "message_end", "message": message});
                return kind_of(&read(provider, &[failed, json!({"type": "agent_end"})]));
            }
            _ => {
                json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "error": {"message": words}})
            }
        };
        kind_of(&read(provider, &[line]))
    }

    fn kind_of(replay: &Replay) -> String {
        let fault = replay.fault.as_ref().unwrap();
        fault.kind.map(|kind| kind.as_str().to_owned()).unwrap_or_default()
    }

    #[test]
    fn each_cli_s_own_words_tell_the_kind() {
        let cases = [
            (Provider::ClaudeCode, "You've hit your 5-hour limit \u{b7} resets 7pm (Europe/Berlin)", "quota"),
            (Provider::ClaudeCode, "error_max_turns", "max_turns"),
            (
                Provider::ClaudeCode,
                "API Error: 400 output_config.format: JSON schema is invalid",
                "invalid_request",
            ),
            (Provider::Codex, "You've hit your usage limit. Try again at 7:00 PM.", "quota"),
            (
                Provider::Gemini,
                "You have exhausted your daily quota on this model. Use /auth method to change",
                "quota",
            ),
            (Provider::Gemini, "429: Please retry in 32.5s", "rate_limit"),
            (
                Provider::Pi,
                "429 You exceeded your current quota, please check your plan and billing details",
                "quota",
            ),
            (
                Provider::Copilot,
                "429 You exceeded your current quota, please check your plan and billing details",
                "quota",
            ),
            (Provider::Qwen, "Context is too large", "context_length"),
            // An answer that was cut at the model's longest.
            (
                Provider::ClaudeCode,
                "API Error: Claude's response exceeded the 128000 output token maximum. To configure this behavior, set ...",
                "context_length",
            ),
            (Provider::Codex, "Incomplete response returned, reason: max_output_tokens", "context_length"),
        ];
        for (provider, words, expected) in cases {
            assert_eq!(kind(provider, words), expected, "{}: {words}", provider.as_str());
        }
    }

    #[test]
    fn an_answer_that_quotes_an_error_is_an_answer() {
        let words = "The last line of the log is: [API Error: 500 boom]";
        let usage = json!({"input_tokens": 1200, "output_tokens": 34});
        let replay = read(
            Provider::Qwen,
            &[
                json!({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": words}], "usage": usage}}),
                json!({"type": "result", "subtype": "success", "is_error": false, "result": words, "usage": usage}),
            ],
        );
        assert!(replay.fault.is_none(), "{:?}", replay.fault);
        assert_eq!(replay.result.text, words);
    }

    #[test]
    fn an_end_that_is_not_whole_ends_nothing() {
        let code =
            |provider, line: Value| read(provider, &[line]).fault.map(|fault| fault.code.as_str().to_owned());
        let truncated = Some("AGENT_TRUNCATED".to_owned());
        for provider in [Provider::ClaudeCode, Provider::Qwen] {
            for line in [
                json!({"type": "result"}),
                json!({"type": "result", "subtype": "success", "is_error": "no", "result": "x"}),
                json!({"type": "result", "subtype": "success", "is_error": false, "result": "x", "parent_tool_use_id": "t"}),
            ] {
                assert_eq!(code(provider, line.clone()), truncated, "{}: {line}", provider.as_str());
            }
        }
        assert_eq!(code(Provider::Copilot, json!({"type": "result", "sessionId": "s"})), truncated);
        let failed = json!({"type": "session.error", "data": {"errorType": "query", "message": "boom"}});
        let replay = read(Provider::Copilot, &[failed, json!({"type": "result", "exitCode": 0})]);
        assert_eq!(replay.fault.unwrap().code.as_str(), "AGENT_FAILED");
    }

    #[test]
    fn a_compaction_of_opencode_is_not_the_end() {
        let part = |kind: &str, part: Value| json!({"type": kind, "sessionID": "s", "part": part});
        let summary = [
            part("step_start", json!({})),
            part("text", json!({"text": "A summary.", "messageID": "1"})),
            part("step_finish", json!({"reason": "stop"})),
            part(
                "text",
                json!({"text": "Continue if you have next steps", "synthetic": true, "messageID": "2"}),
            ),
        ];
        assert_eq!(read(Provider::Opencode, &summary).fault.unwrap().code.as_str(), "AGENT_TRUNCATED");
        let mut whole = summary.to_vec();
        whole.extend([
            part("step_start", json!({})),
            part("text", json!({"text": "The answer.", "messageID": "3"})),
            part("step_finish", json!({"reason": "stop"})),
        ]);
        let replay = read(Provider::Opencode, &whole);
        assert!(replay.fault.is_none());
        assert_eq!(replay.result.text, "The answer.");
    }
}

mod codex {
    use super::*;

    fn item(state: &str, item: &Value) -> Value {
        json!({ "type": format!("item.{state}"), "item": item })
    }

    #[test]
    fn each_kind_of_tool_has_a_name_an_input_and_an_output() {
        let call = |status: &str, result: Value, error: Value| {
            json!({ "id": "item_1", "type": "mcp_tool_call", "server": "docs", "tool": "find", "arguments": {"q": 1},
                "status": status, "result": result, "error": error })
        };
        let found = json!({ "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "structured_content": null });
        let replay = read(
            Provider::Codex,
            &[
                item("started", &call("in_progress", Value::Null, Value::Null)),
                item("completed", &call("completed", found, Value::Null)),
                item(
                    "completed",
                    &json!({"id": "item_2", "type": "mcp_tool_call", "server": "docs", "tool": "find", "arguments": null,
                        "status": "failed", "result": null, "error": {"message": "no such server"}}),
                ),
                item(
                    "completed",
                    &json!({"id": "item_3", "type": "file_change", "changes": [{"path": "a.txt", "kind": "add"}], "status": "completed"}),
                ),
                item(
                    "completed",
                    &json!({"id": "item_4", "type": "web_search", "query": "sheep", "action": {"type": "search", "query": "sheep"}}),
                ),
                item(
                    "completed",
                    &json!({"id": "item_5", "type": "collab_tool_call", "tool": "spawn_agent", "sender_thread_id": "t",
                        "receiver_thread_ids": ["u"], "prompt": "look", "agents_states": {}, "status": "completed"}),
                ),
                item(
                    "started",
                    &json!({"id": "item_6", "type": "todo_list", "items": [{"text": "a", "completed": false}]}),
                ),
                item("completed", &json!({"id": "item_7", "type": "agent_message", "text": "done"})),
                json!({"type": "turn.completed", "usage": {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 1}}),
            ],
        );
        let starts: Vec<_> = events(&replay, "tool_start");
        let names: Vec<_> = starts.iter().map(|start| start["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["docs.find", "docs.find", "file_change", "web_search", "spawn_agent"]);
        assert_eq!(starts[0]["input"], json!({"q": 1}));
        assert_eq!(starts[2]["input"], json!({"changes": [{"path": "a.txt", "kind": "add"}]}));
        assert_eq!(starts[3]["input"]["query"], "sheep");
        assert_eq!(starts[4]["input"], json!({"prompt": "look", "receiver_thread_ids": ["u"]}));
        let ends = events(&replay, "tool_end");
        assert_eq!(ends[0]["output"], "onetwo");
        assert_eq!((&ends[1]["output"], &ends[1]["isError"]), (&json!("no such server"), &json!(true)));
        assert_eq!(replay.result.tool_calls, 5);
        assert!(replay.fault.is_none() && replay.result.text == "done");
    }

    #[test]
    fn an_error_is_told_at_a_length_that_can_be_read() {
        let words = format!("unexpected status 401 {}", "x".repeat(5 << 20));
        let fault = read(Provider::Codex, &[json!({"type": "turn.failed", "error": {"message": words}})])
            .fault
            .unwrap();
        assert!(fault.message.len() < 300_000 && fault.message.ends_with("bytes left out ...]"));
        assert_eq!(fault.kind.unwrap().as_str(), "auth");
    }

    #[test]
    fn the_words_of_earlier_versions_are_understood() {
        let replay = read(
            Provider::Codex,
            &[
                json!({"type": "session.created", "session_id": "s-1"}),
                item(
                    "completed",
                    &json!({"id": "item_0", "item_type": "assistant_message", "text": "hello"}),
                ),
                json!({"type": "turn.completed", "usage": {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 1}}),
            ],
        );
        assert_eq!(replay.result.session_id.as_deref(), Some("s-1"));
        assert_eq!(replay.result.text, "hello");
    }

    #[test]
    fn a_plan_is_the_answer_of_a_turn_that_brings_one() {
        let replay = read(
            Provider::Codex,
            &[
                json!({"type": "item.plan.delta", "item_id": "item_0", "delta": "1."}),
                item("completed", &json!({"id": "item_0", "type": "plan", "text": "1. look"})),
                json!({"type": "turn.completed"}),
            ],
        );
        assert_eq!(replay.result.text, "1. look");
    }
}

mod claude {
    use super::*;

    fn message(id: &str, content: Value) -> Value {
        json!({"type": "assistant", "session_id": "s", "parent_tool_use_id": null,
            "message": {"id": id, "role": "assistant", "model": "m", "content": content, "usage": {"input_tokens": 5, "output_tokens": 1}}})
    }

    fn result(text: &str, tokens: u64, cost: f64) -> Value {
        json!({"type": "result", "subtype": "success", "is_error": false, "num_turns": 1, "result": text, "session_id": "s",
            "total_cost_usd": cost, "usage": {"input_tokens": tokens, "output_tokens": 1, "cache_read_input_tokens": 0}})
    }

    fn delta(delta: &Value) -> Value {
        json!({"type": "stream_event", "session_id": "s", "parent_tool_use_id": null,
            "event": {"type": "content_block_delta", "index": 0, "delta": delta}})
    }

    #[test]
    fn several_results_are_summed_and_the_money_that_counts_on_is_not() {
        let replay = read(
            Provider::ClaudeCode,
            &[
                message("a", json!([{"type": "text", "text": "It runs."}])),
                result("It runs.", 100, 0.5),
                json!({"type": "system", "subtype": "task_notification", "session_id": "s"}),
                message("b", json!([{"type": "text", "text": "It is done."}])),
                result("It is done.", 40, 0.75),
            ],
        );
        assert_eq!(replay.result.text, "It is done.");
        assert_eq!(replay.result.turns, 2);
        let usage = replay.result.usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.cost_usd), (140, 2, Some(0.75)));
        assert_eq!(events(&replay, "end").len(), 1);
    }

    #[test]
    fn thinking_comes_in_pieces_or_whole_never_both() {
        let start = json!({"type": "stream_event", "session_id": "s", "parent_tool_use_id": null,
            "event": {"type": "message_start", "message": {"id": "a"}}});
        let thought = json!([{"type": "thinking", "thinking": "hm hm", "signature": "x"}]);
        let replay = read(
            Provider::ClaudeCode,
            &[
                start,
                delta(&json!({"type": "thinking_delta", "thinking": "hm "})),
                delta(&json!({"type": "thinking_delta", "thinking": "hm"})),
                message("a", thought.clone()),
                delta(&json!({"type": "text_delta", "text": "Yes."})),
                message("a", json!([{"type": "text", "text": "Yes."}])),
                result("Yes.", 5, 0.1),
            ],
        );
        let texts: Vec<_> =
            events(&replay, "reasoning").into_iter().map(|event| event["text"].clone()).collect();
        assert_eq!(texts, ["hm ", "hm"]);
        assert_eq!(events(&replay, "text").len(), 1);
        assert_eq!(events(&read(Provider::ClaudeCode, &[message("a", thought)]), "reasoning").len(), 1);
    }

    #[test]
    fn a_tool_of_the_service_itself_is_a_tool() {
        let content = json!([
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "sheep"}},
            {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "web_search_result", "url": "u"}]},
            {"type": "server_tool_use", "id": "srv_2", "name": "web_search", "input": {"query": "dogs"}},
            {"type": "web_search_tool_result", "tool_use_id": "srv_2",
                "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}},
            {"type": "text", "text": "Found."}
        ]);
        let replay = read(Provider::ClaudeCode, &[message("a", content), result("Found.", 5, 0.1)]);
        assert_eq!(replay.result.tool_calls, 2);
        let ends = events(&replay, "tool_end");
        assert_eq!(
            ends[0],
            json!({"type": "tool_end", "id": "srv_1", "name": "web_search", "isError": false})
        );
        assert_eq!(ends[1]["isError"], true);
        assert_eq!(replay.result.text, "Found.");
    }

    #[test]
    fn a_sub_agent_works_but_does_not_answer() {
        let sub = |kind: &str, content: Value| json!({"type": kind, "session_id": "s", "parent_tool_use_id": "t1", "message": {"id": "x", "content": content}});
        let replay = read(
            Provider::ClaudeCode,
            &[
                message("a", json!([{"type": "tool_use", "id": "t1", "name": "Task", "input": {}}])),
                sub("user", json!([{"type": "text", "text": "look"}])),
                sub(
                    "assistant",
                    json!([{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t2", "name": "Read", "input": {}}]),
                ),
                sub("user", json!([{"type": "tool_result", "tool_use_id": "t2", "content": "file"}])),
                json!({"type": "user", "session_id": "s", "parent_tool_use_id": null,
                    "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "seen"}]}]}}),
                json!({"type": "rate_limit_event", "session_id": "s", "rate_limit_info": {"status": "rejected", "rateLimitType": "five_hour"}}),
            ],
        );
        assert_eq!((replay.result.text.as_str(), replay.result.turns, replay.result.tool_calls), ("", 1, 2));
        assert_eq!(replay.result.warnings, ["the limit of the subscription is reached (five_hour)"]);
        assert_eq!(events(&replay, "tool_end").len(), 2);
        assert_eq!(replay.fault.unwrap().code.as_str(), "AGENT_TRUNCATED");
    }
}

mod copilot {
    use super::*;

    #[test]
    fn an_answer_in_chunks_is_one_answer_and_a_sub_agents_is_none() {
        let chunk = |index: u64, text: &str| {
            json!({"type": "assistant.message", "data": {"messageId": format!("m{index}"), "apiCallId": "c", "content": text,
                "model": "gpt", "chunkIndex": index, "chunkCount": 2}})
        };
        let replay = read(
            Provider::Copilot,
            &[
                chunk(0, "One, "),
                chunk(1, "two."),
                json!({"type": "assistant.message", "data": {"messageId": "s", "content": "mine", "parentToolCallId": "t"}}),
                json!({"type": "assistant.message", "agentId": "a", "data": {"messageId": "s", "content": "mine"}}),
                json!({"type": "result", "sessionId": "s", "exitCode": 0, "usage": {}}),
            ],
        );
        assert_eq!((replay.result.text.as_str(), replay.result.turns), ("One, two.", 1));
        assert!(replay.fault.is_none());
    }

    #[test]
    fn a_turn_that_was_cancelled_is_no_success_whatever_its_exit_code() {
        let replay = read(
            Provider::Copilot,
            &[
                json!({"type": "assistant.idle", "data": {"aborted": true}}),
                json!({"type": "result", "sessionId": "s", "exitCode": 0}),
            ],
        );
        assert_eq!(replay.fault.unwrap().code.as_str(), "AGENT_FAILED");
    }
}

mod pi {
    use super::*;

    fn answered(text: &str, stop: &str) -> Value {
        json!({"type": "message_end", "message": {"role": "assistant", "content": [{"type": "text", "text": text}], "model": "m",
            "usage": {"input": 9, "output": 1, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.1}}, "stopReason": stop,
            "errorMessage": if stop == "error" { Some("prompt is too long: 300000 tokens") } else { None }}})
    }

    fn compaction(reason: &str, will_retry: Option<bool>) -> Value {
        match will_retry {
            None => json!({"type": "compaction_start", "reason": reason}),
            Some(will_retry) => {
                json!({"type": "compaction_end", "reason": reason, "aborted": false, "willRetry": will_retry})
            }
        }
    }

    #[test]
    fn a_compaction_takes_the_end_back_only_where_the_turn_goes_on() {
        let end = json!({"type": "agent_end", "messages": []});
        let start = [answered("It is done.", "stop"), end.clone(), compaction("threshold", None)];
        let open = read(Provider::Pi, &start);
        assert!(open.fault.is_none(), "the answer was given: the compaction is the CLI's own business");
        let [a, b, c] = start;
        assert!(read(Provider::Pi, &[a, b, c, compaction("threshold", Some(false))]).fault.is_none());
        let stuck = [answered("", "error"), end.clone(), compaction("overflow", None)];
        assert_eq!(
            read(Provider::Pi, &stuck).fault.unwrap().code.as_str(),
            "AGENT_FAILED",
            "its reason is not lost"
        );
        let overflow = [
            answered("", "error"),
            end.clone(),
            compaction("overflow", None),
            compaction("overflow", Some(true)),
            json!({"type": "agent_start"}),
            answered("It is done now.", "stop"),
            end,
        ];
        let replay = read(Provider::Pi, &overflow);
        assert!(replay.fault.is_none());
        assert_eq!(replay.result.text, "It is done now.");
        let given_up = read(
            Provider::Pi,
            &[
                overflow[0].clone(),
                overflow[1].clone(),
                overflow[2].clone(),
                compaction("overflow", Some(false)),
            ],
        );
        assert_eq!(given_up.fault.unwrap().kind.unwrap().as_str(), "context_length");
    }

    #[test]
    fn an_answer_at_the_limit_of_tokens_is_told_as_such() {
        let replay = read(Provider::Pi, &[answered("It is", "length"), json!({"type": "agent_end"})]);
        assert!(replay.fault.is_none());
        assert!(replay.result.warnings[0].contains("limit of output tokens"));
    }
}

mod opencode {
    use super::*;

    #[test]
    fn done_ends_a_turn_whose_last_step_said_nothing_of_it() {
        let line = |kind: &str, part: Value| json!({"type": kind, "sessionID": "ses_1", "part": part});
        let lines = [
            line("step_start", json!({"type": "step-start"})),
            line("text", json!({"type": "text", "messageID": "m", "text": "Hello."})),
            line(
                "step_finish",
                json!({"type": "step-finish", "reason": "other", "tokens": {"input": 1, "output": 1}}),
            ),
            json!({"type": "done", "sessionID": "ses_1", "reason": "idle", "rejected": ["bash"]}),
        ];
        let replay = read(Provider::Opencode, &lines);
        assert!(replay.fault.is_none());
        assert_eq!(replay.result.warnings, ["bash was denied permission"]);
        assert_eq!(read(Provider::Opencode, &lines[..3]).fault.unwrap().code.as_str(), "AGENT_TRUNCATED");
        assert!(read(Provider::Opencode, &lines[3..]).fault.is_some(), "nothing was said at all");
    }
}

mod gemini {
    use super::*;

    #[test]
    fn the_name_of_an_error_tells_its_kind_where_its_words_do_not() {
        let replay = read(
            Provider::Gemini,
            &[
                json!({"type": "result", "status": "error", "error": {"type": "FatalAuthenticationError", "message": "it was refused"}}),
            ],
        );
        assert_eq!(replay.fault.unwrap().kind.unwrap().as_str(), "auth");
    }
}
