//! What of the runtime capability ends with a JavaScript environment: its servers, its connections and its sessions.

use crate::runtime::client::{Connecting, WeakRuntimeClient};
use crate::runtime::server::WeakRuntimeServer;
use napi::Env;
use napi_derive::napi;
use std::sync::{Arc, Mutex, PoisonError};

/// One a JavaScript environment.
#[napi]
pub struct RuntimeHost {
    guests: Guests,
}

/// What was begun in an environment and may not be over; `None` once the environment has ended.
#[derive(Clone)]
pub(super) struct Guests(Arc<Mutex<Option<Vec<Guest>>>>);

pub(super) enum Guest {
    Server(WeakRuntimeServer),
    Client(WeakRuntimeClient),
    Connection(Connecting),
}

#[napi]
impl RuntimeHost {
    #[napi(constructor)]
    pub fn new(env: Env) -> napi::Result<Self> {
        let guests = Guests(Arc::new(Mutex::new(Some(Vec::new()))));
        env.add_env_cleanup_hook(guests.clone(), |guests| guests.end())?;
        Ok(RuntimeHost { guests })
    }

    pub(super) fn guests(&self) -> Guests {
        self.guests.clone()
    }
}

impl Guests {
    pub(super) fn welcome(&self, guest: Guest) {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(guests) => {
                if guests.len() == guests.capacity() {
                    guests.retain(|guest| !guest.is_over());
                }
                guests.push(guest);
            }
            // It came to be while the environment ended.
            None => guest.end(),
        }
    }

    fn end(&self) {
        let guests = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        guests.into_iter().flatten().for_each(|guest| guest.end());
    }
}

impl Guest {
    fn end(&self) {
        match self {
            Guest::Server(server) => server.close(),
            Guest::Client(client) => client.abandon(),
            Guest::Connection(connecting) => connecting.abort(),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Guest::Server(server) => server.is_over(),
            Guest::Client(client) => client.is_over(),
            Guest::Connection(connecting) => connecting.is_over(),
        }
    }
}
