//! Joins the proxy of `egress` to the sandbox of `process`, which do not know each other.

use super::secret_spec::SecretSpec;
use egress::{Access, Hosts, Proxy, Reports, Rule, Secret, Secrets};
use ground::error::{Error, ErrorCode};
use process::{Egress, Gate, Metering, RefusedKind, Traffic};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

/// In a list of hosts: those that an agent's CLI needs.
const PROVIDER: &str = "provider";

/// The hosts and the secrets of a sandbox, or the first problem with them.
#[derive(Debug)]
pub struct ListedHosts(Result<Listed, Error>);

#[derive(Clone)]
struct Listed {
    hosts: Vec<Rule>,
    /// The hosts of the agent's CLI are listed too.
    has_provider: bool,
    secrets: Secrets,
    values: Vec<String>,
    metered: Vec<Rule>,
}

impl std::fmt::Debug for Listed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Listed").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl ListedHosts {
    pub fn new(hosts: &[String], secrets: BTreeMap<String, SecretSpec>) -> ListedHosts {
        ListedHosts(listed(hosts, secrets))
    }
}

fn listed(hosts: &[String], secrets: BTreeMap<String, SecretSpec>) -> Result<Listed, Error> {
    let has_provider = hosts.iter().any(|host| host == PROVIDER);
    let hosts = rules("sandbox.network.hosts", hosts)?;
    let values = secrets.values().map(|secret| secret.value.clone()).collect();
    let secrets = secrets.into_iter().map(|(name, secret)| {
        let SecretSpec { value, hosts, placeholder } = secret;
        let place = format!("sandbox.network.secrets.{name}");
        if egress::is_taken(&name) {
            let problem = "a program needs this variable for something else";
            return Err(Error::invalid_option(&place, problem));
        }
        let own = format!("{place}.hosts");
        if hosts.iter().any(|host| host == PROVIDER) {
            let problem = "expected the names of its hosts: \"provider\" stands for hosts in `hosts` alone";
            return Err(Error::invalid_option(&own, problem));
        }
        let own = rules(&own, &hosts)?;
        let random = ground::random::key::<64>()
            .ok_or_else(|| Error::new(ErrorCode::ProcessSpawnFailed, "the system gives no random numbers"))?;
        Secret::new(&name, &value, placeholder.as_deref(), own, &random)
            .map_err(|(part, problem)| Error::invalid_option(&format!("{place}.{part}"), problem))
    });
    let secrets: Vec<Secret> = secrets.collect::<Result<_, Error>>()?;
    let secrets = Secrets::new(secrets).map_err(|name| {
        let option = format!("sandbox.network.secrets.{name}.placeholder");
        Error::invalid_option(
            &option,
            "expected a text that is no part of another secret's, and has none in it",
        )
    })?;
    Ok(Listed { hosts, has_provider, secrets, values, metered: Vec::new() })
}

fn rules(place: &str, hosts: &[String]) -> Result<Vec<Rule>, Error> {
    let parse = |(index, host): (usize, &String)| {
        Rule::parse(host).map_err(|problem| Error::invalid_option(&format!("{place}[{index}]"), problem))
    };
    hosts.iter().enumerate().filter(|(_, host)| *host != PROVIDER).map(parse).collect()
}

impl Egress for ListedHosts {
    fn open(&self, traffic: &Traffic, inherited: &[(OsString, OsString)]) -> Result<Gate, Error> {
        let access = self.0.clone()?.access();
        let Traffic { refusals, callers, requests, .. } = traffic.clone();
        let sums = traffic.clone();
        let reports = Reports {
            refused: Arc::new(move |what| refusals.add(RefusedKind::Host, what, None)),
            is_own: Arc::new(move |from| callers.take(from)),
            asks: Arc::new(move |host| {
                let (requests, number) = (requests.clone(), requests.ask(host));
                Box::new(move || requests.answer(number))
            }),
            metered: Arc::new(move |metered| sums.meter(metered)),
            cut: traffic.watch_cut(),
        };
        let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| Proxy::start(listener, access, reports, inherited))
            .map_err(|error| {
                let message = format!("the proxy for `sandbox.network.hosts` could not be opened: {error}");
                Error::new(ErrorCode::ProcessSpawnFailed, message)
                    .with("errno", error.raw_os_error().unwrap_or(0))
                    .with("syscall", "listen")
            })?;
        Ok(Gate {
            port: proxy.port(),
            environment: proxy.environment(),
            redirects: proxy.redirects().to_vec(),
            folder: proxy.folder().map(Into::into),
            server: Box::new(proxy),
        })
    }

    fn problem(&self) -> Option<Error> {
        self.0.as_ref().err().cloned()
    }

    fn local_ports(&self) -> Vec<u16> {
        self.0.as_ref().map(|listed| listed.clone().access().direct_ports()).unwrap_or_default()
    }

    fn secrets(&self) -> Vec<String> {
        self.0.as_ref().map(|listed| listed.values.clone()).unwrap_or_default()
    }

    fn hide(&self, text: &[u8]) -> Option<Vec<u8>> {
        self.0.as_ref().ok()?.secrets.hide(text)
    }

    fn for_agent(&self, hosts: &[String], metering: Metering) -> Option<process::Hosts> {
        let mut listed = self.0.clone().ok()?;
        // A variable may hold anything.
        let own: Vec<Rule> = hosts.iter().filter_map(|host| Rule::parse(host).ok()).collect();
        if listed.has_provider && own.is_empty() {
            let problem = "nothing is known about the hosts of this agent: list them in place of \"provider\", or set \
                           ANTHROPIC_BASE_URL or OPENAI_BASE_URL";
            let unknown = Error::invalid_option("sandbox.network.hosts", problem);
            return Some(process::Hosts::by(ListedHosts(Err(unknown))));
        }
        if listed.has_provider {
            listed.hosts.extend(own.iter().cloned());
        }
        listed.metered = match metering {
            Metering::Nothing => Vec::new(),
            Metering::Own => own,
            Metering::Everything => listed.hosts.clone(),
        };
        Some(process::Hosts::by(ListedHosts(Ok(listed))))
    }
}

impl Listed {
    fn access(self) -> Access {
        Access::new(Hosts::new(self.hosts), self.secrets, Hosts::new(self.metered))
    }
}
