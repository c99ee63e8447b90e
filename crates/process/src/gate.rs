//! The interface to what takes a sandboxed program's requests to hosts. This crate knows no proxy: it opens a gate for each program, lets
//! the program connect to that and to nothing else, and closes it with the run.

use crate::traffic::Traffic;
use ground::error::{Error, Result};
use std::ffi::OsString;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

/// Opens gates, one for each program.
pub trait Egress: Debug + Send + Sync {
    /// Opens a gate that reports to `traffic`, for a program with these variables. Needs tokio.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a wrong list of hosts, else the system's.
    fn open(&self, traffic: &Traffic, inherited: &[(OsString, OsString)]) -> Result<Gate>;
    /// The first problem with the list of hosts, which `open` would return.
    fn problem(&self) -> Option<Error> {
        None
    }
    /// TCP ports of this machine that a program may connect to directly.
    fn local_ports(&self) -> Vec<u16>;
    /// Values that the program must not see, and no record may hold.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }
    /// The text as the program may see it, with other words in the place of secrets; `None` if there are none in it.
    fn hide(&self, _text: &[u8]) -> Option<Vec<u8>> {
        None
    }
    /// The same for an agent whose CLI needs these hosts. `None`: nothing changes.
    fn for_agent(&self, _hosts: &[String], _metering: Metering) -> Option<Hosts> {
        None
    }
}

/// The hosts whose models' answers are metered, besides those with a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metering {
    Nothing,
    /// Those that the agent's CLI needs.
    Own,
    /// Every listed host.
    Everything,
}

/// The way out of one program's tree. It closes when it is dropped.
pub struct Gate {
    /// The TCP port on loopback.
    pub port: u16,
    /// Variables by which programs find it, and what they need to use it.
    pub environment: Vec<(String, String)>,
    /// Ports of this machine, and the port of the gate that a connection to each of them goes to instead.
    pub redirects: Vec<(u16, u16)>,
    /// A folder of files that the program needs to read.
    pub folder: Option<PathBuf>,
    /// The server behind it, which ends when this is dropped.
    pub server: Box<dyn Send + Sync>,
}

/// The hosts that a sandboxed program may reach.
#[derive(Clone, Debug)]
pub struct Hosts(Arc<dyn Egress>);

impl Hosts {
    pub fn by(egress: impl Egress + 'static) -> Hosts {
        Hosts(Arc::new(egress))
    }

    /// The text as the program may see it: whatever this process hands to it goes through here.
    pub fn hidden(&self, text: String) -> String {
        let hidden = self.0.hide(text.as_bytes());
        hidden.map_or(text, |hidden| String::from_utf8_lossy(&hidden).into_owned())
    }

    pub fn egress(&self) -> &dyn Egress {
        self.0.as_ref()
    }
}

impl PartialEq for Hosts {
    fn eq(&self, other: &Hosts) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Hosts {}
