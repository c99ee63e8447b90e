//! PURE. What this capability adds to lines: a framer for each stream, and a block as one text.

use super::spec::Stream;
use memchr::memmem;

pub(super) use crate::line::inner_lines;
pub use crate::line::{LineFramer, LineTooLong, lines_of};

/// A block as one text, its lines joined by `\n` alone, without the last end.
pub fn block_text(block: &[u8]) -> String {
    let block = block.strip_suffix(b"\n").unwrap_or(block);
    let block = block.strip_suffix(b"\r").unwrap_or(block);
    if memmem::find(block, b"\r\n").is_none() {
        return super::text::decode(block).into_owned();
    }
    let mut joined = Vec::with_capacity(block.len());
    for (index, line) in inner_lines(block).enumerate() {
        if index > 0 {
            joined.push(b'\n');
        }
        joined.extend_from_slice(line);
    }
    super::keep::into_string(joined)
}

/// One framer for each stream.
#[derive(Debug)]
pub(crate) struct StreamFramers {
    stdout: LineFramer,
    stderr: LineFramer,
}

impl StreamFramers {
    pub(crate) fn new(limit: usize) -> Self {
        StreamFramers { stdout: LineFramer::new(limit), stderr: LineFramer::new(limit) }
    }

    pub(crate) fn of(&mut self, stream: Stream) -> &mut LineFramer {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_one_text_with_plain_line_ends() {
        assert_eq!(block_text(b"a\r\nb\n\nc\n"), "a\nb\n\nc");
        assert_eq!(block_text(b"a\r\n"), "a");
        assert_eq!(block_text(b"a\r\nb\n\n"), "a\nb\n");
        assert_eq!(block_text(b"\n"), "");
        assert_eq!(block_text(b"a\xff\n"), "a\u{fffd}");
    }
}
