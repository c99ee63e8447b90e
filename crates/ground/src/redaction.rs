//! A type for secrets that never prints them, and a filter that redacts them in other texts. PURE.
//!
//! A [`Redactor`] replaces each secret by [`REDACTED`] in a stream of chunks. The result is the same as if the whole text were
//! searched from the left, and at each position the longest secret that begins there were replaced. Bytes that may be the
//! beginning of a secret are held back, so at most as many as the longest secret has, less one. The redactor needs one pass,
//! however many secrets there are.
//!
//! Secrets are also found in the form that they take in JSON (a key file's line breaks as `\\n`), as the usual JSON encoders
//! write it ([`json_forms`]), and in JSON within JSON. Other encodings are not found: base64, URL escapes, another case of
//! letters, a secret that is cut up.

use crate::error::Error;
use crate::words::Words;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The text that replaces a secret.
pub const REDACTED: &str = "[REDACTED]";

/// A shorter number in JSON is treated as a count and is never redacted.
const SHORTEST_NUMBER: usize = 4;

/// A secret value: it prints as [`REDACTED`] in every message. Only [`Secret::expose`] gives access to it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Secret(value.into())
    }

    /// The value itself. Review every use of this function with care.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Secret(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Secret(value.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

/// Whether the name of a variable suggests that it holds a secret.
pub fn names_a_secret(name: &str) -> bool {
    const WORDS: &[&str] = &[
        "KEY",
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "CREDENTIAL",
        "CREDENTIALS",
        "AUTH",
        "PAT",
    ];
    name.to_ascii_uppercase()
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .any(|word| WORDS.contains(&word) || ["APIKEY", "ACCESSKEY", "AUTHTOKEN"].contains(&word))
}

/// Redacts secrets in one stream. Streams that are read in parallel (stdout, stderr) need one redactor each: clone it, which is
/// cheap.
#[derive(Clone, Default)]
pub struct Redactor {
    shared: Arc<Shared>,
    /// Bytes at the end of the pushed text that may be the beginning of a secret.
    held: Vec<u8>,
}

/// The part that clones share.
#[derive(Default)]
struct Shared {
    secrets: BTreeSet<String>,
    /// Built at the first search, because that takes time.
    words: OnceLock<Words>,
}

impl Redactor {
    /// Empty secrets are ignored, because they would match everywhere. Each secret is also searched in its JSON forms.
    pub fn new(secrets: impl IntoIterator<Item = impl Into<Secret>>) -> Self {
        let secrets = secrets.into_iter().map(|secret| secret.into().0).filter(|secret| !secret.is_empty());
        let shared = Shared { secrets: secrets.collect(), words: OnceLock::new() };
        Redactor { shared: Arc::new(shared), held: Vec::new() }
    }

    /// A redactor of these secrets too.
    #[must_use]
    pub fn with(&self, secrets: impl IntoIterator<Item = impl Into<Secret>>) -> Self {
        Redactor::new(self.secrets().chain(secrets.into_iter().map(Into::into)))
    }

    /// Whether it needs nothing more to redact this one.
    pub fn knows(&self, secret: &str) -> bool {
        secret.is_empty() || self.shared.secrets.contains(secret)
    }

    pub fn secrets(&self) -> impl Iterator<Item = Secret> {
        self.shared.secrets.iter().map(|secret| Secret::new(secret.as_str()))
    }

    fn words(&self) -> &Words {
        let secrets = &self.shared.secrets;
        self.shared.words.get_or_init(|| {
            Words::new(secrets.iter().flat_map(|secret| {
                std::iter::once(secret.clone()).chain(json_forms(secret)).map(String::into_bytes)
            }))
        })
    }

    /// Redacts all strings of a value, the names of fields included.
    pub fn redact_json(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        match value {
            Value::String(text) => *text = self.redact(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(fields) => self.redact_fields(fields),
            Value::Number(number) => {
                let text = number.to_string();
                if text.len() >= SHORTEST_NUMBER && self.redact(&text) == REDACTED {
                    *value = Value::from(REDACTED);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Does the same as [`Redactor::redact_json`] for an object. Names that become equal are numbered, so that no value is lost.
    pub fn redact_fields(&self, fields: &mut Map<String, Value>) {
        if self.is_empty() {
            return;
        }
        for (name, mut value) in std::mem::take(fields) {
            let mut name = self.redact(&name);
            if fields.contains_key(&name) {
                let number = (2..).find(|number| !fields.contains_key(&format!("{name} {number}")));
                name = format!("{name} {}", number.unwrap_or(0));
            }
            self.redact_json(&mut value);
            fields.insert(name, value);
        }
    }

    /// Redacts an error: its message, its facts, and the errors that caused it.
    pub fn redact_error(&self, error: &Error) -> Error {
        if self.is_empty() {
            return error.clone();
        }
        let mut clean = Error::new(error.code(), self.redact(error.message()));
        for (name, value) in error.facts() {
            let mut value = value.clone();
            self.redact_json(&mut value);
            clean = clean.with(name, value);
        }
        match error.cause() {
            Some(cause) => clean.caused_by(self.redact_error(cause)),
            None => clean,
        }
    }

    /// Whether there are no secrets to search for.
    pub fn is_empty(&self) -> bool {
        self.shared.secrets.is_empty()
    }

    /// Takes the next chunk; returns the text that is safe to pass on.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        if self.is_empty() {
            return chunk.to_vec();
        }
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(chunk);
        let (out, decided) = self.replaced(&bytes, false);
        self.held = bytes.split_off(decided);
        out
    }

    /// Does the same as [`Redactor::push`] for text: whole characters in, whole characters out. Don't mix the two in one stream.
    pub fn push_text(&mut self, chunk: &str) -> String {
        // The held text begins at the first character of a secret, so no character is cut and the conversion loses nothing.
        String::from_utf8_lossy(&self.push(chunk.as_bytes())).into_owned()
    }

    /// Ends the stream: returns the text that was held back. The redactor can then be used for another stream.
    pub fn flush(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.held);
        self.replaced(&bytes, true).0
    }

    /// Does the same as [`Redactor::flush`] for text.
    pub fn flush_text(&mut self) -> String {
        String::from_utf8_lossy(&self.flush()).into_owned()
    }

    /// Redacts a whole text. The text that the stream holds back is not affected.
    pub fn redact(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        String::from_utf8_lossy(&self.replaced(text.as_bytes(), true).0).into_owned()
    }

    /// Redacts texts that will be read one after the other. A secret that is split over several pieces is removed from all of
    /// them.
    pub fn redact_pieces(&self, pieces: &[String]) -> Vec<String> {
        if self.is_empty() {
            return pieces.to_vec();
        }
        let whole = pieces.concat();
        let found = self.words().find(whole.as_bytes(), true).words;
        let mut next = found.iter().peekable();
        let mut begin = 0;
        let mut redacted = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let end = begin + piece.len();
            let mut out = String::with_capacity(piece.len());
            let mut at = begin;
            while let Some(word) = next.peek().filter(|word| word.start < end) {
                // The secret is replaced in the piece in which it begins, and its rest is removed from the following pieces.
                out.push_str(&whole[at.min(word.start)..word.start]);
                if word.start >= begin {
                    out.push_str(REDACTED);
                }
                at = word.end.min(end);
                if word.end > end {
                    break;
                }
                next.next();
            }
            out.push_str(&whole[at..end]);
            redacted.push(out);
            begin = end;
        }
        redacted
    }

    /// The bytes up to the undecided part, redacted, and the position where the undecided part begins.
    fn replaced(&self, bytes: &[u8], ended: bool) -> (Vec<u8>, usize) {
        let found = self.words().find(bytes, ended);
        let mut out = Vec::with_capacity(bytes.len());
        let mut kept = 0;
        for word in found.words {
            out.extend_from_slice(&bytes[kept..word.start]);
            out.extend_from_slice(REDACTED.as_bytes());
            kept = word.end;
        }
        out.extend_from_slice(&bytes[kept..found.decided]);
        (out, found.decided)
    }
}

/// The way an encoder writes those characters of a JSON string that it need not escape.
#[derive(Clone, Copy)]
struct JsonStyle {
    /// Characters beyond ASCII are escaped.
    ascii: bool,
    /// The digits of an escape are upper-case letters A to F.
    upper: bool,
    /// `/` becomes `\/`.
    slash: bool,
    /// Further characters that are escaped by their code.
    numbered: &'static str,
}

/// In this order: JavaScript, Rust, Swift; Python's default; PHP's two; Go's default; Gson's; .NET's.
const JSON_STYLES: [JsonStyle; 7] = [
    JsonStyle { ascii: false, upper: false, slash: false, numbered: "" },
    JsonStyle { ascii: true, upper: false, slash: false, numbered: "" },
    JsonStyle { ascii: true, upper: false, slash: true, numbered: "" },
    JsonStyle { ascii: false, upper: false, slash: true, numbered: "" },
    JsonStyle { ascii: false, upper: false, slash: false, numbered: "<>&\u{2028}\u{2029}" },
    JsonStyle { ascii: false, upper: false, slash: false, numbered: "<>&='\u{2028}\u{2029}" },
    JsonStyle { ascii: true, upper: true, slash: false, numbered: "\"<>&'+`\u{7f}" },
];

/// The forms of a text inside a JSON string that differ from the text. For the first two encoders also the forms in JSON within
/// JSON, as in arguments of tools.
fn json_forms(text: &str) -> BTreeSet<String> {
    let mut forms: BTreeSet<String> = JSON_STYLES.iter().map(|style| json_form(text, *style)).collect();
    for style in &JSON_STYLES[..2] {
        forms.insert(json_form(&json_form(text, *style), *style));
    }
    forms.remove(text);
    forms
}

fn json_form(text: &str, style: JsonStyle) -> String {
    let mut form = String::with_capacity(text.len());
    for character in text.chars() {
        let is_numbered = u32::from(character) < 0x20
            || style.ascii && !character.is_ascii()
            || style.numbered.contains(character);
        match character {
            '\\' => form.push_str("\\\\"),
            '\n' => form.push_str("\\n"),
            '\r' => form.push_str("\\r"),
            '\t' => form.push_str("\\t"),
            '\u{8}' => form.push_str("\\b"),
            '\u{c}' => form.push_str("\\f"),
            '/' if style.slash => form.push_str("\\/"),
            other if is_numbered => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    let digits = if style.upper { format!("{unit:04X}") } else { format!("{unit:04x}") };
                    form.push_str("\\u");
                    form.push_str(&digits);
                }
            }
            '"' => form.push_str("\\\""),
            other => form.push(other),
        }
    }
    form
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Redactor")
            .field("secrets", &self.shared.secrets.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
