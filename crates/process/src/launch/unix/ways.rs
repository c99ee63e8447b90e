//! The ways out of a sandbox: opened before the program starts, because it learns of the gate by its environment.

use super::no_sandbox::no_sandbox_by;
use super::path_error::path_error;
use crate::fence::{Fence, Rules, Tcp};
use crate::gate::{Egress, Gate};
use crate::guard::{Grant, Links, Plan};
use crate::resolved_command::ResolvedCommand;
use crate::sandbox::{Network, Sandbox};
use crate::traffic::Traffic;
use ground::error::Result;
use ground::os::Fault;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Has a C library ask name servers by TCP: there is no UDP in a sandbox.
const BY_TCP: (&str, &str) = ("RES_OPTIONS", "use-vc");

/// The ways out of a sandbox. They close when this is dropped.
pub(super) struct Ways {
    /// The task that decides about the program's connections, if anything has to.
    fence: Option<Fence>,
    pub gate: Option<Gate>,
    traffic: Traffic,
}

/// Opens the gate, if the sandbox has one, and adds to the environment what the program needs to use it.
pub(super) fn open(
    sandbox: Option<&Sandbox>,
    traffic: Traffic,
    command: &mut ResolvedCommand,
) -> Result<Ways> {
    let mut ways = Ways { fence: None, gate: None, traffic };
    match sandbox.map(|sandbox| &sandbox.network) {
        Some(Network::Hosts(hosts)) => {
            let gate = hosts.egress().open(&ways.traffic, &command.environment)?;
            hide(command, hosts.egress());
            for (name, value) in &gate.environment {
                set(command, name, value);
            }
            ways.gate = Some(gate);
        }
        Some(Network::Ports(ports)) if !ports.is_empty() => {
            let (name, value) = BY_TCP;
            if !command.environment.iter().any(|(known, _)| known == name) {
                set(command, name, value);
            }
        }
        _ => {}
    }
    Ok(ways)
}

/// Takes secrets out of everything that the program is started with, whatever variable or argument they are in.
fn hide(command: &mut ResolvedCommand, egress: &dyn Egress) {
    let values = command.environment.iter_mut().map(|(_, value)| value).chain(&mut command.argv);
    for value in values {
        if let Some(hidden) = egress.hide(value.as_bytes()) {
            *value = OsString::from_vec(hidden);
        }
    }
}

fn set(command: &mut ResolvedCommand, name: &str, value: &str) {
    command.environment.retain(|(known, _)| known != OsStr::new(name));
    command.environment.push((OsString::from(name), OsString::from(value)));
}

/// The rules of the fence. Blocks.
pub(super) fn rules(plan: &Plan, sandbox: &Sandbox, cwd: &Path, gate: Option<&Gate>) -> Result<Rules> {
    let tcp = match &sandbox.network {
        Network::All | Network::None => Tcp::Nothing,
        ports @ Network::Ports(_) => Tcp::Ports(ports.open_ports().unwrap_or_default()),
        Network::Hosts(hosts) => {
            let ports = hosts.egress().local_ports();
            let redirects = gate.map(|gate| gate.redirects.clone()).unwrap_or_default();
            Tcp::Loopback { gate: gate.map(|gate| gate.port), ports, redirects }
        }
    };
    let mut sockets = Vec::new();
    for grant in &plan.sockets {
        match real(grant, cwd) {
            Ok(path) => sockets.push(path),
            // The guard reports a missing path of `write`.
            Err(_) if grant.rights != 0 => {}
            Err(error) => {
                return Err(path_error(&grant.option, &Fault::of("stat", Some(&grant.path), &error)));
            }
        }
    }
    Ok(Rules { tcp, sockets })
}

/// The path without links. Links that a program could have made are not followed.
fn real(grant: &Grant, cwd: &Path) -> std::io::Result<PathBuf> {
    match grant.links {
        Links::Nowhere if grant.path.is_absolute() => {
            std::fs::symlink_metadata(&grant.path)?;
            Ok(plain(PathBuf::new(), &grant.path))
        }
        Links::Nowhere => {
            std::fs::symlink_metadata(cwd.join(&grant.path))?;
            Ok(plain(cwd.canonicalize()?, &grant.path))
        }
        Links::NotAtEnd | Links::Free => grant.path.canonicalize(),
    }
}

/// `..` is taken away by its text: there is no link on the way.
fn plain(mut from: PathBuf, path: &Path) -> PathBuf {
    for part in path.components() {
        match part {
            Component::ParentDir => {
                from.pop();
            }
            Component::CurDir => {}
            part => from.push(part),
        }
    }
    from
}

/// Begins to decide about the program's connections.
pub(super) fn guard(ways: &mut Ways, listener: Option<OwnedFd>, rules: Rules) -> Result<()> {
    let Some(listener) = listener else { return Ok(()) };
    // Without a fence the listener is closed, and every connection fails.
    let fence = Fence::start(listener, rules, &ways.traffic).map_err(|error| {
        no_sandbox_by(&Fault::of("epoll_ctl", None, &error), "its connections can't be watched")
    })?;
    ways.fence = Some(fence);
    Ok(())
}
