//! Reads JSON as it passes, in any pieces and of any length, and keeps none of it but short words. PURE.
//!
//! The text is not checked: a [`Reader`] of something that is no JSON is told nonsense, or nothing. Memory is bounded by
//! [`MAX_DEPTH`] and [`MAX_WORD`], whatever comes.

use memchr::{memchr, memchr2};

/// Containers below this depth are passed over.
const MAX_DEPTH: usize = 64;
/// The longest key, number or text whose beginning is told to the reader.
const MAX_WORD: usize = 256;

/// A reader of the values, which learns of each by its place.
pub(super) trait Reader {
    type Place: Copy;

    /// The place of a value that is in nothing.
    fn root(&self) -> Self::Place;
    /// The place of a value in a list.
    fn element(&mut self, list: Self::Place) -> Self::Place;
    /// The place of the value behind a key.
    fn member(&mut self, object: Self::Place, key: &str) -> Self::Place;
    /// A list or an object begins.
    fn begin(&mut self, place: Self::Place, is_list: bool);
    /// It is over.
    fn end(&mut self, place: Self::Place);
    /// `start`: its beginning. `length`: its bytes, without escapes.
    fn text(&mut self, place: Self::Place, start: &str, length: u64);
    /// A number, `true`, `false` or `null`.
    fn plain(&mut self, place: Self::Place, word: &str);
}

#[derive(Clone, Copy)]
struct Level<P> {
    is_list: bool,
    place: P,
    /// The place of the value behind the last key.
    next: P,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Between,
    Plain,
    Text,
    /// The byte before was a backslash.
    Escape,
    /// A `\u` is being read: the number of digits that are missing, and the value of those before.
    Hex(u8, u32),
}

pub(super) struct Scan<R: Reader> {
    pub reader: R,
    levels: Vec<Level<R::Place>>,
    /// Containers that are deeper than is looked at.
    deeper: u64,
    /// The next text is a key.
    is_key: bool,
    mode: Mode,
    word: Vec<u8>,
    length: u64,
}

impl<R: Reader> Scan<R> {
    pub(super) fn new(reader: R) -> Scan<R> {
        let (levels, word) = (Vec::new(), Vec::new());
        Scan { reader, levels, deeper: 0, is_key: false, mode: Mode::Between, word, length: 0 }
    }

    pub(super) fn push(&mut self, mut piece: &[u8]) {
        while let Some((&byte, rest)) = piece.split_first() {
            piece = match self.mode {
                Mode::Between => {
                    self.on_structure(byte);
                    rest
                }
                Mode::Plain if is_plain(byte) => {
                    self.add(&[byte]);
                    rest
                }
                Mode::Plain => {
                    self.end_plain();
                    piece
                }
                Mode::Text => self.on_text(piece),
                Mode::Escape => {
                    self.on_escape(byte);
                    rest
                }
                Mode::Hex(missing, before) => {
                    self.on_hex(byte, missing, before);
                    rest
                }
            };
        }
    }

    /// Nothing more comes of this text: the values under way are over.
    pub(super) fn close(&mut self) {
        match self.mode {
            Mode::Between => {}
            Mode::Plain => self.end_plain(),
            Mode::Text | Mode::Escape | Mode::Hex(..) => self.end_text(),
        }
        self.deeper = 0;
        while let Some(level) = self.levels.pop() {
            self.reader.end(level.place);
        }
        self.is_key = false;
    }

    fn on_structure(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.begin(byte == b'['),
            b'}' | b']' => self.end(),
            b'"' => {
                self.begin_word();
                self.mode = Mode::Text;
            }
            b',' => self.is_key = self.levels.last().is_some_and(|level| !level.is_list),
            b':' => self.is_key = false,
            byte if is_plain(byte) => {
                self.begin_word();
                self.mode = Mode::Plain;
                self.add(&[byte]);
            }
            _ => {}
        }
    }

    fn begin(&mut self, is_list: bool) {
        if self.deeper > 0 || self.levels.len() >= MAX_DEPTH {
            self.deeper = self.deeper.saturating_add(1);
            return;
        }
        let place = self.place();
        self.reader.begin(place, is_list);
        self.levels.push(Level { is_list, place, next: place });
        self.is_key = !is_list;
    }

    fn end(&mut self) {
        if self.deeper > 0 {
            self.deeper = self.deeper.saturating_sub(1);
        } else if let Some(level) = self.levels.pop() {
            self.reader.end(level.place);
        }
        self.is_key = false;
    }

    /// The place of the next value.
    fn place(&mut self) -> R::Place {
        match self.levels.last() {
            None => self.reader.root(),
            Some(level) if level.is_list => self.reader.element(level.place),
            Some(level) => level.next,
        }
    }

    fn begin_word(&mut self) {
        self.word.clear();
        self.length = 0;
    }

    fn add(&mut self, bytes: &[u8]) {
        self.length = self.length.saturating_add(bytes.len() as u64);
        let room = MAX_WORD.saturating_sub(self.word.len()).min(bytes.len());
        self.word.extend(bytes.iter().take(room));
    }

    fn end_plain(&mut self) {
        self.mode = Mode::Between;
        if self.deeper > 0 {
            return;
        }
        let place = self.place();
        self.reader.plain(place, &String::from_utf8_lossy(&self.word));
    }

    /// Returns what is behind the text, or behind a part of it.
    fn on_text<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let end = memchr2(b'"', b'\\', piece).unwrap_or(piece.len());
        let (part, rest) = piece.split_at(end);
        self.add(part);
        let Some((&byte, rest)) = rest.split_first() else { return rest };
        if byte == b'"' {
            self.end_text();
        } else {
            self.mode = Mode::Escape;
        }
        rest
    }

    fn on_escape(&mut self, byte: u8) {
        self.mode = Mode::Text;
        match byte {
            b'u' => self.mode = Mode::Hex(4, 0),
            b'n' => self.add(b"\n"),
            b't' => self.add(b"\t"),
            b'r' => self.add(b"\r"),
            b'b' | b'f' => self.add(b" "),
            byte => self.add(&[byte]),
        }
    }

    fn on_hex(&mut self, byte: u8, missing: u8, before: u32) {
        let digit = char::from(byte).to_digit(16).unwrap_or_default();
        let code = before.wrapping_shl(4) | digit;
        self.mode = Mode::Hex(missing.saturating_sub(1), code);
        if missing > 1 {
            return;
        }
        self.mode = Mode::Text;
        match char::from_u32(code) {
            Some(character) => self.add(character.encode_utf8(&mut [0; 4]).as_bytes()),
            // Half of a pair, which has four bytes.
            None => self.add(b"??"),
        }
    }

    fn end_text(&mut self) {
        self.mode = Mode::Between;
        if self.deeper > 0 {
            return;
        }
        let is_key = self.is_key;
        if let Some(level) = self.levels.last_mut().filter(|level| is_key && !level.is_list) {
            level.next = self.reader.member(level.place, &String::from_utf8_lossy(&self.word));
            return;
        }
        let place = self.place();
        self.reader.text(place, &String::from_utf8_lossy(&self.word), self.length);
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

/// The data of server-sent events, found as they pass. Nothing of them is kept.
#[derive(Default)]
pub(super) struct Events {
    line: Line,
    /// The last byte was a CR, so an LF that follows belongs to it.
    after_return: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Line {
    /// So many bytes of the field's name were read, and are those of `data:`.
    #[default]
    Begin,
    Name(usize),
    Data,
    /// Another field.
    Other,
}

/// A part of a stream of events.
pub(super) enum Part<'a> {
    Data(&'a [u8]),
    /// The event is over.
    End,
}

const DATA: &[u8] = b"data:";

impl Events {
    pub(super) fn push<'a>(&mut self, mut piece: &'a [u8], mut each: impl FnMut(Part<'a>)) {
        while let Some((&byte, rest)) = piece.split_first() {
            if std::mem::take(&mut self.after_return) && byte == b'\n' {
                piece = rest;
                continue;
            }
            let is_end = matches!(byte, b'\n' | b'\r');
            match self.line {
                _ if is_end => {
                    self.after_return = byte == b'\r';
                    match self.line {
                        Line::Begin => each(Part::End),
                        // The lines of an event are one text.
                        Line::Data => each(Part::Data(b"\n")),
                        Line::Name(_) | Line::Other => {}
                    }
                    self.line = Line::Begin;
                    piece = rest;
                }
                Line::Begin | Line::Name(_) => {
                    let read = if let Line::Name(read) = self.line { read } else { 0 };
                    let next = read.saturating_add(1);
                    self.line = match DATA.get(read) {
                        Some(expected) if *expected == byte && next == DATA.len() => Line::Data,
                        Some(expected) if *expected == byte => Line::Name(next),
                        _ => Line::Other,
                    };
                    piece = rest;
                }
                Line::Data | Line::Other => {
                    let end = memchr2(b'\n', b'\r', piece).unwrap_or(piece.len());
                    let (part, rest) = piece.split_at(end);
                    if self.line == Line::Data {
                        each(Part::Data(part));
                    }
                    piece = rest;
                }
            }
        }
    }
}

/// Whether a text may begin so: with an object, a list or an event. `None`: not yet known.
pub(super) fn beginning(piece: &[u8]) -> Option<Beginning> {
    let first = piece.iter().find(|byte| memchr(**byte, b" \t\r\n\xef\xbb\xbf").is_none())?;
    Some(match first {
        b'{' | b'[' => Beginning::Value,
        // `data`, `event`, `id`, `retry`, or a comment.
        b'd' | b'e' | b'i' | b'r' | b':' => Beginning::Events,
        _ => Beginning::Other,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    Value,
    Events,
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Writes what it is told as lines of `path = value`.
    #[derive(Default)]
    struct Lines {
        paths: Vec<String>,
        lines: Vec<String>,
    }

    impl Lines {
        fn path(&mut self, path: String) -> usize {
            self.paths.push(path);
            self.paths.len()
        }

        fn at(&self, place: usize) -> &str {
            place.checked_sub(1).map_or("", |index| &self.paths[index])
        }
    }

    impl Reader for Lines {
        type Place = usize;
        fn root(&self) -> usize {
            0
        }
        fn element(&mut self, list: usize) -> usize {
            self.path(format!("{}[]", self.at(list)))
        }
        fn member(&mut self, object: usize, key: &str) -> usize {
            self.path(format!("{}.{key}", self.at(object)))
        }
        fn begin(&mut self, place: usize, is_list: bool) {
            self.lines.push(format!("{} {}", self.at(place), if is_list { '[' } else { '{' }));
        }
        fn end(&mut self, place: usize) {
            self.lines.push(format!("{} end", self.at(place)));
        }
        fn text(&mut self, place: usize, start: &str, length: u64) {
            self.lines.push(format!("{} = {start:?} {length}", self.at(place)));
        }
        fn plain(&mut self, place: usize, word: &str) {
            self.lines.push(format!("{} = {word}", self.at(place)));
        }
    }

    fn scanned(pieces: &[&[u8]]) -> Vec<String> {
        let mut scan = Scan::new(Lines::default());
        pieces.iter().for_each(|piece| scan.push(piece));
        scan.close();
        scan.reader.lines
    }

    fn expected(value: &Value, path: &str, lines: &mut Vec<String>) {
        match value {
            Value::Array(all) => {
                lines.push(format!("{path} ["));
                all.iter().for_each(|one| expected(one, &format!("{path}[]"), lines));
                lines.push(format!("{path} end"));
            }
            Value::Object(all) => {
                lines.push(format!("{path} {{"));
                all.iter().for_each(|(key, one)| expected(one, &format!("{path}.{key}"), lines));
                lines.push(format!("{path} end"));
            }
            Value::String(text) => lines.push(format!("{path} = {text:?} {}", text.len())),
            plain => lines.push(format!("{path} = {plain}")),
        }
    }

    #[test]
    fn escapes_are_read_and_counted_as_what_they_stand_for() {
        let text = r#"{"m\u0065ssages":"a\n\"\\\u00e9"}"#;
        assert_eq!(scanned(&[text.as_bytes()])[1], format!(".messages = {:?} 6", "a\n\"\\é"));
        // A pair of four bytes.
        assert_eq!(scanned(&[br#""\ud83d\ude00""#]), [" = \"????\" 4"]);
    }

    #[test]
    fn what_is_deep_or_long_takes_no_memory() {
        let mut scan = Scan::new(Lines::default());
        for _ in 0..100_000 {
            scan.push(b"[{\"key\":[1,\"x\",");
        }
        scan.push(b"\"");
        for _ in 0..1000 {
            scan.push(&[b'x'; 1000]);
        }
        assert_eq!(scan.levels.len(), MAX_DEPTH);
        assert_eq!((scan.word.len(), scan.length), (MAX_WORD, 1_000_000));
        scan.close();
    }

    #[test]
    fn events_are_found_in_any_pieces() {
        let text = ": hello\r\ndata: {\"a\":\r\ndata:1}\r\n\r\nevent: x\ndata:[2]\n\ndat: 3\ndata\ndatax: 4\n\ndata: 5";
        for step in 1..text.len() {
            let (mut events, mut seen) = (Events::default(), String::new());
            for piece in text.as_bytes().chunks(step) {
                events.push(piece, |part| match part {
                    Part::Data(data) => seen.push_str(std::str::from_utf8(data).unwrap()),
                    Part::End => seen.push('|'),
                });
            }
            assert_eq!(seen, " {\"a\":\n1}\n|[2]\n|| 5", "{step}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z\"\\\\\n{}\\[\\]:,é]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec(("[a-c\"\\\\é]{0,4}", inner), 0..6)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_are_told_as_a_parser_reads_them_however_they_are_cut(value in json(), pretty: bool, step in 1usize..40) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let mut lines = Vec::new();
            expected(&value, "", &mut lines);
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(step).collect();
            prop_assert_eq!(scanned(&pieces), lines);
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:\\u0a \n".to_vec()), 0..300)) {
            let mut scan = Scan::new(Lines::default());
            bytes.iter().for_each(|byte| scan.push(&[*byte]));
            scan.close();
            prop_assert!(scan.levels.is_empty());
        }
    }
}
