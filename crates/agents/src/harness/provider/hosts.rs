//! The hosts that an agent's CLI needs to work. PURE.

use super::Provider;

/// Hosts for a sandbox's list: those of the CLI's makers, and those that the environment names in their place.
pub fn needed_hosts(provider: Provider, variable: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let descriptor = provider.descriptor();
    let mut hosts: Vec<String> = descriptor.hosts.iter().map(|host| (*host).to_owned()).collect();
    let named = descriptor.base_urls.iter().filter_map(|name| host_of(&variable(name)?));
    for host in named {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

/// The host of a URL, with its port unless that is the usual one.
fn host_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.trim().split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next().filter(|host| !host.is_empty())?;
    let has_port =
        host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_ipv6 = host.ends_with(']');
    match scheme {
        "https" | "wss" if has_port && !is_ipv6 => Some(host.to_owned()),
        "https" | "wss" => Some(format!("{host}:443")),
        "http" | "ws" if has_port && !is_ipv6 => Some(host.to_owned()),
        "http" | "ws" => Some(format!("{host}:80")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_host_and_port() {
        for (url, host) in [
            ("https://api.example.com/v1", Some("api.example.com:443")),
            ("https://api.example.com:8443", Some("api.example.com:8443")),
            ("http://127.0.0.1:8080/v1?x=1", Some("127.0.0.1:8080")),
            ("http://user:word@localhost/", Some("localhost:80")),
            ("http://[::1]:80/", Some("[::1]:80")),
            ("http://[::1]/", Some("[::1]:80")),
            ("api.example.com", None),
            ("file:///etc", None),
            ("https://", None),
        ] {
            assert_eq!(host_of(url).as_deref(), host, "{url}");
        }
    }

    #[test]
    fn every_provider_names_hosts_that_are_its_makers_or_the_environment_s() {
        for provider in Provider::ALL {
            assert!(!needed_hosts(provider, |_| None).is_empty(), "{}", provider.as_str());
        }
        let variable =
            |name: &str| (name == "ANTHROPIC_BASE_URL").then(|| "http://127.0.0.1:9/v1".to_owned());
        assert!(needed_hosts(Provider::ClaudeCode, variable).contains(&"127.0.0.1:9".to_owned()));
    }
}
