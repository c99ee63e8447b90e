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
use std::sync::Arc;

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
#[derive(Clone)]
pub struct Redactor {
    words: Arc<Words>,
    /// Number of secrets.
    secrets: usize,
    /// Bytes at the end of the pushed text that may be the beginning of a secret.
    held: Vec<u8>,
}

impl Redactor {
    /// Empty secrets are ignored, because they would match everywhere. Each secret is also searched in its JSON forms.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let secrets: BTreeSet<String> = secrets.into_iter().map(|secret| secret.0).collect();
        let forms = secrets.iter().flat_map(|secret| {
            std::iter::once(secret.clone()).chain(json_forms(secret)).map(String::into_bytes)
        });
        let words = Arc::new(Words::new(forms));
        Redactor {
            words,
            secrets: secrets.iter().filter(|secret| !secret.is_empty()).count(),
            held: Vec::new(),
        }
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
        self.words.is_empty()
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
        let found = self.words.find(whole.as_bytes(), true).words;
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
        let found = self.words.find(bytes, ended);
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
        formatter.debug_struct("Redactor").field("secrets", &self.secrets).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redactor(secrets: &[&str]) -> Redactor {
        Redactor::new(secrets.iter().map(|secret| Secret::from(*secret)))
    }

    /// The definition of redaction, as a simple and slow function.
    fn naive(secrets: &[String], text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let longest = secrets
                .iter()
                .filter(|secret| !secret.is_empty() && rest.starts_with(secret.as_str()))
                .max_by_key(|secret| secret.len());
            match longest {
                Some(secret) => {
                    out.push_str(REDACTED);
                    rest = &rest[secret.len()..];
                }
                None => {
                    out.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        out
    }

    #[test]
    fn an_error_is_redacted_with_its_facts_and_causes() {
        use crate::error::ErrorCode;
        let redactor = Redactor::new(["hunter2".into()]);
        let cause = Error::new(ErrorCode::ConnectionLost, "hunter2 was refused");
        let error = Error::new(ErrorCode::AgentFailed, "no hunter2").with("kind", "hunter2").caused_by(cause);
        let clean = redactor.redact_error(&error);
        assert_eq!(clean.message(), "no [REDACTED]");
        assert_eq!(clean.facts().get("kind"), Some(&Value::from(REDACTED)));
        assert_eq!(clean.cause().map(Error::message), Some("[REDACTED] was refused"));
    }

    #[test]
    fn a_secret_never_shows_itself() {
        let secret = Secret::from("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "[REDACTED] [REDACTED]");
        assert!(!format!("{:?}", redactor(&["hunter2"])).contains("hunter2"));
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn finds_a_secret_that_is_cut_anywhere() {
        let text = "key=sk-123456 end";
        for cut in 0..=text.len() {
            let mut redactor = redactor(&["sk-123456"]);
            let mut out = redactor.push(&text.as_bytes()[..cut]);
            out.extend(redactor.push(&text.as_bytes()[cut..]));
            out.extend(redactor.flush());
            assert_eq!(out, b"key=[REDACTED] end");
        }
    }

    #[test]
    fn the_longest_secret_wins_even_when_a_shorter_one_is_complete() {
        let mut redactor = redactor(&["abc", "abcdef"]);
        assert_eq!(redactor.push_text("xabc"), "x");
        assert_eq!(redactor.push_text("def!"), "[REDACTED]!");
        assert_eq!(redactor.push_text("abcd"), "");
        assert_eq!(redactor.flush_text(), "[REDACTED]d");
    }

    #[test]
    fn lets_through_at_once_what_can_be_no_secret() {
        let mut redactor = redactor(&["sk-secret"]);
        assert_eq!(redactor.push_text("progress 1\n"), "progress 1\n");
        assert_eq!(redactor.push_text("sk-s"), "");
        assert_eq!(redactor.push_text("low"), "sk-slow");
    }

    #[test]
    fn a_secret_is_found_as_it_stands_in_json() {
        let secret = "-----BEGIN \"KEY\"-----\na\\b\u{1}é\n";
        let redactor = redactor(&[secret]);
        let text = serde_json::to_string(&format!("key: {secret}!")).unwrap();
        assert_eq!(redactor.redact(&text), "\"key: [REDACTED]!\"");
        let ascii = text.replace('é', "\\u00e9");
        assert_eq!(redactor.redact(&ascii), "\"key: [REDACTED]!\"");
        assert_eq!(redactor.redact(secret), REDACTED);
    }

    #[test]
    fn a_secret_is_found_as_each_usual_encoder_of_json_writes_it() {
        let redactor = redactor(&["a/b+c=\"é<\n", "k\\"]);
        for form in [
            r#"a/b+c=\"é<\n"#,
            r#"a/b+c=\"\u00e9<\n"#,
            r#"a\/b+c=\"\u00e9<\n"#,
            r#"a\/b+c=\"é<\n"#,
            r#"a/b+c=\"é\u003c\n"#,
            r#"a/b+c\u003d\"é\u003c\n"#,
            r#"a/b\u002Bc=\u0022\u00E9\u003C\n"#,
            r#"a/b+c=\\\"é<\\n"#,
            r#"a/b+c=\\\"\\u00e9<\\n"#,
            r"k\\",
            r"k\\\\",
        ] {
            assert_eq!(redactor.redact(&format!("x{form}y")), "x[REDACTED]y", "{form}");
        }
    }

    #[test]
    fn a_secret_that_is_a_number_in_json_is_found_and_counts_are_left_alone() {
        let redactor = redactor(&["4111111111111111", "1", "200"]);
        let mut value = serde_json::json!({"card": 4_111_111_111_111_111_u64, "of": [1, 200, 4_111]});
        redactor.redact_json(&mut value);
        assert_eq!(value, serde_json::json!({"card": REDACTED, "of": [1, 200, 4_111]}));
    }

    #[test]
    fn a_secret_that_is_torn_over_texts_is_taken_out_of_all_of_them() {
        let redactor = redactor(&["hunter2", "abc"]);
        let pieces = |pieces: &[&str]| {
            redactor.redact_pieces(&pieces.iter().map(|piece| (*piece).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(pieces(&["it is hun", "ter2, abc", ""]), ["it is [REDACTED]", ", [REDACTED]", ""]);
        assert_eq!(pieces(&["h", "unte", "r2hunter", "2"]), ["[REDACTED]", "", "[REDACTED]", ""]);
        assert_eq!(pieces(&["hun", "ter"]), ["hun", "ter"]);
    }

    #[test]
    fn many_secrets_and_hard_ones_take_one_pass() {
        let started = std::time::Instant::now();
        let mut secrets: Vec<String> = (0..20_000).map(|number| format!("secret-number-{number}")).collect();
        // At each position of the text this secret begins to match, but it never matches whole.
        secrets.push(format!("{}b", "a".repeat(100_000)));
        let mut redactor = Redactor::new(secrets.into_iter().map(Secret::from));
        let text = format!("{} secret-number-77 ", "a".repeat(50_000)).repeat(40);
        let mut out = redactor.push(text.as_bytes());
        out.extend(redactor.flush());
        assert_eq!(String::from_utf8(out).unwrap().matches(REDACTED).count(), 40);
        // A quadratic algorithm would take minutes. A linear one takes a hundredth of the limit.
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
    }

    #[test]
    fn an_empty_secret_is_no_secret() {
        let mut redactor = redactor(&["", ""]);
        assert!(redactor.is_empty());
        assert_eq!(redactor.push_text("abc"), "abc");
    }

    fn secrets() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[abé]{0,6}", 0..5)
    }

    proptest! {
        #[test]
        fn any_split_of_bytes_gives_what_a_whole_replacement_gives(
            secrets in secrets(),
            text in "[abcé]{0,60}",
            cuts in prop::collection::vec(0usize..80, 0..8),
        ) {
            let mut redactor = Redactor::new(secrets.iter().map(|secret| Secret::from(secret.as_str())));
            let longest = secrets.iter().map(String::len).max().unwrap_or(0);
            let expected = naive(&secrets, &text);
            prop_assert_eq!(redactor.redact(&text), expected.as_str());
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.push(0);
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let mut out = Vec::new();
            for pair in cuts.windows(2) {
                out.extend(redactor.push(&bytes[pair[0]..pair[1]]));
                prop_assert!(redactor.held.len() < longest.max(1));
            }
            out.extend(redactor.flush());
            prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        }

        #[test]
        fn text_comes_out_in_whole_characters(secrets in secrets(), chunks in prop::collection::vec("[abcé]{0,9}", 0..9)) {
            let mut redactor = Redactor::new(secrets.iter().map(|secret| Secret::from(secret.as_str())));
            let mut out = String::new();
            for chunk in &chunks {
                out.push_str(&redactor.push_text(chunk));
            }
            out.push_str(&redactor.flush_text());
            prop_assert_eq!(out, naive(&secrets, &chunks.concat()));
        }

        #[test]
        fn any_bytes_are_taken(secrets in secrets(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut redactor = Redactor::new(secrets.into_iter().map(Secret::from));
            redactor.push(&bytes);
            redactor.flush();
        }
    }
}
