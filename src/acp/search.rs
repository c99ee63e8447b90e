//! What a look for a cancelled turn's processes found.

use super::order::Reply;
use crate::process::Newcomer;

/// What was found, and who waits for it. Dropped, it tells them: their turn is over, whatever became of the session since.
pub(super) struct Search {
    pub strays: Vec<Newcomer>,
    pub waiters: Vec<Reply<()>>,
}

impl Drop for Search {
    fn drop(&mut self) {
        for reply in self.waiters.drain(..) {
            let _ = reply.send(Ok(()));
        }
    }
}
