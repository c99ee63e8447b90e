//! Sockets that have not shown yet that they may enter. Every program that reaches the port can open some; they must not use up the
//! files of this process, nor keep clients out.
//!
//! Only so many are accepted at one time. The others wait in the system's queue. When most places are taken, each stranger has
//! little time for its head.

use ground::os::within;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Few enough for a process with the smallest usual limit of open files, 256.
const MAX_STRANGERS: usize = 64;
/// How long a stranger may take to send the head of its HTTP request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same when most places are taken.
const SHORT_PATIENCE: Duration = Duration::from_secs(1);

/// The places of strangers.
pub struct Strangers(Arc<Semaphore>);

impl Default for Strangers {
    fn default() -> Self {
        Strangers(Arc::new(Semaphore::new(MAX_STRANGERS)))
    }
}

impl Strangers {
    /// A place, as soon as there is one.
    pub async fn admit(&self) -> Stranger {
        Stranger { places: self.0.clone(), _place: self.0.clone().acquire_owned().await.ok() }
    }
}

/// A stranger's place. Dropping it gives it back.
pub struct Stranger {
    places: Arc<Semaphore>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Stranger {
    /// The result of what the stranger does. `None`: it takes too long.
    pub async fn within_patience<T>(&self, act: impl Future<Output = T>) -> Option<T> {
        let crowded = async {
            loop {
                tokio::time::sleep(SHORT_PATIENCE).await;
                if self.places.available_permits() < MAX_STRANGERS / 2 {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            done = within(PATIENCE, act) => done,
            () = crowded => None,
        }
    }
}
