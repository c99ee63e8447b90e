//! `complete()` against a server on loopback whose answers a test defines byte for byte.
#![expect(clippy::unwrap_used, reason = "a panic in a test is its report")]

use agents::model::{AbortSwitch, Completion, CompletionRequest, Schema, complete};
use ground::error::Error;
use ground::redaction::Secret;
use serde_json::{Value, json};
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use wires::http::{HttpClient, HttpOptions};

const KEY: &str = "sk-secret-0123456789";

/// The server's reaction to one request.
#[derive(Clone)]
enum Act {
    /// Sends this and closes.
    Answer(String),
    /// Sends this and holds the connection open.
    Hold(String),
    /// Sends this, and then comments as long as the client listens.
    Murmur(String),
    /// Closes the connection without an answer.
    HangUp,
}

/// A server, and the requests that it received.
struct Server {
    url: String,
    /// Port of the client and body of each request.
    heard: Arc<Mutex<Vec<(u16, Value)>>>,
    /// A client closed the connection while an answer was held open.
    hung_up: Arc<Notify>,
}

impl Server {
    /// A server with these reactions, one after another; the last is repeated for ever.
    async fn that(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server {
            url: format!("http://{}/v1", listener.local_addr().unwrap()),
            heard: Arc::default(),
            hung_up: Arc::default(),
        };
        let (heard, hung_up) = (server.heard.clone(), server.hung_up.clone());
        ground::task::spawn(async move {
            while let Ok((socket, from)) = listener.accept().await {
                ground::task::spawn(serve(socket, from.port(), acts.clone(), heard.clone(), hung_up.clone()));
            }
        });
        server
    }

    fn request(&self) -> CompletionRequest {
        let mut request =
            CompletionRequest::new(&*self.url, "m", json!([{ "role": "user", "content": "hi" }]));
        request.api_key = Some(Secret::from(KEY));
        request.retry.base_delay = Duration::from_millis(1);
        request.retry.max_delay = Duration::from_millis(20);
        request
    }

    async fn ask(&self, change: impl FnOnce(&mut CompletionRequest)) -> Result<Completion, Error> {
        let mut request = self.request();
        change(&mut request);
        complete(&HttpClient::new(HttpOptions::default()), request, pending()).await
    }

    fn calls(&self) -> usize {
        self.heard.lock().unwrap().len()
    }
}

async fn serve(
    mut socket: TcpStream,
    port: u16,
    acts: Vec<Act>,
    heard: Arc<Mutex<Vec<(u16, Value)>>>,
    hung_up: Arc<Notify>,
) {
    while let Some(body) = read_request(&mut socket).await {
        let number = {
            let mut heard = heard.lock().unwrap();
            heard.push((port, body));
            heard.len()
        };
        match &acts[number.min(acts.len()) - 1] {
            Act::Answer(text) => {
                let _ = socket.write_all(text.as_bytes()).await;
                if text.contains("connection: close") {
                    return;
                }
            }
            Act::Hold(text) => {
                let _ = socket.write_all(text.as_bytes()).await;
                while socket.read(&mut [0; 64]).await.unwrap_or(0) > 0 {}
                hung_up.notify_one();
                return;
            }
            Act::Murmur(text) => {
                let _ = socket.write_all(text.as_bytes()).await;
                while socket.write_all(b"8\r\n: ping\n\n\r\n").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                return;
            }
            Act::HangUp => return,
        }
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
            let mut body = bytes.split_off(end + 4);
            while body.len() < length {
                socket.read_buf(&mut body).await.ok().filter(|count| *count > 0)?;
            }
            return ground::json::read_own(&body).ok();
        }
        socket.read_buf(&mut bytes).await.ok().filter(|count| *count > 0)?;
    }
}

fn answer(status: u16, headers: &str, body: &str) -> Act {
    let length = body.len();
    Act::Answer(format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n{body}"))
}

fn chunk(choice: Value) -> String {
    format!("data: {}\n\n", json!({ "choices": [choice] }))
}

fn said(text: &str, reason: Value) -> String {
    chunk(json!({ "index": 0, "delta": { "content": text }, "finish_reason": reason }))
}

fn hello() -> String {
    said("he", Value::Null) + &said("llo", json!("stop"))
}

fn fine() -> Act {
    answer(200, "content-type: text/event-stream\r\n", &hello())
}

fn told(error: &Error, field: &str) -> Value {
    error.facts().get(field).cloned().unwrap_or_default()
}

/// Code, kind and number of requests.
async fn outcome(act: Act) -> (String, Value, usize) {
    let server = Server::that(vec![act]).await;
    let error = server.ask(|_| {}).await.unwrap_err();
    assert!(!format!("{error:?}").contains(KEY), "{error:?}");
    assert_eq!(told(&error, "attempts"), server.calls());
    (error.code().as_str().to_owned(), told(&error, "kind"), server.calls())
}

#[tokio::test]
async fn each_status_is_tried_again_or_not() {
    let again = [408, 409, 425, 429, 500, 501, 502, 503, 504, 520, 524, 529, 599];
    let for_good = [400, 401, 402, 403, 404, 405, 410, 413, 418, 422, 451, 499];
    for status in again.into_iter().chain(for_good) {
        let act = answer(status, "", &json!({ "error": { "message": format!("no {KEY}") } }).to_string());
        let (code, _, calls) = outcome(act).await;
        let expected = if again.contains(&status) { 3 } else { 1 };
        assert_eq!((code.as_str(), calls), ("MODEL_FAILED", expected), "{status}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_asked_for_again() {
    let page = "<html>sign in</html>".to_owned();
    let bodies = [
        String::new(),
        page,
        "null".to_owned(),
        "[1]".to_owned(),
        "hello".to_owned(),
        "{\"choices\":[]}".to_owned(),
        "{\"choices\":[{\"message\":{\"content\":\"cut".to_owned(),
        said("he", Value::Null),
        said("he", Value::Null) + "data: {oops\n\n",
        "data: [DONE]\n\n".to_owned(),
        "data: {\"choices\":[]}\n\ndata: [DONE]\n\n".to_owned(),
    ];
    for body in bodies {
        let (code, kind, calls) = outcome(answer(200, "", &body)).await;
        assert_eq!((code.as_str(), &kind, calls), ("MODEL_BAD_RESPONSE", &json!("server"), 3), "{body}");
    }
    let (code, kind, calls) = outcome(Act::HangUp).await;
    assert_eq!((code.as_str(), &kind, calls), ("MODEL_UNREACHABLE", &json!("network"), 3));
    let cut = "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n5\r\ndata:\r\n";
    let (code, _, calls) = outcome(Act::Answer(cut.to_owned())).await;
    assert_eq!((code.as_str(), calls), ("MODEL_UNREACHABLE", 3));
}

#[tokio::test]
async fn an_error_in_place_of_an_answer_is_judged_by_what_it_says() {
    let cases = [
        (json!({ "message": "x", "code": 401 }), "auth", 1),
        (json!({ "message": "x", "type": "overloaded_error", "code": 529 }), "overloaded", 3),
        (json!("the model does not exist"), "invalid_request", 1),
        (json!({ "message": "it broke" }), "server", 3),
    ];
    for (error, kind, calls) in cases {
        let body = said("he", Value::Null) + &format!("data: {}\n\n", json!({ "error": error }));
        assert_eq!(outcome(answer(200, "", &body)).await, ("MODEL_FAILED".into(), json!(kind), calls));
        let told = json!({ "content": "Half", "error": error });
        for body in [
            json!({ "error": error }),
            json!({ "choices": [{ "message": { "content": "Half" }, "error": error }] }),
            json!({ "choices": [{ "message": told, "finish_reason": "stop" }] }),
        ] {
            let act = answer(200, "", &body.to_string());
            assert_eq!(outcome(act).await, ("MODEL_FAILED".into(), json!(kind), calls), "{body}");
        }
    }
}

#[tokio::test]
async fn the_streams_of_other_servers_are_understood() {
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"prompt_tokens_details\":null}}\n\n";
    let quirks = [
        hello(),
        hello() + "data: [DONE]\n\n",
        hello() + usage + "data: [DONE]\n\n",
        hello().replace('\n', "\r\n"),
        hello().replace('\n', "\r"),
        hello().replace("data: ", "data:"),
        format!(": ping\n\n{}", hello().replace("\n\n", "\n\n: working\n\n")),
        format!("\u{feff}id: 1\nevent: message\nretry: 5\n{}", hello()),
        chunk(json!({ "index": 0, "delta": { "role": "assistant", "content": null } })) + &hello(),
        chunk(json!({ "index": 0, "delta": null })) + &hello(),
        chunk(json!({ "index": 1, "delta": { "content": "another" } })) + &hello(),
        chunk(json!({ "index": 0, "delta": { "reasoning_content": "hm" } })) + &hello(),
        said("hello", Value::Null) + "data: [DONE]\n\n",
        json!({ "choices": [{ "message": { "content": "hello" }, "finish_reason": "stop" }] }).to_string(),
        json!({ "choices": [{ "message": { "content": "hello" }, "finish_reason": "stop" }], "error": { "message": "", "code": null } })
            .to_string(),
        format!("\n \u{feff}{}", hello()),
    ];
    for body in quirks {
        let server = Server::that(vec![answer(200, "", &body)]).await;
        let completion = server.ask(|_| {}).await.unwrap();
        assert_eq!((completion.text.as_str(), completion.attempts), ("hello", 1), "{body}");
        assert_eq!(completion.finish_reason, "stop");
        assert_eq!(completion.usage.is_some(), body.contains("usage"));
    }
}

#[tokio::test]
async fn calls_of_tools_are_put_together_by_their_index() {
    let piece = |index: u64, id: Option<&str>, name: Option<&str>, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        let call = json!({ "index": index, "id": id, "function": function });
        chunk(json!({ "index": 0, "delta": { "content": null, "tool_calls": [call] } }))
    };
    let body = [
        piece(0, Some("a"), Some("f"), ""),
        piece(1, Some("b"), Some("g"), "{\"y\""),
        piece(0, None, None, "{\"x\":1}"),
        piece(1, None, None, ":2}"),
        said("", json!("tool_calls")),
    ];
    let server = Server::that(vec![answer(200, "", &body.concat())]).await;
    let tools = json!([{ "type": "function", "function": { "name": "f", "parameters": {} } }]);
    let completion = server.ask(|request| request.tools = Some(tools.clone())).await.unwrap();
    let calls: Vec<_> =
        completion.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.clone())).collect();
    assert_eq!(calls, [("f", json!({ "x": 1 })), ("g", json!({ "y": 2 }))]);
    assert_eq!(server.heard.lock().unwrap()[0].1["tools"], tools);
}

#[tokio::test]
async fn each_further_attempt_has_a_connection_of_its_own() {
    let server = Server::that(vec![answer(500, "", "{}"), answer(503, "", "{}"), fine()]).await;
    let completion = server.ask(|_| {}).await.unwrap();
    assert_eq!((completion.text.as_str(), completion.attempts), ("hello", 3));
    let mut ports: Vec<u16> = server.heard.lock().unwrap().iter().map(|(port, _)| *port).collect();
    ports.dedup();
    assert_eq!(ports.len(), 3);
}

#[tokio::test]
async fn a_wait_is_never_shorter_than_the_server_asks_for() {
    for (header, at_least) in [
        ("retry-after: 1", 1000),
        ("retry-after: soon", 0),
        ("retry-after: -3", 0),
        ("retry-after: 9999\r\nretry-after-ms: 350", 350),
    ] {
        let limited = answer(429, &format!("{header}\r\n"), "{}");
        let server = Server::that(vec![limited, fine()]).await;
        let started = std::time::Instant::now();
        // The bound is for our own part of the wait.
        server.ask(|request| request.retry.max_delay = Duration::from_millis(300)).await.unwrap();
        assert!(started.elapsed() >= Duration::from_millis(at_least), "{header}");
        assert!(started.elapsed() < Duration::from_secs(40), "{header}");
    }
    // Nobody waits for so long: there is no further attempt.
    let server = Server::that(vec![answer(429, "retry-after: 9999\r\n", "{}"), fine()]).await;
    let error = server.ask(|_| {}).await.unwrap_err();
    assert_eq!((&error.facts()["attempts"], &error.facts()["retryAfterMs"]), (&1.into(), &9_999_000.into()));
}

#[tokio::test]
async fn silence_ends_an_attempt_before_the_head_and_within_the_answer() {
    let head = "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n";
    let begun = said("he", Value::Null);
    let stalled = format!("{head}{:x}\r\n{begun}\r\n", begun.len());
    for (act, in_time) in
        [(Act::Hold(String::new()), "timeoutMs"), (Act::Hold(stalled.clone()), "fell silent")]
    {
        let server = Server::that(vec![act]).await;
        let error = server
            .ask(|request| {
                request.timeout = Some(Duration::from_millis(400));
                request.idle_timeout = Some(Duration::from_millis(100));
            })
            .await
            .unwrap_err();
        assert_eq!((error.code().as_str(), server.calls()), ("MODEL_TIMED_OUT", 3));
        assert!(error.message().contains(in_time), "{}", error.message());
    }
    let server = Server::that(vec![Act::Hold(stalled), fine()]).await;
    let completion =
        server.ask(|request| request.idle_timeout = Some(Duration::from_millis(500))).await.unwrap();
    assert_eq!((completion.text.as_str(), completion.attempts), ("hello", 2));
}

#[tokio::test]
async fn an_answer_that_is_whole_needs_no_end_of_its_stream() {
    let body = hello();
    let held = format!("HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len());
    let server = Server::that(vec![Act::Hold(held)]).await;
    let completion = server.ask(|request| request.timeout = Some(Duration::from_secs(10))).await.unwrap();
    assert_eq!((completion.text.as_str(), completion.attempts), ("hello", 1));
}

#[tokio::test]
async fn comments_do_not_prolong_an_attempt_before_or_behind_its_answer() {
    let chunked = |body: &str| {
        let head = "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n";
        Act::Murmur(format!("{head}{:x}\r\n{body}\r\n", body.len()))
    };
    let asked = async |body: &str| {
        let server = Server::that(vec![chunked(body)]).await;
        let answer = server.ask(|request| {
            request.timeout = Some(Duration::from_secs(4));
            request.retry.attempts = 1;
        });
        tokio::time::timeout(Duration::from_secs(20), answer).await.unwrap()
    };
    for body in [hello(), hello() + "data: [DONE]\n\n"] {
        assert_eq!(asked(&body).await.unwrap().text, "hello");
    }
    assert_eq!(asked(&said("he", Value::Null)).await.unwrap_err().code().as_str(), "MODEL_TIMED_OUT");
}

#[tokio::test]
async fn an_abort_closes_the_connection() {
    let server = Server::that(vec![Act::Hold(String::new())]).await;
    let switch = AbortSwitch::default();
    let client = HttpClient::new(HttpOptions::default());
    let call = ground::task::spawn({
        let (request, aborted) = (server.request(), switch.clone().cancelled_owned());
        async move { complete(&client, request, aborted).await }
    });
    while server.calls() == 0 {
        tokio::task::yield_now().await;
    }
    switch.cancel();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.code().as_str(), told(&error, "attempts")), ("MODEL_ABORTED", json!(1)));
    server.hung_up.notified().await;
}

#[tokio::test]
async fn an_answer_has_to_fit_its_schema() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    let with = |request: &mut CompletionRequest| {
        request.schema = Some(Schema::compile(schema.clone(), "schema").unwrap());
    };
    let text = |text: &str| answer(200, "", &said(text, json!("stop")));
    let used = format!(
        "data: {}\n\n",
        json!({ "choices": [], "usage": { "prompt_tokens": 5, "completion_tokens": 2 } })
    );
    let text_with_usage =
        |answered: &str| answer(200, "", &format!("{}{used}", said(answered, json!("stop"))));
    let server =
        Server::that(vec![text_with_usage("{\"a\":\"x\"}"), text_with_usage("```json\n{\"a\": 1,}\n```")])
            .await;
    let completion = server.ask(with).await.unwrap();
    let usage = completion.usage.unwrap();
    assert_eq!((usage.input, usage.output), (10, 4), "of both attempts");
    {
        let heard = server.heard.lock().unwrap();
        let messages = |attempt: usize| heard[attempt].1["messages"].as_array().unwrap().clone();
        assert_eq!(messages(0).len(), 1);
        assert_eq!(messages(1)[1], json!({ "role": "assistant", "content": "{\"a\":\"x\"}" }));
        assert!(messages(1)[2]["content"].as_str().unwrap().contains("- /a: "), "what was wrong is told");
    }
    assert_eq!((completion.structured, completion.attempts), (Some(json!({ "a": 1 })), 2));
    assert_eq!(server.heard.lock().unwrap()[0].1["response_format"]["json_schema"]["schema"], schema);
    let error = Server::that(vec![text("{\"a\":\"x\"}")]).await.ask(with).await.unwrap_err();
    assert_eq!(error.code().as_str(), "MODEL_BAD_RESPONSE");
    assert!(told(&error, "problems")[0].as_str().unwrap().contains("/a"));
    let cut = Server::that(vec![answer(200, "", &said("{\"a\":", json!("length")))]).await;
    assert!(cut.ask(with).await.is_err());
    assert_eq!(cut.calls(), 1, "it would break off again");
}

#[tokio::test]
async fn the_text_is_told_as_it_comes_with_its_attempt() {
    let broken = said("hel", Value::Null);
    let pieces = [said("hé", Value::Null), said("llo", json!("stop"))].concat();
    let server = Server::that(vec![answer(200, "", &broken), answer(200, "", &pieces)]).await;
    let heard: Arc<Mutex<Vec<(u32, String)>>> = Arc::default();
    let told = heard.clone();
    let completion = server
        .ask(|request| {
            request.listener =
                Some(Arc::new(move |attempt, text| told.lock().unwrap().push((attempt, text.to_owned()))));
        })
        .await
        .unwrap();
    assert_eq!(completion.text, "héllo");
    let heard = heard.lock().unwrap();
    let of = |attempt| {
        heard
            .iter()
            .filter(|(number, _)| *number == attempt)
            .map(|(_, text)| text.as_str())
            .collect::<String>()
    };
    assert_eq!((of(1), of(2)), ("hel".to_owned(), "héllo".to_owned()));
}

#[tokio::test]
async fn settings_and_further_fields_stand_in_the_body() {
    let server = Server::that(vec![fine()]).await;
    server
        .ask(|request| {
            request.temperature = Some(0.5);
            request.max_tokens = Some(9);
            request.seed = Some(-3);
            request.tool_choice = Some(json!("none"));
            let extra = json!({ "top_p": 0.1, "seed": 4, "stream": false, "messages": [] });
            request.extra_body = extra.as_object().cloned().unwrap();
        })
        .await
        .unwrap();
    let body = server.heard.lock().unwrap()[0].1.clone();
    for (field, value) in [
        ("temperature", json!(0.5)),
        ("max_tokens", json!(9)),
        ("tool_choice", json!("none")),
        ("top_p", json!(0.1)),
        ("seed", json!(4)),
        ("stream", json!(true)),
    ] {
        assert_eq!(body[field], value, "{field}");
    }
    assert_eq!(body["messages"].as_array().unwrap().len(), 1);
}
