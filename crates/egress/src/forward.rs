//! A request without TLS: passed on to its host, without what is between the program and the proxy only.

use crate::answer::{Body, unreachable};
use crate::ended::Ended;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, Uri, Version};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

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

/// `authority`: the host as the program wrote it.
pub(crate) async fn forward(
    mut request: Request<Incoming>,
    server: TcpStream,
    authority: &str,
    mut ended: Ended,
) -> Response<Body> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let (Ok(path), Ok(host)) = (path.parse::<Uri>(), HeaderValue::from_str(authority)) else {
        return unreachable("the request's path can't be passed on");
    };
    *request.uri_mut() = path;
    *request.version_mut() = Version::HTTP_11;
    strip(request.headers_mut());
    request.headers_mut().insert(HOST, host);
    let (mut sender, connection) = match hyper::client::conn::http1::handshake(TokioIo::new(server)).await {
        Ok(pair) => pair,
        Err(error) => return unreachable(&format!("{authority}: {error}")),
    };
    tokio::spawn(async move {
        tokio::select! {
            // The reader of the answer sees a failure.
            _ = connection => {}
            () = ended.wait() => {}
        }
    });
    match sender.send_request(request).await {
        Ok(mut response) => {
            strip(response.headers_mut());
            response.map(|body| body.boxed())
        }
        Err(error) => unreachable(&format!("{authority}: {error}")),
    }
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    headers.remove(CONNECTION);
    for name in OF_A_CONNECTION {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_a_connection_stays_behind() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Own"),
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
        assert_eq!(left, ["accept", "authorization"]);
    }
}
