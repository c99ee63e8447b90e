//! PURE: what an HTTP request is answered, before anybody speaks WebSocket.
//!
//! | request | answer |
//! |---|---|
//! | no HTTP, a head over 16 KiB | 400, 431: `hyper`'s own |
//! | `GET /health` | 200 |
//! | no WebSocket upgrade | 426 |
//! | an `Origin` that is not allowed by name | 403 |
//! | no token, or another, where one is needed | 401 |
//! | too many sessions | 503 |
//! | else | 101 |

use crate::percent;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Who may come in.
#[derive(Clone, Debug, Default)]
pub struct AccessPolicy {
    pub token: Option<String>,
    pub allowed_origins: Vec<String>,
}

/// What becomes of a request.
#[derive(Debug)]
pub(super) enum UpgradeAnswer {
    /// This is sent, and the connection closed.
    Refuse(Response<String>),
    /// This is sent, then WebSocket is spoken.
    Accept(Response<String>),
}

pub(super) fn answer<B>(request: &Request<B>, policy: &AccessPolicy) -> UpgradeAnswer {
    let headers = request.headers();
    let is_get = request.method() == Method::GET;
    let upgrades = is_get
        && lists(headers, &header::CONNECTION, "upgrade")
        && lists(headers, &header::UPGRADE, "websocket");
    if is_get && request.uri().path() == "/health" && !upgrades {
        let mut response = plain(StatusCode::OK, "{\"status\":\"ok\"}");
        put(&mut response, header::CONTENT_TYPE, "application/json");
        return UpgradeAnswer::Refuse(response);
    }
    // Any path and any query are fine for a WebSocket, as ever.
    let Some(key) = text(headers, &header::SEC_WEBSOCKET_KEY).filter(|_| upgrades) else {
        return UpgradeAnswer::Refuse(upgrade_required("Upgrade Required"));
    };
    if text(headers, &header::SEC_WEBSOCKET_VERSION) != Some("13") {
        let mut response = upgrade_required("WebSocket version 13 is spoken here.");
        put(&mut response, header::SEC_WEBSOCKET_VERSION, "13");
        return UpgradeAnswer::Refuse(response);
    }
    // All of them: of a header that comes twice, nobody knows which one others go by.
    let is_allowed = |value: &HeaderValue| {
        policy.allowed_origins.iter().any(|allowed| allowed.as_bytes() == value.as_bytes().trim_ascii())
    };
    if !headers.get_all(header::ORIGIN).iter().all(is_allowed) {
        return UpgradeAnswer::Refuse(plain(StatusCode::FORBIDDEN, "This origin is not allowed."));
    }
    if let Some(token) = &policy.token {
        let bearer = text(headers, &header::AUTHORIZATION).and_then(bearer_token);
        let query = request.uri().query().unwrap_or("");
        let in_query = query.split('&').find_map(|pair| pair.strip_prefix("token=")).map(percent::decoded);
        let given = bearer.map(str::to_owned).or(in_query);
        let words = if given.is_some() { "This token is not the right one." } else { "A token is needed." };
        if !given.is_some_and(|given| same(given.as_bytes(), token.as_bytes())) {
            let mut response = plain(StatusCode::UNAUTHORIZED, words);
            put(&mut response, header::WWW_AUTHENTICATE, "Bearer");
            return UpgradeAnswer::Refuse(response);
        }
    }
    let mut response = Response::new(String::new());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    put(&mut response, header::UPGRADE, "websocket");
    put(&mut response, header::CONNECTION, "Upgrade");
    put(&mut response, header::SEC_WEBSOCKET_ACCEPT, &derive_accept_key(key.as_bytes()));
    put(&mut response, HeaderName::from_static("x-sheepdog-runtime"), "1");
    UpgradeAnswer::Accept(response)
}

/// The answer to who may come in when there is no room.
pub(super) fn too_many_sessions() -> Response<String> {
    plain(StatusCode::SERVICE_UNAVAILABLE, "There are too many sessions.")
}

fn upgrade_required(words: &str) -> Response<String> {
    let mut response = plain(StatusCode::UPGRADE_REQUIRED, words);
    put(&mut response, header::UPGRADE, "websocket");
    put(&mut response, header::CONNECTION, "upgrade, close");
    response
}

fn plain(status: StatusCode, words: &str) -> Response<String> {
    let mut response = Response::new(words.to_owned());
    *response.status_mut() = status;
    put(&mut response, header::CONTENT_TYPE, "text/plain");
    put(&mut response, header::CONNECTION, "close");
    response
}

fn put(response: &mut Response<String>, name: HeaderName, value: &str) {
    // None of ours has a character that a header can't have.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    std::str::from_utf8(headers.get(name)?.as_bytes()).ok().map(str::trim)
}

fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    text(headers, name)
        .is_some_and(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
}

fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Compares without telling by its time how much was right.
fn same(given: &[u8], expected: &[u8]) -> bool {
    let mut difference = u8::from(given.len() != expected.len());
    for (at, byte) in given.iter().enumerate() {
        difference |= byte ^ expected.get(at).copied().unwrap_or(0);
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(target: &str, headers: &str, policy: &AccessPolicy) -> String {
        let mut request = Request::get(target);
        for line in headers.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        match answer(&request.body(()).unwrap(), policy) {
            UpgradeAnswer::Refuse(response) | UpgradeAnswer::Accept(response) => {
                response.status().as_str().to_owned()
            }
        }
    }

    const UPGRADE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    #[test]
    fn rule_12_health_is_open_and_other_http_is_told_to_upgrade() {
        let policy = AccessPolicy { token: Some("t".into()), ..AccessPolicy::default() };
        assert_eq!(ask("/health", "", &policy), "200");
        assert_eq!(ask("/health?x=1", "", &policy), "200");
        assert_eq!(ask("/", "", &policy), "426");
        assert_eq!(ask("/any/path?q=1", UPGRADE, &AccessPolicy::default()), "101");
        assert_eq!(ask("/", &UPGRADE.replace("13", "8"), &AccessPolicy::default()), "426");
    }

    #[test]
    fn rule_12_a_foreign_origin_is_refused_unless_allowed_by_name() {
        let policy =
            AccessPolicy { allowed_origins: vec!["https://good.example".into()], ..AccessPolicy::default() };
        let with = |origin: &str| ask("/", &format!("{UPGRADE}Origin: {origin}\r\n"), &policy);
        assert_eq!(with("https://good.example"), "101");
        for foreign in ["https://evil.example", "null", "", "https://good.example.evil", "http://localhost"] {
            assert_eq!(with(foreign), "403", "{foreign}");
        }
        let twice = "Origin: https://good.example\r\nOrigin: https://evil.example\r\n";
        assert_eq!(ask("/", &format!("{UPGRADE}{twice}"), &policy), "403");
    }

    #[test]
    fn rule_12_the_token_comes_in_a_header_or_in_the_query() {
        let policy = AccessPolicy { token: Some("to ken".into()), ..AccessPolicy::default() };
        let bearer = |token: &str| ask("/", &format!("{UPGRADE}Authorization: bearer {token}\r\n"), &policy);
        assert_eq!(bearer("to ken"), "101");
        assert_eq!(ask("/?a=1&token=to%20ken", UPGRADE, &policy), "101");
        for wrong in ["", "to", "to kenn", "TO KEN"] {
            assert_eq!(bearer(wrong), "401", "{wrong}");
        }
        assert_eq!(ask("/", UPGRADE, &policy), "401");
        assert_eq!(ask("/?token=", UPGRADE, &policy), "401");
    }
}
