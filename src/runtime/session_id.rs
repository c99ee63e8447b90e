//! Ids that nobody can guess: a session's is the key by which a later socket takes it over.

/// 32 hexadecimal digits; `None` when the system gives no random bytes.
pub(super) fn random_id() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().fold(String::with_capacity(32), |id, byte| format!("{id}{byte:02x}")))
}
