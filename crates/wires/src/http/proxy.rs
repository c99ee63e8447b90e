//! Proxies, as an environment names them. Loopback addresses never go through a proxy, because no proxy could reach them.

use super::failure::HttpError;
use ground::os::{is_loopback, is_own_name};
use reqwest::{Proxy, Url};
use std::net::IpAddr;

/// HTTPS_PROXY for https, HTTP_PROXY for http, ALL_PROXY for both, NO_PROXY for the exceptions. Lower-case names work too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    urls: Vec<(&'static str, String)>,
    exceptions: Exceptions,
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
            exceptions: Exceptions::parse(&read("NO_PROXY").unwrap_or_default()),
        }
    }

    pub(super) fn build(&self) -> Result<Vec<Proxy>, HttpError> {
        let build = |(name, url): &(&'static str, String)| {
            // The value may contain a password, so the error contains only the name.
            Proxy::all(url).map_err(|_| HttpError::InvalidRequest {
                problem: format!("the environment variable {name} is not the URL of a proxy"),
            })?;
            let (url, exceptions) = (url.clone(), self.exceptions.clone());
            let scheme = match *name {
                "HTTPS_PROXY" => Some("https"),
                "HTTP_PROXY" => Some("http"),
                _ => None,
            };
            Ok(Proxy::custom(move |to| {
                let is_meant = scheme.is_none_or(|scheme| to.scheme() == scheme);
                (is_meant && !exceptions.hold(to)).then(|| url.clone())
            }))
        };
        self.urls.iter().map(build).collect()
    }
}

/// The entries of NO_PROXY, in the forms that curl, Go and Node.js know: `host`, `.host` and `*.host`, which all mean the names
/// below it too, an address, a network (`10.0.0.0/8`), each also with a port, and `*`. Commas or spaces stand between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Exceptions(Vec<(Hosts, Option<u16>)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    All,
    /// This name, and those below it.
    Named(String),
    /// The addresses that begin with so many bits of this one.
    Network(IpAddr, u8),
}

impl Exceptions {
    fn parse(list: &str) -> Exceptions {
        let entries = list.split([',', ' ', '\t', '\n']).filter(|entry| !entry.is_empty());
        Exceptions(entries.map(entry).collect())
    }

    /// Whether no proxy is used for this URL.
    fn hold(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).trim_end_matches('.');
        let address = host.parse::<IpAddr>().ok();
        let is_below = |name: &str| {
            host.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        let is_excepted = |(hosts, port): &(Hosts, Option<u16>)| {
            let is_host = match hosts {
                Hosts::All => true,
                Hosts::Named(name) => address.is_none() && is_below(name),
                Hosts::Network(network, bits) => {
                    address.is_some_and(|address| within(address, *network, *bits))
                }
            };
            is_host && port.is_none_or(|port| url.port_or_known_default() == Some(port))
        };
        address.map_or_else(|| is_own_name(host), is_loopback) || self.0.iter().any(is_excepted)
    }
}

fn entry(text: &str) -> (Hosts, Option<u16>) {
    // The colons of a bare IPv6 address name no port.
    if let Some(network) = network(text) {
        return (network, None);
    }
    let (host, port) = match text.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
        Some((host, Ok(port))) => (host, Some(port)),
        _ => (text, None),
    };
    let named = || match host {
        "*" => Hosts::All,
        name => Hosts::Named(name.trim_start_matches('*').trim_matches('.').to_ascii_lowercase()),
    };
    (network(host).unwrap_or_else(named), port)
}

fn network(text: &str) -> Option<Hosts> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(all), |bits| bits.parse().ok())?;
    (bits <= all).then_some(Hosts::Network(address, bits))
}

fn within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let differing = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => u128::from(address.to_bits() ^ network.to_bits()) << 96,
        (IpAddr::V6(address), IpAddr::V6(network)) => address.to_bits() ^ network.to_bits(),
        _ => return false,
    };
    differing.leading_zeros() >= u32::from(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_direct(list: &str, url: &str) -> bool {
        Exceptions::parse(list).hold(&Url::parse(url).unwrap())
    }

    #[test]
    fn each_form_of_an_exception_is_read() {
        let host = "http://api.example.test/v1";
        for list in [
            "api.example.test",
            "example.test",
            ".example.test",
            "*.example.test",
            "API.EXAMPLE.TEST",
            "api.example.test.",
            "api.example.test:80",
            ".example.test:80",
            "*",
            "a , api.example.test ",
            "a api.example.test",
            "a,\n*.example.test:80",
        ] {
            assert!(is_direct(list, host), "{list:?}");
            assert!(is_direct(list, "http://API.example.test."), "{list:?}");
        }
        for list in [
            "",
            ",",
            ".",
            ":80",
            "xample.test",
            "pi.example.test",
            "b.api.example.test",
            "api.example.test:443",
            "10.0.0.0/0",
        ] {
            assert!(!is_direct(list, host), "{list:?}");
        }
        assert!(is_direct("api.example.test:443", "https://api.example.test"));
        assert!(!is_direct("api.example.test:443", "https://api.example.test:8443"));
    }

    #[test]
    fn addresses_are_excepted_by_networks_of_their_own_kind() {
        for (list, url) in [
            ("192.0.2.7", "http://192.0.2.7"),
            ("192.0.2.7:81", "http://192.0.2.7:81"),
            ("192.0.2.0/24", "http://192.0.2.255"),
            ("0.0.0.0/0", "http://192.0.2.255"),
            ("2001:db8::1", "http://[2001:db8::1]"),
            ("[2001:db8::1]", "http://[2001:db8::1]"),
            ("[2001:db8::1]:80", "http://[2001:db8::1]"),
            ("2001:db8::/32", "https://[2001:db8:1::1]"),
        ] {
            assert!(is_direct(list, url), "{list}: {url}");
        }
        for (list, url) in [
            ("192.0.2.0/24", "http://192.0.3.0"),
            ("192.0.2.7:81", "http://192.0.2.7"),
            ("0.0.0.0/0", "http://[2001:db8::1]"),
            ("::/0", "http://192.0.2.1"),
            ("192.0.2.0/33", "http://192.0.2.0"),
            ("2001:db8::/32", "http://[2001:db9::1]"),
            ("2.7", "http://192.0.2.7"),
        ] {
            assert!(!is_direct(list, url), "{list}: {url}");
        }
    }

    #[test]
    fn this_machine_is_reached_directly_by_each_of_its_names() {
        for host in [
            "localhost",
            "localhost.",
            "app.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "[::1]",
            "0.0.0.0",
            "[::]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_direct("", &format!("http://{host}:1234/v1")), "{host}");
        }
        assert!(!is_direct("", "http://notlocalhost"));
    }
}
