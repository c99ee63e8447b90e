//! Rules, between a played client and a played agent.

use super::tests::{Play, at, is};
use crate::acp::opening::request::OpenRequest;
use crate::acp::question::policy::Rule;
use crate::harness::Level;
use ground::json::object::put;
use serde_json::json;

#[test]
fn a_rule_that_denies_holds_for_what_the_client_is_to_do() {
    let denied = |rule: Rule| move |request: &mut OpenRequest| request.policy.deny = vec![rule];
    let by_path = || Rule { path: Some("secret/**".into()), ..Rule::default() };
    let by_command = || Rule { command: Some("rm *".into()), ..Rule::default() };
    let write = |path: &str| ("fs/write_text_file", json!({"path":path,"content":"+++ secret/x"}));
    for (rule, (method, mut params), passes) in [
        (by_path(), write("/work/secret/k"), false),
        (by_path(), write("/work/a/../secret/k"), false),
        (by_path(), write("secret/k"), false),
        (by_path(), ("fs/read_text_file", json!({"path":"/work/secret/k"})), false),
        (by_path(), write("/work/public/k"), true),
        (by_command(), write("/work/secret/k"), true),
        (by_command(), ("terminal/create", json!({"command":"rm","args":["x"]})), false),
        (by_command(), ("terminal/create", json!({"command":"sh","args":["-c","a; rm x"]})), false),
        (by_command(), ("terminal/create", json!({"command":"ls","args":["x"]})), true),
        (by_command(), ("terminal/output", json!({"terminalId":"rm x"})), true),
        (
            Rule { kind: Some("read".into()), ..Rule::default() },
            ("fs/read_text_file", json!({"path":"a"})),
            false,
        ),
        (by_path(), ("fs/write_text_file", json!({"path":"secret/".repeat(400_000),"content":"x"})), false),
    ] {
        for level in [Level::Ask, Level::Edit, Level::Auto] {
            let change = denied(rule.clone());
            let mut play = Play::opened(|request| {
                change(request);
                request.agent.level = level;
            });
            put(&mut params, "sessionId", "s");
            let told = play.agent(json!({"id":7,"method":method,"params":params}));
            is(&told, &[if passes { ('<', method) } else { ('>', "-32603") }]);
        }
    }
}

#[test]
fn an_update_that_is_a_request_tells_no_mode() {
    let mut play = Play::opened(at(Level::Plan));
    let update = json!({"sessionUpdate":"current_mode_update","currentModeId":"yolo"});
    let params = json!({"sessionId":"s","update":update});
    is(&play.agent(json!({"id":1,"method":"session/update","params":params})), &[('>', "-32600")]);
}

#[test]
fn each_option_that_is_a_mode_is_held_and_only_the_first_is_told_as_the_levels() {
    let mut play = Play::new(at(Level::Plan));
    let options = ["one", "other"].map(|id| {
        json!({"id":id,"category":"mode","currentValue":"x","options":[{"value":"plan"},{"value":"x"},{"value":"yolo"}]})
    });
    let asked = play.client(json!({"id":1,"method":"session/new","params":{"cwd":"/work"}}));
    let set = play.agent(json!({"id":asked[0].1["id"],"result":{"sessionId":"s","configOptions":options}}));
    let told = play.agent(json!({"id":set[0].1["id"],"result":{}}));
    let opened = told[0].1["result"]["configOptions"].as_array().unwrap();
    assert_eq!((&opened[0]["currentValue"], &opened[1]["currentValue"]), (&json!("plan"), &json!("x")));
    for option in ["one", "other"] {
        let params = json!({"sessionId":"s","configId":option,"value":"yolo"});
        let told = play.client(json!({"id":2,"method":"session/set_config_option","params":params}));
        is(&told, &[('<', "INVALID_OPTION")]);
    }
}
