//! The objects that end with a JavaScript environment: runs, turns, servers, clients. All of them register here.

use ground::lock::lock;
use napi::Env;
use std::sync::{Arc, Mutex};

/// An object that was created in an environment. This handle does not keep the object alive.
pub(super) trait Guest: Send + 'static {
    /// Ends the object, because its environment has ended.
    fn end(&self);
    fn is_over(&self) -> bool;
}

/// The objects that may still be alive. `None` once the environment has ended.
pub(super) struct Guests<G>(Arc<Mutex<Option<Vec<G>>>>);

impl<G> Clone for Guests<G> {
    fn clone(&self) -> Self {
        Guests(self.0.clone())
    }
}

impl<G: Guest> Guests<G> {
    /// The objects of this environment. They end with it.
    pub(super) fn of(env: &Env) -> napi::Result<Self> {
        let guests = Guests(Arc::new(Mutex::new(Some(Vec::new()))));
        env.add_env_cleanup_hook(guests.clone(), |guests| guests.end())?;
        Ok(guests)
    }

    pub(super) fn add(&self, guest: G) {
        match lock(&self.0).as_mut() {
            Some(guests) => {
                if guests.len() == guests.capacity() {
                    guests.retain(|guest| !guest.is_over());
                }
                guests.push(guest);
            }
            // The object was created while the environment ended.
            None => guest.end(),
        }
    }

    fn end(&self) {
        let guests = lock(&self.0).take();
        guests.into_iter().flatten().for_each(|guest| guest.end());
    }
}
