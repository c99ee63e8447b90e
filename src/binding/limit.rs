//! The concurrency limit that runs, turns and the user's own work share, for JavaScript. Names match lib/limit.ts.

use super::promise::{Promised, done};
use agents::harness::ConcurrencyLimit;
use agents::harness::scheduler::{Slot, Waiting};
use ground::lock::lock;
use napi_derive::napi;
use std::sync::{Arc, Mutex};

/// A limit on how much runs at once.
#[napi]
pub struct NativeConcurrencyLimit {
    pub(super) limit: ConcurrencyLimit,
}

#[napi]
impl NativeConcurrencyLimit {
    /// Without a number: the harness's default.
    #[napi(constructor)]
    pub fn new(max: Option<f64>) -> Self {
        let max = max.map_or(ConcurrencyLimit::DEFAULT, |max| max as usize);
        NativeConcurrencyLimit { limit: ConcurrencyLimit::new(max) }
    }

    /// Takes a place in the queue at once.
    #[napi]
    pub fn take_place(&self) -> NativePlace {
        NativePlace { waiting: Some(self.place()), slot: Arc::default() }
    }
}

impl NativeConcurrencyLimit {
    pub(super) fn place(&self) -> Waiting {
        Waiting::begin(vec![self.limit.clone()])
    }
}

pub(super) fn all_limits(limits: Vec<&NativeConcurrencyLimit>) -> Vec<ConcurrencyLimit> {
    limits.into_iter().map(|limit| limit.limit.clone()).collect()
}

/// A place in a limit's queue, then a slot. It is released when JavaScript collects this object.
#[napi]
pub struct NativePlace {
    waiting: Option<Waiting>,
    slot: Arc<Mutex<Held>>,
}

#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    Slot(#[expect(dead_code, reason = "held to be dropped")] Slot),
    GivenUp,
}

#[napi]
impl NativePlace {
    /// Resolves when this place has been given a slot. May be called once.
    #[napi]
    pub fn granted(&mut self) -> Promised<bool> {
        let (waiting, held) = (self.waiting.take(), self.slot.clone());
        done(async move {
            let Some(waiting) = waiting else { return false };
            let slot = waiting.end().await;
            let mut held = lock(&held);
            if matches!(*held, Held::Nothing) {
                *held = Held::Slot(slot);
            }
            true
        })
    }

    /// Releases the slot or the place.
    #[napi]
    pub fn release(&mut self) {
        self.waiting = None;
        *lock(&self.slot) = Held::GivenUp;
    }
}
