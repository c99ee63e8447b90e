//! PURE: turns the bytes of a command into text for the client: secrets redacted, characters whole, head and tail kept.

use ground::keep::Keep;
use ground::redaction::Redactor;
use std::borrow::Cow;

/// Bytes kept of one stream for the request's result: half from the start, half from the end.
const KEPT_BYTES: usize = 3 * (480 << 10);

/// One stream of one command.
pub struct TextStream {
    redactor: Redactor,
    /// The beginning of a character whose remaining bytes have not arrived.
    partial: Vec<u8>,
    kept: Keep,
}

impl TextStream {
    pub fn new(redactor: Redactor) -> TextStream {
        TextStream { redactor, partial: Vec::new(), kept: Keep::new(KEPT_BYTES) }
    }

    /// The text that these bytes complete. Invalid ones become U+FFFD.
    pub fn push<'bytes>(&mut self, bytes: &'bytes [u8]) -> Cow<'bytes, str> {
        if self.redactor.is_empty()
            && self.partial.is_empty()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            self.kept.push(text.as_bytes());
            return Cow::Borrowed(text);
        }
        let safe = self.redactor.push(bytes);
        let text = self.decode(safe, false);
        self.kept.push(text.as_bytes());
        Cow::Owned(text)
    }

    /// The text that was held back, at the end of the stream.
    pub fn end(&mut self) -> String {
        let safe = self.redactor.flush();
        let text = self.decode(safe, true);
        self.kept.push(text.as_bytes());
        text
    }

    /// The kept parts of the whole text; true when something was left out.
    pub fn into_kept(self) -> (String, bool) {
        let is_cut = self.kept.truncated();
        (self.kept.into_text().0, is_cut)
    }

    fn decode(&mut self, safe: Vec<u8>, ended: bool) -> String {
        let mut bytes = std::mem::take(&mut self.partial);
        let bytes = if bytes.is_empty() {
            safe
        } else {
            bytes.extend_from_slice(&safe);
            bytes
        };
        match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let whole = error.utf8_error();
                let mut bytes = error.into_bytes();
                let incomplete = incomplete_tail(&bytes, whole.valid_up_to());
                if !ended && incomplete > 0 {
                    self.partial = bytes.split_off(bytes.len() - incomplete);
                }
                String::from_utf8_lossy(&bytes).into_owned()
            }
        }
    }
}

/// Bytes at the end that may be the start of a character.
fn incomplete_tail(bytes: &[u8], valid_up_to: usize) -> usize {
    let tail = &bytes[valid_up_to.max(bytes.len().saturating_sub(3))..];
    (1..=tail.len())
        .rev()
        .find(|length| {
            let candidate = &tail[tail.len() - length..];
            matches!(std::str::from_utf8(candidate), Err(error) if error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(secrets: &[&str]) -> TextStream {
        TextStream::new(Redactor::new(secrets.iter().copied()))
    }

    #[test]
    fn characters_are_never_torn() {
        let text = "é漢🐑 end";
        for size in 1..6 {
            let mut stream = stream(&[]);
            let mut seen: String =
                text.as_bytes().chunks(size).map(|chunk| stream.push(chunk).into_owned()).collect();
            seen.push_str(&stream.end());
            assert_eq!(seen, text, "{size} bytes at a time");
        }
        let mut torn = stream(&[]);
        assert_eq!(torn.push(b"a\xff\xc3"), "a\u{fffd}");
        assert_eq!(torn.end(), "\u{fffd}");
    }

    #[test]
    fn rule_11_a_secret_is_found_across_chunks_and_the_longest_wins() {
        let text = "x secret-long y secret z secre";
        for size in 1..8 {
            let mut stream = stream(&["secret", "secret-long"]);
            let mut seen: String =
                text.as_bytes().chunks(size).map(|chunk| stream.push(chunk).into_owned()).collect();
            seen.push_str(&stream.end());
            assert_eq!(seen, "x [REDACTED] y [REDACTED] z secre", "{size} bytes at a time");
            assert_eq!(stream.into_kept(), (seen, false));
        }
    }

    #[test]
    fn rule_3_head_and_tail_are_kept_of_too_much() {
        let mut stream = stream(&[]);
        stream.push("first".as_bytes());
        for _ in 0..100 {
            stream.push("🐑".repeat(10_000).as_bytes());
        }
        stream.push("last".as_bytes());
        let (kept, truncated) = stream.into_kept();
        assert!(truncated && kept.starts_with("first") && kept.ends_with("last"));
        assert!(kept.len() < KEPT_BYTES + 100);
    }
}
