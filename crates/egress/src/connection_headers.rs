//! Headers that are between the program and the proxy only. PURE.

use hyper::body::Body;
use hyper::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, TRANSFER_ENCODING,
};
use hyper::{Response, StatusCode};

/// Headers that are of one connection.
const OF_A_CONNECTION: [&str; 8] = [
    "keep-alive",
    "proxy-authorization",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(crate) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // Without it, a server answers for another host than the one that was checked.
        .filter(|name| name != HOST)
        .collect();
    for name in named {
        headers.remove(name);
    }
    headers.remove(CONNECTION);
    for name in OF_A_CONNECTION {
        headers.remove(name);
    }
}

/// The same of an answer. Its length is that of the body as it was read: a host may say a length beside chunks, or one length twice, and
/// the next reader would believe it.
pub(crate) fn strip_answer(response: &mut Response<impl Body>, is_head: bool) {
    strip(response.headers_mut());
    if is_head || response.status() == StatusCode::NOT_MODIFIED {
        return;
    }
    response.headers_mut().remove(CONTENT_LENGTH);
    if let Some(length) = response.body().size_hint().exact()
        && response.status() != StatusCode::NO_CONTENT
    {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
}

/// Whether a body is in another form than its own, by any header that says so.
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONTENT_ENCODING).iter().chain(headers.get_all(TRANSFER_ENCODING));
    let mut codings =
        values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let is_plain = |coding: &[u8]| {
        coding.is_empty()
            || [&b"identity"[..], b"chunked"].iter().any(|plain| coding.eq_ignore_ascii_case(plain))
    };
    !codings.all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn an_encoding_is_seen_in_whatever_header_it_stands() {
        for (all, expected) in [
            (&[][..], false),
            (&[("content-encoding", "identity"), ("transfer-encoding", "Chunked")], false),
            (&[("content-encoding", "gzip")], true),
            (&[("content-encoding", "identity, br")], true),
            (&[("content-encoding", "identity"), ("content-encoding", "gzip")], true),
            (&[("transfer-encoding", "gzip, chunked")], true),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in all {
                headers.append(*name, HeaderValue::from_static(value));
            }
            assert_eq!(is_encoded(&headers), expected, "{all:?}");
        }
    }

    #[test]
    fn what_is_of_a_connection_stays_behind() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Own, Host"),
            ("host", "a.example"),
            ("x-own", "1"),
            ("proxy-authorization", "Basic x"),
            ("transfer-encoding", "chunked"),
            ("authorization", "Bearer x"),
            ("accept", "*/*"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        strip(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "authorization", "host"]);
    }
}
