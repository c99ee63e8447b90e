//! One request, read as it passes: whether it asks a model for something, and how much text it has.
//!
//! A server reads the body to know what is asked, so the program can't hide it there: an object with `messages`, or the like. No label
//! is believed: whatever begins as JSON is read as JSON, in the wide encodings too. At the path of a model, every other body counts by
//! its length.

use super::answer::unpacked;
use super::scan::{Beginning, Reader, Scan, beginning};
use super::text::Text;
use crate::connection_headers::is_encoded;
use hyper::HeaderMap;
use hyper::header::CONTENT_TYPE;

/// The text of a request, which its body tells as it passes.
#[derive(Default)]
pub(crate) struct AskedText(Option<Asking>);

type OnAsked = Box<dyn Fn(u64) + Send>;

struct Asking {
    /// Takes the bytes of text so far, once it is known that a model is asked.
    on_asked: OnAsked,
    kind: Kind,
    text: Text,
    length: u64,
    /// The text is UTF-16 or UTF-32. Only its bytes other than zero are read: names of members have no others.
    is_wide: bool,
    is_model: bool,
}

enum Kind {
    /// Nothing of it has come. The kind, if it is not JSON.
    Unknown(Unread),
    Value(Scan<Members>),
    Unread(Unread),
}

/// A body that can't be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unread {
    /// Its path is no model's.
    Other,
    /// It has another encoding.
    Compressed,
    /// It has files, whose length says nothing.
    Form,
    Plain,
}

impl AskedText {
    pub(super) fn new(path: &str, headers: &HeaderMap, on_asked: OnAsked) -> AskedText {
        if is_free(path) {
            return AskedText::default();
        }
        let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
        let is_form = kind.is_some_and(|kind| kind.starts_with(b"multipart/"));
        let unread = match is_model(path) {
            None => Unread::Other,
            Some(_) if is_encoded(headers) => Unread::Compressed,
            Some(Takes::Files) if is_form => Unread::Form,
            Some(_) => Unread::Plain,
        };
        AskedText(Some(Asking {
            on_asked,
            kind: Kind::Unknown(unread),
            text: Text::default(),
            length: 0,
            is_wide: false,
            is_model: false,
        }))
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        if let Some(asking) = &mut self.0 {
            asking.push(piece);
        }
    }

    /// Bytes of text so far.
    pub(super) fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, Asking::bytes)
    }

    /// The answer is over: whatever comes now counts no more. Returns the bytes of text, and whether a model was asked.
    pub(super) fn end(&mut self) -> (u64, bool) {
        self.0.take().map_or((0, false), |asking| (asking.bytes(), asking.is_model))
    }
}

impl Asking {
    fn push(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        self.length = self.length.saturating_add(piece.len() as u64);
        if self.length == piece.len() as u64 {
            self.is_wide = piece.iter().take(4).any(|byte| matches!(byte, 0 | 0xfe | 0xff));
        }
        if self.is_wide {
            let narrow: Vec<u8> =
                piece.iter().copied().filter(|byte| !matches!(byte, 0 | 0xfe | 0xff)).collect();
            self.read(&narrow);
        } else {
            self.read(piece);
        }
        if self.is_model {
            (self.on_asked)(self.bytes());
        }
    }

    fn read(&mut self, piece: &[u8]) {
        self.text.push(piece);
        match &mut self.kind {
            Kind::Unknown(unread) => match beginning(piece) {
                None => {}
                // A compressed one may begin like that by chance.
                Some(Beginning::Value) if *unread != Unread::Compressed => {
                    let mut scan = Scan::new(Members::default());
                    self.is_model = scan.is_model_after(piece);
                    self.kind = Kind::Value(scan);
                }
                Some(_) => {
                    self.is_model = *unread != Unread::Other;
                    self.kind = Kind::Unread(*unread);
                }
            },
            Kind::Value(scan) => self.is_model = self.is_model || scan.is_model_after(piece),
            Kind::Unread(_) => {}
        }
    }

    fn bytes(&self) -> u64 {
        match self.kind {
            Kind::Unread(Unread::Form) => 0,
            Kind::Unread(Unread::Compressed) => unpacked(self.length),
            Kind::Unread(Unread::Plain) => self.length,
            _ => self.text.bytes(),
        }
    }
}

impl Scan<Members> {
    fn is_model_after(&mut self, piece: &[u8]) -> bool {
        self.push(piece);
        self.reader.is_model()
    }
}

/// Members that a request to a model has.
#[derive(Default)]
struct Members {
    has_model: bool,
    has_messages: bool,
    has_prompt: bool,
}

impl Members {
    fn is_model(&self) -> bool {
        self.has_messages || (self.has_model && self.has_prompt)
    }
}

#[derive(Clone, Copy)]
enum Place {
    /// An object whose members tell what is asked for.
    Request,
    Nothing,
}

impl Reader for Members {
    type Place = Place;

    fn root(&self) -> Place {
        Place::Request
    }

    fn element(&mut self, _: Place) -> Place {
        Place::Nothing
    }

    fn member(&mut self, object: Place, key: &str) -> Place {
        if let Place::Nothing = object {
            return Place::Nothing;
        }
        match key {
            "messages" | "contents" => self.has_messages = true,
            "prompt" | "input" => self.has_prompt = true,
            "model" => self.has_model = true,
            // Gemini's requests of those who signed in are one level deeper.
            "request" => return Place::Request,
            _ => {}
        }
        Place::Nothing
    }

    fn begin(&mut self, _: Place, _: bool) {}
    fn end(&mut self, _: Place) {}
    fn text(&mut self, _: Place, _: &str, _: u64) {}
    fn plain(&mut self, _: Place, _: &str) {}
}

/// Whether it counts the tokens of a request, which costs none.
fn is_free(path: &str) -> bool {
    path.ends_with("/count_tokens") || path.ends_with(":countTokens")
}

/// The bodies that a model takes at a path.
#[derive(Clone, Copy)]
enum Takes {
    Text,
    /// Text, and forms with sounds and pictures.
    Files,
}

/// `None`: the path is no model's.
fn is_model(path: &str) -> Option<Takes> {
    const TEXT: [&str; 5] = ["/messages", "/completions", "/responses", "/embeddings", "/compact"];
    const FILES: [&str; 4] = ["/transcriptions", "/translations", "/generations", "/edits"];
    // Servers pass over a slash at the end.
    let path = path.trim_end_matches('/');
    let ends = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
    if path.contains("enerateContent") || ends(&TEXT) {
        return Some(Takes::Text);
    }
    ends(&FILES).then_some(Takes::Files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"Say hello."}]}"#;

    /// The bytes that a request counted, piece by piece.
    fn counted(path: &str, lines: &[(&'static str, &str)], body: &[u8]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.insert(*name, value.parse().unwrap());
        }
        let last = Arc::new(Mutex::new(None));
        let seen = last.clone();
        let mut asked =
            AskedText::new(path, &headers, Box::new(move |bytes| *seen.lock().unwrap() = Some(bytes)));
        body.chunks(7).for_each(|piece| asked.push(piece));
        *last.lock().unwrap()
    }

    #[test]
    fn a_request_of_a_model_counts_whatever_its_form_and_its_label() {
        let wide = |big: bool| -> Vec<u8> {
            let units = BODY.encode_utf16();
            units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
        };
        let marked = [&[0xff, 0xfe][..], &wide(false)].concat();
        let widest: Vec<u8> = BODY.chars().flat_map(|letter| u32::from(letter).to_le_bytes()).collect();
        let length = BODY.len() as u64;
        // At any path.
        for body in [wide(true), wide(false), marked, widest, format!("\u{feff}{BODY}").into_bytes()] {
            let bytes = counted("/any", &[], &body).unwrap();
            assert!(bytes.abs_diff(length) <= 8, "{bytes} {body:?}");
        }
        for kind in [
            "multipart/form-data; boundary=x",
            "text/plain",
            "application/x-www-form-urlencoded",
            "image/png",
        ] {
            assert_eq!(counted("/any", &[("content-type", kind)], BODY.as_bytes()), Some(length), "{kind}");
        }
        assert_eq!(counted("/any", &[("content-encoding", "gzip")], BODY.as_bytes()), Some(length));
        // At a model's path, other bodies count by their length.
        let other = b"\x81\xa5model\xa1m\xa8messages";
        for path in [
            "/v1/messages",
            "/v1/chat/completions/",
            "/v1/models/m:streamGenerateContent",
            "/v1/images/edits",
        ] {
            for kind in ["application/msgpack", "application/json", "text/plain"] {
                let bytes = counted(path, &[("content-type", kind)], other);
                assert_eq!(bytes, Some(other.len() as u64), "{path} {kind}");
            }
        }
        let form = [("content-type", "multipart/form-data; boundary=x")];
        assert_eq!(counted("/v1/messages", &form, b"--x\r\n"), Some(5));
        assert_eq!(counted("/v1/audio/transcriptions", &form, b"--x\r\n"), Some(0));
        assert_eq!(counted("/any", &form, b"--x\r\n"), None);
        assert_eq!(counted("/v1/messages/count_tokens", &[], BODY.as_bytes()), None);
    }
}
