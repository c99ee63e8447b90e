//! PURE: turns the bytes of a command into text for the client: secrets redacted, characters whole, head and tail kept.

use ground::line::left_out;
use ground::redaction::Redactor;
use std::borrow::Cow;

/// Bytes kept of one stream for the request's result, from the start and from the end each.
const KEPT_BYTES: usize = 480 << 10;

/// One stream of one command.
pub struct TextStream {
    redactor: Redactor,
    /// The beginning of a character whose remaining bytes have not arrived.
    partial: Vec<u8>,
    head: String,
    tail: String,
    left_out: u64,
}

impl TextStream {
    pub fn new(redactor: Redactor) -> TextStream {
        TextStream { redactor, partial: Vec::new(), head: String::new(), tail: String::new(), left_out: 0 }
    }

    /// The text that these bytes complete. Invalid ones become U+FFFD.
    pub fn push<'bytes>(&mut self, bytes: &'bytes [u8]) -> Cow<'bytes, str> {
        if self.redactor.is_empty()
            && self.partial.is_empty()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            self.keep(text);
            return Cow::Borrowed(text);
        }
        let safe = self.redactor.push(bytes);
        let text = self.decode(safe, false);
        self.keep(&text);
        Cow::Owned(text)
    }

    /// The text that was held back, at the end of the stream.
    pub fn end(&mut self) -> String {
        let safe = self.redactor.flush();
        let text = self.decode(safe, true);
        self.keep(&text);
        text
    }

    /// The kept parts of the whole text; true when something was left out.
    pub fn into_kept(mut self) -> (String, bool) {
        if self.left_out == 0 {
            self.head.push_str(&self.tail);
            return (self.head, false);
        }
        let notice = format!("\n{}\n", left_out(self.left_out));
        (format!("{}{notice}{}", self.head, self.tail), true)
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

    fn keep(&mut self, text: &str) {
        let mut rest = text;
        if self.head.len() < KEPT_BYTES && self.left_out == 0 && self.tail.is_empty() {
            let at = rest.floor_char_boundary(KEPT_BYTES - self.head.len());
            self.head.push_str(&rest[..at]);
            rest = &rest[at..];
        }
        self.tail.push_str(rest);
        // The tail may grow to twice its size, so that not every piece has to move all of it.
        if self.tail.len() > 2 * KEPT_BYTES {
            let surplus = self.tail.len() - KEPT_BYTES;
            let at = self.tail.ceil_char_boundary(surplus);
            self.left_out += at as u64;
            self.tail.drain(..at);
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
    use ground::redaction::Secret;

    fn stream(secrets: &[&str]) -> TextStream {
        TextStream::new(Redactor::new(secrets.iter().map(|secret| Secret::from(*secret))))
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
        assert!(kept.len() < 3 * KEPT_BYTES + 100);
    }
}
