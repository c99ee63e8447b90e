//! PURE. Splits bytes into lines, at `\n` only: U+2028, U+0085 and a lone `\r` are text. Lines are decoded whole, never by chunk.

use memchr::{memchr, memrchr};

const NOTICE_BEGIN: &str = "[... ";
const NOTICE_END: &str = " bytes left out ...]";

/// The notice in place of text that was left out.
pub fn left_out(bytes: impl std::fmt::Display) -> String {
    format!("{NOTICE_BEGIN}{bytes}{NOTICE_END}")
}

/// Whether this line is a notice of [`left_out`].
pub fn is_left_out(line: &str) -> bool {
    line.starts_with(NOTICE_BEGIN) && line.ends_with(NOTICE_END)
}

/// A line grew past the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong;

/// Collects chunks into blocks of whole lines.
#[derive(Debug)]
pub struct LineFramer {
    carry: Vec<u8>,
    limit: usize,
    /// A line was too long. The following bytes are the rest of it and give no line.
    failed: bool,
}

impl LineFramer {
    /// `limit`: longest line in bytes, without its end.
    pub fn new(limit: usize) -> Self {
        LineFramer { carry: Vec::new(), limit, failed: false }
    }

    /// Calls `on_block` at most twice, with whole lines that end with `\n`: the line that earlier chunks began, then the others,
    /// which are not copied. Lines before one that is too long still arrive.
    pub fn push(&mut self, chunk: &[u8], mut on_block: impl FnMut(&[u8])) -> Result<(), LineTooLong> {
        if self.failed {
            return Err(LineTooLong);
        }
        let Some(border) = memrchr(b'\n', chunk).map(|last| last + 1) else {
            self.carry.extend_from_slice(chunk);
            return self.check_carry();
        };
        let (lines, rest) = chunk.split_at(border);
        let checked = self.lines_within_limit(lines);
        let mut whole = &lines[..checked.unwrap_or_else(|border| border)];
        if !self.carry.is_empty() && !whole.is_empty() {
            let end = memchr(b'\n', whole).map_or(whole.len(), |end| end + 1);
            self.carry.extend_from_slice(&whole[..end]);
            on_block(&self.carry);
            whole = &whole[end..];
            self.carry.clear();
            // One huge line must not cost its memory for the rest of the run.
            if self.carry.capacity() > 1 << 20 {
                self.carry = Vec::new();
            }
        }
        if !whole.is_empty() {
            on_block(whole);
        }
        if checked.is_err() {
            return self.fail();
        }
        self.carry.extend_from_slice(rest);
        self.check_carry()
    }

    /// Cuts long lines instead of failing: calls `on_line` with each line, without its end. A line that is too long comes in
    /// pieces of the limit's length.
    pub fn push_cut(&mut self, chunk: &[u8], mut on_line: impl FnMut(&[u8])) {
        for piece in chunk.split_inclusive(|&byte| byte == b'\n') {
            let mut text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let is_whole = text.len() < piece.len();
            while self.carry.len() + text.len() > self.limit {
                let (head, tail) = text.split_at(self.limit - self.carry.len());
                self.carry.extend_from_slice(head);
                on_line(&self.carry);
                self.carry.clear();
                text = tail;
            }
            self.carry.extend_from_slice(text);
            if is_whole {
                on_line(self.carry.strip_suffix(b"\r").unwrap_or(&self.carry));
                self.carry.clear();
            }
        }
    }

    /// The beginning of a line whose end has not come.
    pub fn unfinished(&self) -> &[u8] {
        &self.carry
    }

    /// The last line when the stream ends without `\n`.
    pub fn end(&mut self, on_block: impl FnOnce(&[u8])) -> Result<(), LineTooLong> {
        let carriage_return = usize::from(self.carry.last() == Some(&b'\r'));
        if self.carry.len() - carriage_return > self.limit {
            return self.fail();
        }
        if !self.carry.is_empty() {
            on_block(&self.carry);
            self.carry = Vec::new();
        }
        Ok(())
    }

    fn check_carry(&mut self) -> Result<(), LineTooLong> {
        // One more for a `\r` that may turn out to belong to the line's end.
        if self.carry.len() > self.limit + 1 { self.fail() } else { Ok(()) }
    }

    fn fail(&mut self) -> Result<(), LineTooLong> {
        self.failed = true;
        self.carry = Vec::new();
        Err(LineTooLong)
    }

    /// `Ok(all)`, or `Err(border)` before the first line that is too long.
    fn lines_within_limit(&self, lines: &[u8]) -> Result<usize, usize> {
        if self.carry.len() + lines.len() <= self.limit {
            return Ok(lines.len());
        }
        let mut start = 0;
        let mut before = self.carry.len();
        while start < lines.len() {
            let end = start + memchr(b'\n', &lines[start..]).unwrap_or(lines.len() - start);
            let last =
                if end > start { lines.get(end - 1) } else { self.carry.last().filter(|_| before > 0) };
            let carriage_return = usize::from(last == Some(&b'\r'));
            if before + (end - start) - carriage_return > self.limit {
                return Err(start);
            }
            before = 0;
            start = end + 1;
        }
        Ok(lines.len())
    }
}

/// A line without the byte order mark that some systems write at the beginning of a text. No JSON begins with it.
pub fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// A block's lines without their ends, `\r\n` and `\n` alike.
pub fn lines_of(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    inner_lines(block.strip_suffix(b"\n").unwrap_or(block))
}

/// The lines of a text without its last end.
pub fn inner_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let line = match memchr(b'\n', text) {
            Some(border) => {
                rest = Some(&text[border + 1..]);
                &text[..border]
            }
            None => {
                rest = None;
                text
            }
        };
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(limit: usize, chunks: &[&[u8]]) -> (Vec<String>, Result<(), LineTooLong>) {
        let mut framer = LineFramer::new(limit);
        let mut lines = Vec::new();
        let mut collect = |block: &[u8]| {
            lines.extend(lines_of(block).map(|line| String::from_utf8_lossy(line).into_owned()));
        };
        for chunk in chunks {
            if let Err(error) = framer.push(chunk, &mut collect) {
                return (lines, Err(error));
            }
        }
        let ended = framer.end(&mut collect);
        (lines, ended)
    }

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        frame(1 << 20, chunks).0
    }

    #[test]
    fn splits_at_newlines_only() {
        assert_eq!(lines(&["a\u{2028}b\u{85}c\rd\ne\n".as_bytes()]), ["a\u{2028}b\u{85}c\rd", "e"]);
        assert_eq!(lines(&[b"a\r\nb\n\nc"]), ["a", "b", "", "c"]);
        assert_eq!(lines(&[]), [""; 0]);
        assert_eq!(lines(&[b"\n"]), [""]);
    }

    #[test]
    fn joins_a_line_and_a_character_over_chunks() {
        assert_eq!(lines(&[b"a\xc3", b"\xa4", b"b\nc"]), ["aäb", "c"]);
    }

    #[test]
    fn names_a_line_that_is_too_long_and_delivers_those_before() {
        assert_eq!(frame(3, &[b"abc\nabcd\nx\n"]), (vec!["abc".into()], Err(LineTooLong)));
        assert_eq!(frame(3, &[b"abc", b"d\n"]), (vec![], Err(LineTooLong)));
        assert_eq!(frame(3, &[b"abc\r", b"\nab\n"]), (vec!["abc".into(), "ab".into()], Ok(())));
        assert_eq!(frame(3, &[b"abcde"]).1, Err(LineTooLong));
        let mut framer = LineFramer::new(3);
        assert!(framer.push(b"abcde", |_| panic!("no line")).is_err());
        assert!(
            framer.push(b"f\ng\n", |_| panic!("no line")).is_err(),
            "nothing after it is a line any more"
        );
        framer.end(|_| panic!("no line")).expect("nothing more");
        assert_eq!(
            frame(3, &[b"abcd"]),
            (vec![], Err(LineTooLong)),
            "a last line without an end is no longer either"
        );
        assert_eq!(frame(3, &[b"abc\r"]), (vec!["abc".into()], Ok(())));
    }

    #[test]
    fn a_line_that_is_too_long_comes_in_pieces_to_whoever_wants_it_so() {
        let mut framer = LineFramer::new(3);
        let mut lines = Vec::new();
        for chunk in [&b"ab"[..], b"c\nabcd", b"efgh\r\n\nx\r", b"\nleft"] {
            framer.push_cut(chunk, |line| lines.push(String::from_utf8_lossy(line).into_owned()));
        }
        assert_eq!(lines, ["abc", "abc", "def", "gh", "", "x", "lef"]);
        assert_eq!(framer.unfinished(), b"t");
    }

    proptest! {
        #[test]
        fn no_piece_is_longer_than_the_limit_and_nothing_is_lost(text in "[ab\n]{0,60}", step in 1usize..9) {
            let mut framer = LineFramer::new(4);
            let mut pieces = Vec::new();
            for chunk in text.as_bytes().chunks(step) {
                framer.push_cut(chunk, |line| pieces.push(line.to_vec()));
            }
            pieces.push(framer.unfinished().to_vec());
            prop_assert!(pieces.iter().all(|piece| piece.len() <= 4));
            prop_assert_eq!(pieces.concat(), text.replace('\n', "").into_bytes());
        }

        #[test]
        fn every_split_gives_the_same_lines(text in "[ab\r\nä]{0,60}", cuts in prop::collection::vec(0usize..80, 0..6)) {
            let bytes = text.as_bytes();
            let mut borders: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            borders.push(0);
            borders.push(bytes.len());
            borders.sort_unstable();
            let chunks: Vec<&[u8]> = borders.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(lines(&chunks), lines(&[bytes]));
        }
    }
}
