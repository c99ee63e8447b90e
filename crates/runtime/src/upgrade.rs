//! PURE: the answer to an HTTP request, before the connection becomes a WebSocket.
//!
//! | request | answer |
//! |---|---|
//! | not HTTP, or a head over 16 KiB | 400, 431 |
//! | `GET /health` | 200 |
//! | no WebSocket upgrade | 426 |
//! | an `Origin` that is not in the list of allowed ones | 403 |
//! | a missing or wrong token, where one is needed | 401 |
//! | too many sessions | 503 |
//! | any other | 101 |

use ground::percent;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The answers to a client without the token.
pub(super) const WRONG_TOKEN: &str = "The token is wrong.";
pub(super) const NO_TOKEN: &str = "A token is needed.";

/// Longest request head.
pub const MAX_HEAD_BYTES: usize = 16 << 10;

/// The rules for accepting a client.
#[derive(Clone, Debug, Default)]
pub struct AccessPolicy {
    pub token: Option<String>,
    pub allowed_origins: Vec<String>,
}

/// The next step for the bytes that were read so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpgradeAnswer {
    /// The head is not complete.
    ReadOn,
    /// Send this text, then close.
    Refuse(String),
    /// Send this text, then continue as a WebSocket. The head took `head_bytes` of the input.
    Accept { response: String, head_bytes: usize },
}

/// The answer to a request that began with these bytes.
pub fn answer(head: &[u8], policy: &AccessPolicy) -> UpgradeAnswer {
    let mut headers = [httparse::EMPTY_HEADER; 96];
    let mut request = httparse::Request::new(&mut headers);
    let head_bytes = match request.parse(head) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if head.len() < MAX_HEAD_BYTES => return UpgradeAnswer::ReadOn,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return refuse("431 Request Header Fields Too Large", "The request's head is too long.");
        }
        Err(_) => return refuse("400 Bad Request", "This is not HTTP/1.1."),
    };
    let header = |name: &str| {
        let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok().map(str::trim)
    };
    let lists = |name: &str, word: &str| {
        header(name).is_some_and(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    let target = request.path.unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let is_get = request.method == Some("GET");
    let upgrades = is_get && lists("connection", "upgrade") && lists("upgrade", "websocket");
    if is_get && path == "/health" && !upgrades {
        return UpgradeAnswer::Refuse(response("200 OK", "application/json", "", "{\"status\":\"ok\"}"));
    }
    // Any path and any query are accepted for a WebSocket. Existing clients rely on that.
    let Some(key) = header("sec-websocket-key").filter(|_| upgrades) else {
        return UpgradeAnswer::Refuse(response(
            "426 Upgrade Required",
            "text/plain",
            "Upgrade: websocket\r\nConnection: upgrade\r\n",
            "Upgrade Required",
        ));
    };
    if header("sec-websocket-version") != Some("13") {
        let extra = "Sec-WebSocket-Version: 13\r\nUpgrade: websocket\r\nConnection: upgrade\r\n";
        let words = "Only WebSocket version 13 is supported.";
        return UpgradeAnswer::Refuse(response("426 Upgrade Required", "text/plain", extra, words));
    }
    // All `Origin` headers are checked: programs differ in which one of several they use.
    let mut origins = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("origin"));
    let is_allowed =
        |value: &[u8]| policy.allowed_origins.iter().any(|allowed| allowed.as_bytes() == value.trim_ascii());
    if !origins.all(|origin| is_allowed(origin.value)) {
        return refuse("403 Forbidden", "This origin is not allowed.");
    }
    if let Some(token) = &policy.token
        && let Err(words) = check_token(token, header("authorization"), query)
    {
        let extra = "WWW-Authenticate: Bearer\r\n";
        return UpgradeAnswer::Refuse(response("401 Unauthorized", "text/plain", extra, words));
    }
    let accept = derive_accept_key(key.as_bytes());
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\nX-Sheepdog-Runtime: 1\r\n\r\n"
    );
    UpgradeAnswer::Accept { response, head_bytes }
}

/// Whether the header or the query holds the token; else what is told to the client.
fn check_token(token: &str, authorization: Option<&str>, query: &str) -> Result<(), &'static str> {
    let bearer = authorization.and_then(bearer_token).map(str::to_owned);
    let in_query = || query.split('&').find_map(|pair| pair.strip_prefix("token=")).map(percent::decoded);
    let given = bearer.or_else(in_query).ok_or(NO_TOKEN)?;
    if same(given.as_bytes(), token.as_bytes()) { Ok(()) } else { Err(WRONG_TOKEN) }
}

/// The answer to an authorized client when there is no room.
pub fn too_many_sessions() -> String {
    response("503 Service Unavailable", "text/plain", "", "There are too many sessions.")
}

fn refuse(status: &str, reason: &str) -> UpgradeAnswer {
    UpgradeAnswer::Refuse(response(status, "text/plain", "", reason))
}

fn response(status: &str, content_type: &str, extra: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n{extra}\r\n{body}",
        body.len()
    )
    // The extra headers may name a connection of their own.
    .replacen("Connection: close\r\nUpgrade: websocket\r\nConnection: upgrade", "Upgrade: websocket\r\nConnection: upgrade", 1)
}

fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Compares in constant time, so that the time does not show how much of the token was right.
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
        let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
        match answer(head.as_bytes(), policy) {
            UpgradeAnswer::Refuse(response) | UpgradeAnswer::Accept { response, .. } => {
                response[9..12].to_owned()
            }
            UpgradeAnswer::ReadOn => "more".to_owned(),
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
        assert_eq!(answer(b"\x16\x03\x01 tls", &policy), refuse("400 Bad Request", "This is not HTTP/1.1."));
        assert_eq!(answer(b"GET / HTTP/1.1\r\nHos", &policy), UpgradeAnswer::ReadOn);
        assert!(matches!(answer(&[b'A'; MAX_HEAD_BYTES], &policy), UpgradeAnswer::Refuse(_)));
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
