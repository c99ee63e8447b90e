//! The task that fails overdue requests.

use super::pending::{CloseOnDrop, PendingCall, timed_out};
use std::future::poll_fn;
use std::task::Poll;
use tokio::sync::watch;

pub(super) async fn keep_time(held: CloseOnDrop, mut ended: watch::Receiver<bool>) {
    let connected = &held.connected;
    loop {
        let overdue = poll_fn(|context| match connected.upgrade() {
            Some(connected) => connected.poll_overdue(context).map(Some),
            None => Poll::Ready(None),
        });
        let overdue = tokio::select! {
            overdue = overdue => overdue,
            _ = ended.changed() => return,
        };
        let Some(PendingCall { method, timeout, complete, .. }) = overdue else { return };
        complete.settle(Err(timed_out(&method, timeout.unwrap_or_default())));
    }
}
