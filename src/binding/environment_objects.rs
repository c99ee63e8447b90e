//! The objects that end with a JavaScript environment: runs, turns, servers, clients. All of them register here.

use ground::lock::lock;
use napi::Env;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// An object that was created in an environment. This handle does not keep the object alive.
pub(super) trait EnvironmentObject: Send + 'static {
    /// Ends the object, because its environment has ended.
    fn end(&self);
    fn is_over(&self) -> bool;
}

/// The objects that may still be alive. `None` once the environment has ended.
pub(super) struct EnvironmentObjects<G>(Arc<Mutex<Option<Members<G>>>>);

/// PURE.
struct Members<G> {
    objects: HashMap<u64, G>,
    next: u64,
    /// With so many objects, those that are over are dropped.
    look_at: usize,
}

impl<G: EnvironmentObject> Members<G> {
    const FEW: usize = 16;

    fn new() -> Self {
        Members { objects: HashMap::new(), next: 0, look_at: Self::FEW }
    }

    fn add(&mut self, object: G) -> u64 {
        if self.objects.len() >= self.look_at {
            self.objects.retain(|_, object| !object.is_over());
            self.look_at = (self.objects.len() * 2).max(Self::FEW);
        }
        self.next += 1;
        self.objects.insert(self.next, object);
        self.next
    }

    fn remove(&mut self, number: u64) {
        self.objects.remove(&number);
        if self.objects.is_empty() {
            self.objects.shrink_to_fit();
        }
    }
}

impl<G> Clone for EnvironmentObjects<G> {
    fn clone(&self) -> Self {
        EnvironmentObjects(self.0.clone())
    }
}

impl<G: EnvironmentObject> EnvironmentObjects<G> {
    /// The objects of this environment. They end with it.
    pub(super) fn of(env: &Env) -> napi::Result<Self> {
        let objects = EnvironmentObjects(Arc::new(Mutex::new(Some(Members::new()))));
        env.add_env_cleanup_hook(objects.clone(), |objects| objects.end())?;
        Ok(objects)
    }

    /// Returns the number by which [`EnvironmentObjects::remove`] finds the object.
    pub(super) fn add(&self, object: G) -> u64 {
        match lock(&self.0).as_mut() {
            Some(members) => members.add(object),
            // The object was created while the environment ended.
            None => {
                object.end();
                0
            }
        }
    }

    /// Forgets an object that is over. Those that nobody removes are found when there are many.
    pub(super) fn remove(&self, number: u64) {
        if let Some(members) = lock(&self.0).as_mut() {
            members.remove(number);
        }
    }

    fn end(&self) {
        let members = lock(&self.0).take();
        members.into_iter().flat_map(|members| members.objects.into_values()).for_each(|object| object.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Object(Arc<AtomicBool>);

    impl EnvironmentObject for Object {
        fn end(&self) {}

        fn is_over(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn those_that_are_removed_or_over_are_not_kept() {
        let over = Arc::new(AtomicBool::new(true));
        let mut members = Members::new();
        for _ in 0..1000 {
            members.add(Object(over.clone()));
        }
        assert!(members.objects.len() <= Members::<Object>::FEW);
        over.store(false, Ordering::Relaxed);
        let numbers: Vec<u64> = (0..1000).map(|_| members.add(Object(over.clone()))).collect();
        assert!(members.objects.len() >= 1000, "they live");
        numbers.into_iter().for_each(|number| members.remove(number));
        assert!(members.objects.len() <= Members::<Object>::FEW);
    }
}
