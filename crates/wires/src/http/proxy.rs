//! Proxies, as an environment names them. Loopback addresses never go through a proxy, because no proxy could reach them.

use super::failure::HttpError;
use reqwest::{NoProxy, Proxy};

const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// PURE: HTTPS_PROXY for https, HTTP_PROXY for http, ALL_PROXY for both, NO_PROXY for the exceptions. Lower-case names work too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    urls: Vec<(&'static str, String)>,
    exceptions: String,
}

impl Proxies {
    /// Those of the environment whose variables this function reads.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: &str| {
            let value = variable(name).or_else(|| variable(&name.to_ascii_lowercase()))?;
            let value = value.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let names = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"];
        Proxies {
            urls: names.into_iter().filter_map(|name| Some((name, read(name)?))).collect(),
            exceptions: read("NO_PROXY").map_or(LOOPBACK.to_owned(), |names| format!("{LOOPBACK},{names}")),
        }
    }

    pub(super) fn build(&self) -> Result<Vec<Proxy>, HttpError> {
        let build = |(name, url): &(&'static str, String)| {
            let proxy = match *name {
                "HTTPS_PROXY" => Proxy::https(url),
                "HTTP_PROXY" => Proxy::http(url),
                _ => Proxy::all(url),
            };
            // The value may contain a password, so the error contains only the name.
            let proxy = proxy.map_err(|_| HttpError::InvalidRequest {
                problem: format!("the environment variable {name} is not the URL of a proxy"),
            })?;
            Ok(proxy.no_proxy(NoProxy::from_string(&self.exceptions)))
        };
        self.urls.iter().map(build).collect()
    }
}
