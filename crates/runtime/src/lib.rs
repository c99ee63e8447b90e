//! The runtime: agents and commands in a sandbox, behind a WebSocket, and the client of it.
//!
//! # Theory of operation
//! [`server`] listens; each socket is a task of [`connection`], which asks [`upgrade`] who may come in, counts what it reads
//! ([`intake`]) and moves frames. A client's first frame begins a [`session`] or finds the one that it lost; the session's
//! owner task holds all state and outlives the socket. What it says goes through its [`outbox`], the one bounded queue with
//! numbers, under whose lock a request's state decides whether a message may still go out.
//!
//! A request is a task ([`request`]): directories, [`download`]s, [`command`]s, then an [`handler::AgentHandler`], which is
//! JavaScript's, an [`agent`] of the harness, or one whose session is kept from invocation to invocation ([`kept_agent`]).
//! It hears of a cancel in every stage and gives its outcome to the session,
//! which brings the files home first: found by `watch`, kept in the book of [`artifact`], sent by [`upload`]. When a terminal
//! or the confirm may go is [`end_session`]'s decision.
//!
//! [`client`] is the other end: an owner task that asks one request at a time and replaces its socket when it breaks.
//!
//! [`wire`] is the home of all words of the protocol, both directions.
//!
//! PURE: `artifact`, `data_url`, `end_session`, `frame_head`, `request_state`, `secrets`, `sequence`, `speech`, `text_stream`, `upgrade`,
//! `client::in_flight`, `client::reconnect`, and all of `wire`.
//!
//! Dropping the last handle of a server closes it, that of a client its socket; both are told to when their JavaScript
//! environment ends.

pub mod agent;
pub mod artifact;
pub mod client;
pub mod command;
pub mod connection;
pub mod data_url;
pub mod download;
pub mod end_session;
mod frame_head;
pub mod handler;
pub mod intake;
pub mod kept_agent;
pub mod kept_session;
pub mod outbox;
pub mod registry;
pub mod request;
pub mod request_state;
pub mod secrets;
pub mod sequence;
pub mod server;
pub mod service;
pub mod session;
pub mod speech;
pub mod stranger;
pub mod text_stream;
pub mod unzip;
pub mod upgrade;
pub mod upload;
pub mod wire;
