//! Counts bytes of text, without files in it. PURE.

#[derive(Debug, Default)]
pub(crate) struct Text {
    bytes: u64,
    /// Characters of base64 one after another.
    run: u64,
}

/// A word that is longer than this is a file.
const LONGEST_WORD: u64 = 512;

impl Text {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        for byte in piece {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_') {
                self.run = self.run.saturating_add(1);
            } else {
                self.bytes = self.bytes.saturating_add(self.word()).saturating_add(1);
                self.run = 0;
            }
        }
    }

    fn word(&self) -> u64 {
        if self.run > LONGEST_WORD { 0 } else { self.run }
    }

    /// The bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.saturating_add(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_a_text_do_not_count() {
        let mut text = Text::default();
        text.push(b"{\"a\":\"");
        for _ in 0..100 {
            text.push(&[b'A'; 1000]);
        }
        assert_eq!(text.bytes(), 6);
        text.push(b"\",\"b\":\"words here\"}");
        assert_eq!(text.bytes(), 25);
    }
}
