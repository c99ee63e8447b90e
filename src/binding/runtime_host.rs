//! The servers, connections and sessions of the runtime that end with a JavaScript environment.

use super::guests::{Guest, Guests};
use napi::Env;
use napi_derive::napi;
use runtime::client::{Connecting, WeakRuntimeClient};
use runtime::server::WeakRuntimeServer;

/// One per JavaScript environment.
#[napi]
pub struct RuntimeHost {
    guests: Guests<RuntimeGuest>,
}

pub(super) enum RuntimeGuest {
    Server(WeakRuntimeServer),
    Client(WeakRuntimeClient),
    Connection(Connecting),
}

#[napi]
impl RuntimeHost {
    #[napi(constructor)]
    pub fn new(env: Env) -> napi::Result<Self> {
        Ok(RuntimeHost { guests: Guests::of(&env)? })
    }

    pub(super) fn guests(&self) -> Guests<RuntimeGuest> {
        self.guests.clone()
    }
}

impl Guest for RuntimeGuest {
    fn end(&self) {
        match self {
            RuntimeGuest::Server(server) => server.close(),
            RuntimeGuest::Client(client) => client.abandon(),
            RuntimeGuest::Connection(connecting) => connecting.abort(),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            RuntimeGuest::Server(server) => server.is_over(),
            RuntimeGuest::Client(client) => client.is_over(),
            RuntimeGuest::Connection(connecting) => connecting.is_over(),
        }
    }
}
