//! The objects that end with a JavaScript environment: runs, turns, servers, clients. All of them register here.

use ground::lock::lock;
use napi::Env;
use std::sync::{Arc, Mutex};

/// An object that was created in an environment. This handle does not keep the object alive.
pub(super) trait EnvironmentObject: Send + 'static {
    /// Ends the object, because its environment has ended.
    fn end(&self);
    fn is_over(&self) -> bool;
}

/// The objects that may still be alive. `None` once the environment has ended.
pub(super) struct EnvironmentObjects<G>(Arc<Mutex<Option<Vec<G>>>>);

impl<G> Clone for EnvironmentObjects<G> {
    fn clone(&self) -> Self {
        EnvironmentObjects(self.0.clone())
    }
}

impl<G: EnvironmentObject> EnvironmentObjects<G> {
    /// The objects of this environment. They end with it.
    pub(super) fn of(env: &Env) -> napi::Result<Self> {
        let objects = EnvironmentObjects(Arc::new(Mutex::new(Some(Vec::new()))));
        env.add_env_cleanup_hook(objects.clone(), |objects| objects.end())?;
        Ok(objects)
    }

    pub(super) fn add(&self, object: G) {
        match lock(&self.0).as_mut() {
            Some(objects) => {
                if objects.len() == objects.capacity() {
                    objects.retain(|object| !object.is_over());
                }
                objects.push(object);
            }
            // The object was created while the environment ended.
            None => object.end(),
        }
    }

    fn end(&self) {
        let objects = lock(&self.0).take();
        objects.into_iter().flatten().for_each(|object| object.end());
    }
}
