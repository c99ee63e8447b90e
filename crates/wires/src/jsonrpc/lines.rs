//! Framing by lines, PURE: one JSON text per line.

use super::found::{Broken, Found};
use bytes::{BufMut, Bytes, BytesMut};
use ground::line::{LineFramer, lines_of, without_mark};
use std::collections::VecDeque;

/// Finds the messages. Other lines are returned as they are.
#[derive(Debug)]
pub(crate) struct LineDecoder {
    framer: LineFramer,
    found: VecDeque<Found>,
    broken: Option<Broken>,
    limit: usize,
}

impl LineDecoder {
    pub(crate) fn new(limit: usize) -> Self {
        LineDecoder { framer: LineFramer::new(limit), found: VecDeque::new(), broken: None, limit }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let found = &mut self.found;
        let framed = self.framer.push(bytes, |block| {
            let block = Bytes::copy_from_slice(block);
            let lines = lines_of(&block).filter(|line| !line.trim_ascii().is_empty());
            found.extend(lines.map(|line| {
                let line = block.slice_ref(without_mark(line));
                match line.trim_ascii_start().first() {
                    Some(b'{') => Found::Body(line),
                    _ => Found::Line(line),
                }
            }));
        });
        if framed.is_err() {
            self.broken = Some(Broken::LineTooLong(self.limit));
        }
    }

    pub(crate) fn next_found(&mut self) -> Result<Option<Found>, Broken> {
        match (self.found.pop_front(), self.broken) {
            (Some(found), _) => Ok(Some(found)),
            (None, Some(broken)) => Err(broken),
            (None, None) => Ok(None),
        }
    }

    pub(crate) fn is_torn(&self) -> bool {
        !self.found.is_empty() || !self.framer.unfinished().is_empty()
    }
}

/// Encodes a message as one line. Line breaks between the values of a JSON text become spaces; its strings contain none.
pub(crate) fn encode(body: &str) -> Bytes {
    let mut line = BytesMut::with_capacity(body.len() + 1);
    line.extend(body.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
    line.put_u8(b'\n');
    line.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(bytes: &[u8], step: usize, limit: usize) -> (Vec<String>, Option<Broken>) {
        let mut decoder = LineDecoder::new(limit);
        let mut all = Vec::new();
        for chunk in bytes.chunks(step.max(1)) {
            decoder.push(chunk);
            loop {
                match decoder.next_found() {
                    Ok(Some(Found::Body(body))) => all.push(String::from_utf8_lossy(&body).into_owned()),
                    Ok(Some(Found::Line(line))) => {
                        all.push(format!("noise {}", String::from_utf8_lossy(&line)))
                    }
                    Ok(Some(Found::Garbage(_))) => all.push("garbage".to_owned()),
                    Ok(None) => break,
                    Err(broken) => return (all, Some(broken)),
                }
            }
        }
        (all, None)
    }

    #[test]
    fn messages_and_noise_come_in_their_order_however_the_bytes_are_split() {
        let bytes =
            "{\"a\":\"\u{2028}\u{e4}\"}\r\nWarning: old node\n\n  \n {\"b\":1}\n[1]\n\u{1b}[0m\n{torn"
                .as_bytes();
        for step in 1..bytes.len() {
            let (all, broken) = decode(bytes, step, 100);
            let expected = [
                "{\"a\":\"\u{2028}\u{e4}\"}",
                "noise Warning: old node",
                " {\"b\":1}",
                "noise [1]",
                "noise \u{1b}[0m",
            ];
            assert_eq!((all, broken), (expected.map(str::to_owned).to_vec(), None), "{step}");
        }
    }

    #[test]
    fn a_byte_order_mark_before_a_message_is_passed_over() {
        let (all, _) = decode("\u{feff}{\"a\":1}\n\u{feff}note\n".as_bytes(), 3, 100);
        assert_eq!(all, ["{\"a\":1}", "noise note"]);
    }

    #[test]
    fn a_line_over_the_bound_breaks_the_stream_after_the_messages_before_it() {
        let (all, broken) = decode(b"{}\n{\"long\":1234}\n{}\n", 4, 8);
        assert_eq!((all, broken), (vec!["{}".to_owned()], Some(Broken::LineTooLong(8))));
    }

    #[test]
    fn an_unfinished_line_is_torn() {
        let mut decoder = LineDecoder::new(8);
        decoder.push(b"{}\n");
        assert!(decoder.is_torn());
        assert!(decoder.next_found().unwrap().is_some());
        assert!(!decoder.is_torn());
        decoder.push(b"{");
        assert!(decoder.is_torn());
    }

    #[test]
    fn a_text_of_many_lines_goes_out_as_one() {
        assert_eq!(encode("{\n  \"a\": \"x\\n\"\r\n}"), "{   \"a\": \"x\\n\"  }\n");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bodies in prop::collection::vec("[a-z\u{e4}\u{2028}\\\\\",:\n]{0,40}", 0..6), step in 1usize..50) {
            let bodies: Vec<String> = bodies.into_iter().map(|body| format!("{{{body}}}")).collect();
            let bytes: Vec<u8> = bodies.iter().flat_map(|body| encode(body)).collect();
            let (all, broken) = decode(&bytes, step, 1 << 10);
            let expected: Vec<String> = bodies.iter().map(|body| body.replace('\n', " ")).collect();
            prop_assert_eq!((all, broken), (expected, None));
        }
    }
}
