//! The proxy of a sandbox: the only way from a program to the hosts that its user listed.
//!
//! A [`Proxy`] serves one program's tree. It is handed a listener on loopback, which the sandbox's fence lets the tree connect to, and asks
//! for a credential of its own, so that another process of the same user gains nothing by its port. One task accepts; each connection has a
//! task. Dropping the proxy ends them all.
//!
//! | asked | decided by | answered |
//! | --- | --- | --- |
//! | `CONNECT host:port` | [`access`] | a [`tunnel`], whose first message of TLS must name the same host |
//! | the same, for a host with a secret or a meter | [`access`] | by [`inspect`], in the host's place |
//! | `GET http://host/path` | [`access`], `Host` must be the same | the host's answer ([`inspect`]) |
//! | anything else | | 400 |
//!
//! Names are resolved here, and the addresses are checked ([`address`]): a listed name does not lead into the user's own network. What is
//! refused gets a 403 with one line that says why, and is reported once for each attempt.
//!
//! The library that speaks HTTP sees the program and the host by a stream each ([`caller`], [`origin`]), which make up for what it is too
//! strict about.
//!
//! [`inspect`] ends the program's TLS by a certificate of an [`authority`] that lives as long as the proxy. It puts secrets into headers
//! ([`secret`]), hides them in answers, and counts the tokens of models ([`meter`]). All other TLS is not looked into: a host that is
//! listed is a way out for everything that the program can read.

mod access;
mod address;
mod answer;
mod authority;
mod body;
mod caller;
mod connection_headers;
mod hello;
mod host;
mod inspect;
mod meter;
mod origin;
mod proxy;
mod reach;
mod search;
mod secret;
mod shared;
mod tunnel;

pub use access::Access;
pub use host::{Hosts, Rule};
pub use meter::{Metered, OnMetered};
pub use proxy::{IsOwn, MOST_CONNECTIONS, OnAsk, OnRefused, Proxy, Reports};
pub use reach::{Outside, Resolve};
pub use secret::{Secret, Secrets, is_taken};
