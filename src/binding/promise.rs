//! Converts futures, and values that the core calls back with, to promises. No other module does this.
//!
//! The promise never rejects for an error of the core: it resolves with a [`Settled`]. `settle()` of lib/error.ts then either
//! returns the value or throws a JavaScript error with code, fields and the partial result.

use super::error::Fault;
use super::mailbox::{Settler, promise};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ground::error::Error;
use napi::bindgen_prelude::{Object, ToNapiValue, spawn};
use napi::{Env, sys};
use std::future::Future;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;

/// The value that a promise resolves with: `{ value }`, or `{ error, partial }`.
pub enum Settled<T> {
    Value(T),
    Failed { error: Error, partial: Option<T> },
}

impl<T> From<Result<T, Error>> for Settled<T> {
    fn from(result: Result<T, Error>) -> Self {
        match result {
            Ok(value) => Settled::Value(value),
            Err(error) => Settled::Failed { error, partial: None },
        }
    }
}

impl<T: ToNapiValue> ToNapiValue for Settled<T> {
    unsafe fn to_napi_value(raw_env: sys::napi_env, settled: Self) -> napi::Result<sys::napi_value> {
        let env = Env::from_raw(raw_env);
        let mut object = Object::new(&env)?;
        match settled {
            Settled::Value(value) => object.set("value", value)?,
            Settled::Failed { error, partial } => {
                object.set("error", Fault::from(&error))?;
                if let Some(partial) = partial {
                    object.set("partial", partial)?;
                }
            }
        }
        // SAFETY: the object was made in this environment, on its thread.
        unsafe { ToNapiValue::to_napi_value(raw_env, object) }
    }
}

/// A promise that a function of the edge returns. What settles it begins when JavaScript gets the promise.
pub struct Promised<T> {
    begin: Box<dyn FnOnce(Settler)>,
    value: PhantomData<fn() -> T>,
}

/// Settles one promise, from any thread. One that is dropped settles it with ADDON_FAULT: the promise never stays pending.
pub struct Reply<T: ToNapiValue + Send + 'static> {
    settler: Option<Settler>,
    value: PhantomData<fn(T)>,
}

impl<T: ToNapiValue + Send + 'static> Reply<T> {
    pub fn send(mut self, settled: impl Into<Settled<T>>) {
        self.settle(settled.into());
    }

    fn settle(&mut self, settled: Settled<T>) {
        let Some(settler) = self.settler.take() else { return };
        // SAFETY: called once, with the environment of the promise, on its thread.
        settler.settle(Box::new(|raw_env| unsafe { ToNapiValue::to_napi_value(raw_env, settled) }));
    }
}

impl<T: ToNapiValue + Send + 'static> Drop for Reply<T> {
    fn drop(&mut self) {
        self.settle(Settled::from(Err(Error::of_panic(&"the work ended without an answer"))));
    }
}

/// Runs the future on the addon's threads, in a task of its own. A panic in the future (a bug, or tokio's when it is refused a
/// thread) becomes an error with a code like every other.
pub fn settle<T, F>(future: F) -> Promised<T>
where
    T: ToNapiValue + Send + 'static,
    F: Future<Output: Into<Settled<T>>> + Send + 'static,
{
    reply(|reply| {
        // Boxed, so that a task is compiled once and not for each function of the edge.
        let task: BoxFuture<'static, ()> =
            Box::pin(async move { reply.send(whatever_happens(future).await) });
        drop(spawn(task));
    })
}

/// [`settle`] for work that cannot fail.
pub fn done<T, F>(future: F) -> Promised<T>
where
    T: ToNapiValue + Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    settle(async move { Settled::Value(future.await) })
}

/// The same without a task, where the core calls back: `begin` is given what settles the promise.
pub fn reply<T: ToNapiValue + Send + 'static>(begin: impl FnOnce(Reply<T>) + 'static) -> Promised<T> {
    let begin = |settler| begin(Reply { settler: Some(settler), value: PhantomData });
    Promised { begin: Box::new(begin), value: PhantomData }
}

impl<T> ToNapiValue for Promised<T> {
    unsafe fn to_napi_value(raw_env: sys::napi_env, promised: Self) -> napi::Result<sys::napi_value> {
        let (promise, settler) = promise(&Env::from_raw(raw_env))?;
        (promised.begin)(settler);
        Ok(promise)
    }
}

/// Settles the promise after a panic too. tokio and the resolver of names panic where the system refuses them a thread, and a
/// task that is gone would leave its promise pending for ever. Dropping the future releases what it held.
async fn whatever_happens<T>(future: impl Future<Output: Into<Settled<T>>>) -> Settled<T> {
    // The state that the future shared stays usable: locks that it poisoned are read all the same (see PoisonError).
    let settled = AssertUnwindSafe(future).catch_unwind().await;
    settled.map_or_else(|panic| Err(Error::of_panic(&*panic)).into(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::error::ErrorCode;

    fn fail(fault: Option<&'static str>) -> Settled<()> {
        match fault {
            Some(fault) => panic!("{fault}"),
            None => std::panic::panic_any(7),
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_with_its_words() {
        for (fault, words) in [(Some("no thread"), "no thread"), (None, "no words")] {
            let settled = whatever_happens::<()>(async move {
                tokio::task::yield_now().await;
                fail(fault)
            });
            let Settled::Failed { error, partial: None } = settled.await else { panic!("it settled well") };
            assert_eq!((error.code(), &error.facts()["fault"]), (ErrorCode::AddonFault, &words.into()));
        }
        assert!(matches!(whatever_happens::<i32>(async { Settled::Value(1) }).await, Settled::Value(1)));
    }
}
