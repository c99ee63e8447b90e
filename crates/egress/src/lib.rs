//! The proxy of a sandbox: the only way from a program to the hosts that its user listed.
//!
//! A [`Proxy`] serves one program's tree. It is handed a listener on loopback, which the sandbox's fence lets the tree connect to, and asks
//! for a credential of its own, so that another process of the same user gains nothing by its port. One task accepts; each connection has a
//! task. Dropping the proxy ends them all.
//!
//! | asked | decided by | answered |
//! | --- | --- | --- |
//! | `CONNECT host:port` | [`host`] | a [`tunnel`], whose first message of TLS must name the same host |
//! | `GET http://host/path` | [`host`], `Host` must be the same | the host's answer ([`forward`]) |
//! | anything else | | 400 |
//!
//! Names are resolved here, and the addresses are checked ([`address`]): a listed name does not lead into the user's own network. What is
//! refused gets a 403 with one line that says why, and is reported once for each attempt.
//!
//! A host that is listed is a way out for everything that the program can read. The proxy does not look into TLS.

mod address;
mod answer;
mod ended;
mod forward;
mod hello;
mod host;
mod proxy;
mod reach;
mod tunnel;

pub use host::{Hosts, Rule};
pub use proxy::{OnRefused, Proxy};
pub use reach::Resolve;
