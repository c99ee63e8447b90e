//! The ways out of a sandbox: opened before the program starts, because it learns of the gate by its environment.

use super::launched::Ways;
use super::refusal::no_sandbox;
use crate::command::ResolvedCommand;
use crate::fence::{Fence, Rules, Tcp};
use crate::sandbox::{Grant, Links, Network, Plan, Sandbox};
use ground::error::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// The port of name servers.
const DOMAIN: u16 = 53;
/// Has a C library ask name servers by TCP: there is no UDP in a sandbox.
const BY_TCP: (&str, &str) = ("RES_OPTIONS", "use-vc");

/// Opens the gate, if the sandbox has one, and adds to the environment what the program needs to use it.
pub(super) fn open(sandbox: Option<&Sandbox>, command: &mut ResolvedCommand) -> Result<Ways> {
    let mut ways = Ways::default();
    match sandbox.map(|sandbox| &sandbox.network) {
        Some(Network::Hosts(hosts)) => {
            let gate = hosts.egress().open(ways.refusals.clone())?;
            for (name, value) in gate.environment() {
                set(command, &name, &value);
            }
            ways.gate = Some(gate);
        }
        Some(Network::Ports(ports)) if ports.contains(&DOMAIN) => {
            let (name, value) = BY_TCP;
            if !command.environment.iter().any(|(known, _)| known == name) {
                set(command, name, value);
            }
        }
        _ => {}
    }
    Ok(ways)
}

fn set(command: &mut ResolvedCommand, name: &str, value: &str) {
    command.environment.retain(|(known, _)| known != OsStr::new(name));
    command.environment.push((OsString::from(name), OsString::from(value)));
}

/// The rules of the fence. Blocks.
pub(super) fn rules(plan: &Plan, sandbox: &Sandbox, cwd: &Path, gate: Option<u16>) -> Result<Rules> {
    let tcp = match &sandbox.network {
        Network::All | Network::None => Tcp::Nothing,
        Network::Ports(ports) => Tcp::Ports(ports.clone()),
        Network::Hosts(hosts) => {
            let mut ports = hosts.egress().local_ports();
            ports.extend(gate);
            Tcp::Loopback(ports)
        }
    };
    let mut sockets = Vec::new();
    for grant in &plan.sockets {
        match real(grant, cwd) {
            Ok(path) => sockets.push(path),
            // The guard reports a missing path of `write`.
            Err(_) if grant.rights != 0 => {}
            Err(error) => {
                let problem = format!("{}: {error}: each path of a sandbox must exist", grant.path.display());
                return Err(Error::invalid_option(&grant.option, problem));
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
    let fence = Fence::start(listener, rules, ways.refusals.clone());
    // Without a fence the listener is closed, and every connection fails.
    ways.fence =
        Some(fence.map_err(|error| no_sandbox(&format!("its connections can't be watched: {error}")))?);
    Ok(())
}
