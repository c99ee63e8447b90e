//! Framing by headers, PURE: bytes in, whole bodies out. A message is `Content-Length: N`, further headers, an empty line, N
//! bytes of JSON.
//!
//! Some programs print debug output to the same stream. So any bytes before a header are skipped up to the next
//! `Content-Length:`. Reading stops after [`MAX_NOISE`] bytes without a header, or at a body longer than the limit.
//!
//! | the buffer begins with | result |
//! |---|---|
//! | a whole header and its body | the body is a frame |
//! | a whole header, part of the body | wait; longer than the limit: [`Broken::TooLong`] |
//! | part of a header | wait; longer than [`MAX_HEADER`]: noise |
//! | bytes that only resemble a header | noise, up to the next `Content-Length:` |
//! | anything else | noise, up to the next `Content-Length:`; too much of it: [`Broken::Noise`] |

use super::found::Broken;
use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr2_iter};

const FIELD: &[u8] = b"content-length:";
/// Longest header block. Real ones have a few dozen bytes.
const MAX_HEADER: usize = 4096;

/// Reading stops after this much noise: 1 MiB.
const MAX_NOISE: usize = 1 << 20;

/// Finds the frames in a stream of bytes. The result does not depend on how the bytes are split.
#[derive(Debug)]
pub(crate) struct HeaderDecoder {
    buffer: BytesMut,
    max_body: usize,
    /// Length of the expected body, once its header was read.
    body: Option<usize>,
    /// Noise since the last frame.
    noise: usize,
    /// Noise that was not reported by [`HeaderDecoder::take_noise`] yet.
    unreported: usize,
}

enum Header {
    Whole { size: usize, body: usize },
    Partial,
    Malformed,
}

impl HeaderDecoder {
    pub(crate) fn new(max_body: usize) -> Self {
        HeaderDecoder { buffer: BytesMut::new(), max_body, body: None, noise: 0, unreported: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole body, or `None` when more bytes are needed.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Bytes>, Broken> {
        loop {
            if let Some(length) = self.body {
                if self.buffer.len() < length {
                    return Ok(None);
                }
                self.body = None;
                self.noise = 0;
                return Ok(Some(self.buffer.split_to(length).freeze()));
            }
            let Some(start) = find_field(&self.buffer) else {
                // The last bytes may be the beginning of the field name.
                let keep = self.buffer.len().min(FIELD.len() - 1);
                let useless = self.buffer.len() - keep;
                self.skip(useless)?;
                return Ok(None);
            };
            self.skip(start)?;
            match parse_header(&self.buffer) {
                Header::Partial if self.buffer.len() <= MAX_HEADER => return Ok(None),
                Header::Whole { body, .. } if body > self.max_body => return Err(Broken::TooLong(body)),
                Header::Whole { size, body } => {
                    let _ = self.buffer.split_to(size);
                    self.body = Some(body);
                }
                Header::Partial | Header::Malformed => self.skip(FIELD.len())?,
            }
        }
    }

    /// Takes back a body that is not a message. It may contain a real header, when the bytes before it were incomplete. Must be
    /// called before the next [`HeaderDecoder::next_frame`].
    pub(crate) fn reject(&mut self, body: &[u8]) {
        self.unreported += body.len();
        if let Some(start) = find_field(body) {
            let mut rest = BytesMut::with_capacity(body.len() - start + self.buffer.len());
            rest.extend_from_slice(&body[start..]);
            rest.extend_from_slice(&self.buffer);
            self.unreported -= body.len() - start;
            self.buffer = rest;
        }
    }

    /// Number of bytes skipped since the last call.
    pub(crate) fn take_noise(&mut self) -> usize {
        std::mem::take(&mut self.unreported)
    }

    /// Whether the buffer holds bytes of an unfinished message.
    pub(crate) fn is_torn(&self) -> bool {
        self.body.is_some() || !self.buffer.is_empty()
    }

    fn skip(&mut self, bytes: usize) -> Result<(), Broken> {
        let _ = self.buffer.split_to(bytes);
        self.noise += bytes;
        self.unreported += bytes;
        if self.noise > MAX_NOISE {
            return Err(Broken::Noise(self.noise));
        }
        Ok(())
    }
}

/// Position of the next `Content-Length:`, in upper or lower case.
fn find_field(bytes: &[u8]) -> Option<usize> {
    memchr2_iter(b'C', b'c', bytes).find(|&start| {
        bytes.get(start..start + FIELD.len()).is_some_and(|field| field.eq_ignore_ascii_case(FIELD))
    })
}

/// Parses the header block at the beginning of `bytes`. Its first line is a `Content-Length:`.
fn parse_header(bytes: &[u8]) -> Header {
    let mut length = None;
    let mut position = 0;
    loop {
        let rest = bytes.get(position..).unwrap_or_default();
        let Some(end) = memchr(b'\n', rest) else {
            // A line that can't become a header is malformed, whatever follows.
            return if is_plausible(rest) { Header::Partial } else { Header::Malformed };
        };
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        position += end + 1;
        // The checks are the same as for a line whose end has not come, so that the split of the bytes makes no difference.
        if position > MAX_HEADER || !is_plausible(line) {
            return Header::Malformed;
        }
        if line.is_empty() {
            return match length {
                Some(body) => Header::Whole { size: position, body },
                None => Header::Malformed,
            };
        }
        if line.len() > FIELD.len() && line[..FIELD.len()].eq_ignore_ascii_case(FIELD) {
            match std::str::from_utf8(&line[FIELD.len()..]).ok().and_then(|text| text.trim().parse().ok()) {
                Some(number) => length = Some(number),
                None => return Header::Malformed,
            }
        } else if memchr(b':', line).is_none() {
            return Header::Malformed;
        }
    }
}

fn is_plausible(line: &[u8]) -> bool {
    line.len() <= MAX_HEADER
        && line.iter().all(|&byte| byte == b'\t' || byte == b'\r' || (b' '..0x7f).contains(&byte))
}

/// A whole frame, ready to be written.
pub(crate) fn encode(body: &str) -> Bytes {
    let header = format!("Content-Length: {}\r\n\r\n", body.len());
    let mut frame = BytesMut::with_capacity(header.len() + body.len());
    frame.extend_from_slice(header.as_bytes());
    frame.extend_from_slice(body.as_bytes());
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(bytes: &[u8], step: usize) -> (Vec<String>, Option<Broken>) {
        let mut decoder = HeaderDecoder::new(1 << 20);
        let mut frames = Vec::new();
        for chunk in bytes.chunks(step.max(1)) {
            decoder.push(chunk);
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => frames.push(String::from_utf8_lossy(&frame).into_owned()),
                    Ok(None) => break,
                    Err(broken) => return (frames, Some(broken)),
                }
            }
        }
        (frames, None)
    }

    fn frame(body: &str) -> Vec<u8> {
        encode(body).to_vec()
    }

    #[test]
    fn any_split_of_the_bytes_gives_the_same_frames() {
        let mut bytes = frame(r#"{"a":"äöü"}"#);
        bytes.extend(
            b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length: 2\r\n\r\n{}",
        );
        bytes.extend(b"oh no, Content-Length: is broken\nwarning: Con");
        bytes.extend(frame("[1,2]"));
        for step in 1..bytes.len() {
            assert_eq!(
                decode(&bytes, step),
                (vec![r#"{"a":"äöü"}"#.into(), "{}".into(), "[1,2]".into()], None),
                "{step}"
            );
        }
    }

    #[test]
    fn a_header_that_comes_whole_is_judged_as_one_that_comes_in_pieces() {
        let long =
            |bytes: usize| format!("Content-Length: 2\r\nX: {}\r\n\r\n{{}}", "y".repeat(bytes)).into_bytes();
        let exact = MAX_HEADER - long(0).len() + 2;
        for (bytes, frames) in [
            (b"Content-Length:\x0b2\r\n\r\n{}".to_vec(), 0),
            (b"Content-Length: 2\r\r\n\r\n{}".to_vec(), 1),
            (long(exact), 1),
            (long(exact + 1), 0),
            (long(exact + 2), 0),
        ] {
            for step in [1, 2, bytes.len()] {
                assert_eq!(
                    decode(&bytes, step).0.len(),
                    frames,
                    "{step}: {}",
                    String::from_utf8_lossy(&bytes)
                );
            }
        }
    }

    #[test]
    fn garbage_before_a_header_is_skipped() {
        for garbage in [
            "hello\n",
            "Content-Length: abc\r\n\r\n",
            "Content-Length: -1\n",
            "\u{fffd}\u{0}",
            "Content-Length:\r\n\r\n",
        ] {
            let mut bytes = garbage.as_bytes().to_vec();
            bytes.extend(frame("{}"));
            assert_eq!(decode(&bytes, 7).0, vec!["{}"], "{garbage:?}");
        }
    }

    #[test]
    fn a_torn_header_does_not_take_the_next_frame_with_it() {
        let mut bytes = b"Content-Length: 40\r\n".to_vec();
        bytes.extend(frame("{}"));
        assert_eq!(decode(&bytes, 3).0, vec!["{}"]);
    }

    #[test]
    fn a_rejected_body_gives_back_the_frame_inside_it() {
        let inner = frame("{}");
        let mut bytes = format!("Content-Length: {}\r\n\r\n{{torn", 5 + inner.len()).into_bytes();
        bytes.extend(&inner);
        bytes.extend(frame("[]"));
        let mut decoder = HeaderDecoder::new(1024);
        decoder.push(&bytes);
        let torn = decoder.next_frame().unwrap().unwrap();
        decoder.reject(&torn);
        assert_eq!(decoder.take_noise(), 5);
        assert_eq!(decoder.next_frame().unwrap().unwrap(), "{}");
        assert_eq!(decoder.next_frame().unwrap().unwrap(), "[]");
    }

    #[test]
    fn a_mebibyte_without_a_header_breaks_the_stream() {
        let noise = vec![b'x'; MAX_NOISE + 100];
        assert!(matches!(decode(&noise, 4096).1, Some(Broken::Noise(_))));
        let mut bearable = vec![b'x'; MAX_NOISE - 100];
        bearable.extend(frame("{}"));
        assert_eq!(decode(&bearable, 4096), (vec!["{}".into()], None));
    }

    #[test]
    fn a_body_over_the_bound_breaks_the_stream_before_it_is_read() {
        let (frames, broken) = decode(b"Content-Length: 1048577\r\n\r\n", 100);
        assert_eq!((frames.len(), broken), (0, Some(Broken::TooLong(1_048_577))));
    }

    proptest! {
        #[test]
        fn whatever_comes_the_real_frames_after_it_are_found(
            noise in proptest::collection::vec(any::<u8>(), 0..300), bodies in proptest::collection::vec("[a-z{}\":]{0,40}", 1..5), step in 1usize..50
        ) {
            // A number in the noise could announce a body. This test then checks only that nothing panics.
            let mut bytes = noise.clone();
            bytes.push(b'\n');
            for body in &bodies { bytes.extend(frame(body)); }
            let (frames, _) = decode(&bytes, step);
            if find_field(&noise).is_none() {
                prop_assert_eq!(frames, bodies);
            }
        }
    }
}
