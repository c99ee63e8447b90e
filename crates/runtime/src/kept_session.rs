//! The session that an agent keeps for one client across invocations.

use agents::acp::Session;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The agent's session of one client, if it has one. Clones share it.
#[derive(Clone, Default)]
pub struct KeptSession(pub(super) Arc<Mutex<Option<Kept>>>);

pub(super) struct Kept {
    pub session: Session,
    pub setup: Setup,
}

/// The settings that can't be changed while a session is open.
#[derive(Clone, PartialEq)]
pub(super) struct Setup {
    pub system_prompt: String,
    pub model: String,
    pub environment: Vec<(String, Option<String>)>,
    /// Strings that are redacted in the session's record, if one is kept.
    pub secrets: Vec<String>,
}

impl KeptSession {
    /// Ends the session. Resolves when its process tree is gone.
    pub async fn close(&self) {
        let kept = self.0.lock().await.take();
        if let Some(kept) = kept {
            kept.session.close().await;
        }
    }
}
