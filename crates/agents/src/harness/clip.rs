//! PURE: texts that are cut to a length, between characters.

use ground::line::left_out;

/// Longest message of a warning, retry or error. What comes in one line (a text, an output) is as long as its line.
const MAX_EVENT_BYTES: usize = 256 << 10;

/// The longest beginning of `text` that is no longer than `bytes` and ends between characters.
pub(crate) fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The longest end of `text` that is no longer than `bytes` and begins between characters.
pub(crate) fn tail(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

/// The text, or its beginning and how much is missing.
pub(crate) fn clip(text: &str) -> std::borrow::Cow<'_, str> {
    clip_to(text, MAX_EVENT_BYTES)
}

/// As [`clip`], to so many bytes.
pub(crate) fn clip_to(text: &str, bytes: usize) -> std::borrow::Cow<'_, str> {
    if text.len() <= bytes {
        return text.into();
    }
    let head = head(text, bytes);
    format!("{head}{}", left_out(text.len() - head.len())).into()
}

/// The warning about a line that begins as a message of an agent and can't be read. `None` for any other line.
pub(crate) fn torn(line: &[u8]) -> Option<String> {
    const BEGINNINGS: [&[u8]; 3] = [br#"{"type":"#, br#"{"role":"#, br#"{"jsonrpc":"#];
    let is_message = BEGINNINGS.iter().any(|beginning| line.starts_with(beginning));
    is_message.then(|| {
        let told = String::from_utf8_lossy(line);
        let told = clip_to(&told, 300);
        format!("a message of the agent could not be read, and what it said is missing: {told}")
    })
}
