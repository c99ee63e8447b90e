//! The book of the sessions that turns and sessions of this user go on with. Two at a time would lose what one of them said.

use super::provider::Provider;
use ground::os::Claim;

/// Takes the session for as long as the claim lives. `None`: another one has it, in this process or in another.
pub(crate) fn claim(provider: Provider, session: &str) -> Option<Claim> {
    Claim::take(&format!("session/{}/{session}", provider.as_str())).ok()
}

/// The warning of one that goes on with a session that is in use.
pub(crate) fn warning(session: &str) -> String {
    format!(
        "resume: session {session} is open in another process, or a second time in this one, by a turn or a session: the answers of one can \
         appear in the other, or be lost. Let one end before the other begins"
    )
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_in_use_once() {
        let session = format!("a-session-of-{}", std::process::id());
        let first = claim(Provider::Codex, &session);
        assert!(first.is_some());
        assert!(claim(Provider::Codex, &session).is_none());
        assert!(claim(Provider::Pi, &session).is_some(), "another agent's");
        drop(first);
        assert!(claim(Provider::Codex, &session).is_some());
    }
}
