//! The clocks, the budget and the end, between a played client and a played agent.

use super::tests::{Play, at, is, modes};
use crate::harness::Level;
use ground::error::{Error, ErrorCode};
use serde_json::{Value, json};
use std::time::Duration;

fn cancel(play: &mut Play) {
    is(
        &play.client(json!({"method":"session/cancel","params":{"sessionId":"s"}})),
        &[('>', "session/cancel")],
    );
}

#[test]
fn a_silent_turn_is_cancelled_and_then_told_as_an_error_or_killed() {
    for obeys in [true, false] {
        let mut play = Play::opened(|_| {});
        let ours = play.prompted(5);
        assert!(play.pass(4).is_empty());
        is(&play.pass(1), &[('>', "session/cancel")]);
        assert!(play.pass(1).is_empty());
        if obeys {
            is(&play.agent(json!({"id":ours,"result":{"stopReason":"cancelled"}})), &[('<', "AGENT_IDLE")]);
            assert_eq!(play.gate.deadline(play.now), None);
        } else {
            is(&play.pass(1), &[('x', "AGENT_IDLE")]);
        }
    }
}

#[test]
fn a_prompts_clock_runs_until_its_own_answer_whatever_the_client_does() {
    type Deed = fn(&mut Play);
    let others: [Deed; 4] = [
        |play| {
            // Another prompt, which the agent refuses.
            let ours = play.prompted(6);
            is(&play.agent(json!({"id":ours,"error":{"code":1,"message":"busy"}})), &[('<', "1")]);
        },
        |play| {
            let ours = play.prompted(6);
            is(&play.agent(json!({"id":ours,"result":{"stopReason":"end_turn"}})), &[('<', "ok")]);
        },
        |play| {
            let close = play.client(json!({"id":6,"method":"session/close","params":{"sessionId":"s"}}));
            is(&play.agent(json!({"id":close[0].1["id"],"result":{}})), &[('<', "ok")]);
        },
        |play| {
            let load =
                play.client(json!({"id":6,"method":"session/load","params":{"sessionId":"s","cwd":"/work"}}));
            let set = play.agent(json!({"id":load[0].1["id"],"result":{"modes":modes("yolo")}}));
            is(&play.agent(json!({"id":set[0].1["id"],"result":{}})), &[('<', "ok")]);
        },
    ];
    for deed in others {
        let mut play = Play::opened(|_| {});
        let ours = play.prompted(5);
        deed(&mut play);
        is(&play.pass(5), &[('>', "session/cancel")]);
        is(&play.agent(json!({"id":ours,"result":{"stopReason":"cancelled"}})), &[('<', "AGENT_IDLE")]);
    }
}

#[test]
fn the_clients_own_cancel_has_the_same_grace() {
    let mut play = Play::opened(|_| {});
    let ours = play.prompted(5);
    cancel(&mut play);
    is(&play.agent(json!({"id":ours,"result":{"stopReason":"cancelled"}})), &[('<', "ok")]);
    assert!(play.pass(2).is_empty(), "it was heeded");
    play.prompted(6);
    cancel(&mut play);
    is(&play.pass(2), &[('x', "AGENT_ABORTED")]);
}

#[test]
fn silence_is_not_counted_while_the_client_is_asked_until_it_answers_or_the_agent_withdraws() {
    for withdraws in [false, true] {
        let mut play = Play::opened(|_| {});
        play.prompted(5);
        let params = json!({"sessionId":"s","path":"/work/a"});
        let asked = play.agent(json!({"id":3,"method":"fs/read_text_file","params":params}));
        assert!(play.pass(60).is_empty());
        let answer = json!({"id":asked[0].1["id"],"result":{"content":""}});
        if withdraws {
            let told = play.agent(json!({"method":"$/cancel_request","params":{"requestId":3}}));
            assert_eq!(told[0].1["params"]["requestId"], asked[0].1["id"], "the client's id");
        } else {
            is(&play.client(answer.clone()), &[('>', "ok")]);
        }
        assert!(play.pass(4).is_empty());
        is(&play.pass(1), &[('>', "session/cancel")]);
        assert_eq!(play.client(answer).len(), usize::from(withdraws), "it is answered once");
    }
}

#[test]
fn a_cancel_answers_the_questions_that_the_agent_may_wait_for() {
    let mut play = Play::opened(|request| {
        request.agent.level = Level::Ask;
        request.agent.limits.total = Some(Duration::from_secs(9));
    });
    play.prompted(5);
    let params = json!({"sessionId":"s","toolCall":{"toolCallId":"t","kind":"execute"},"options":[]});
    let asked = play.agent(json!({"id":3,"method":"session/request_permission","params":params}));
    let told = play.pass(9);
    is(&told, &[('>', "session/cancel"), ('>', "ok"), ('<', "$/cancel_request")]);
    assert_eq!(told[1].1["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(told[2].1["params"]["requestId"], asked[0].1["id"]);
    let late = json!({"id":asked[0].1["id"],"result":{"outcome":{"outcome":"cancelled"}}});
    assert!(play.client(late).is_empty(), "it was answered");
}

#[test]
fn requests_that_the_agent_does_not_answer_are_answered_for_it() {
    let mut play = Play::new(at(Level::Plan));
    let hello = play.client(json!({"id":"i","method":"initialize","params":{}}));
    is(&play.pass(60), &[('<', "AGENT_IDLE")]);
    assert!(play.agent(json!({"id":hello[0].1["id"],"result":{}})).is_empty(), "one answer is enough");
    // The gate's own requests have the same limit.
    let asked = play.client(json!({"id":1,"method":"session/new","params":{"cwd":"/work"}}));
    let set = play.agent(json!({"id":asked[0].1["id"],"result":{"sessionId":"s","modes":modes("default")}}));
    is(&set, &[('>', "session/set_mode")]);
    assert!(play.client(json!({"id":2,"method":"session/close","params":{"sessionId":"s"}})).is_empty());
    is(&play.pass(60), &[('>', "session/close"), ('<', "AGENT_IDLE"), ('<', "AGENT_IDLE")]);
    // A session that opens too late is closed.
    let asked = play.client(json!({"id":1,"method":"session/new","params":{"cwd":"/work"}}));
    is(&play.pass(60), &[('<', "AGENT_IDLE")]);
    let late = play.agent(json!({"id":asked[0].1["id"],"result":{"sessionId":"late"}}));
    is(&late, &[('>', "session/close")]);
}

#[test]
fn what_was_used_stays_used_when_sessions_close_open_again_or_run_at_once() {
    // Some agents write every number with a point.
    let usage = json!({"inputTokens":30.0,"outputTokens":1e1});
    let ended = |id: &Value| json!({"id":id,"result":{"stopReason":"end_turn","usage":usage}});
    let budget = || Play::opened(|request| request.agent.caps.max_tokens = Some(50));
    // Two at once.
    let mut play = budget();
    let (first, second) = (play.prompted(5), play.prompted(6));
    is(&play.agent(ended(&first)), &[('<', "ok")]);
    is(&play.agent(ended(&second)), &[('<', "ok")]);
    is(&play.prompt(7), &[('<', "AGENT_BUDGET")]);
    // Closed, or opened again, before and after the end.
    for closes in [true, false] {
        for is_before in [true, false] {
            let mut play = budget();
            let first = play.prompted(5);
            if !is_before {
                play.agent(ended(&first));
            }
            if closes {
                let close = play.client(json!({"id":8,"method":"session/close","params":{"sessionId":"s"}}));
                play.agent(json!({"id":close[0].1["id"],"result":{}}));
            }
            play.open("s");
            if is_before {
                play.agent(ended(&first));
            }
            let second = play.prompted(6);
            play.agent(ended(&second));
            is(&play.prompt(7), &[('<', "AGENT_BUDGET")]);
        }
    }
}

#[test]
fn in_the_second_version_a_turn_ends_with_its_state() {
    for (stops, dies) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut play = Play::new(|_| {});
        let hello = play.client(json!({"id":0,"method":"initialize","params":{"protocolVersion":2}}));
        let spoken = json!({"protocolVersion":2,"capabilities":{},"info":{}});
        is(&play.agent(json!({"id":hello[0].1["id"],"result":spoken})), &[('<', "ok")]);
        let asked = play.client(json!({"id":1,"method":"session/new","params":{"cwd":"/work"}}));
        let choices = json!([{"value":"default","name":"d"},{"value":"yolo","name":"y"}]);
        let options =
            json!([{"configId":"mode","category":"mode","currentValue":"default","options":choices}]);
        let set =
            play.agent(json!({"id":asked[0].1["id"],"result":{"sessionId":"s","configOptions":options}}));
        is(&set, &[('>', "session/set_config_option")]);
        let told = play.agent(json!({"id":set[0].1["id"],"result":{"configOptions":options}}));
        assert_eq!(told[0].1["result"]["configOptions"][0]["currentValue"], "yolo");
        let ours = play.prompted(5);
        is(&play.agent(json!({"id":ours,"result":{"messageId":"m"}})), &[('<', "ok")]);
        if stops {
            is(&play.pass(5), &[('>', "session/cancel")]);
        }
        let idle = json!({"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"});
        let told = if dies {
            play.gate.refuse_all(&Error::new(ErrorCode::AgentCrashed, "gone"));
            play.told()
        } else {
            play.update(idle)
        };
        let update = &told[0].1["params"]["update"];
        let expected = match (stops, dies) {
            (true, _) => ("error", json!("AGENT_IDLE")),
            (false, true) => ("error", json!("AGENT_CRASHED")),
            (false, false) => ("cancelled", json!(null)),
        };
        assert_eq!(
            (update["stopReason"].as_str().unwrap(), update["error"]["data"]["code"].clone()),
            expected
        );
        assert!(play.pass(100).is_empty(), "the clock ended with the turn");
    }
}

#[test]
fn a_prompt_that_waits_for_its_session_is_cancelled_at_once() {
    let mut play = Play::new(|_| {});
    play.client(json!({"id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/work"}}));
    assert!(play.prompt(5).is_empty());
    let told = play.client(json!({"method":"session/cancel","params":{"sessionId":"s"}}));
    assert_eq!(told[0].1, json!({"jsonrpc":"2.0","result":{"stopReason":"cancelled"},"id":5}));
    assert!(play.prompt(6).is_empty());
    let told = play.client(json!({"method":"$/cancel_request","params":{"requestId":6}}));
    assert_eq!((&told[0].1["id"], &told[0].1["error"]["code"]), (&json!(6), &json!(-32_800)));
}

#[test]
fn what_is_sent_behind_the_request_for_a_session_waits_for_it() {
    let mut play = Play::new(at(Level::Plan));
    let asked = play.client(json!({"id":1,"method":"session/new","params":{"cwd":"/work"}}));
    assert!(play.prompt(2).is_empty());
    let other = json!({"id":3,"method":"session/prompt","params":{"sessionId":"other"}});
    assert!(play.client(other).is_empty());
    let set = play.agent(json!({"id":asked[0].1["id"],"result":{"sessionId":"s","modes":modes("default")}}));
    is(&set, &[('>', "session/set_mode"), ('<', "-32602")]);
    let told = play.agent(json!({"id":set[0].1["id"],"result":{}}));
    is(&told, &[('>', "session/prompt"), ('<', "ok")]);
}

#[test]
fn a_folder_outside_of_the_sandbox_is_refused_where_it_really_is() {
    let root = tempfile::tempdir().unwrap();
    let (inside, outside) = (root.path().join("inside"), root.path().join("outside"));
    for folder in [&inside, &outside] {
        std::fs::create_dir(folder).unwrap();
    }
    let named = root.path().join("named");
    std::os::unix::fs::symlink(&inside, &named).unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("out")).unwrap();
    let mut play = Play::within(&named, |request| {
        request.agent.sandbox = Some(crate::harness::AgentSandbox::Workspace);
    });
    let mut open = |cwd: std::path::PathBuf| {
        let told = play.client(json!({"id":1,"method":"session/new","params":{"cwd":cwd}}));
        let is_sent = told[0].0 == '>';
        if is_sent {
            play.agent(json!({"id":told[0].1["id"],"error":{"code":1,"message":""}}));
        }
        is_sent
    };
    assert!(open(named.clone()) && open(inside.clone()) && open(inside.join("new")) && open("sub".into()));
    assert!(!open(outside.clone()) && !open(inside.join("..").join("outside")) && !open(inside.join("out")));
    assert!(!open(named.join("..")) && !open("/".into()));
}

#[test]
fn a_side_that_is_shut_gets_refusals_and_the_other_answers() {
    let mut play = Play::opened(|_| {});
    let asked = play.agent(json!({"id":"q","method":"_q","params":{"sessionId":"s"}}));
    let mut shut = |message: Value| {
        play.gate.on_client(message.to_string().as_bytes(), true, play.now);
        play.told()
    };
    is(&shut(json!({"id":1,"method":"_x"})), &[('<', "-32600")]);
    assert!(shut(json!({"method":"_x"})).is_empty());
    is(&shut(json!({"id":asked[0].1["id"],"result":"x".repeat(100)})), &[('>', "-32603")]);
}
