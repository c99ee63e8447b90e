//! The sessions of a connection.

use super::outbox::Outbox;
use super::session::Session;
use super::session_event::EventHead;
use ground::error::Error;
use ground::lock::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The sessions by their ids.
#[derive(Default)]
pub struct Sessions {
    by_id: Mutex<HashMap<String, Vec<Arc<Session>>>>,
}

impl Sessions {
    /// Registers a session. An open one with the same id stays beside it, until it is closed.
    pub fn open(&self, id: &str, key: u32) -> Arc<Session> {
        let session = Arc::new(Session::new(id, key));
        lock(&self.by_id).entry(id.to_owned()).or_default().push(Arc::clone(&session));
        session
    }

    /// Removes a session and ends its turns.
    pub fn close(&self, session: &Arc<Session>, error: &Error) {
        let mut by_id = lock(&self.by_id);
        if let Some(held) = by_id.get_mut(&session.id) {
            held.retain(|held| !Arc::ptr_eq(held, session));
            if held.is_empty() {
                by_id.remove(&session.id);
            }
        }
        drop(by_id);
        session.close(error);
    }

    /// Ends the turns of all sessions.
    pub fn close_all(&self, error: &Error) {
        let all: Vec<_> = lock(&self.by_id).drain().flat_map(|(_, sessions)| sessions).collect();
        all.iter().for_each(|session| session.close(error));
    }

    /// Handles an event, on the reader's task.
    pub fn on_event(&self, event: &EventHead<'_>, outbox: &Outbox) {
        let by_id = lock(&self.by_id);
        for session in by_id.get(&*event.session_id).into_iter().flatten() {
            session.on_event(event, outbox);
        }
    }
}
