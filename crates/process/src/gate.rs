//! The interface to what takes a sandboxed program's requests to hosts. This crate knows no proxy: it opens a gate for each program, lets
//! the program connect to that and to nothing else, and closes it with the run.

use crate::refusals::Refusals;
use ground::error::Result;
use std::fmt::Debug;
use std::sync::Arc;

/// Opens gates, one for each program.
pub trait Egress: Debug + Send + Sync {
    /// Opens a gate that reports to `refusals`. Needs tokio.
    ///
    /// # Errors
    /// `INVALID_OPTION` for a wrong list of hosts, else the system's.
    fn open(&self, refusals: Refusals) -> Result<Box<dyn Gate>>;
    /// TCP ports of this machine that a program may connect to directly.
    fn local_ports(&self) -> Vec<u16>;
}

/// The way out of one program's tree. It closes when it is dropped.
pub trait Gate: Debug + Send + Sync {
    /// The TCP port on loopback.
    fn port(&self) -> u16;
    /// Variables by which programs find it, and what they need to use it.
    fn environment(&self) -> Vec<(String, String)>;
}

/// The hosts that a sandboxed program may reach.
#[derive(Clone, Debug)]
pub struct Hosts(Arc<dyn Egress>);

impl Hosts {
    pub fn by(egress: impl Egress + 'static) -> Hosts {
        Hosts(Arc::new(egress))
    }

    pub(crate) fn egress(&self) -> &dyn Egress {
        self.0.as_ref()
    }
}

impl PartialEq for Hosts {
    fn eq(&self, other: &Hosts) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Hosts {}
