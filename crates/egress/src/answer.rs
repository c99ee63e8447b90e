//! The proxy's own answers: one line of text that says what is wrong. PURE.

use crate::body::BodyError;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue, PROXY_AUTHENTICATE};
use hyper::{Response, StatusCode};

pub(crate) type Body = BoxBody<Bytes, BodyError>;

pub(crate) fn empty() -> Body {
    text(String::new())
}

fn text(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed()
}

fn with(status: StatusCode, line: &str) -> Response<Body> {
    let mut response = Response::new(text(format!("sheepdog: {line}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

pub(crate) fn refused(line: &str) -> Response<Body> {
    with(StatusCode::FORBIDDEN, line)
}

pub(crate) fn unreachable(line: &str) -> Response<Body> {
    with(StatusCode::BAD_GATEWAY, line)
}

pub(crate) fn wrong(line: &str) -> Response<Body> {
    with(StatusCode::BAD_REQUEST, line)
}

pub(crate) fn no_credential() -> Response<Body> {
    let line = "this proxy is for one program: its address in HTTPS_PROXY has the credential";
    let mut response = with(StatusCode::PROXY_AUTHENTICATION_REQUIRED, line);
    response.headers_mut().insert(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"sheepdog\""));
    response
}
