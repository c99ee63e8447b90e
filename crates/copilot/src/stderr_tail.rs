//! The last lines that a process wrote to stderr, PURE and bounded.

use ground::line::LineFramer;
use std::collections::VecDeque;

/// Collects bytes into lines, and keeps the last lines.
#[derive(Debug)]
pub(crate) struct StderrTail {
    framer: LineFramer,
    kept: Kept,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Default for StderrTail {
    fn default() -> Self {
        StderrTail { framer: LineFramer::new(Self::MAX_LINE), kept: Kept::default() }
    }
}

impl StderrTail {
    /// Most bytes kept: 16 KiB.
    const MAX_BYTES: usize = 16 << 10;
    /// A longer line is cut.
    const MAX_LINE: usize = 4 << 10;

    /// Adds bytes; calls back with every line that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        let StderrTail { framer, kept } = self;
        framer.push_cut(bytes, |line| kept.add(line, &mut each));
    }

    /// The last line counts even when it was not ended.
    pub(crate) fn finish(&mut self, mut each: impl FnMut(&str)) {
        let StderrTail { framer, kept } = self;
        // A last line in pieces is never longer than the framer takes.
        let _ = framer.end(|line| kept.add(line, &mut each));
    }

    /// The kept lines, without white space at both ends.
    pub(crate) fn text(&self) -> String {
        let mut text: String = self.kept.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        text.push_str(&String::from_utf8_lossy(self.framer.unfinished()));
        text.trim().to_owned()
    }
}

impl Kept {
    fn add(&mut self, line: &[u8], each: &mut impl FnMut(&str)) {
        let line = String::from_utf8_lossy(line).trim_end().to_owned();
        each(&line);
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        while self.bytes > StderrTail::MAX_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.len() + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_whole_lines_and_keeps_the_last() {
        let mut tail = StderrTail::default();
        let mut lines = Vec::new();
        tail.push(b"one\r\ntw", |line| lines.push(line.to_owned()));
        tail.push(b"o\nend", |line| lines.push(line.to_owned()));
        assert_eq!(tail.text(), "one\ntwo\nend");
        tail.finish(|line| lines.push(line.to_owned()));
        assert_eq!(lines, ["one", "two", "end"]);
    }

    #[test]
    fn stays_bounded_whatever_is_written() {
        let mut tail = StderrTail::default();
        for _ in 0..1000 {
            tail.push(&[b'x'; 5000], |_| {});
            tail.push(b"\n", |_| {});
        }
        assert!(tail.text().len() <= StderrTail::MAX_BYTES + StderrTail::MAX_LINE);
    }
}
