//! Describes, in words for the user, the restrictions that a sandbox enforces on this kernel. PURE.

use super::{Network, Sandbox};
use crate::refusals::Refused;
use serde::Serialize;

/// The sandbox that was in force for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxReport {
    /// The version of Landlock that the kernel supports.
    pub landlock: u32,
    /// Restrictions that were enforced, of [`HOLDS`].
    pub holds: Vec<&'static str>,
    /// Files that the run made, changed or removed, and that run later, outside of the sandbox.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Files of `changed` that were put back as they were before the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<String>,
    /// Attempts on the network and on Unix sockets that were refused.
    pub refused: Vec<Refused>,
}

/// The sandbox features of this kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSupport {
    /// The version of Landlock; 0 without it, and then no sandbox is possible.
    pub landlock: u32,
    /// Whether this process can decide about the connections of another, which `network: { hosts }` and `sockets` need.
    pub seccomp_notify: bool,
    /// Whether `network: { hosts }` is supported.
    pub network: bool,
    pub holds: Vec<&'static str>,
    /// Restrictions that a newer kernel, or another container, would enforce as well.
    pub missing: Vec<&'static str>,
    /// The first call that the system refused, if any, with its file and the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

pub(crate) const READS: &str = "reads";
pub(crate) const NETWORK: &str = "network";
pub(crate) const PORTS: &str = "ports";
pub(crate) const HOSTS: &str = "hosts";
pub(crate) const SOCKETS: &str = "sockets";

/// Names of the restrictions, with the first version of Landlock that enforces each. No kernel enforces any other.
pub(crate) const HOLDS: [(&str, u32); 11] = [
    // No change of files but below `write`.
    ("writes", 1),
    // No file is read but below `read`; where that is asked for.
    (READS, 1),
    // `network: "none"`.
    (NETWORK, 1),
    // `network: { hosts }`; where a process can decide about the connections of another.
    (HOSTS, 1),
    // No Unix sockets but those of `sockets`; where the network is limited.
    (SOCKETS, 1),
    // Limits, priority, memory and tracing of processes outside; keys, System V and POSIX objects.
    ("processes", 1),
    // No capability, and none to gain.
    ("privileges", 1),
    // `network: { ports }`.
    (PORTS, 4),
    // Ioctls on devices that are not below `write`.
    ("devices", 5),
    ("signals", 6),
    ("abstract-sockets", 6),
];

impl SandboxReport {
    pub(crate) fn new(sandbox: &Sandbox, landlock: u32) -> SandboxReport {
        let is_asked_for = |word: &str| match word {
            READS => sandbox.read.is_some(),
            NETWORK => sandbox.network == Network::None,
            HOSTS => matches!(sandbox.network, Network::Hosts(_)),
            SOCKETS => sandbox.network != Network::All,
            PORTS => matches!(sandbox.network, Network::Ports(_)),
            _ => true,
        };
        let (held, _) = split(landlock, true);
        SandboxReport {
            landlock,
            holds: held.into_iter().filter(|word| is_asked_for(word)).collect(),
            changed: Vec::new(),
            restored: Vec::new(),
            refused: Vec::new(),
        }
    }
}

impl SandboxSupport {
    pub(crate) fn new(landlock: u32, seccomp_notify: bool) -> SandboxSupport {
        let (holds, missing) = split(landlock, seccomp_notify);
        let network = holds.contains(&HOSTS);
        SandboxSupport { landlock, seccomp_notify, network, holds, missing, problem: None }
    }
}

fn split(landlock: u32, can_ask: bool) -> (Vec<&'static str>, Vec<&'static str>) {
    let (held, missing): (Vec<_>, Vec<_>) = HOLDS
        .into_iter()
        .partition(|(word, since)| landlock > 0 && landlock >= *since && (can_ask || *word != HOSTS));
    let words = |rows: Vec<(&'static str, u32)>| rows.into_iter().map(|(word, _)| word).collect();
    (words(held), words(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kernel_says_what_it_does_not_hold() {
        let old = SandboxSupport::new(5, true);
        assert_eq!(old.missing, ["signals", "abstract-sockets"]);
        assert!(old.network && old.holds.contains(&"devices"));
        let none = SandboxSupport::new(0, true);
        assert_eq!((none.holds.len(), none.missing.len(), none.network), (0, HOLDS.len(), false));
        assert!(SandboxSupport::new(7, true).missing.is_empty());
        let unasked = SandboxSupport::new(7, false);
        assert_eq!((unasked.missing, unasked.network), (vec!["hosts"], false));
    }

    #[test]
    fn a_run_says_what_was_asked_for_and_held() {
        let open = SandboxReport::new(&Sandbox::default(), 7).holds;
        assert_eq!(open, ["writes", "processes", "privileges", "devices", "signals", "abstract-sockets"]);
        let closed = Sandbox { read: Some(Vec::new()), network: Network::None, ..Sandbox::default() };
        let held = SandboxReport::new(&closed, 1).holds;
        assert_eq!(held, ["writes", "reads", "network", "sockets", "processes", "privileges"]);
        let ports = Sandbox { network: Network::Ports(vec![443]), ..Sandbox::default() };
        assert!(SandboxReport::new(&ports, 4).holds.contains(&"ports"));
    }
}
