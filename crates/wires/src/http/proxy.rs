//! Proxies from the environment. Loopback addresses never go through a proxy, because no proxy could reach them.

use super::failure::HttpError;
use reqwest::{NoProxy, Proxy};

const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// HTTPS_PROXY for https, HTTP_PROXY for http, ALL_PROXY for both, NO_PROXY for the exceptions. Lower-case names work too.
pub(super) fn from_environment() -> Result<Vec<Proxy>, HttpError> {
    let exceptions = match read("NO_PROXY") {
        Some(names) => format!("{LOOPBACK},{names}"),
        None => LOOPBACK.to_owned(),
    };
    let mut proxies = Vec::new();
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"] {
        let Some(url) = read(name) else { continue };
        let proxy = match name {
            "HTTPS_PROXY" => Proxy::https(url),
            "HTTP_PROXY" => Proxy::http(url),
            _ => Proxy::all(url),
        };
        // The value may contain a password, so the error contains only the name.
        let proxy = proxy.map_err(|_| HttpError::InvalidRequest {
            problem: format!("the environment variable {name} is not the URL of a proxy"),
        })?;
        proxies.push(proxy.no_proxy(NoProxy::from_string(&exceptions)));
    }
    Ok(proxies)
}

fn read(name: &str) -> Option<String> {
    let value = std::env::var(name).or_else(|_| std::env::var(name.to_ascii_lowercase())).ok()?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}
