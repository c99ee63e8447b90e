//! Parses server-sent events: bytes in any pieces in, events out. PURE.

use memchr::memchr2;
use std::fmt;

/// One event: the lines between two empty lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// The value of `event:`, if there was one.
    pub name: Option<String>,
    /// The `data:` lines, joined by line feeds.
    pub data: String,
}

/// The event is longer than the parser's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLong {
    pub max_bytes: usize,
}

impl fmt::Display for EventTooLong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an event of the stream is longer than {} bytes", self.max_bytes)
    }
}

impl std::error::Error for EventTooLong {}

/// Keeps at most `max_bytes` of an unfinished event. Lines end with LF, CR LF or CR. Bytes that are not UTF-8 are replaced.
/// Comments, unknown fields and events without data are skipped.
#[derive(Debug)]
pub struct SseParser {
    max_bytes: usize,
    /// The unfinished line.
    line: Vec<u8>,
    data: Option<String>,
    name: Option<String>,
    /// The last byte was a CR, so an LF that follows belongs to it.
    after_return: bool,
    /// The next line is the first one, which may begin with a byte order mark.
    first_line: bool,
}

impl SseParser {
    pub fn new(max_bytes: usize) -> Self {
        SseParser {
            max_bytes,
            line: Vec::new(),
            data: None,
            name: None,
            after_return: false,
            first_line: true,
        }
    }

    /// Appends the events that these bytes complete. After an error the stream can't be parsed any further.
    pub fn push(&mut self, chunk: &[u8], events: &mut Vec<SseEvent>) -> Result<(), EventTooLong> {
        let mut rest = chunk;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let is_return = rest[end] == b'\r';
            let (piece, after) = (&rest[..end], &rest[end + 1..]);
            if self.line.is_empty() {
                self.on_line(piece, events)?;
            } else {
                self.line.extend_from_slice(piece);
                let line = std::mem::take(&mut self.line);
                self.on_line(&line, events)?;
            }
            rest = match (is_return, after) {
                (true, []) => {
                    self.after_return = true;
                    after
                }
                (true, [b'\n', after @ ..]) => after,
                _ => after,
            };
        }
        self.line.extend_from_slice(rest);
        self.check_length(self.line.len())
    }

    /// Ends the stream. An event that lacks only its empty line is returned, because many servers omit the line.
    pub fn finish(&mut self) -> Option<SseEvent> {
        let mut events = Vec::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.on_line(&line, &mut events).ok()?;
        }
        self.dispatch()
    }

    fn on_line(&mut self, line: &[u8], events: &mut Vec<SseEvent>) -> Result<(), EventTooLong> {
        // The length is checked as for a line that comes in pieces, so that the split of the bytes makes no difference.
        self.check_length(line.len())?;
        let line = match line.strip_prefix("\u{feff}".as_bytes()) {
            Some(line) if self.first_line => line,
            _ => line,
        };
        self.first_line = false;
        if line.is_empty() {
            events.extend(self.dispatch());
            return Ok(());
        }
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let (field, value) = (&line[..colon], line.get(colon + 1..).unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.check_length(value.len())?;
                let value = String::from_utf8_lossy(value);
                match &mut self.data {
                    None => self.data = Some(value.into_owned()),
                    Some(data) => {
                        data.push('\n');
                        data.push_str(&value);
                    }
                }
                self.check_length(0)
            }
            b"event" => {
                self.check_length(value.len())?;
                self.name = Some(String::from_utf8_lossy(value).into_owned());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let name = self.name.take();
        self.data.take().map(|data| SseEvent { name, data })
    }

    fn check_length(&self, more: usize) -> Result<(), EventTooLong> {
        let kept = self.data.as_ref().map_or(0, String::len);
        if kept.saturating_add(more) > self.max_bytes {
            return Err(EventTooLong { max_bytes: self.max_bytes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::new(1000);
        let mut events = Vec::new();
        for piece in pieces {
            parser.push(piece, &mut events).unwrap();
        }
        events.extend(parser.finish());
        events
    }

    fn data(text: &str) -> Vec<String> {
        parse(&[text.as_bytes()]).into_iter().map(|event| event.data).collect()
    }

    #[test]
    fn reads_names_and_joins_data_lines() {
        let events = parse(&[b"event: delta\ndata: one\ndata:two\ndata:  three\n\n: ping\n\ndata\n\n"]);
        assert_eq!(events.len(), 2);
        assert_eq!(events[0], SseEvent { name: Some("delta".into()), data: "one\ntwo\n three".into() });
        assert_eq!(events[1], SseEvent { name: None, data: String::new() });
    }

    #[test]
    fn takes_all_three_line_ends_and_a_byte_order_mark() {
        for end in ["\n", "\r\n", "\r"] {
            let text = format!("\u{feff}data: a{end}data: b{end}{end}data: c{end}{end}");
            assert_eq!(data(&text), ["a\nb", "c"]);
        }
    }

    #[test]
    fn an_event_without_data_is_none_and_its_name_does_not_stay() {
        let events = parse(&[b"event: ping\n\ndata: x\n\n"]);
        assert_eq!(events, [SseEvent { name: None, data: "x".into() }]);
    }

    #[test]
    fn the_last_event_needs_no_empty_line() {
        assert_eq!(data("data: a\n\ndata: [DONE]"), ["a", "[DONE]"]);
    }

    #[test]
    fn refuses_an_event_that_is_too_long_in_a_line_and_in_many() {
        let long = format!("data: {}", "x".repeat(200));
        let mut events = Vec::new();
        assert_eq!(
            SseParser::new(100).push(long.as_bytes(), &mut events),
            Err(EventTooLong { max_bytes: 100 })
        );
        let many = "data: xxxxxxxxx\n".repeat(20);
        assert!(SseParser::new(100).push(many.as_bytes(), &mut events).is_err());
        assert!(
            SseParser::new(100).push(b"event: a\ndata: b\n\n".repeat(50).as_slice(), &mut events).is_ok()
        );
    }

    #[test]
    fn whether_it_is_too_long_does_not_depend_on_how_it_was_cut() {
        for (text, is_good) in [
            ("data: 1234567890\nsomething else\n\n", false),
            ("data: 1234567890\nevent: x\n\n", true),
            (": a comment of many words\n", false),
        ] {
            for step in [1, 3, text.len()] {
                let mut parser = SseParser::new(20);
                let pushed =
                    text.as_bytes().chunks(step).all(|piece| parser.push(piece, &mut Vec::new()).is_ok());
                assert_eq!(pushed, is_good, "{step}: {text}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            text in prop::collection::vec(
                prop::sample::select(vec!["data", "event", ":", " ", "\n", "\r", "\r\n", "é", "x", "\u{feff}", "\n\n"]), 0..60
            ).prop_map(|parts| parts.concat()),
            cuts in prop::collection::vec(0usize..120, 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(parse(&pieces), parse(&[bytes]));
        }

        #[test]
        fn any_bytes_are_taken_and_little_is_kept(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut parser = SseParser::new(64);
            let mut events = Vec::new();
            for byte in bytes {
                if parser.push(&[byte], &mut events).is_err() {
                    break;
                }
                prop_assert!(parser.line.len() + parser.data.as_ref().map_or(0, String::len) <= 64);
            }
            parser.finish();
        }
    }
}
