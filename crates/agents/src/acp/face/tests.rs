//! The gate between a played client and a played agent.

use super::gate::{Found, Gate, Look};
use super::rules::Rules;
use crate::acp::opening::request::OpenRequest;
use crate::acp::question::place::Places;
use crate::harness::clock::Sample;
use crate::harness::provider::restraint::mode_of;
use crate::harness::{Level, Provider};
use ground::json;
use ground::os::destination;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Messages that were written: `>` for the agent, `<` for the client, `x` for a kill.
type Told = Vec<(char, Value)>;

pub(super) struct Play {
    pub(super) gate: Gate,
    pub(super) now: Instant,
}

impl Play {
    pub(super) fn new(change: impl FnOnce(&mut OpenRequest)) -> Play {
        Play::within(Path::new("/work"), change)
    }

    pub(super) fn within(cwd: &Path, change: impl FnOnce(&mut OpenRequest)) -> Play {
        let mut request = OpenRequest::new(Provider::Gemini);
        request.agent.level = Level::Auto;
        request.agent.limits.idle = Some(Duration::from_secs(5));
        request.agent.limits.start = Some(Duration::from_secs(60));
        request.agent.kill_grace = Duration::from_secs(2);
        change(&mut request);
        let mode = mode_of(Provider::Gemini, request.agent.level, request.agent.sandbox.is_some()).unwrap();
        let modes: Vec<String> = [mode.id.to_owned()].into_iter().filter(|id| !id.is_empty()).collect();
        let rules = Rules::new(&request, &modes, mode.meta, cwd, &destination(cwd).unwrap());
        Play { gate: Gate::new(rules, request.allowance().unwrap()), now: Instant::now() }
    }

    /// With the session "s" open.
    pub(super) fn opened(change: impl FnOnce(&mut OpenRequest)) -> Play {
        let mut play = Play::new(change);
        play.open("s");
        play
    }

    pub(super) fn open(&mut self, session: &str) -> Told {
        let id = format!("open {session}");
        let asked = self.client(json!({"id":id,"method":"session/new","params":{"cwd":"/work"}}));
        let mut told = self
            .agent(json!({"id":asked[0].1["id"],"result":{"sessionId":session,"modes":modes("default")}}));
        if told[0].0 == '>' {
            told = self.agent(json!({"id":told[0].1["id"],"result":{}}));
        }
        assert_eq!((told[0].0, &told[0].1["id"]), ('<', &json!(id)));
        told
    }

    pub(super) fn client(&mut self, message: Value) -> Told {
        self.client_line(&message.to_string())
    }

    fn client_line(&mut self, line: &str) -> Told {
        self.gate.on_client(line.as_bytes(), false, self.now);
        self.told()
    }

    pub(super) fn agent(&mut self, message: Value) -> Told {
        self.gate.on_agent(message.to_string().as_bytes(), self.now);
        self.told()
    }

    pub(super) fn prompt(&mut self, id: u64) -> Told {
        let params = json!({"sessionId":"s","prompt":[{"type":"text","text":"go"}]});
        self.client(json!({"id":id,"method":"session/prompt","params":params}))
    }

    /// The id of a prompt towards the agent.
    pub(super) fn prompted(&mut self, id: u64) -> Value {
        let told = self.prompt(id);
        assert_eq!((told[0].0, &told[0].1["method"]), ('>', &json!("session/prompt")), "{told:?}");
        told[0].1["id"].clone()
    }

    pub(super) fn update(&mut self, update: Value) -> Told {
        self.agent(json!({"method":"session/update","params":{"sessionId":"s","update":update}}))
    }

    /// Lets the time pass; the tree does nothing meanwhile.
    pub(super) fn pass(&mut self, seconds: u64) -> Told {
        self.now += Duration::from_secs(seconds);
        while let Some(prompt) = self.gate.on_clock(self.now) {
            self.gate.prompts.on_sample(prompt, Sample { at: self.now, cpu: Duration::ZERO, io_bytes: 0 });
        }
        self.told()
    }

    pub(super) fn told(&mut self) -> Told {
        for (ticket, look) in std::mem::take(&mut self.gate.out.looks) {
            let found = match look {
                Look::Files(question, policy, cwd) => Found::Files(Places::look(&question, &policy, &cwd)),
                Look::Folders(folders) => {
                    Found::Folders(folders.iter().map(|folder| destination(folder).ok()).collect())
                }
            };
            self.gate.on_looked(ticket, found, self.now);
        }
        let read = |to: char, lines: Vec<u8>| {
            let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            lines.map(|line| (to, json::read::<Value>(line).unwrap())).collect::<Vec<_>>()
        };
        let mut told = read('>', std::mem::take(&mut self.gate.out.agent));
        told.extend(read('<', std::mem::take(&mut self.gate.out.client)));
        told.extend(self.gate.out.kill.take().map(|error| ('x', json!(error.code().as_str()))));
        told
    }
}

pub(super) fn modes(current: &str) -> Value {
    let offered = ["default", "plan", "yolo", "autoEdit"].map(|id| json!({ "id": id, "name": id }));
    json!({ "currentModeId": current, "availableModes": offered })
}

pub(super) fn at(level: Level) -> impl FnOnce(&mut OpenRequest) {
    move |request| request.agent.level = level
}

/// The side that a message went to, and its method or the code of its error.
fn shown(told: &Told) -> Vec<(char, String)> {
    let word = |value: &Value| match (value["method"].as_str(), value["error"]["data"]["code"].as_str()) {
        (Some(method), _) => method.to_owned(),
        (_, Some(code)) => code.to_owned(),
        _ if value.get("error").is_some() => value["error"]["code"].to_string(),
        _ if value.is_string() => value.as_str().unwrap().to_owned(),
        _ => "ok".to_owned(),
    };
    told.iter().map(|(to, value)| (*to, word(value))).collect()
}

pub(super) fn is(told: &Told, expected: &[(char, &str)]) {
    let expected: Vec<(char, String)> = expected.iter().map(|(to, word)| (*to, (*word).to_owned())).collect();
    assert_eq!(shown(told), expected, "{told:?}");
}

#[test]
fn what_is_unknown_passes_with_every_member_in_both_directions() {
    let mut play = Play::opened(|_| {});
    for text in [
        r#"{"jsonrpc":"2.0","method":"_x","params":[1.5,1e300,-0.0,18446744073709551615,{"a":null}],"beside":true}"#,
        r#"{"jsonrpc":"2.0","method":"_y","params":{"sessionId":"s","_meta":{"é":["\u00e9",{"deep":[[[]]]}]}}}"#,
    ] {
        let message: Value = json::read(text).unwrap();
        assert_eq!(play.client_line(text), [('>', message.clone())]);
        assert_eq!(play.agent(message.clone()), [('<', message)]);
    }
    let update = json!({"sessionUpdate":"of_tomorrow","x":{"y":[null, 1e300]},"_meta":{"z":"\u{fffd}"}});
    assert_eq!(play.update(update.clone())[0].1["params"]["update"], update);
    // A request comes back with the client's id, as it was written.
    for id in [json!("a"), json!(1.5), json!(-7), json!(9_007_199_254_740_993u64)] {
        let asked = play.client(json!({"id":id,"method":"_x/ask","params":{"p":[1]},"beside":{"q":2}}));
        let [('>', asked)] = &asked[..] else { panic!("{asked:?}") };
        assert!(
            asked["id"].is_u64() && asked["params"] == json!({"p":[1]}) && asked["beside"] == json!({"q":2})
        );
        let answer = json!({"jsonrpc":"2.0","id":asked["id"],"result":{"r":[null]},"_meta":{"m":1}});
        let expected = json!({"jsonrpc":"2.0","id":id,"result":{"r":[null]},"_meta":{"m":1}});
        assert_eq!(play.agent(answer), [('<', expected)]);
    }
    let asked = play.agent(json!({"id":"mine","method":"_ask","params":{"p":1},"beside":1}));
    assert_eq!(asked[0].1["beside"], 1);
    let answer =
        play.client(json!({"id":asked[0].1["id"],"error":{"code":-1,"message":"no","data":{"d":1}},"x":1}));
    let expected =
        json!({"jsonrpc":"2.0","id":"mine","error":{"code":-1,"message":"no","data":{"d":1}},"x":1});
    assert_eq!(answer, [('>', expected)]);
}

#[test]
fn a_character_that_comes_in_two_halves_reaches_the_client_whole() {
    let kinds = [
        ("agent_message_chunk", r#""content":{"type":"text","text":"TEXT"}"#),
        ("agent_thought_chunk", r#""content":{"type":"text","text":"TEXT"}"#),
        ("user_message_chunk", r#""content":{"type":"text","text":"TEXT"}"#),
        (
            "tool_call_content_chunk",
            r#""toolCallId":"t","content":{"type":"content","content":{"type":"text","text":"TEXT"}}"#,
        ),
    ];
    let text_of = |told: &Told| {
        let content = &told[0].1["params"]["update"]["content"];
        content["text"].as_str().or(content["content"]["text"].as_str()).unwrap().to_owned()
    };
    for is_open in [true, false] {
        let mut play = Play::new(|_| {});
        match is_open {
            true => drop(play.open("s")),
            // The agent repeats a conversation before it answers.
            false => drop(play.client(json!({"id":1,"method":"session/load","params":{"sessionId":"s"}}))),
        }
        let mut say = |kind: usize, text: &str| {
            let update = format!(r#"{{"sessionUpdate":"{}",{}}}"#, kinds[kind].0, kinds[kind].1);
            let update = update.replace("TEXT", text);
            let line =
                format!(r#"{{"method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#);
            play.gate.on_agent(line.as_bytes(), play.now);
            text_of(&play.told())
        };
        for (kind, (name, _)) in kinds.iter().enumerate() {
            let said: String =
                [r"a\ud83d", r"\ude00b", "c", r"\ud83d", "d"].iter().map(|text| say(kind, text)).collect();
            assert_eq!(said, "a\u{1f600}bc\u{fffd}d", "{name}");
        }
        // Each text has its own pieces.
        assert_eq!(
            (say(0, r"\ud83d"), say(1, "x"), say(0, r"\ude00")),
            ("".into(), "x".into(), "\u{1f600}".into())
        );
    }
    let mut play = Play::opened(|_| {});
    let ours = play.prompted(1);
    let half = r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"text":"\ud83d"}}}}"#;
    play.gate.on_agent(half.as_bytes(), play.now);
    play.told();
    play.agent(json!({"id":ours,"result":{"stopReason":"end_turn"}}));
    let next = play.update(json!({"sessionUpdate":"agent_message_chunk","content":{"text":"next"}}));
    assert_eq!(text_of(&next), "next", "the half belongs to the turn before");
}

#[test]
fn a_connection_agrees_once_on_the_version_that_the_agent_speaks() {
    let first = json!({"protocolVersion":1,"agentCapabilities":{}});
    let second = json!({"protocolVersion":2,"capabilities":{},"info":{}});
    // Agents on the Python SDK return the number that they were asked for.
    let echoed = json!({"protocolVersion":2,"agentCapabilities":{}});
    for (asked, hello, expected) in [
        (1, &first, Ok(1)),
        (2, &first, Ok(1)),
        (2, &second, Ok(2)),
        (2, &echoed, Ok(1)),
        (3, &second, Ok(2)),
        (1, &second, Err("PROTOCOL_MISMATCH")),
        (1, &json!({"protocolVersion":3}), Err("PROTOCOL_MISMATCH")),
        (3, &json!({"protocolVersion":3}), Err("PROTOCOL_MISMATCH")),
        (1, &json!(null), Err("PROTOCOL_MISMATCH")),
    ] {
        let mut play = Play::new(|_| {});
        let greet = json!({"id":7,"method":"initialize","params":{"protocolVersion":asked}});
        let sent = play.client(greet.clone());
        assert_eq!(sent[0].1["params"]["protocolVersion"], asked);
        let mut again = greet;
        json::object::put(&mut again, "id", 8);
        is(&play.client(again.clone()), &[('<', "-32600")]);
        let told = play.agent(json!({"id":sent[0].1["id"],"result":hello}));
        match expected {
            Ok(version) => {
                assert_eq!(told[0].1["result"]["protocolVersion"], version, "{asked} {hello}");
                is(&play.client(again), &[('<', "-32600")]);
            }
            Err(code) => {
                is(&told, &[('<', code)]);
                is(&play.client(again), &[('>', "initialize")]);
            }
        }
    }
}

#[test]
fn what_cannot_be_read_passes_in_no_direction() {
    let mut play = Play::opened(at(Level::Plan));
    for text in
        ["no message", "[]", r#"[{"id":1,"method":"session/set_mode"}]"#, r#"{"id":1,"method":"\q"}"#, "7"]
    {
        is(&play.client_line(text), &[('<', "-32700")]);
        play.gate.on_agent(text.as_bytes(), play.now);
        assert!(play.told().is_empty(), "{text}");
    }
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    for part in [r#""\ud800""#, "1e999", &deep, "\"\u{7f}\""] {
        let set = format!(
            r#"{{"jsonrpc":"2.0","id":77,"method":"session/set_mode","params":{{"sessionId":"s","modeId":"yolo","_meta":{part}}}}}"#
        );
        is(&play.client_line(&set), &[('<', "INVALID_OPTION")]);
    }
    // The last of two members with one name is judged, and it alone is written.
    let twice =
        r#"{"id":7,"method":"session/set_mode","params":{"sessionId":"s","modeId":"yolo","modeId":"plan"}}"#;
    assert_eq!(play.client_line(twice)[0].1["params"], json!({"sessionId":"s","modeId":"plan"}));
}

#[test]
fn each_request_is_answered_once_and_an_open_id_is_refused() {
    let mut play = Play::opened(|_| {});
    let ours = play.prompted(5);
    is(&play.prompt(5), &[('<', "-32600")]);
    let end = json!({"id":ours,"result":{"stopReason":"end_turn"}});
    is(&play.agent(end.clone()), &[('<', "ok")]);
    assert!(play.agent(end).is_empty(), "a second answer");
    for id in [json!(5), json!("5"), json!(999)] {
        assert!(play.agent(json!({"id":id,"result":{}})).is_empty(), "an answer to nothing");
        assert!(play.client(json!({"id":id,"result":{}})).is_empty(), "an answer to nothing");
    }
    is(&play.agent(json!({"id":1,"method":"_q"})), &[('<', "_q")]);
    is(&play.agent(json!({"id":1,"method":"_q"})), &[('>', "-32600")]);
}

#[test]
fn a_session_is_told_of_once_its_mode_is_set_and_what_comes_before_waits() {
    let mut play = Play::new(at(Level::Plan));
    let load = json!({"id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/work"}});
    let asked = play.client(load);
    is(&asked, &[('>', "session/load")]);
    assert!(play.prompt(2).is_empty(), "it waits");
    is(&play.update(json!({"sessionUpdate":"user_message_chunk"})), &[('<', "session/update")]);
    let set = play.agent(json!({"id":asked[0].1["id"],"result":{"modes":modes("plan"),"_meta":{"x":1}}}));
    is(&set, &[('>', "session/set_mode")]);
    assert!(play.update(json!({"sessionUpdate":"available_commands_update"})).is_empty(), "it waits");
    let told = play.agent(json!({"id":set[0].1["id"],"result":{}}));
    is(&told, &[('>', "session/prompt"), ('<', "ok"), ('<', "session/update")]);
    assert_eq!(told[1].1["result"]["modes"]["currentModeId"], "plan");
    assert_eq!((&told[1].1["id"], &told[1].1["result"]["_meta"]["x"]), (&json!(1), &json!(1)));
}

#[test]
fn a_level_that_cannot_be_set_costs_the_session_and_what_waits_for_it() {
    for (opened, answer) in [
        (json!({"sessionId":"s","configOptions":[{"id":"x","currentValue":"y"}]}), None),
        (json!({"sessionId":"s","modes":modes("yolo")}), Some(json!({"error":{"code":-1,"message":"no"}}))),
        (json!(null), Some(json!({"error":{"code":-1,"message":"no"}}))),
    ] {
        let mut play = Play::new(at(Level::Plan));
        let asked =
            play.client(json!({"id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/work"}}));
        play.prompt(2);
        let mut told = play.agent(json!({"id":asked[0].1["id"],"result":opened}));
        if let Some(mut answer) = answer {
            is(&told, &[('>', "session/set_mode")]);
            json::object::put(&mut answer, "id", told[0].1["id"].clone());
            told = play.agent(answer);
        }
        is(&told, &[('>', "session/close"), ('<', "INVALID_OPTION"), ('<', "INVALID_OPTION")]);
        is(&play.prompt(3), &[('<', "-32602")]);
    }
}

#[test]
fn only_sessions_that_were_opened_here_exist() {
    let mut play = Play::opened(|_| {});
    for method in ["session/prompt", "session/set_mode", "session/close", "session/of_tomorrow", "_x"] {
        let asked = json!({"id":7,"method":method,"params":{"sessionId":"other","modeId":"plan"}});
        is(&play.client(asked), &[('<', "-32602")]);
    }
    assert!(play.client(json!({"method":"session/cancel","params":{"sessionId":"other"}})).is_empty());
    is(
        &play.client(json!({"method":"session/prompt","params":{"sessionId":"s"}})),
        &[('<', "INVALID_OPTION")],
    );
    let close = play.client(json!({"id":8,"method":"session/close","params":{"sessionId":"s"}}));
    play.agent(json!({"id":close[0].1["id"],"result":{}}));
    is(&play.prompt(9), &[('<', "-32602")]);
    for method in ["session/request_permission", "fs/read_text_file"] {
        let asked = json!({"id":7,"method":method,"params":{"sessionId":"s","path":"/work/a"}});
        is(&play.agent(asked), &[('>', "-32602")]);
    }
}

#[test]
fn a_request_of_the_agent_without_an_id_gets_to_nobody() {
    let mut play = Play::opened(at(Level::Auto));
    let methods =
        ["fs/write_text_file", "terminal/create", "session/request_permission", "elicitation/create"];
    for method in methods {
        let told = json!({" id":9,"method":method,"params":{"sessionId":"s","path":"/work/a"}});
        assert!(play.agent(told).is_empty(), "{method}");
    }
    is(&play.agent(json!({"method":"_x/told","params":{}})), &[('<', "_x/told")]);
}

#[test]
fn the_client_chooses_no_mode_above_the_level_and_the_agent_keeps_none() {
    let mut play = Play::opened(at(Level::Plan));
    let set =
        |mode: Value| json!({"id":2,"method":"session/set_mode","params":{"sessionId":"s","modeId":mode}});
    is(&play.client(set(json!("yolo"))), &[('<', "INVALID_OPTION")]);
    is(&play.client(set(json!(["yolo"]))), &[('<', "INVALID_OPTION")]);
    let option = json!({"sessionId":"s","configId":"mode","value":"yolo"});
    is(
        &play.client(json!({"id":3,"method":"session/set_config_option","params":option})),
        &[('<', "INVALID_OPTION")],
    );
    is(&play.client(set(json!("plan"))), &[('>', "session/set_mode")]);
    let left = json!({"sessionUpdate":"current_mode_update","currentModeId":"yolo"});
    let told = play.update(left.clone());
    is(&told, &[('>', "session/set_mode"), ('<', "session/update")]);
    assert_eq!(told[0].1["params"]["modeId"], "plan");
    assert!(play.prompt(4).is_empty(), "it waits until the level is set");
    let back = play.agent(json!({"id":told[0].1["id"],"result":{}}));
    is(&back, &[('>', "session/prompt"), ('<', "session/update")]);
    assert_eq!(back[1].1["params"]["update"]["currentModeId"], "plan");
    for _ in 0..8 {
        let told = play.update(left.clone());
        play.agent(json!({"id":told[0].1["id"],"result":{}}));
    }
    is(&play.update(left)[..2].to_vec(), &[('>', "session/cancel"), ('>', "session/close")]);
}

#[test]
fn a_question_is_answered_by_the_level_or_by_the_client_it_went_to() {
    let ask = |play: &mut Play| {
        let call = json!({"toolCallId":"t","kind":"execute","title":"ls","rawInput":{"command":"ls"}});
        let options = json!([{"optionId":"a","kind":"allow_once"},{"optionId":"r","kind":"reject_once"}]);
        let params = json!({"sessionId":"s","toolCall":call,"options":options});
        play.agent(json!({"id":9,"method":"session/request_permission","params":params}))
    };
    for (level, expected) in [(Level::Auto, "a"), (Level::Plan, "r")] {
        let mut play = Play::opened(at(level));
        // An answer before the question.
        assert!(
            play.client(json!({"id":1,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}))
                .is_empty()
        );
        let told = ask(&mut play);
        assert_eq!(
            (told.len(), told[0].0, &told[0].1["result"]["outcome"]["optionId"]),
            (1, '>', &json!(expected))
        );
    }
    let mut play = Play::opened(at(Level::Ask));
    for (chosen, outcome) in [("a", "selected"), ("allow_everything", "cancelled")] {
        let asked = ask(&mut play);
        is(&asked, &[('<', "session/request_permission")]);
        let answer =
            json!({"id":asked[0].1["id"],"result":{"outcome":{"outcome":"selected","optionId":chosen}}});
        let told = play.client(answer.clone());
        assert_eq!(
            (&told[0].1["id"], &told[0].1["result"]["outcome"]["outcome"]),
            (&json!(9), &json!(outcome))
        );
        assert!(play.client(answer).is_empty(), "one answer is enough");
    }
}

#[test]
fn files_are_written_by_the_client_only_where_the_level_allows_it() {
    for (level, expected) in [(Level::Plan, ('>', "-32601")), (Level::Ask, ('<', "fs/write_text_file"))] {
        let mut play = Play::opened(at(level));
        let params = json!({"sessionId":"s","path":"/work/a","content":""});
        is(&play.agent(json!({"id":1,"method":"fs/write_text_file","params":params})), &[expected]);
    }
}

#[test]
fn a_call_of_which_not_all_can_be_looked_at_is_denied_where_a_rule_may_deny_it() {
    for has_rule in [false, true] {
        let mut play = Play::opened(|request| {
            if has_rule {
                let rule = crate::acp::Rule { path: Some("secret".to_owned()), ..Default::default() };
                request.policy.deny.push(rule);
            }
        });
        let long = "x".repeat(2 << 20);
        let told = play.update(
            json!({"sessionUpdate":"tool_call","toolCallId":"t","rawInput":{"path":"secret","x":long}}),
        );
        assert_eq!(told[0].1["params"]["update"]["rawInput"]["x"], *long, "it passes with every member");
        let options = json!([{"optionId":"a","kind":"allow_once"},{"optionId":"r","kind":"reject_once"}]);
        let params = json!({"sessionId":"s","toolCall":{"toolCallId":"t"},"options":options});
        let told = play.agent(json!({"id":9,"method":"session/request_permission","params":params}));
        let expected = if has_rule { "r" } else { "a" };
        assert_eq!(told[0].1["result"]["outcome"]["optionId"], expected);
        let params = json!({"sessionId":"s","toolCall":{"toolCallId":"u","rawInput":long},"options":options});
        is(
            &play.agent(json!({"id":9,"method":"session/request_permission","params":params})),
            &[('>', "-32602")],
        );
    }
}

#[test]
fn a_model_that_is_not_offered_costs_the_session() {
    for (offered, is_taken) in [("large", true), ("other", false)] {
        let mut play = Play::new(|_| {});
        play.gate.rules.model = Some("large".to_owned());
        let asked = play.client(json!({"id":1,"method":"session/new","params":{"cwd":"/work"}}));
        let choices = json!([{"value":"small"},{"value":offered}]);
        let options = json!([{"id":"model","category":"model","currentValue":"small","options":choices}]);
        let opened = json!({"sessionId":"s","modes":modes("default"),"configOptions":options});
        let set = play.agent(json!({"id":asked[0].1["id"],"result":opened}));
        let told = play.agent(json!({"id":set[0].1["id"],"result":{}}));
        if is_taken {
            is(&told, &[('>', "session/set_config_option")]);
            is(&play.agent(json!({"id":told[0].1["id"],"result":{}})), &[('<', "ok")]);
        } else {
            is(&told, &[('>', "session/close"), ('<', "INVALID_OPTION")]);
        }
    }
}
