//! PURE. The kept part of a stream: its head and its tail ([`Keep`]), cut at line borders, or its tail alone ([`Tail`]). Both are
//! bounded.

use memchr::{memchr, memrchr};

/// Bytes of each part that are given up, at most, so that it ends or begins at a line border.
const MAX_BYTES_FOR_A_BORDER: usize = 4096;

/// Head and tail of a byte stream of any length, in bounded memory that grows with what is really there.
#[derive(Clone, Debug)]
pub struct Keep {
    head: Vec<u8>,
    head_limit: usize,
    tail: Tail,
    total: u64,
}

impl Keep {
    /// Keeps at most `limit` bytes: the first half of it as the head, the rest as the tail.
    pub fn new(limit: usize) -> Self {
        let head_limit = limit / 2;
        Keep { head: Vec::new(), head_limit, tail: Tail::new(limit - head_limit), total: 0 }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = (self.head_limit - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.push(&bytes[room..]);
    }

    /// The oldest bytes of a tail that is full and large, so that the next read goes there without a copy in between. The
    /// caller must [`Keep::commit`] as many bytes as it wrote; otherwise the text is torn.
    pub fn oldest(&mut self) -> Option<&mut [u8]> {
        self.tail.oldest()
    }

    /// Takes in `length` bytes that were read over [`Keep::oldest`], and returns them.
    pub fn commit(&mut self, length: usize) -> &[u8] {
        self.total += length as u64;
        self.tail.commit(length)
    }

    /// Bytes seen in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of bytes that were dropped, because the head and the tail were full.
    pub fn dropped(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Whether bytes were left out.
    pub fn truncated(&self) -> bool {
        self.dropped() > 0
    }

    /// Everything that is still whole, as it came: `None` once bytes were left out.
    pub fn whole(&self) -> Option<Vec<u8>> {
        if self.truncated() {
            return None;
        }
        let mut bytes = self.head.clone();
        self.tail.append_to(&mut bytes);
        Some(bytes)
    }

    /// The text: all of it, or head and tail on line borders with one line between that says how much is missing. Beside it the
    /// bytes, where the text has replaced some of them.
    pub fn into_text(self) -> (String, Option<Vec<u8>>) {
        match String::from_utf8(self.into_bytes()) {
            Ok(text) => (text, None),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), Some(error.into_bytes())),
        }
    }

    /// The kept output, undecoded: later output may complete its last character.
    pub fn into_bytes(self) -> Vec<u8> {
        let truncated = self.truncated();
        let Keep { head: mut bytes, tail, total, .. } = self;
        if !truncated {
            tail.append_to(&mut bytes);
            return bytes;
        }
        // A line border is worth a few bytes, not the rest of a long line.
        let near = bytes.len().saturating_sub(MAX_BYTES_FOR_A_BORDER);
        match memrchr(b'\n', &bytes[near..]) {
            Some(border) => bytes.truncate(near + border + 1),
            None => bytes.truncate(character_border_before(&bytes, bytes.len())),
        }
        let kept_head = bytes.len() as u64;
        let rest = tail.into_linear();
        let from = match memchr(b'\n', &rest[..rest.len().min(MAX_BYTES_FOR_A_BORDER)]) {
            // A border at the very end would leave no tail at all: better half a line than nothing.
            Some(border) if border + 1 < rest.len() => border + 1,
            _ => character_border_after(&rest, 0),
        };
        let left_out = total - kept_head - (rest.len() - from) as u64;
        bytes.reserve_exact(rest.len() - from + 48);
        if !bytes.is_empty() && bytes.last() != Some(&b'\n') {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(crate::line::left_out(left_out).as_bytes());
        bytes.push(b'\n');
        bytes.extend_from_slice(&rest[from..]);
        bytes
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// The border at or before `at` that does not tear a character; bytes that are no UTF-8 have a border anywhere.
fn character_border_before(bytes: &[u8], at: usize) -> usize {
    let start = (at.saturating_sub(3)..at).rev().find(|&index| !is_continuation(bytes[index]));
    match start {
        Some(start) if start + character_length(bytes[start]) > at => start,
        _ => at,
    }
}

fn character_border_after(bytes: &[u8], at: usize) -> usize {
    (at..bytes.len().min(at + 4)).find(|&index| !is_continuation(bytes[index])).unwrap_or(at)
}

fn character_length(first: u8) -> usize {
    match first {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xFF => 4,
        _ => 1,
    }
}

const LARGE_TAIL_BYTES: usize = 1 << 20;

/// The last `limit` bytes of what was pushed, in a ring that grows with what is really there.
#[derive(Clone, Debug)]
pub struct Tail {
    bytes: Vec<u8>,
    limit: usize,
    /// Index of the oldest byte, once the ring is full.
    start: usize,
}

impl Tail {
    pub fn new(limit: usize) -> Self {
        Tail { bytes: Vec::new(), limit, start: 0 }
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.limit)..];
        let room = (self.limit - self.bytes.len()).min(bytes.len());
        let (grow, mut rest) = bytes.split_at(room);
        self.grow(grow);
        while !rest.is_empty() {
            let run = (self.limit - self.start).min(rest.len());
            self.bytes[self.start..self.start + run].copy_from_slice(&rest[..run]);
            self.start = (self.start + run) % self.limit;
            rest = &rest[run..];
        }
    }

    fn grow(&mut self, bytes: &[u8]) {
        let needed = self.bytes.len() + bytes.len();
        if needed > self.bytes.capacity() {
            // Doubling, but never past the limit: a full ring holds exactly what it says.
            let wanted = needed.max(self.bytes.capacity() * 2).min(self.limit);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The run of oldest bytes up to the ring's seam.
    fn oldest(&mut self) -> Option<&mut [u8]> {
        // In a small ring the runs would be too short to be worth a read.
        if self.bytes.len() < self.limit || self.limit < LARGE_TAIL_BYTES {
            return None;
        }
        self.bytes.get_mut(self.start..)
    }

    fn commit(&mut self, length: usize) -> &[u8] {
        let start = self.start;
        let end = self.bytes.len().min(start + length);
        self.start = if end == self.limit { 0 } else { end };
        &self.bytes[start..end]
    }

    fn append_to(&self, target: &mut Vec<u8>) {
        target.reserve_exact(self.bytes.len());
        target.extend_from_slice(&self.bytes[self.start..]);
        target.extend_from_slice(&self.bytes[..self.start]);
    }

    /// The bytes in the order in which they came.
    pub fn into_linear(mut self) -> Vec<u8> {
        self.bytes.rotate_left(self.start);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(limit: usize, pushes: &[&[u8]]) -> String {
        let mut keep = Keep::new(limit);
        for bytes in pushes {
            keep.push(bytes);
        }
        keep.into_text().0
    }

    #[test]
    fn keeps_all_of_a_short_stream() {
        assert_eq!(kept(16, &[b"one\n", b"two\n"]), "one\ntwo\n");
        assert_eq!(kept(16, &[]), "");
        assert_eq!(kept(8, &[b"one\ntwo\n"]), "one\ntwo\n");
    }

    #[test]
    fn cuts_at_line_borders_and_says_how_much_is_missing() {
        assert_eq!(
            kept(20, &[b"aaaa\nbbbb\ncccc\ndddd\neeee\nffff\n"]),
            "aaaa\nbbbb\n[... 15 bytes left out ...]\nffff\n"
        );
    }

    #[test]
    fn keeps_halves_of_a_line_that_has_no_border() {
        let text = kept(8, &[b"abcdefghijklmnop"]);
        assert_eq!(text, "abcd\n[... 8 bytes left out ...]\nmnop");
    }

    #[test]
    fn never_tears_a_character_in_the_middle() {
        let text = kept(9, &["ääääääääää".as_bytes()]);
        assert_eq!(text, "ää\n[... 12 bytes left out ...]\nää");
    }

    #[test]
    fn a_tail_that_begins_after_the_first_byte_of_a_long_character_begins_with_the_next_one() {
        for cut in 1..4 {
            let text = format!("{}{}", "x".repeat(8 + cut), "😀".repeat(4));
            let kept = kept(16 - cut, &[text.as_bytes()]);
            assert!(!kept.contains('\u{fffd}'), "{cut}: {kept:?}");
        }
    }

    #[test]
    fn replaces_what_is_no_utf8() {
        assert_eq!(kept(64, &[b"a\xffb\n"]), "a\u{fffd}b\n");
    }

    #[test]
    fn keeps_the_bytes_beside_a_text_that_is_not_theirs() {
        let mut keep = Keep::new(64);
        keep.push(b"a\xffb");
        assert_eq!(keep.into_text(), ("a\u{fffd}b".into(), Some(b"a\xffb".to_vec())));
        assert_eq!(Keep::new(64).into_text(), (String::new(), None));
    }

    #[test]
    fn joins_a_character_that_came_in_two_chunks() {
        assert_eq!(kept(64, &[b"\xc3", b"\xa4\n"]), "ä\n");
    }

    #[test]
    fn bytes_read_over_the_oldest_are_kept_as_pushed_ones() {
        let limit = 2 * LARGE_TAIL_BYTES;
        let (mut pushed, mut read) = (Keep::new(limit), Keep::new(limit));
        assert!(read.oldest().is_none(), "nothing is left out yet");
        let mut in_place = 0;
        for round in 0..64_usize {
            let chunk: Vec<u8> = (0..65_521)
                .map(|index| if index % 97 == 0 { b'\n' } else { b'a' + (round % 26) as u8 })
                .collect();
            pushed.push(&chunk);
            let mut rest = &chunk[..];
            while let Some(room) = read.oldest().filter(|_| !rest.is_empty()) {
                let length = room.len().min(rest.len());
                room[..length].copy_from_slice(&rest[..length]);
                assert_eq!(read.commit(length), &rest[..length]);
                rest = &rest[length..];
                in_place += length;
            }
            read.push(rest);
        }
        assert!(in_place > LARGE_TAIL_BYTES);
        assert_eq!(read.total(), pushed.total());
        assert_eq!(read.into_text(), pushed.into_text());
        let mut small = Keep::new(16);
        small.push(&[b'x'; 64]);
        assert!(small.oldest().is_none(), "too short to be worth a read");
    }

    #[test]
    fn a_long_line_between_short_ones_is_cut_and_not_dropped() {
        let limit = 4 * MAX_BYTES_FOR_A_BORDER;
        let long = "x".repeat(10 * limit);
        let text = kept(limit, &[b"head\n", long.as_bytes(), b"\ntail\n"]);
        assert!(text.starts_with("head\nx") && text.ends_with("x\ntail\n"));
        let marker = "\n[... 147467 bytes left out ...]\n".len();
        assert_eq!(text.len() - marker, limit, "nothing else is given up");
        // Within reach, the borders are taken.
        let near = "y".repeat(MAX_BYTES_FOR_A_BORDER / 2);
        let lines = format!("{near}\n").repeat(100);
        let text = kept(limit, &[lines.as_bytes()]);
        assert!(text.lines().all(|line| line == near || line.starts_with("[...")), "{}", text.len());
    }

    #[test]
    fn the_smallest_limit_works() {
        assert_eq!(kept(1, &[b"ab"]), "[... 1 bytes left out ...]\nb");
    }

    proptest! {
        #[test]
        fn any_pushes_keep_true_head_and_tail(limit in 1usize..64, pushes in prop::collection::vec("[a-c\n]{0,40}", 0..12)) {
            let mut keep = Keep::new(limit);
            let mut all = String::new();
            for push in &pushes {
                keep.push(push.as_bytes());
                all.push_str(push);
            }
            prop_assert_eq!(keep.total(), all.len() as u64);
            prop_assert_eq!(keep.truncated(), all.len() > limit);
            let text = keep.into_text().0;
            if all.len() <= limit {
                prop_assert_eq!(text, all);
            } else {
                let (head, rest) = text.split_once("[... ").expect("a marker");
                let (count, tail) = rest.split_once(" bytes left out ...]\n").expect("a marker's end");
                let count: usize = count.parse().expect("a number");
                prop_assert!(all.ends_with(tail));
                // A head without a line border is given one: that newline is not the stream's.
                let own = all.len() - count - tail.len();
                prop_assert!(all.starts_with(&head[..own]));
                prop_assert!(head[own..].is_empty() || &head[own..] == "\n");
            }
        }
    }
}
