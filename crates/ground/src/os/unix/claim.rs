//! A name that one process of this user holds at a time. The kernel frees the name when that process is gone, however it ended, so
//! no file can be left behind.

#[cfg(target_os = "linux")]
use std::os::{linux::net::SocketAddrExt, unix::net};

/// The longest name of a socket that is no file.
#[cfg(target_os = "linux")]
const MAX_NAME_BYTES: usize = 107;

/// A name, until it is dropped. Processes of one network namespace share their names.
#[derive(Debug)]
pub struct Claim {
    #[cfg(target_os = "linux")]
    _socket: Option<net::UnixListener>,
}

/// Another holder has the name.
#[derive(Debug)]
pub struct Claimed;

impl Claim {
    /// Takes the name. Where the system has no such names, nobody else is known to hold it.
    #[cfg(target_os = "linux")]
    pub fn take(name: &str) -> Result<Claim, Claimed> {
        let name = format!("sheepdog/{}/{name}", nix::unistd::geteuid());
        // The beginning and the end: identifiers that are long differ in their ends.
        let bytes = match name.len().checked_sub(MAX_NAME_BYTES) {
            None | Some(0) => name.into_bytes(),
            Some(over) => [&name.as_bytes()[..32], &name.as_bytes()[32 + over..]].concat(),
        };
        let bound = net::SocketAddr::from_abstract_name(bytes)
            .and_then(|address| net::UnixListener::bind_addr(&address));
        match bound {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(Claimed),
            bound => Ok(Claim { _socket: bound.ok() }),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn take(_: &str) -> Result<Claim, Claimed> {
        Ok(Claim {})
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_holder_until_that_drops_it() {
        let long = "x".repeat(300);
        let name = |end: &str| format!("test/{}/{long}{end}", std::process::id());
        let first = Claim::take(&name("1")).expect("nobody has it");
        assert!(Claim::take(&name("1")).is_err());
        assert!(Claim::take(&name("2")).is_ok());
        drop(first);
        assert!(Claim::take(&name("1")).is_ok());
    }
}
