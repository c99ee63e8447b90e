//! Secrets that never print themselves, and a filter that takes them out of what others print. PURE.
//!
//! A [`Redactor`] replaces each secret by [`REDACTED`] in a stream of chunks, as if the whole text had been searched from the
//! left and at each place the longest secret that begins there were replaced. What might still become a secret is held back:
//! always the beginning of one, so fewer bytes than the longest secret has.

use std::fmt;

/// What stands where a secret stood.
pub const REDACTED: &str = "[REDACTED]";

/// A value that must not be seen: it shows as [`REDACTED`] in every message. [`Secret::expose`] is the one way in.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Secret(value.into())
    }

    /// The value itself. Every use of this is a place to look at twice.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Secret(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Secret(value.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

/// Takes secrets out of one stream. Streams that are read side by side (stdout, stderr) need one each: clone it.
#[derive(Clone)]
pub struct Redactor {
    /// Longest first, so that the first match is the longest. Never empty strings.
    secrets: Vec<Secret>,
    /// Whether any secret begins with this byte: most bytes are let through by this alone.
    begins: Box<[bool; 256]>,
    /// The beginning of a secret, at the end of what was pushed.
    held: Vec<u8>,
}

enum Match {
    /// So many bytes are a secret.
    Whole(usize),
    /// What follows decides.
    Open,
    No,
}

impl Redactor {
    /// Empty secrets are left out: they are everywhere.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> = secrets.into_iter().filter(|secret| !secret.0.is_empty()).collect();
        secrets.sort_by(|left, right| right.0.len().cmp(&left.0.len()).then_with(|| left.0.cmp(&right.0)));
        secrets.dedup();
        let mut begins = Box::new([false; 256]);
        for secret in &secrets {
            begins[usize::from(secret.0.as_bytes()[0])] = true;
        }
        Redactor { secrets, begins, held: Vec::new() }
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Takes the next chunk, gives what is safe to pass on.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        if self.secrets.is_empty() {
            return chunk.to_vec();
        }
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(chunk);
        let mut out = Vec::with_capacity(bytes.len());
        let open = self.scan(&bytes, false, &mut out);
        self.held = bytes.split_off(open);
        out
    }

    /// As [`Redactor::push`] for text: whole characters in, whole characters out. Don't mix the two in one stream.
    pub fn push_text(&mut self, chunk: &str) -> String {
        // A held piece begins where a secret begins, with a whole character: the loss never happens.
        String::from_utf8_lossy(&self.push(chunk.as_bytes())).into_owned()
    }

    /// The end of the stream: gives what was held back. The redactor can be used for another stream then.
    pub fn flush(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.held);
        let mut out = Vec::with_capacity(bytes.len());
        self.scan(&bytes, true, &mut out);
        out
    }

    /// As [`Redactor::flush`] for text.
    pub fn flush_text(&mut self) -> String {
        String::from_utf8_lossy(&self.flush()).into_owned()
    }

    /// A whole text at once; what a stream holds back stays where it is.
    pub fn redact(&self, text: &str) -> String {
        let mut out = Vec::with_capacity(text.len());
        self.scan(text.as_bytes(), true, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Appends what is decided of the bytes; returns where the undecided rest begins.
    fn scan(&self, bytes: &[u8], ended: bool, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        let mut kept = 0;
        while at < bytes.len() {
            if !self.begins[usize::from(bytes[at])] {
                at += 1;
                continue;
            }
            match self.look(&bytes[at..], ended) {
                Match::Whole(length) => {
                    out.extend_from_slice(&bytes[kept..at]);
                    out.extend_from_slice(REDACTED.as_bytes());
                    at += length;
                    kept = at;
                }
                Match::Open => break,
                Match::No => at += 1,
            }
        }
        out.extend_from_slice(&bytes[kept..at]);
        at
    }

    fn look(&self, bytes: &[u8], ended: bool) -> Match {
        for secret in &self.secrets {
            let secret = secret.0.as_bytes();
            if bytes.starts_with(secret) {
                return Match::Whole(secret.len());
            }
            // A longer secret that may still come wins over a shorter one that is there.
            if !ended && secret.starts_with(bytes) {
                return Match::Open;
            }
        }
        Match::No
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Redactor").field("secrets", &self.secrets.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redactor(secrets: &[&str]) -> Redactor {
        Redactor::new(secrets.iter().map(|secret| Secret::from(*secret)))
    }

    /// The definition, written as slowly as it reads.
    fn naive(secrets: &[String], text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let longest = secrets
                .iter()
                .filter(|secret| !secret.is_empty() && rest.starts_with(secret.as_str()))
                .max_by_key(|secret| secret.len());
            match longest {
                Some(secret) => {
                    out.push_str(REDACTED);
                    rest = &rest[secret.len()..];
                }
                None => {
                    out.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        out
    }

    #[test]
    fn a_secret_never_shows_itself() {
        let secret = Secret::from("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "[REDACTED] [REDACTED]");
        assert!(!format!("{:?}", redactor(&["hunter2"])).contains("hunter2"));
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn finds_a_secret_that_is_cut_anywhere() {
        let text = "key=sk-123456 end";
        for cut in 0..=text.len() {
            let mut redactor = redactor(&["sk-123456"]);
            let mut out = redactor.push(&text.as_bytes()[..cut]);
            out.extend(redactor.push(&text.as_bytes()[cut..]));
            out.extend(redactor.flush());
            assert_eq!(out, b"key=[REDACTED] end");
        }
    }

    #[test]
    fn the_longest_secret_wins_even_when_a_shorter_one_is_complete() {
        let mut redactor = redactor(&["abc", "abcdef"]);
        assert_eq!(redactor.push_text("xabc"), "x");
        assert_eq!(redactor.push_text("def!"), "[REDACTED]!");
        assert_eq!(redactor.push_text("abcd"), "");
        assert_eq!(redactor.flush_text(), "[REDACTED]d");
    }

    #[test]
    fn lets_through_at_once_what_can_be_no_secret() {
        let mut redactor = redactor(&["sk-secret"]);
        assert_eq!(redactor.push_text("progress 1\n"), "progress 1\n");
        assert_eq!(redactor.push_text("sk-s"), "");
        assert_eq!(redactor.push_text("low"), "sk-slow");
    }

    #[test]
    fn an_empty_secret_is_no_secret() {
        let mut redactor = redactor(&["", ""]);
        assert!(redactor.is_empty());
        assert_eq!(redactor.push_text("abc"), "abc");
    }

    fn secrets() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[abé]{0,6}", 0..5)
    }

    proptest! {
        #[test]
        fn any_split_of_bytes_gives_what_a_whole_replacement_gives(
            secrets in secrets(),
            text in "[abcé]{0,60}",
            cuts in prop::collection::vec(0usize..80, 0..8),
        ) {
            let mut redactor = Redactor::new(secrets.iter().map(|secret| Secret::from(secret.as_str())));
            let longest = secrets.iter().map(String::len).max().unwrap_or(0);
            let expected = naive(&secrets, &text);
            prop_assert_eq!(redactor.redact(&text), expected.as_str());
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.push(0);
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let mut out = Vec::new();
            for pair in cuts.windows(2) {
                out.extend(redactor.push(&bytes[pair[0]..pair[1]]));
                prop_assert!(redactor.held.len() < longest.max(1));
            }
            out.extend(redactor.flush());
            prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        }

        #[test]
        fn text_comes_out_in_whole_characters(secrets in secrets(), chunks in prop::collection::vec("[abcé]{0,9}", 0..9)) {
            let mut redactor = Redactor::new(secrets.iter().map(|secret| Secret::from(secret.as_str())));
            let mut out = String::new();
            for chunk in &chunks {
                out.push_str(&redactor.push_text(chunk));
            }
            out.push_str(&redactor.flush_text());
            prop_assert_eq!(out, naive(&secrets, &chunks.concat()));
        }

        #[test]
        fn any_bytes_are_taken(secrets in secrets(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut redactor = Redactor::new(secrets.into_iter().map(Secret::from));
            redactor.push(&bytes);
            redactor.flush();
        }
    }
}
