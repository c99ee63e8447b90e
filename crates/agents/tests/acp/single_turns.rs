//! Turns of an agent that is known by its command: each attempt is a session.

use crate::support::{PATIENCE, code, millis, request, text};
use agents::acp::start_turn;
use agents::harness::spending::Caps;
use agents::harness::{AgentTraits, ConcurrencyLimit, Level, Provider, TurnOutcome, TurnRequest};
use ground::retry::RetryPolicy;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// A file of this test run, which is not there yet.
struct Counter(PathBuf);

impl Counter {
    fn new() -> Counter {
        Counter(std::env::temp_dir().join(format!("single-turns-{}", ground::random::uuid())))
    }

    fn attempts(&self) -> usize {
        std::fs::read(&self.0).map_or(0, |bytes| bytes.len())
    }

    /// A prompt whose first attempts fail, after a tool call and 110 tokens.
    fn flaky(&self, failures: u32) -> String {
        format!("flaky {} {failures}", self.0.display())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn turn(version: u8, prompt: impl Into<String>) -> TurnRequest {
    let traits = AgentTraits {
        name: "scripted".into(),
        state: Vec::new(),
        modes: Default::default(),
        reports_usage: true,
    };
    let agent = request(Provider::other(traits).unwrap(), version, "").agent;
    let mut turn = TurnRequest::of(agent, prompt);
    turn.agent.level = Level::Auto;
    turn.retry = RetryPolicy { attempts: 3, base_delay: millis(1), max_delay: millis(1) };
    turn.retry_after_tools = true;
    turn
}

async fn run(request: TurnRequest, limits: Vec<ConcurrencyLimit>) -> (Arc<TurnOutcome>, Vec<Value>) {
    let turn = start_turn(TurnRequest { has_listener: true, ..request }, limits, None);
    let mut reader = turn.events();
    let mut events = Vec::new();
    while let Some(more) = tokio::time::timeout(PATIENCE, reader.next()).await.unwrap() {
        events.extend(more.iter().map(|event| serde_json::to_value(event).unwrap()));
    }
    (turn.outcome().await, events)
}

#[tokio::test]
async fn a_result_sums_up_all_attempts_and_the_last_words_of_each_are_told() {
    for version in [1, 2] {
        let counter = Counter::new();
        let (outcome, events) = run(turn(version, counter.flaky(2)), Vec::new()).await;
        assert_eq!((code(&outcome).as_str(), text(&outcome).as_str()), ("ok", "Hello world"));
        let facts = &outcome.result().unwrap().facts;
        let usage = facts.usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (300, 30), "{version}");
        assert_eq!((facts.attempts, facts.turns, facts.tool_calls), (3, 5, 2), "{version}");
        assert_eq!(facts.warnings.len(), 1, "each is told once: {:?}", facts.warnings);
        let told: Vec<&str> = events
            .iter()
            .filter(|event| {
                event["text"] == "last words" || event["type"] == "retry" || event["type"] == "end"
            })
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert_eq!(told, ["text", "retry", "text", "retry", "end"], "{version}");
        assert_eq!(counter.attempts(), 3);
    }
}

#[tokio::test]
async fn a_budget_is_one_for_all_attempts() {
    for (version, max_tokens, used, attempts) in [(1, 300, 330, 3), (2, 300, 330, 3), (1, 110, 110, 1)] {
        let counter = Counter::new();
        let mut request = turn(version, counter.flaky(2));
        request.agent.caps = Caps { max_tokens: Some(max_tokens), ..Caps::default() };
        let (outcome, _) = run(request, Vec::new()).await;
        let facts = outcome.error().unwrap().facts();
        assert_eq!((code(&outcome).as_str(), &facts["usedTokens"]), ("AGENT_BUDGET", &json!(used)));
        assert_eq!(counter.attempts(), attempts, "{version} {max_tokens}");
    }
}

#[tokio::test]
async fn a_turn_opens_no_session_while_its_account_is_at_its_limit() {
    let limits = vec![ConcurrencyLimit::new(4)];
    let mut first = turn(1, "limit 6000");
    first.retry.attempts = 1;
    assert_eq!(code(&run(first, limits.clone()).await.0), "AGENT_FAILED rate_limit");
    let counter = Counter::new();
    let mut second = turn(1, counter.flaky(0));
    second.wait_for_reset = PATIENCE;
    let (outcome, events) = run(second, limits).await;
    assert_eq!(text(&outcome), "Hello world");
    assert_eq!(events[0]["type"], "retry", "nothing before: {:?}", events[0]);
    let until = Duration::from_millis(events[0]["until"].as_u64().unwrap());
    let begun = std::fs::metadata(&counter.0).unwrap().modified().unwrap();
    assert!(begun.duration_since(SystemTime::UNIX_EPOCH).unwrap() >= until);
    assert_eq!((outcome.result().unwrap().facts.attempts, counter.attempts()), (1, 1));
}

#[tokio::test]
async fn a_silent_agent_that_computes_gets_its_time_once_more_and_a_limit_is_told() {
    let mut request = turn(1, "computes 3000");
    request.agent.limits.tool_idle = Some(millis(2000));
    let (outcome, events) = run(request, Vec::new()).await;
    assert_eq!(text(&outcome), "Made.");
    let warnings = &outcome.result().unwrap().facts.warnings;
    assert!(warnings[0].contains("silent for 2 s, but its processes are busy"), "{warnings:?}");
    assert!(events.iter().any(|event| event["message"] == *warnings[0]));

    let (idle, zero) = (Some(millis(300)), Some(Duration::ZERO));
    type Set = fn(&mut TurnRequest, Option<Duration>);
    let cases: [(&str, &str, &str, Set); 3] = [
        ("stall", "AGENT_IDLE", "idleTimeoutMs", |turn, limit| turn.agent.limits.idle = limit),
        ("stalltool", "AGENT_IDLE", "toolIdleTimeoutMs", |turn, limit| turn.agent.limits.tool_idle = limit),
        ("stall", "AGENT_TIMED_OUT", "timeoutMs", |turn, limit| turn.agent.limits.total = limit),
    ];
    for (play, expected, fact, set) in cases {
        for limit in [idle, zero] {
            let mut request = turn(2, play);
            set(&mut request, limit);
            let (outcome, _) = run(request, Vec::new()).await;
            let told = outcome.error().unwrap().facts().get(fact).and_then(Value::as_f64);
            let limit = limit.map(|limit| limit.as_secs_f64() * 1e3);
            assert_eq!((code(&outcome).as_str(), told), (expected, limit), "{play} {fact}");
        }
    }
}

#[tokio::test]
async fn an_abort_ends_each_wait_of_a_turn_at_once() {
    for version in [1, 2] {
        let counter = Counter::new();
        let long = RetryPolicy { attempts: 3, base_delay: PATIENCE * 10, max_delay: PATIENCE * 10 };
        let cases = [
            ("the pause before a retry", TurnRequest { retry: long, ..turn(version, counter.flaky(9)) }, 1),
            (
                "the wait for a limit",
                TurnRequest { wait_for_reset: PATIENCE * 100, ..turn(version, "limit 3600000") },
                0,
            ),
        ];
        for (name, request, turns) in cases {
            let limit = ConcurrencyLimit::new(1);
            let turn = start_turn(TurnRequest { has_listener: true, ..request }, vec![limit.clone()], None);
            let mut reader = turn.events();
            let mut events: Vec<Value> = Vec::new();
            let mut begun = None;
            while let Some(more) = tokio::time::timeout(PATIENCE, reader.next()).await.unwrap() {
                events.extend(more.iter().map(|event| serde_json::to_value(event).unwrap()));
                if events.iter().any(|event| event["type"] == "retry") && begun.is_none() {
                    begun = Some(Instant::now());
                    turn.abort();
                }
            }
            let outcome = turn.outcome().await;
            assert!(begun.unwrap().elapsed() < millis(1_000), "{name}: {:?}", begun.unwrap().elapsed());
            assert_eq!(code(&outcome), "AGENT_ABORTED", "{name}");
            let facts = &outcome.result().unwrap().facts;
            assert_eq!(
                (facts.attempts, facts.turns > 0, facts.session_id.is_some()),
                (1, turns > 0, true),
                "{name}"
            );
            let ends: Vec<usize> = (0..events.len()).filter(|at| events[*at]["type"] == "end").collect();
            assert_eq!(ends, [events.len() - 1], "{name}: {events:?}");
            let kept = outcome.error().unwrap().facts()["events"].as_array().unwrap();
            assert!(kept.iter().any(|event| event["type"] == "session"), "{name}: {kept:?}");
            let next = start_turn(crate::single_turns::turn(version, "hello"), vec![limit], None);
            assert_eq!(
                text(&tokio::time::timeout(PATIENCE, next.outcome()).await.unwrap()),
                "Hello world",
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn an_abort_at_any_moment_ends_the_turn() {
    for version in [1, 2] {
        let moments = (0..60).map(|number| async move {
            let mut request = turn(version, "stall");
            request.agent.kill_grace = millis(300);
            let turn = start_turn(request, Vec::new(), None);
            tokio::time::sleep(millis(number * 8)).await;
            turn.abort();
            let outcome = tokio::time::timeout(millis(15_000), turn.outcome()).await;
            assert_eq!(outcome.map(|outcome| code(&outcome)), Ok("AGENT_ABORTED".to_owned()), "{number}");
        });
        let mut moments: Vec<_> = moments.collect();
        while !moments.is_empty() {
            let some = moments.split_off(moments.len().saturating_sub(6));
            futures_util::future::join_all(some).await;
        }
    }
}
