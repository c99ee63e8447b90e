//! Joins the proxy of `egress` to the sandbox of `process`, which do not know each other.

use egress::{Hosts, Proxy, Rule};
use ground::error::{Error, ErrorCode};
use process::{Egress, Gate, Refusals, RefusedKind};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

/// The hosts of a sandbox, or what is wrong with them.
#[derive(Debug)]
pub struct ListedHosts(Result<Hosts, Error>);

impl ListedHosts {
    pub fn new(hosts: &[String]) -> ListedHosts {
        let parse = |(index, host): (usize, &String)| {
            let wrong = |problem| Error::invalid_option(&format!("sandbox.network.hosts[{index}]"), problem);
            Rule::parse(host).map_err(wrong)
        };
        ListedHosts(hosts.iter().enumerate().map(parse).collect::<Result<_, _>>().map(Hosts::new))
    }
}

impl Egress for ListedHosts {
    fn open(&self, refusals: Refusals) -> Result<Box<dyn Gate>, Error> {
        let hosts = self.0.clone()?;
        let report = Arc::new(move |what| refusals.add(RefusedKind::Host, what, None));
        let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| Proxy::start(listener, hosts, report))
            .map_err(|error| {
                let message = format!("the proxy for `sandbox.network.hosts` could not be opened: {error}");
                Error::new(ErrorCode::ProcessSpawnFailed, message)
                    .with("errno", error.raw_os_error().unwrap_or(0))
                    .with("syscall", "listen")
            })?;
        Ok(Box::new(ProxyGate(proxy)))
    }

    fn local_ports(&self) -> Vec<u16> {
        self.0.as_ref().map(Hosts::local_ports).unwrap_or_default()
    }
}

#[derive(Debug)]
struct ProxyGate(Proxy);

impl Gate for ProxyGate {
    fn port(&self) -> u16 {
        self.0.port()
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.0.environment()
    }
}
