//! One request, read as it passes: whether it asks a model for something, and how much text it has.
//!
//! A server reads the body to know what is asked, so the program can't hide it there: an object with `messages`, or the like. A
//! body that can't be read, because it is compressed or a form, is judged by its path.

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
    is_model: bool,
}

enum Kind {
    /// Nothing of it has come.
    Unknown,
    Value(Scan<Members>),
    /// A request that the path says is a model's, with text that can't be read.
    Compressed,
    /// The same with files, whose length says nothing.
    Form,
    Other,
}

impl AskedText {
    pub(super) fn new(path: &str, headers: &HeaderMap, on_asked: OnAsked) -> AskedText {
        let is_encoded = is_encoded(headers);
        let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
        let is_form = kind.is_some_and(|kind| kind.starts_with(b"multipart/"));
        let kind = if is_free(path) || ((is_encoded || is_form) && !is_model(path)) {
            Kind::Other
        } else if is_encoded {
            Kind::Compressed
        } else if is_form {
            Kind::Form
        } else {
            Kind::Unknown
        };
        AskedText(Some(Asking { on_asked, kind, text: Text::default(), is_model: false }))
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
        self.text.push(piece);
        match &mut self.kind {
            Kind::Unknown => match beginning(piece) {
                None => {}
                Some(Beginning::Value) => {
                    let mut scan = Scan::new(Members::default());
                    self.is_model = scan.is_model_after(piece);
                    self.kind = Kind::Value(scan);
                }
                Some(Beginning::Events | Beginning::Other) => self.kind = Kind::Other,
            },
            Kind::Value(scan) => self.is_model = self.is_model || scan.is_model_after(piece),
            Kind::Compressed | Kind::Form => self.is_model = true,
            Kind::Other => {}
        }
        if self.is_model {
            (self.on_asked)(self.bytes());
        }
    }

    fn bytes(&self) -> u64 {
        match self.kind {
            Kind::Form => 0,
            Kind::Compressed => unpacked(self.text.bytes()),
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

fn is_model(path: &str) -> bool {
    const ENDS: [&str; 9] = [
        "/messages",
        "/completions",
        "/responses",
        "/embeddings",
        "/transcriptions",
        "/translations",
        "/generations",
        "/edits",
        "/compact",
    ];
    path.contains("enerateContent") || ENDS.iter().any(|end| path.ends_with(end))
}
