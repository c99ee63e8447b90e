//! The task that writes: whole frames, one after the other.

use super::pending::CloseOnDrop;
use super::stream::ByteSink;
use std::sync::{Arc, Weak};
use tokio::sync::watch;

pub(super) async fn write(mut sink: impl ByteSink, held: CloseOnDrop, mut ended: watch::Receiver<bool>) {
    let connected = Weak::clone(&held.connected);
    let Some(to_write) = connected.upgrade().map(|connected| Arc::clone(&connected.to_write)) else { return };
    loop {
        let Some(frames) = connected.upgrade().map(|connected| connected.take_frames()) else { return };
        let Some(bytes) = frames else {
            if *ended.borrow() {
                return;
            }
            tokio::select! {
                () = to_write.notified() => {}
                _ = ended.changed() => {}
            }
            if ended.has_changed().is_err() {
                return;
            }
            continue;
        };
        let size = bytes.len();
        // This write is outside of the select: a frame is written whole, or the connection is over.
        let written = sink.write(bytes).await;
        let Some(connected) = connected.upgrade() else { return };
        let mut state = connected.lock();
        state.outgoing_bytes = state.outgoing_bytes.saturating_sub(size);
        drop(state);
        if written.is_err() {
            // The reader will reach the end soon and can describe it better.
            held.disarm();
            connected.write_failed.notify_one();
            return;
        }
    }
}
