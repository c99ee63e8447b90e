//! The rules of a sandbox for the kernel at hand. PURE.
//!
//! A [`Sandbox`] is the user's request. [`Plan::new`] translates it, for the kernel at hand, to rules that the guard applies to
//! the program's process just before it becomes the program (`crates/guard/src/sandbox.rs`): Landlock's, inherited by
//! everything that the program starts, and a seccomp [`filter`] for the ways around them. A request that the kernel can't
//! enforce is an error ([`Shortfall`]), never a weaker sandbox.
//!
//! | asked for | held by | from |
//! | --- | --- | --- |
//! | `write`, `read` | Landlock's file rights | Linux 5.13 (ABI 1) |
//! | moves between two folders of `write` | `REFER`; before, every such move is refused | 5.19 (ABI 2) |
//! | no truncation elsewhere | `TRUNCATE`; before, truncate(2) is refused everywhere | 6.2 (ABI 3) |
//! | `network: "none"` | the filter: no sockets but Unix and netlink; Landlock's TCP rights too | 5.13 |
//! | `network: { ports }` | Landlock's right to connect; the filter refuses UDP, MPTCP, SCTP, Fast Open, io_uring | 6.7 (ABI 4) |
//! | `network: { hosts }` | the fence, which makes each connection itself (`crate::fence`); the filter as with `ports` | 5.13 |
//! | `sockets` | the fence; where there is none, the filter: no Unix sockets at all | 5.13 |
//! | no ioctl on devices elsewhere | `IOCTL_DEV` | 6.10 (ABI 5) |
//! | no signals to, no abstract sockets of, processes outside | Landlock's scopes | 6.12 (ABI 6) |
//! | nothing else is done to processes outside | Landlock (ptrace), the filter ([`calls`]) | 5.13 |
//! | no privilege: a program of root has no capability | the guard drops them all | 5.13 |
//!
//! Facts: <https://docs.kernel.org/userspace-api/landlock.html>.

mod calls;
mod filter;

use crate::sandbox::{Network, Sandbox};
use filter::Reach;
use std::path::{Path, PathBuf};

impl Sandbox {
    /// With paths below the working directory relative to it, where no link is followed (see [`Links`]).
    pub(crate) fn within(&self, cwd: Option<&Path>) -> Sandbox {
        let cwd = cwd.map_or_else(|| std::env::current_dir().ok(), |cwd| std::path::absolute(cwd).ok());
        let within = |path: &PathBuf| match cwd.as_ref().and_then(|cwd| path.strip_prefix(cwd).ok()) {
            Some(below) if cwd.as_deref() != Some(Path::new("/")) => Path::new(".").join(below),
            // To the system, a slash at its end has a link followed.
            _ => path.components().collect(),
        };
        Sandbox {
            write: self.write.iter().map(within).collect(),
            read: self.read.as_ref().map(|paths| paths.iter().map(within).collect()),
            network: self.network.clone(),
            sockets: self.sockets.as_ref().map(|paths| paths.iter().map(within).collect()),
            require_landlock: self.require_landlock,
            protect: self.protect.clone(),
        }
    }
}

impl Network {
    /// The ports that are open: those listed, and that of name servers, without which few names lead to them. Any host is reached by a
    /// listed port, so another one tells nobody more.
    pub(crate) fn open_ports(&self) -> Option<Vec<u16>> {
        let Network::Ports(listed) = self else { return None };
        let mut ports = listed.clone();
        if !ports.is_empty() && !ports.contains(&DOMAIN) {
            ports.push(DOMAIN);
        }
        Some(ports)
    }
}

/// The port of name servers. They are asked by TCP.
const DOMAIN: u16 = 53;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SOCK: u64 = 1 << 9;
const MAKE_FIFO: u64 = 1 << 10;
const MAKE_BLOCK: u64 = 1 << 11;
const MAKE_SYM: u64 = 1 << 12;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;

const READS: u64 = EXECUTE | READ_FILE | READ_DIR;
/// Devices are made nowhere: one of them is a way around every rule.
const DEVICES: u64 = MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV;
const CHANGES: u64 = WRITE_FILE
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SOCK
    | MAKE_FIFO
    | MAKE_SYM
    | REFER
    | TRUNCATE;

const BIND_AND_CONNECT_TCP: u64 = 3;
const CONNECT_TCP: u64 = 2;
/// Abstract Unix sockets, and signals.
const SCOPES: u64 = 3;

/// Always writable: programs throw away into it.
const NULL_DEVICE: &str = "/dev/null";
/// The path of each program's own terminal, and of no other.
pub(crate) const OWN_TERMINAL: &str = "/dev/tty";

/// The reason why this kernel can't hold the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortfall {
    Landlock,
    /// Landlock is older than required.
    TooOld {
        required: u32,
        found: u32,
    },
    /// Landlock can't limit the network to ports.
    Network,
    /// No process can decide about the connections of another.
    Fence,
    /// This processor's system calls are not known here.
    Filter,
    /// Landlock can't take files out of a folder that may be written.
    Protect,
}

impl Shortfall {
    /// The requirements of Landlock.
    pub(crate) const LANDLOCK: &str = "Landlock needs Linux 5.13 or newer, must not be switched off by `lsm=`, and a container may forbid it";

    pub(crate) fn reason(self) -> String {
        match self {
            Shortfall::Landlock => Shortfall::LANDLOCK.to_owned(),
            Shortfall::TooOld { required, found } => format!(
                "`sandbox.require` asks for version {required} of Landlock, and this kernel speaks version {found}: use a newer kernel, or require less"
            ),
            Shortfall::Network => {
                "this kernel can't hold `network: { ports }` (Linux 6.7 or newer): use \"none\" or \"all\"".to_owned()
            }
            Shortfall::Fence => {
                "this machine lets no process decide about the connections of another, which `network: { hosts }` and `sockets` need \
                 (seccomp notifications and pidfd_getfd of Linux 5.6; a container, a sandbox around this process or yama.ptrace_scope may forbid them)".to_owned()
            }
            Shortfall::Protect => {
                "Landlock can't keep files in a folder of `write` from being changed, as `protect: \"enforce\"` asks: use \"restore\", which puts them back"
                    .to_owned()
            }
            Shortfall::Filter => "there is no system-call filter for this kind of processor".to_owned(),
        }
    }
}

/// The symbolic links that are accepted on the way to a granted path. Another link may have been made by a program in an earlier
/// sandbox, and would grant the next program whatever it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// All: the path is the system's.
    Free,
    /// The path itself must not be a link.
    NotAtEnd,
    /// There must be no link below the working directory.
    Nowhere,
}

/// The sandbox rules that the guard gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Every right that is not granted below is refused.
    pub handled_files: u64,
    pub handled_network: u64,
    pub scoped: u64,
    pub paths: Vec<Grant>,
    pub ports: Vec<u16>,
    pub filter: Vec<filter::Instruction>,
    /// The filter asks the host.
    pub asks: bool,
    /// Unix sockets that may be connected to, without rights of Landlock.
    pub sockets: Vec<Grant>,
}

/// Rights on a path and all below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub path: PathBuf,
    pub rights: u64,
    pub links: Links,
    /// The option that it comes from, `sandbox.write[0]`.
    pub option: String,
}

impl Plan {
    /// `abi`: the version of Landlock that the kernel speaks, 0 for none. `can_ask`: this process can decide about connections.
    pub(crate) fn new(sandbox: &Sandbox, abi: u32, can_ask: bool) -> Result<Plan, Shortfall> {
        if abi == 0 {
            return Err(Shortfall::Landlock);
        }
        if let Some(required) = sandbox.require_landlock.filter(|required| *required > abi) {
            return Err(Shortfall::TooOld { required, found: abi });
        }
        if sandbox.protect.as_ref().is_some_and(|protect| protect.is_enforced) {
            return Err(Shortfall::Protect);
        }
        let known = rights_of(abi);
        let reads = if sandbox.read.is_some() { READS } else { 0 };
        let handled_files = (CHANGES | DEVICES | reads) & known;
        let grant = |option: &str, index: usize, path: &Path, rights: u64, links: Links| Grant {
            path: path.to_owned(),
            rights: rights & handled_files,
            links,
            option: format!("{option}[{index}]"),
        };
        let null = WRITE_FILE | READ_FILE | TRUNCATE;
        let mut paths: Vec<Grant> =
            vec![grant("the null device", 0, Path::new(NULL_DEVICE), null, Links::Free)];
        for (index, path) in sandbox.write.iter().enumerate() {
            let links = if path.is_absolute() { Links::NotAtEnd } else { Links::Nowhere };
            // A device is used by ioctl(2).
            paths.push(grant("sandbox.write", index, path, CHANGES | READS | IOCTL_DEV, links));
        }
        for (index, path) in sandbox.read.iter().flatten().enumerate() {
            // "/bin" and "/lib" are links on most systems.
            let links = if path.is_absolute() { Links::Free } else { Links::Nowhere };
            paths.push(grant("sandbox.read", index, path, READS, links));
        }

        let (handled_network, ports) = network_of(&sandbox.network, abi)?;
        let reach = match sandbox.network {
            Network::All => Reach::All,
            Network::None => Reach::None,
            Network::Ports(_) => Reach::Tcp,
            Network::Hosts(_) => Reach::Asked,
        };
        let is_limited = reach != Reach::All;
        if is_limited && !can_ask && (reach == Reach::Asked || sandbox.sockets.is_some()) {
            return Err(Shortfall::Fence);
        }
        let sockets = match &sandbox.sockets {
            Some(sockets) => {
                let links = |path: &Path| if path.is_absolute() { Links::Free } else { Links::Nowhere };
                let named =
                    |(index, path): (usize, &PathBuf)| grant("sandbox.sockets", index, path, 0, links(path));
                sockets.iter().enumerate().map(named).collect()
            }
            None => paths.iter().filter(|grant| grant.rights & MAKE_SOCK != 0).cloned().collect(),
        };
        let filter = filter::build(reach, abi < 3, can_ask).ok_or(Shortfall::Filter)?;
        let scoped = if abi >= 6 { SCOPES } else { 0 };
        let asks = is_limited && can_ask;
        Ok(Plan { handled_files, handled_network, scoped, paths, ports, filter, asks, sockets })
    }

    /// The program may use the terminal that it was given by its name too.
    /// `name`: the terminal's other name, by which programs open it anew.
    pub(crate) fn allow_own_terminal(&mut self, name: Option<PathBuf>) {
        for path in [Some(OWN_TERMINAL.into()), name].into_iter().flatten() {
            self.paths.push(Grant {
                path,
                rights: (WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV) & self.handled_files,
                links: Links::Free,
                option: "the terminal".into(),
            });
        }
    }

    /// The program may read a folder of this process's own, in a place where another program may put a link.
    pub(crate) fn allow_own_folder(&mut self, path: PathBuf) {
        let rights = READS & self.handled_files;
        self.paths.push(Grant { path, rights, links: Links::NotAtEnd, option: "the certificates".into() });
    }

    /// Whether reading is held too.
    pub(crate) fn holds_reads(&self) -> bool {
        self.handled_files & READS != 0
    }

    /// The section of the request that `crates/guard/src/protocol.rs` describes; the paths follow elsewhere. `bits`: how it says which links
    /// there may be.
    pub(crate) fn encode(&self, bits: fn(Links) -> u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [self.handled_files, self.handled_network, self.scoped] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for count in [self.paths.len(), self.ports.len(), self.filter.len(), usize::from(self.asks)] {
            bytes.extend_from_slice(&(count as u32).to_le_bytes());
        }
        for port in &self.ports {
            bytes.extend_from_slice(&u64::from(*port).to_le_bytes());
        }
        for grant in &self.paths {
            bytes.extend_from_slice(&(grant.rights | bits(grant.links)).to_le_bytes());
        }
        for instruction in &self.filter {
            bytes.extend_from_slice(&instruction.bytes());
        }
        bytes
    }
}

/// The rights to TCP that Landlock handles, and the ports that stay open.
fn network_of(network: &Network, abi: u32) -> Result<(u64, Vec<u16>), Shortfall> {
    Ok(match network {
        Network::All => (0, Vec::new()),
        // With hosts, the program connects and binds by way of this process alone.
        Network::None | Network::Hosts(_) if abi >= 4 => (BIND_AND_CONNECT_TCP, Vec::new()),
        Network::None | Network::Hosts(_) => (0, Vec::new()),
        Network::Ports(_) if abi < 4 => return Err(Shortfall::Network),
        ports @ Network::Ports(_) => (CONNECT_TCP, ports.open_ports().unwrap_or_default()),
    })
}

/// The rights over files that a version of Landlock knows.
fn rights_of(abi: u32) -> u64 {
    let mut rights = (MAKE_SYM << 1) - 1;
    for (since, right) in [(2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)] {
        if abi >= since {
            rights |= right;
        }
    }
    rights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Protect;

    fn workspace() -> Sandbox {
        Sandbox { write: vec!["/work".into()], ..Sandbox::default() }
    }

    #[test]
    fn what_a_kernel_does_not_know_is_not_asked_of_it() {
        for (abi, handled) in [(1, 0x1ff2), (2, 0x3ff2), (3, 0x7ff2), (4, 0x7ff2), (5, 0xfff2), (9, 0xfff2)] {
            let plan = Plan::new(&workspace(), abi, true).unwrap();
            assert_eq!(plan.handled_files, handled, "abi {abi}");
            assert!(plan.paths.iter().all(|grant| grant.rights & !handled == 0), "abi {abi}");
            assert_eq!(plan.scoped, if abi >= 6 { 3 } else { 0 });
        }
    }

    #[test]
    fn a_kernel_that_can_not_hold_it_is_a_refusal() {
        assert_eq!(Plan::new(&workspace(), 0, true), Err(Shortfall::Landlock));
        let ports = Sandbox { network: Network::Ports(vec![443]), ..workspace() };
        assert_eq!(Plan::new(&ports, 3, true), Err(Shortfall::Network));
        assert!(Plan::new(&ports, 4, true).is_ok());
        let newer = Sandbox { require_landlock: Some(6), ..workspace() };
        let refused = Plan::new(&newer, 5, true);
        assert_eq!(refused, Err(Shortfall::TooOld { required: 6, found: 5 }));
        assert!(Plan::new(&newer, 6, true).is_ok());
        let protect = Some(Protect { is_enforced: true, ..Protect::default() });
        assert_eq!(Plan::new(&Sandbox { protect, ..workspace() }, 6, true), Err(Shortfall::Protect));
        // The filter alone holds it.
        assert!(Plan::new(&Sandbox { network: Network::None, ..workspace() }, 1, true).is_ok());
    }

    #[test]
    fn where_nobody_can_decide_hosts_are_a_refusal() {
        #[derive(Debug)]
        struct Nowhere;
        impl crate::gate::Egress for Nowhere {
            fn open(
                &self,
                _: &crate::traffic::Traffic,
                _: &[(std::ffi::OsString, std::ffi::OsString)],
            ) -> ground::error::Result<crate::gate::Gate> {
                Err(ground::error::Error::invalid_option("hosts", "none"))
            }

            fn local_ports(&self) -> Vec<u16> {
                Vec::new()
            }
        }
        let hosts = Sandbox { network: Network::Hosts(crate::gate::Hosts::by(Nowhere)), ..workspace() };
        let sockets = Sandbox { network: Network::None, sockets: Some(Vec::new()), ..workspace() };
        for sandbox in [&hosts, &sockets] {
            assert_eq!(Plan::new(sandbox, 7, false), Err(Shortfall::Fence));
            assert!(Plan::new(sandbox, 7, true).is_ok_and(|plan| plan.asks));
        }
        // Every Unix socket is closed then.
        let none = Sandbox { network: Network::None, ..workspace() };
        assert!(Plan::new(&none, 7, false).is_ok_and(|plan| !plan.asks));
        // Nothing of the network is limited, so nobody is asked.
        assert!(Plan::new(&workspace(), 7, true).is_ok_and(|plan| !plan.asks));
        // The program connects by way of the host alone.
        let plan = Plan::new(&hosts, 7, true).unwrap();
        assert_eq!((plan.handled_network, plan.ports.len()), (BIND_AND_CONNECT_TCP, 0));
    }

    #[test]
    fn nothing_is_writable_but_the_null_device_and_what_is_listed() {
        let plan = Plan::new(&Sandbox::default(), 7, true).unwrap();
        assert_eq!(
            plan.paths.iter().map(|grant| grant.path.as_path()).collect::<Vec<_>>(),
            [Path::new("/dev/null")]
        );
        let plan = Plan::new(&workspace(), 7, true).unwrap();
        assert_eq!(plan.paths[1].option, "sandbox.write[0]");
        // Devices are made nowhere.
        assert_eq!(plan.paths[1].rights & DEVICES, IOCTL_DEV);
    }

    #[test]
    fn reading_is_free_until_it_is_listed() {
        assert_eq!(Plan::new(&workspace(), 7, true).unwrap().handled_files & READS, 0);
        let listed = Sandbox { read: Some(vec!["/usr".into()]), ..workspace() };
        let plan = Plan::new(&listed, 7, true).unwrap();
        assert_eq!(plan.handled_files & READS, READS);
        assert_eq!(plan.paths[1].rights & READS, READS, "what may be written may be read");
        assert_eq!((plan.paths[2].rights, plan.paths[2].option.as_str()), (READS, "sandbox.read[0]"));
    }

    #[test]
    fn a_listed_port_brings_name_servers_with_it() {
        let open = |ports: &[u16]| Network::Ports(ports.to_vec()).open_ports();
        assert_eq!(open(&[443]), Some(vec![443, 53]));
        assert_eq!(open(&[53]), Some(vec![53]));
        assert_eq!(open(&[]), Some(Vec::new()));
        assert_eq!(Network::None.open_ports(), None);
    }

    #[test]
    fn a_section_is_these_bytes() {
        let sandbox = Sandbox { network: Network::Ports(vec![443]), ..Sandbox::default() };
        let plan = Plan::new(&sandbox, 7, true).unwrap();
        let bytes = plan.encode(|_| 0);
        assert_eq!(bytes[..8], 0xfff2u64.to_le_bytes());
        assert_eq!(bytes[8..24], [2u64.to_le_bytes(), 3u64.to_le_bytes()].concat());
        let counts = [1u32, 2, plan.filter.len() as u32, 1].map(u32::to_le_bytes).concat();
        assert_eq!(bytes[24..40], counts);
        assert_eq!(bytes[40..56], [443u64.to_le_bytes(), 53u64.to_le_bytes()].concat());
        assert_eq!(bytes.len(), 40 + 16 + 8 + plan.filter.len() * 8);
    }
}
