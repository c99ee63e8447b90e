//! What ends with a JavaScript environment: runs, turns, servers, clients. The one home of that.

use ground::lock::lock;
use napi::Env;
use std::sync::{Arc, Mutex};

/// Something that was begun in an environment. Holding it keeps nothing alive.
pub(super) trait Guest: Send + 'static {
    /// The environment has ended.
    fn end(&self);
    fn is_over(&self) -> bool;
}

/// What may not be over yet; `None` once the environment has ended.
pub(super) struct Guests<G>(Arc<Mutex<Option<Vec<G>>>>);

impl<G> Clone for Guests<G> {
    fn clone(&self) -> Self {
        Guests(self.0.clone())
    }
}

impl<G: Guest> Guests<G> {
    /// Those of this environment: they end with it.
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
            // It came to be while the environment ended.
            None => guest.end(),
        }
    }

    fn end(&self) {
        let guests = lock(&self.0).take();
        guests.into_iter().flatten().for_each(|guest| guest.end());
    }
}
