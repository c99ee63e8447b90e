//! The servers, connections and sessions of the runtime that end with a JavaScript environment.

use super::environment_objects::{EnvironmentObject, EnvironmentObjects};
use napi::Env;
use napi_derive::napi;
use runtime::client::{Connecting, WeakRuntimeClient};
use runtime::server::WeakRuntimeServer;

/// One per JavaScript environment.
#[napi]
pub struct RuntimeHost {
    objects: EnvironmentObjects<RuntimeObject>,
}

pub(super) enum RuntimeObject {
    Server(WeakRuntimeServer),
    Client(WeakRuntimeClient),
    Connection(Connecting),
}

#[napi]
impl RuntimeHost {
    #[napi(constructor)]
    pub fn new(env: Env) -> napi::Result<Self> {
        Ok(RuntimeHost { objects: EnvironmentObjects::of(&env)? })
    }

    pub(super) fn objects(&self) -> EnvironmentObjects<RuntimeObject> {
        self.objects.clone()
    }
}

impl EnvironmentObject for RuntimeObject {
    fn end(&self) {
        match self {
            RuntimeObject::Server(server) => server.close(),
            RuntimeObject::Client(client) => client.abandon(),
            RuntimeObject::Connection(connecting) => connecting.abort(),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            RuntimeObject::Server(server) => server.is_over(),
            RuntimeObject::Client(client) => client.is_over(),
            RuntimeObject::Connection(connecting) => connecting.is_over(),
        }
    }
}
