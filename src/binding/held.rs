//! A turn or a session that has its slot, and waits until JavaScript has prepared its folder.

use super::promise::{Promised, done};
use agents::harness::Preparation;
use ground::error::{Error, ErrorCode};
use ground::lock::lock;
use std::sync::Mutex;
use tokio::sync::{oneshot, watch};

/// JavaScript's end. By default nothing waits.
pub(super) struct Held<Request> {
    granted: Option<watch::Receiver<bool>>,
    begin: Mutex<Option<oneshot::Sender<Result<Request, Error>>>>,
}

impl<Request> Default for Held<Request> {
    fn default() -> Self {
        Held { granted: None, begin: Mutex::default() }
    }
}

impl<Request: Send + 'static> Held<Request> {
    pub(super) fn new(waits: bool) -> (Self, Option<Preparation<Request>>) {
        if !waits {
            return (Held::default(), None);
        }
        let (grant, granted) = watch::channel(false);
        let (begin, begun) = oneshot::channel();
        let preparation = async move {
            grant.send_replace(true);
            let gone =
                |_| Err(Error::new(ErrorCode::AgentAborted, "nothing was started: nobody prepares it"));
            begun.await.unwrap_or_else(gone)
        };
        (Held { granted: Some(granted), begin: Mutex::new(Some(begin)) }, Some(Box::pin(preparation)))
    }

    /// True at the first look of the turn at its preparation; false when that is dropped before.
    pub(super) fn granted(&self) -> Promised<bool> {
        let granted = self.granted.clone();
        done(async move {
            let Some(mut granted) = granted else { return false };
            granted.wait_for(|granted| *granted).await.is_ok()
        })
    }

    pub(super) fn begin(&self, request: Result<Request, Error>) {
        if let Some(begin) = lock(&self.begin).take() {
            let _ = begin.send(request);
        }
    }
}
