use crate::support::{code, millis, opened, request, text, until};
use agents::acp::{Answer, Elicited, HostRequest, Level, OpenRequest, PromptRequest, Rule};
use agents::harness::{AgentEvent, Provider};
use process::Strays;
use serde_json::{Value, json};

fn asking(version: u8) -> OpenRequest {
    let mut open = request(Provider::Gemini, version, "");
    open.agent.level = Level::Ask;
    open.has_handler = true;
    open
}

#[tokio::test]
async fn the_handler_answers_by_kind() {
    for version in [1, 2] {
        let mut agent = opened(asking(version)).await;
        for (answer, chosen) in [
            (Answer::Allow, "once"),
            (Answer::AllowAlways, "always"),
            (Answer::Reject, "no"),
            (Answer::Option("always".into()), "always"),
            (Answer::Option("whatever".into()), "no"),
        ] {
            let turn = agent.session.start(PromptRequest::new("ask git log"));
            let question = agent.question().await;
            assert_eq!(question.tool.input, Some(json!({"command":"git log"})));
            agent.session.answer(&question.id, Ok(answer.clone()));
            let outcome = turn.outcome().await;
            assert_eq!(
                (code(&outcome).as_str(), text(&outcome)),
                ("ok", format!("chosen: {chosen}")),
                "{answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn input_of_the_user_is_asked_of_the_handler_and_the_event_has_none_of_it() {
    for version in [1, 2] {
        let mut open = request(Provider::Gemini, version, "");
        open.has_elicitation_handler = true;
        let mut agent = opened(open).await;
        let told = agent.session.start(PromptRequest::new("client")).outcome().await;
        assert_eq!(text(&told), r#"{"elicitation":{"form":{},"url":{}}}"#);
        let mut events = agent.session.events();
        for (mode, elicited, said) in [
            (
                "form",
                Ok(Elicited::Accept(Some(json!({"name":"Ada"})))),
                r#"{"action":"accept","content":{"name":"Ada"}}"#,
            ),
            ("url", Ok(Elicited::Accept(None)), r#"{"action":"accept"}"#),
            ("form", Ok(Elicited::Decline), r#"{"action":"decline"}"#),
            ("form", Err("I broke".into()), r#"{"action":"cancel"}"#),
        ] {
            let turn = agent.session.start(PromptRequest::new(format!("elicit {mode}")));
            let Some(HostRequest::Elicitation(asked)) = agent.host.recv().await else { panic!("{mode}") };
            assert_eq!((asked.mode, asked.message.as_str()), (mode, "Who are you?"));
            agent.session.elicited(&asked.id, elicited);
            assert_eq!(text(&turn.outcome().await), said);
            let action = ground::json::read_own::<Value>(said).unwrap()["action"].clone();
            let found = until(&mut events, |event| matches!(event, AgentEvent::Elicitation { .. })).await;
            let event = found.iter().find(|event| event["type"] == "elicitation").unwrap();
            assert_eq!((&event["action"], &event["by"]), (&action, &json!("handler")));
            assert!(!event.to_string().contains("Ada"));
        }
        let odd = agent.session.start(PromptRequest::new("elicit voice")).outcome().await;
        assert!(text(&odd).contains("expected mode"), "{}", text(&odd));
    }
}

#[tokio::test]
async fn input_is_cancelled_when_nobody_gives_it() {
    let mut open = request(Provider::Gemini, 1, "");
    open.has_elicitation_handler = true;
    open.permission_timeout = Some(millis(100));
    let mut agent = opened(open).await;
    let turn = agent.session.start(PromptRequest::new("elicit form"));
    let Some(HostRequest::Elicitation(asked)) = agent.host.recv().await else { panic!() };
    assert_eq!(agent.host.recv().await, Some(HostRequest::Withdrawn { id: asked.id }));
    assert_eq!(text(&turn.outcome().await), r#"{"action":"cancel"}"#);
    // Without a handler it is not offered, and an agent that asks all the same gets an error that names the method.
    let agent = opened(request(Provider::Gemini, 1, "")).await;
    assert_eq!(text(&agent.session.start(PromptRequest::new("client")).outcome().await), "{}");
    let refused = agent.session.start(PromptRequest::new("elicit form")).outcome().await;
    assert!(text(&refused).contains("Method not found: elicitation/create"), "{}", text(&refused));
}

#[tokio::test]
async fn rules_decide_first_and_every_decision_is_told_with_who_made_it() {
    let mut open = asking(1);
    open.permission_timeout = Some(millis(100));
    open.policy.allow.push(Rule { command: Some("git *".into()), ..Rule::default() });
    open.policy.deny.push(Rule { command: Some("git push*".into()), ..Rule::default() });
    let mut agent = opened(open).await;
    let mut events = agent.session.events();
    for (command, by, chosen) in [
        ("git log", "policy", "once"),
        ("git push", "policy", "no"),
        ("rm x", "timeout", "no"),
        ("ls", "handler", "no"),
    ] {
        let turn = agent.session.start(PromptRequest::new(format!("ask {command}")));
        if by == "handler" {
            let question = agent.question().await;
            agent.session.answer(&question.id, Err("I broke".into()));
        } else if by == "timeout" {
            agent.question().await;
        }
        let outcome = turn.outcome().await;
        assert_eq!(text(&outcome), format!("chosen: {chosen}"), "{command}");
        let seen = until(&mut events, |event| matches!(event, AgentEvent::TurnEnd { .. })).await;
        let decision: &Value = seen.iter().find(|event| event["type"] == "permission").unwrap();
        assert_eq!(
            (decision["by"].as_str(), decision["answer"].as_str()),
            (Some(by), Some(if chosen == "no" { "reject" } else { "allow" }))
        );
        assert_eq!(decision["request"]["tool"]["kind"], "execute");
        if by == "handler" {
            assert!(outcome.result().cloned().unwrap().facts.warnings[0].contains("I broke"));
        }
    }
}

#[tokio::test]
async fn nobody_to_ask_is_a_refusal_and_always_is_never_chosen_for_once() {
    let mut open = request(Provider::Qwen, 1, "");
    open.agent.level = Level::Edit;
    let agent = opened(open).await;
    let refused = agent.prompt("ask rm x").await;
    assert_eq!(text(&refused), "chosen: no");
    let warnings = refused.result().cloned().unwrap().facts.warnings;
    assert!(warnings[0].starts_with("rm x was refused"), "{warnings:?}");
    let mut open = request(Provider::Qwen, 1, "");
    open.agent.level = Level::Auto;
    let agent = opened(open).await;
    assert_eq!(text(&agent.prompt("askqwen").await), "chosen: proceed");
}

#[tokio::test]
async fn an_open_question_rests_the_idle_clock_and_not_the_whole_time() {
    let mut open = asking(1);
    open.agent.limits.idle = Some(millis(150));
    open.agent.limits.tool_idle = Some(millis(150));
    let mut agent = opened(open).await;
    let turn = agent.session.start(PromptRequest::new("ask ls"));
    let question = agent.question().await;
    tokio::time::sleep(millis(400)).await;
    agent.session.answer(&question.id, Ok(Answer::Allow));
    assert_eq!(code(&turn.outcome().await), "ok");
    let turn =
        agent.session.start(PromptRequest { total: Some(Some(millis(200))), ..PromptRequest::new("ask ls") });
    assert_eq!(code(&turn.outcome().await), "AGENT_TIMED_OUT");
}

#[tokio::test]
async fn a_cancel_answers_what_is_open() {
    for play in ["ask ls", "askgemini"] {
        let mut agent = opened(asking(1)).await;
        let turn = agent.session.start(PromptRequest::new(play));
        let question = agent.question().await;
        agent.session.cancel(Strays::Keep).await.unwrap();
        assert_eq!(code(&turn.outcome().await), "AGENT_ABORTED");
        agent.session.answer(&question.id, Ok(Answer::Allow));
        assert_eq!(text(&agent.prompt("hello").await), "Hello world", "the session lives on");
    }
}

#[tokio::test]
async fn several_questions_at_once_are_answered_each() {
    let mut agent = opened(asking(1)).await;
    let turn = agent.session.start(PromptRequest::new("asktwo"));
    let (first, second) = (agent.question().await, agent.question().await);
    agent.session.answer(&second.id, Ok(Answer::Reject));
    agent.session.answer(&first.id, Ok(Answer::Allow));
    agent.session.answer(&first.id, Ok(Answer::Reject));
    assert_eq!(text(&turn.outcome().await), "once no");
}

#[tokio::test]
async fn an_answer_is_given_to_the_question_that_it_answers_and_to_no_later_one() {
    let mut agent = opened(asking(1)).await;
    let turn = agent.session.start(PromptRequest::new("reusesid"));
    let first = agent.question().await;
    let second = agent.question().await;
    assert_eq!((first.tool.title.as_str(), second.tool.title.as_str()), ("echo harmless", "rm -rf /"));
    assert_ne!(first.id, second.id);
    // A slow handler: its request was withdrawn, and the agent has sent another one under the same JSON-RPC id.
    agent.session.answer(&first.id, Ok(Answer::Allow));
    agent.session.answer(&second.id, Ok(Answer::Reject));
    assert_eq!(text(&turn.outcome().await), "cancelled no");
}

#[tokio::test]
async fn two_questions_under_one_id_are_both_void() {
    let mut agent = opened(asking(1)).await;
    let turn = agent.session.start(PromptRequest::new("sharesid"));
    let outcome = turn.outcome().await;
    assert_eq!(text(&outcome), "cancelled");
    let warnings = &outcome.result().unwrap().facts.warnings;
    assert!(warnings.iter().any(|warning| warning.contains("two questions under one id")), "{warnings:?}");
    let asked = agent.question().await;
    assert_eq!(asked.tool.title, "rm -rf /");
    assert!(matches!(agent.host.recv().await, Some(HostRequest::Withdrawn { id }) if id == asked.id));
}

#[tokio::test]
async fn more_questions_than_anybody_answers_are_refused() {
    let agent = opened(asking(1)).await;
    let mut events = agent.session.events();
    let turn = agent.session.start(PromptRequest::new("askmany 300"));
    let refused = std::cell::Cell::new(0);
    until(&mut events, |event| {
        refused.set(refused.get() + usize::from(matches!(event, AgentEvent::Permission { .. })));
        refused.get() == 44
    })
    .await;
    for id in 1..=256 {
        agent.session.answer(&id.to_string(), Ok(Answer::Allow));
    }
    assert_eq!(text(&turn.outcome().await), "44 refused");
}

/// As opencode was reported to do: users of its clients could not answer any more.
#[tokio::test]
async fn a_tool_that_is_said_to_run_while_its_question_is_open_can_still_be_allowed() {
    let mut agent = opened(asking(1)).await;
    let turn = agent.session.start(PromptRequest::new("impatient"));
    let question = agent.question().await;
    tokio::time::sleep(millis(50)).await;
    agent.session.answer(&question.id, Ok(Answer::Allow));
    assert_eq!(text(&turn.outcome().await), "selected once");
}
