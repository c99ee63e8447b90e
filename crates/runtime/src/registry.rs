//! The sessions whose clients may come back, by id, and the limit on their number.

use super::service::Service;
use super::session::{Session, SessionHandle};
use ground::lock::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Clones are the same registry.
#[derive(Clone)]
pub struct SessionRegistry {
    service: Arc<Service>,
    sessions: Arc<Mutex<HashMap<String, SessionHandle>>>,
    connections: Arc<Semaphore>,
    max_sessions: usize,
}

impl SessionRegistry {
    pub fn new(service: Arc<Service>, max_sessions: usize) -> SessionRegistry {
        SessionRegistry {
            service,
            sessions: Arc::default(),
            connections: Arc::new(Semaphore::new(max_sessions.min(Semaphore::MAX_PERMITS))),
            max_sessions,
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, SessionHandle>> {
        lock(&self.sessions)
    }

    /// The session with this id; begins one when there is none. `None` when there are too many sessions.
    pub fn session(&self, id: &str) -> Option<SessionHandle> {
        let mut sessions = self.sessions();
        if let Some(session) = sessions.get(id) {
            return Some(session.clone());
        }
        if sessions.len() >= self.max_sessions {
            return None;
        }
        let (session, handle) = Session::new(self.service.clone(), Some(id.to_owned()));
        sessions.insert(id.to_owned(), handle.clone());
        let (registry, id) = (self.clone(), id.to_owned());
        ground::task::spawn(async move {
            session.run().await;
            registry.sessions().remove(&id);
        });
        Some(handle)
    }

    /// A session for a client that will not come back.
    pub fn passing_session(&self) -> SessionHandle {
        let (session, handle) = Session::new(self.service.clone(), None);
        ground::task::spawn(session.run());
        handle
    }

    /// Takes a slot for one more socket, if there is one.
    pub fn admit(&self) -> Option<OwnedSemaphorePermit> {
        self.connections.clone().try_acquire_owned().ok()
    }
}
